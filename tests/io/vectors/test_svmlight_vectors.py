"""svmlight text: what a line may be, where columns begin, and lines that are wrong."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.vectors import open_vectors
from tests.memory import peak_of


def write(folder: Path, text: str, name: str = "x.svm") -> Path:
    (folder / name).write_text(text)
    return folder / name


def read(path: Path, **options: int | bool | None) -> list[list[float]]:
    source = open_vectors(path, **options)  # type: ignore[arg-type]
    return source.gather(range(len(source))).toarray().tolist()  # type: ignore[no-any-return]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), zero_based=st.booleans())
def test_files_of_scikit_learn_read_as_scikit_learn_reads_them(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, zero_based: bool
) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.5)
    truth[0, 0] = truth[0, 5] = 1.0
    out = io.BytesIO()
    dump_svmlight_file(truth, np.zeros(n), out, zero_based=zero_based)
    path = tmp_path_factory.mktemp("svm") / "x.svmlight"
    path.write_bytes(out.getvalue())
    expected, _ = load_svmlight_file(io.BytesIO(out.getvalue()))
    got = open_vectors(path).gather(np.arange(n))
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.toarray(), expected.toarray())


def test_labels_queries_comments_blank_lines_and_windows_line_ends_are_no_numbers(
    tmp_path: Path,
) -> None:
    text = "# head\r\n\r\n+1 1:2\r\n1,3 qid:7 2:1e1 # 3:4\r\n-1.5e3\r\n  3:-.5\r\n   # tail"
    assert read(write(tmp_path, text)) == [[2, 0, 0], [0, 10, 0], [0, 0, 0], [0, 0, -0.5]]


def test_columns_count_from_one_unless_a_zero_is_seen_or_said(tmp_path: Path) -> None:
    assert read(write(tmp_path, "1 1:5 2:6\n")) == [[5, 6]]
    assert read(write(tmp_path, "1 1:5\n1 0:6\n")) == [[0, 5], [6, 0]]
    assert read(write(tmp_path, "1 1:5 2:6\n"), zero_based=True) == [[0, 5, 6]]
    with pytest.raises(
        CorruptFileError, match="line 1 must have column numbers from 1 to 1, got 0 to 1"
    ):
        read(write(tmp_path, "1 0:5 1:6\n"), zero_based=False)
    with pytest.raises(InvalidInputError, match="zero_based must be True, False or 'auto'"):
        open_vectors(write(tmp_path, "1 1:5\n"), zero_based="yes")


def test_several_files_share_their_width_and_where_columns_begin(tmp_path: Path) -> None:
    paths = [write(tmp_path, "1 1:5\n", "a.svm"), write(tmp_path, "1 0:6 3:7\n", "b.libsvm")]
    source = open_vectors(paths)
    assert source.shape == (2, 4)
    np.testing.assert_array_equal(source.gather([1, 0]).toarray(), [[6, 0, 0, 7], [0, 5, 0, 0]])


def test_the_width_is_what_was_asked_for_if_the_columns_fit(tmp_path: Path) -> None:
    path = write(tmp_path, "1 1:5 4:6\n")
    assert open_vectors(path, n_features=9).shape == (1, 9)
    with pytest.raises(
        InvalidInputError, match=r"n_features must be at least 4 for .*x\.svm, got 3"
    ):
        open_vectors(path, n_features=3)
    with pytest.raises(InvalidInputError, match="n_features must be between 1 and"):
        open_vectors(path, n_features=0)


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "1\n1\n"])
def test_without_a_pair_the_width_must_be_given(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InvalidInputError, match="its width is not known"):
        open_vectors(path)
    assert open_vectors(path, n_features=3).shape == (text.count("1"), 3)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1 2", "index:value"),
        ("1 2:", "index:value"),
        ("1 :2", "index:value"),
        ("1 2:3:4", "index:value"),
        ("1 a:3", "index:value"),
        ("1 -1:3", "index:value"),
        ("1 1.5:3", "index:value"),
        ("1 1:x", "could not convert"),
        ("1 1:1_0", "index:value"),
        ("1 1:2 junk 3:4", "index:value"),
        ("1 1:2 3: 4:5", "index:value"),
        ("1 3:1 2:1 4:1", "growing column numbers"),
        ("1 2:1 2:1", "growing column numbers"),
        ("1 99999999999:1", "index below"),
        ("1 2147483647:1", "index below"),
        ("hello 1:2", "number as its label"),
        ("\0\1\2", "number as its label"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_bad_line_names_file_and_line(
    line: str, words: str, packed: bool, tmp_path: Path
) -> None:
    text = f"# head\n1 1:1 5:1\n\n{line}\n1 1:1\n"
    path = tmp_path / ("x.svm.gz" if packed else "x.svm")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.raises(CorruptFileError, match=rf"x\.svm.*, line 4 must .*{words}"):
        list(open_vectors(path).batches())


def test_a_value_that_is_not_finite_names_file_row_and_column(tmp_path: Path) -> None:
    path = write(tmp_path, "1 1:1\n\n1 1:1\n1 1:1 4:nan\n")
    with pytest.raises(InvalidInputError, match=r"x\.svm: NaN at row 2, column 3, batch 1"):
        list(open_vectors(path).batches(rows=2))


@pytest.mark.parametrize("cut", [5, -4, -12])
def test_a_packed_file_that_ends_early_is_corrupt(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "x.svm.gz"
    path.write_bytes(gzip.compress(b"1 1:1 2:2\n" * 100)[:cut])
    with pytest.raises(CorruptFileError, match=r"x\.svm\.gz is damaged"):
        open_vectors(path)


def test_a_packed_file_that_is_not_packed_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match="is damaged or not what its suffix says"):
        open_vectors(write(tmp_path, "1 1:1\n", "x.svm.gz"))


def test_a_line_without_end_is_refused_before_it_fills_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.io.vectors.files.svmlight.MAX_LINE", 1000)
    with pytest.raises(CorruptFileError, match="line 2 is longer than 1000 bytes"):
        open_vectors(write(tmp_path, "1 1:1\n1 " + "1" * 2000))


def test_a_long_line_is_parsed_in_parts_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = (
        "1 qid:7 "
        + "\t ".join(f"{1 + 3 * column}:{column / 7:.3g}" for column in range(100))
        + " # done"
    )
    path = write(tmp_path, f"{line}\n2\n3 5:1\n")
    whole = open_vectors(path).gather([0, 1, 2])
    monkeypatch.setattr("bitkin.io.vectors.files.svmlight_lines._LONG_LINE", 10)
    monkeypatch.setattr("bitkin.io.vectors.files.svmlight_lines._TOKENS_AT_ONCE", 7)
    parts = open_vectors(path).gather([0, 1, 2])
    assert np.array_equal(whole.toarray(), parts.toarray())
    for bad in ("8:1 8:1", "8:1 7:1", "8:1 9", "8:1 :1", "8:1 9:x"):
        text = "1 " + " ".join(f"{column}:1" for column in range(1, 8))  # the next part begins here
        with pytest.raises(CorruptFileError, match="line 1 must"):
            list(open_vectors(write(tmp_path, f"{text} {bad}\n")).batches())
    with pytest.raises(CorruptFileError, match="growing column numbers"):
        list(
            open_vectors(
                write(tmp_path, "1 " + " ".join(f"{column}:1" for column in range(1, 8)) + " 7:1\n")
            ).batches()
        )


def test_a_long_line_takes_memory_in_proportion(tmp_path: Path) -> None:
    n = 400_000
    path = tmp_path / "x.svm.gz"
    path.write_bytes(
        gzip.compress(b"1 " + b" ".join(b"%d:1" % column for column in range(1, n + 1)))
    )

    def read() -> None:
        ((_, batch),) = open_vectors(path).batches()
        assert batch.nnz == n

    assert peak_of(read) < 100 * n  # it took 280 bytes an entry


def test_a_batch_of_the_longest_rows_is_not_many_times_a_usual_batch(tmp_path: Path) -> None:
    long = "1 " + " ".join(f"{column}:1" for column in range(1, 30_001))
    source = open_vectors(write(tmp_path, "1 1:1\n" * 100_000 + f"{long}\n" * 2))
    assert 12 * 30_000 * source.batch_rows <= 64 * 8_000_000
