"""From vectors in files to neighbours, by commands; the library called directly is the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import bitkin
from bitkin import FlatIndex, ProjectionHash
from bitkin.io.vectors import open_vectors
from tests.cli.conftest import RANDOM, Run
from tests.cli.formats import WRITERS, matrix, svmlight_text


@pytest.mark.parametrize("name", WRITERS)
def test_every_command_on_every_format(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    queries = Path(f"queries-{name}")
    WRITERS[name](Path(name), matrix(203))
    WRITERS[name](queries, matrix(9, seed=1))

    [fitted] = run("fit", name, "-o", "model", "--bits", 67, *RANDOM, "--seed", 5, "--json").objects
    [encoded] = run("encode", "model", name, "-o", "codes", "--json").objects
    [indexed] = run("index", "codes", "-o", "index", "--json").objects
    found = run(
        "search", "index", queries, "-m", "model", "-k", 7, "--out", "found.npz", "--json"
    ).objects

    hasher = ProjectionHash(67, projection="random", rotation=None, random_state=5).fit(
        open_vectors(name)
    )
    codes = hasher.encode(open_vectors(name))
    index = FlatIndex(codes.spec)
    index.add(codes)
    truth = index.search(hasher.encode(open_vectors(queries)), 7)

    assert (
        hasher.fingerprint_
        == ProjectionHash(67, projection="random", rotation=None, random_state=5)
        .fit(matrix(203))
        .fingerprint_
    )
    expected = {"model": "model", "method": "projection", "bits": 67, "symbols": 67, "features": 17}
    assert fitted == expected | {"fingerprint": hasher.fingerprint_}
    assert bitkin.load("codes") == codes
    assert (encoded["rows"], encoded["resumed_at"], encoded["bytes"]) == (
        203,
        0,
        Path("codes").stat().st_size,
    )
    assert indexed == {"index": "index", "rows": 203, "bytes": Path("index").stat().st_size}
    assert FlatIndex.load("index").codes(np.arange(203)) == codes
    assert [row["query"] for row in found] == list(range(9))
    assert [row["ids"] for row in found] == truth.ids.tolist()
    assert [row["distances"] for row in found] == truth.distances.tolist()
    with np.load("found.npz") as written:
        assert set(written) == {"ids", "distances"}
        assert np.array_equal(written["ids"], truth.ids)
        assert np.array_equal(written["distances"], truth.distances)


def test_codes_written_by_the_command_are_the_bytes_the_library_saves(folder: Path) -> None:
    hasher = bitkin.load("model")
    hasher.encode(np.load("vectors.npy")).save("saved")
    assert Path("codes").read_bytes() == Path("saved").read_bytes()


def test_without_bits_a_learned_projection_takes_as_many_as_features(
    folder: Path, run: Run
) -> None:
    for projection in ("pca", "nystrom"):
        [fitted] = run(
            "fit", "vectors.npy", "-o", projection, "--projection", projection, "--json"
        ).objects
        assert fitted["bits"] == 17
        hasher = ProjectionHash(17, projection=projection).fit(np.load("vectors.npy"))
        assert fitted["fingerprint"] == hasher.fingerprint_
    done = run("fit", "vectors.npy", "-o", "other", "--bits", 18)
    assert done.code == 0
    assert "bitkin: warning: --bits 18 is more than the 17 directions" in done.err


def test_every_option_of_fit_reaches_the_hasher(folder: Path, run: Run) -> None:
    options = (
        "--bits",
        33,
        "--projection",
        "random",
        "--rotation",
        "none",
        "--no-center",
        "--normalize",
        "--seed",
        7,
    )
    assert run("fit", "vectors.npy", "-o", "other", *options).code == 0
    X = np.load("vectors.npy")
    truth = ProjectionHash(
        33, projection="random", rotation=None, center=False, normalize=True, random_state=7
    ).fit(X)
    other = bitkin.load("other")
    assert (other.fingerprint_, other.center, other.normalize, other.seed_) == (
        truth.fingerprint_,
        False,
        True,
        7,
    )
    assert other.encode(X) == truth.encode(X)


def test_several_files_are_read_as_one(folder: Path, run: Run) -> None:
    X = np.load("vectors.npy")
    np.save("a.npy", X[:100])
    np.save("b.npy", X[100:100])
    np.savez("c.npz", X[100:])
    assert run("fit", "a.npy", "b.npy", "c.npz", "-o", "of-three", "--bits", 67, *RANDOM).code == 0
    assert Path("of-three").read_bytes() == Path("model").read_bytes()
    assert run("encode", "model", "a.npy", "b.npy", "c.npz", "-o", "codes-of-three").code == 0
    assert Path("codes-of-three").read_bytes() == Path("codes").read_bytes()


def test_codes_in_several_files_are_indexed_as_one(folder: Path, run: Run) -> None:
    codes = bitkin.load("codes")
    codes[:100].save("a")
    codes[100:].save("b")
    assert run("index", "a", "b", "-o", "of-two").code == 0
    assert Path("of-two").read_bytes() == Path("index").read_bytes()


def test_an_index_is_the_same_whatever_is_added_at_once(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.cli.index._ROWS_AT_ONCE", 7)
    assert run("index", "codes", "-o", "by-sevens").code == 0
    assert Path("by-sevens").read_bytes() == Path("index").read_bytes()


def test_ids_of_ones_own(folder: Path, run: Run) -> None:
    ids = np.random.default_rng(0).permutation(1000)[:203]
    np.save("ids.npy", ids)
    assert run("index", "codes", "--ids", "ids.npy", "-o", "named").code == 0
    found = run("search", "named", "codes", "-k", 1, "--json").objects
    assert [row["ids"] for row in found] == [[number] for number in ids.tolist()]


@pytest.mark.parametrize("at_once", [1, 4, 9, 1024])
def test_search_within_a_radius(
    folder: Path, run: Run, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.file_search.search._QUERIES_AT_ONCE", at_once)
    found = run(
        "search", "index", "queries.npy", "-m", "model", "--radius", 22, "-o", "found.npz", "--json"
    ).objects
    queries = bitkin.load("model").encode(np.load("queries.npy"))
    truth = FlatIndex.load("index").search_radius(queries, 22)
    assert 0 < len(truth.ids) < 9 * 203
    for i, row in enumerate(found):
        here = slice(truth.offsets[i], truth.offsets[i + 1])
        assert row == {
            "query": i,
            "ids": truth.ids[here].tolist(),
            "distances": truth.distances[here].tolist(),
        }
    with np.load("found.npz") as written:
        assert set(written) == {"offsets", "ids", "distances"}
        for name, values in truth._asdict().items():
            assert np.array_equal(written[name], values)
            assert written[name].dtype == values.dtype


@pytest.mark.parametrize("at_once", [1, 4, 9, 1024])
def test_search_in_batches_numbers_queries_through(
    folder: Path, run: Run, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.file_search.search._QUERIES_AT_ONCE", at_once)
    found = run("search", "index", "queries.npy", "-m", "model", "-k", 3, "--json").objects
    truth = FlatIndex.load("index").search(bitkin.load("model").encode(np.load("queries.npy")), 3)
    assert [row["query"] for row in found] == list(range(9))
    assert [row["ids"] for row in found] == truth.ids.tolist()


def test_only_allowed_ids_are_returned(folder: Path, run: Run) -> None:
    np.save("allow.npy", np.array([3, 77, 5, 999]))
    queries = bitkin.load("model").encode(np.load("queries.npy"))
    index = FlatIndex.load("index")
    nearest = run(
        "search",
        "index",
        "queries.npy",
        "-m",
        "model",
        "-k",
        5,
        "--allow",
        "allow.npy",
        "--json",
        "-o",
        "found.npz",
    ).objects
    truth = index.search(queries, 5, allow=[3, 5, 77])
    assert [sorted(row["ids"]) for row in nearest] == [[3, 5, 77]] * 9
    assert [row["ids"] for row in nearest] == truth.ids[:, :3].tolist()
    with np.load("found.npz") as written:  # here the padding stays, so that the array has k columns
        assert np.array_equal(written["ids"], truth.ids)
    near = run(
        "search",
        "index",
        "queries.npy",
        "-m",
        "model",
        "--radius",
        67,
        "--allow",
        "allow.npy",
        "--json",
    ).objects
    assert [sorted(row["ids"]) for row in near] == [[3, 5, 77]] * 9


def test_queries_may_be_codes(folder: Path, run: Run) -> None:
    bitkin.load("model").encode(np.load("queries.npy")).save("query-codes")
    by_codes = run("search", "index", "query-codes", "--json")
    by_vectors = run("search", "index", "queries.npy", "-m", "model", "--json")
    assert by_codes.code == 0
    assert by_codes.out == by_vectors.out


def test_the_column_of_a_parquet_file_with_two(folder: Path, run: Run) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    X = np.load("vectors.npy")
    both = {
        "other": pa.array((-X).tolist(), pa.list_(pa.float32())),
        "ours": pa.array(X.tolist(), pa.list_(pa.float32())),
    }
    pa.parquet.write_table(pa.table(both), "two.parquet")
    assert run("encode", "model", "two.parquet", "--column", "ours", "-o", "again").code == 0
    assert Path("again").read_bytes() == Path("codes").read_bytes()
    np.save("one.npy", X[:1])
    pa.parquet.write_table(pa.table(both).slice(0, 1), "one.parquet")
    by_column = run(
        "search", "index", "one.parquet", "--column", "ours", "-m", "model", "--json"
    ).out
    assert by_column == run("search", "index", "one.npy", "-m", "model", "--json").out
    assert (
        run(
            "fit", "two.parquet", "--column", "ours", "-o", "model-again", "--bits", 67, *RANDOM
        ).code
        == 0
    )
    assert bitkin.load("model-again").fingerprint_ == bitkin.load("model").fingerprint_


def test_the_dataset_of_an_archive_with_two(folder: Path, run: Run) -> None:
    import h5py

    X = np.load("vectors.npy")
    np.savez("two.npz", ours=X, other=-X)
    with h5py.File("two.h5", "w") as file:
        file["group/ours"], file["other"] = X, -X
    for name, dataset in (("two.npz", "ours"), ("two.h5", "group/ours")):
        assert run("encode", "model", name, "--dataset", dataset, "-o", f"of {name}").code == 0
        assert Path(f"of {name}").read_bytes() == Path("codes").read_bytes()


def test_the_features_of_svmlight_text(folder: Path, run: Run) -> None:
    Path("narrow.svm").write_text(svmlight_text(matrix(7, 11)))
    assert run("encode", "model", "narrow.svm", "--features", 17, "-o", "wide").code == 0
    padded = np.hstack([matrix(7, 11), np.zeros((7, 6), dtype=np.float32)])
    assert bitkin.load("wide") == bitkin.load("model").encode(padded)


def test_files_without_rows_go_all_the_way(folder: Path, run: Run) -> None:
    np.save("none.npy", np.empty((0, 17), dtype=np.float32))
    assert run("encode", "model", "none.npy", "-o", "no-codes").code == 0
    assert run("index", "no-codes", "-o", "no-index").code == 0
    assert len(bitkin.load("no-codes")) == len(bitkin.load("no-index")) == 0
    found = run("search", "no-index", "queries.npy", "-m", "model", "--json").objects
    assert [(row["ids"], row["distances"]) for row in found] == [([], [])] * 9
    assert run("search", "index", "none.npy", "-m", "model", "--json").objects == []


@pytest.mark.parametrize("options", [("-k", 5), ("--radius", 3)])
def test_results_of_no_queries_are_written_too(
    folder: Path, run: Run, options: tuple[object, ...]
) -> None:
    np.save("none.npy", np.empty((0, 17), dtype=np.float32))
    done = run("search", "index", "none.npy", "-m", "model", "-o", "found.npz", *options)
    assert (done.code, done.err) == (0, "")
    with np.load("found.npz") as written:
        assert len(written["ids"]) == len(written["distances"]) == 0


def test_a_model_fitted_on_named_columns_searches_files_without_a_warning(
    folder: Path, run: Run
) -> None:
    import pandas as pd

    X = np.load("vectors.npy")
    hasher = ProjectionHash(67, projection="random", rotation=None).fit(
        pd.DataFrame(X, columns=[f"column {j}" for j in range(17)])
    )
    hasher.save("named")
    done = run("search", "index", "queries.npy", "-m", "named", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.out == run("search", "index", "queries.npy", "-m", "model", "--json").out


def test_text_says_what_was_made_and_what_comes_next(folder: Path, run: Run) -> None:
    made = ("fit", "vectors.npy", "-o", "model", "--bits", 67, *RANDOM)
    fitted = run(*made, "--force").out.splitlines()
    encoded = run("encode", "model", "vectors.npy", "-o", "codes", "--force").out.splitlines()
    indexed = run("index", "codes", "-o", "index", "--force").out.splitlines()
    assert fitted[0].startswith("model: 67 bits from 17 features, fingerprint ")
    assert fitted[1] == "next: bitkin encode model vectors.npy -o codes.bitkin"
    assert encoded[0].startswith("codes: 203 codes of 67 × 1-bit in ")
    assert encoded[1] == "next: bitkin index codes -o index.bitkin"
    assert indexed[0].startswith("index: 203 codes of 67 × 1-bit, ")
    assert indexed[1].startswith("next: bitkin search index queries.npy ")


def test_search_shows_a_few_queries_and_the_time(folder: Path, run: Run) -> None:
    found = run("search", "index", "queries.npy", "-m", "model", "-k", 3, "--show", 2).out
    ids, distances = FlatIndex.load("index").search(
        bitkin.load("model").encode(np.load("queries.npy")), 3
    )
    for i in range(2):
        assert " ".join(f"{a}:{b}" for a, b in zip(ids[i], distances[i], strict=True)) in found
    assert f"{ids[2, 0]}:{distances[2, 0]}  {ids[2, 1]}:{distances[2, 1]}" not in found
    assert found.splitlines()[-1].startswith("9 queries among 203 codes in ")
    assert (
        len(run("search", "index", "queries.npy", "-m", "model", "--show", 0).out.splitlines()) == 1
    )


def test_nothing_is_left_beside_the_results(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        "vectors.npy",
        "queries.npy",
        "model",
        "codes",
        "index",
    }
