"""Files that do not fit a search: one clear line each, whatever is wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import bitkin
from bitkin.errors import BitkinError, CorruptFileError, InvalidInputError
from bitkin.input_files import read_ids
from bitkin.io.writer import write_file
from tests.cli.conftest import RANDOM, Run
from tests.cli.search_folder import folder, made, require_failure  # noqa: F401  # fixtures

pytestmark = pytest.mark.usefixtures("folder")

EXACT = ("--vectors", "vectors.npy")
ESTIMATE = ("--corrections", "corrections")
ASK = ("search", "index", "queries.npy", "-m", "model")


def plain_corrections(metric: str = "l2") -> np.ndarray:
    return bitkin.corrections(bitkin.load("model"), np.load("vectors.npy"), metric)


def test_vectors_and_ids_that_do_not_fit_the_index(run: Run) -> None:
    X = np.load("vectors.npy")
    np.save("few.npy", X[:200])
    np.save("narrow.npy", X[:, :16])
    np.save("ids.npy", np.arange(203) + 1)
    np.save("few-ids.npy", np.arange(200))
    np.save("twice.npy", np.r_[np.arange(200), 7, 7, 5])
    for options, says in (
        (
            ("--vectors", "few.npy"),
            "few.npy has 200 rows, none of them for the ids 200, 201, 202 of the index",
        ),
        (("--vectors", "few.npy"), "Give the vectors of all that were encoded"),
        (("--vectors", "narrow.npy"), "narrow.npy has 16 features"),
        ((*EXACT, "--ids", "ids.npy"), "none of them for the ids 0 of the index"),
        (
            (*EXACT, "--ids", "few-ids.npy"),
            "--ids must be one per row of vectors.npy, got 200 for 203 rows",
        ),
        (
            (*EXACT, "--ids", "twice.npy"),
            "--ids must give every row of vectors.npy an id of its own, given more than once: 5, "
            "7.",
        ),
        (
            (*ESTIMATE, "--ids", "twice.npy"),
            "every row of corrections an id of its own, given more than once: 5, 7.",
        ),
    ):
        require_failure(run(*ASK, *options), says)


def test_corrections_that_do_not_fit_the_index(run: Run) -> None:
    numbers = plain_corrections()
    np.save("few.npy", numbers[:200])
    np.save("square.npy", np.zeros((203, 3), dtype=np.float32))
    np.save("double.npy", np.zeros((203, 2)))
    np.save("negative.npy", -np.ones((203, 2), dtype=np.float32))
    np.savez("archive.npz", numbers)
    Path("archive.npz").rename("archive.npy")
    Path("words.txt").write_text("1\ntwo\n3\n")
    for name, says in (
        ("few.npy", "few.npy has 200 rows, none of them for the ids 200, 201, 202 of the index"),
        ("few.npy", "Give the corrections of all that were encoded"),
        ("square.npy", "square.npy must hold corrections, float32 (n, 2)"),
        ("double.npy", "got float64 (203, 2)"),
        ("negative.npy", "corrections must be those of l2"),
        ("archive.npy", "archive.npy is not an .npy array: its first bytes are b'PK"),
        ("words.txt", "words.txt is not a bitkin file"),
        (
            "codes",
            "codes holds Codes, not corrections. Make them with bitkin encode --corrections.",
        ),
        ("missing.npy", "missing.npy cannot be read: No such file or directory."),
        ("missing", "missing cannot be read: No such file or directory."),
    ):
        require_failure(run(*ASK, "--corrections", name), says)


def test_corrections_know_their_metric(run: Run) -> None:
    for asked in ("cosine", "ip"):
        require_failure(
            run(*ASK, *ESTIMATE, "--metric", asked),
            f"corrections must hold corrections for {asked}, got those for l2. Search with "
            f"--metric l2, or make others with bitkin encode --corrections --metric {asked}.",
        )
    assert (
        run(
            "encode",
            "model",
            "vectors.npy",
            "-o",
            "c",
            "--corrections",
            "cosine",
            "--metric",
            "cosine",
        ).code
        == 0
    )
    require_failure(
        run(*ASK, "--corrections", "cosine", "--metric", "l2"),
        "cosine must hold corrections for l2, got those for cosine",
    )
    told = run(*ASK, "--corrections", "cosine", "--metric", "cosine", "--json")
    assert told.code == 0
    # without --metric it is theirs
    assert run(*ASK, "--corrections", "cosine", "--json").out == told.out
    assert "distance: cosine as estimated" in run(*ASK, "--corrections", "cosine").out


def test_corrections_know_their_model(run: Run) -> None:
    assert run("fit", "vectors.npy", "-o", "other", "--bits", 67, *RANDOM, "--seed", 5).code == 0
    assert run("encode", "other", "vectors.npy", "-o", "c", "--corrections", "others").code == 0
    require_failure(
        run(*ASK, "--corrections", "others"),
        "others must hold corrections of the model given by --model, got those of another one",
    )


def test_corrections_are_read_strictly(run: Run) -> None:
    numbers = plain_corrections()
    fingerprint = bitkin.load("model").fingerprint_
    good = {"corrections": numbers}
    for parameters, mark, tensors, says in (
        ({"metric": "l1"}, fingerprint, good, "does not say which metric and model"),
        ({"metric": ["l2"]}, fingerprint, good, "does not say which metric and model"),
        ({"metric": "l2"}, None, good, "does not say which metric and model"),
        ({}, fingerprint, good, "lacks the parameter metric"),
        ({"metric": "l2"}, fingerprint, {}, "lacks the tensor corrections"),
        (
            {"metric": "l2"},
            fingerprint,
            {"corrections": numbers.T},
            "has a tensor corrections of float32 (2, 203)",
        ),
        (
            {"metric": "l2"},
            fingerprint,
            {**good, "more": numbers},
            "has tensors that do not belong there: more",
        ),
    ):
        write_file("bad", "Corrections", parameters, mark, tensors)
        require_failure(run(*ASK, "--corrections", "bad"), says)
    whole = Path("corrections").read_bytes()
    Path("bad").write_bytes(whole[:-8])
    require_failure(
        run(*ASK, "--corrections", "bad"),
        f"has {len(whole) - 8:,} bytes where its header announces",
    )


def test_loading_corrections_says_what_they_are() -> None:
    with pytest.raises(
        InvalidInputError, match=r"corrections holds corrections, which bitkin search takes by"
    ):
        bitkin.load("corrections")
    raw = bytearray(Path("corrections").read_bytes())
    raw[-1] ^= 1
    Path("corrections").write_bytes(raw)
    with pytest.raises(CorruptFileError, match="checksum"):
        bitkin.load("corrections")


def test_a_correction_that_is_not_a_number_is_named_by_its_row_in_the_file(run: Run) -> None:
    numbers = plain_corrections()
    numbers[150, 1] = np.nan
    np.save("nan.npy", numbers)
    require_failure(
        run(*ASK, "--corrections", "nan.npy"),
        "nan.npy must hold finite corrections",
        "nan in row 150.",
    )
    np.save("backwards.npy", np.arange(203)[::-1])
    require_failure(
        run(*ASK, "--corrections", "nan.npy", "--ids", "backwards.npy"), "nan in row 150."
    )


def test_files_of_ids_that_are_none(run: Run) -> None:
    np.save("table.npy", np.arange(6).reshape(3, 2))
    np.save("one.npy", np.array(3))
    np.save("floats.npy", np.ones(3))
    np.save("names.npy", np.array(["a", "b"]))
    np.save("objects.npy", np.array([1, None]), allow_pickle=True)
    np.save("negative.npy", np.array([1, -2]))
    np.savez("zip.npz", np.arange(3))
    Path("zip.npz").rename("zip.npy")
    np.save("claims.npy", np.arange(3))
    claims = Path("claims.npy").read_bytes().replace(b"(3,), }          ", b"(1000000000000,)}")
    Path("claims.npy").write_bytes(claims)
    Path("empty.npy").write_bytes(b"")
    Path("words.txt").write_text("1\ntwo\n3\n")
    Path("bytes.txt").write_bytes(b"\xff\xfe\x00")
    Path("large.txt").write_text(f"{2**63}\n")
    for name, says in (
        (
            "table.npy",
            "table.npy must hold one id per row, an array of shape (n,), got shape (3, 2).",
        ),
        ("one.npy", "one.npy must hold one id per row, an array of shape (n,), got shape ()."),
        ("floats.npy", "floats.npy must be whole numbers, got float64"),
        ("names.npy", "names.npy must be whole numbers, got <U1"),
        ("objects.npy", "objects.npy holds Python objects as a pickle, which bitkin never loads"),
        ("negative.npy", "negative.npy must be 0 or more, got -2 at position 1"),
        ("zip.npy", "zip.npy is not an .npy array: its first bytes are b'PK"),
        (
            "claims.npy",
            "claims.npy must have 8000000000128 bytes for int64 of shape (1000000000000,), got "
            "152.",
        ),
        ("empty.npy", "empty.npy is not an .npy array"),
        (
            "words.txt",
            "words.txt must be an .npy file of whole numbers, or text with one per line: line 2 is "
            "'two'.",
        ),
        ("bytes.txt", "bytes.txt must be an .npy file of whole numbers, or text with one per line"),
        ("large.txt", "large.txt must be"),
        ("missing.txt", "missing.txt cannot be read: No such file or directory."),
        ("missing.npy", "missing.npy cannot be read: No such file or directory."),
    ):
        with pytest.raises(BitkinError, match=re.escape(says)):
            read_ids(Path(name))
    for option in ("--filter", "--ids"):
        require_failure(
            run(*ASK, *EXACT, option, "table.npy"), "table.npy must hold one id per row"
        )


def test_an_empty_array_of_ids_allows_nobody(run: Run) -> None:
    np.save("nobody.npy", np.empty(0, dtype=np.int64))
    assert all(line["ids"] == [] for line in run(*ASK, "--filter", "nobody.npy", "--json").objects)


def test_more_neighbours_than_rows_take_no_memory(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.load("vectors.npy")
    for options in ((), ESTIMATE, (*EXACT, *ESTIMATE)):
        lines = run(*ASK, *options, "-k", 2_000_000_000, "--json").objects
        assert [sorted(line["ids"]) for line in lines] == [list(range(len(X)))] * 9
    monkeypatch.setattr("bitkin.memory.physical_memory", lambda: 2**35)
    for options in ((), EXACT):
        require_failure(
            run(*ASK, *options, "-k", 2_000_000_000, "-o", "found.npz"),
            "k must be smaller: 2000000000 neighbours of 9 queries do not fit in memory.",
        )
    assert not Path("found.npz").exists()


def test_numbers_beyond_all_rows_are_wrong_usage(run: Run) -> None:
    for options, option in (
        (("-k", "9999999999"), "-k"),
        (("--oversample", "9999999999"), "--oversample"),
    ):
        done = run(*ASK, *EXACT, *options)
        assert done.code == 2
        assert option in done.err
