"""Wrong usage ends with 2 and a hint, failure with 1 and one line; a traceback is a bug."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import threads
from bitkin.cli.arguments import spell_options
from tests.cli.conftest import RANDOM, Outcome, Run


def require_failure(done: Outcome, *words: str) -> None:
    """Exit code 1, one line on stderr from us with all these words, nothing on stdout."""
    assert done.code == 1
    assert done.err.startswith("bitkin: ")
    assert done.err.endswith("\n")
    assert len(done.err.splitlines()) == 1, done.err
    assert done.out == ""
    for word in words:
        assert word in done.err


def require_usage_error(done: Outcome, *words: str) -> None:
    assert done.code == 2
    assert re.match(r"Usage: \S*( -m \S*)?bitkin ", done.err)
    for word in words:
        assert word in done.err


def test_an_unknown_command_suggests_the_nearest(run: Run) -> None:
    require_usage_error(run("encoed"), "No such command 'encoed'", "Did you mean 'encode'?")


def test_an_unknown_option_is_wrong_usage(folder: Path, run: Run) -> None:
    require_usage_error(
        run("fit", "vectors.npy", "-o", "m", "--bit", 7), "No such option: --bit", "--bits"
    )


@pytest.mark.parametrize(
    "arguments, missing",
    [
        (("fit",), "vectors"),
        (("fit", "vectors.npy"), "--out"),
        (("encode", "model"), "vectors"),
        (("encode", "model", "vectors.npy"), "--out"),
        (("index", "-o", "index"), "codes"),
        (("search", "index"), "queries"),
    ],
)
def test_a_missing_argument_is_named(run: Run, arguments: tuple[str, ...], missing: str) -> None:
    require_usage_error(run(*arguments), "Missing", missing)


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "vectors.npy", "-o", "m", "--bits", "0"),
        ("fit", "vectors.npy", "-o", "m", "--bits", "many"),
        ("fit", "vectors.npy", "-o", "m", "--seed", "-1"),
        ("search", "index", "codes", "-k", "0"),
        ("search", "index", "codes", "--radius", "-1"),
    ],
)
def test_a_number_out_of_range_is_wrong_usage(
    folder: Path, run: Run, arguments: tuple[str, ...]
) -> None:
    require_usage_error(run(*arguments), "Invalid value for", arguments[-2])


def test_a_bad_projection_suggests_the_nearest(folder: Path, run: Run) -> None:
    done = run("fit", "vectors.npy", "-o", "m", "--projection", "randon")
    require_usage_error(
        done,
        "'--projection'",
        "'randon' is not one of pca, nystrom, random",
        "Did you mean 'random'?",
    )


def test_a_bad_rotation_lists_the_choices(folder: Path, run: Run) -> None:
    done = run("fit", "vectors.npy", "-o", "m", "--rotation", "xyz")
    require_usage_error(
        done, "'--rotation'", "'xyz' is not one of none, auto, itq, unifdiag, isohash, random"
    )


def test_no_command_shows_the_help(run: Run) -> None:
    done = run()
    assert done.code == 2
    assert "Commands:" in done.out + done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "missing", "-o", "m"),
        ("fit", "missing.npy", "-o", "m"),
        ("fit", "vectors.npy", "missing.npy", "-o", "m"),
        ("encode", "missing", "vectors.npy", "-o", "c"),
        ("encode", "model", "missing.npy", "-o", "c"),
        ("index", "missing", "-o", "i"),
        ("index", "codes", "missing", "-o", "i"),
        ("index", "codes", "--ids", "missing.npy", "-o", "i"),
        ("search", "missing", "codes"),
        ("search", "index", "missing"),
        ("search", "index", "missing.npy", "-m", "model"),
        ("search", "index", "queries.npy", "-m", "missing"),
        ("search", "index", "codes", "--allow", "missing.npy"),
    ],
    ids=" ".join,
)
def test_a_missing_file_is_named(folder: Path, run: Run, arguments: tuple[str, ...]) -> None:
    missing = next(name for name in arguments if name.startswith("missing"))
    require_failure(run(*arguments), f"{missing} cannot be read: No such file or directory.")


def test_an_unknown_suffix_lists_the_known_ones(folder: Path, run: Run) -> None:
    Path("vectors.csv").write_text("1,2\n")
    known = (
        ".npy",
        ".npz",
        ".fvecs",
        ".bvecs",
        ".ivecs",
        ".parquet",
        ".h5",
        ".hdf5",
        ".svm",
        ".svmlight",
        ".libsvm",
    )
    require_failure(
        run("fit", "vectors.csv", "-o", "m"), "vectors.csv must end in one of", "got '.csv'", *known
    )


@pytest.mark.parametrize(
    "suffix",
    [".npy", ".npz", ".fvecs", ".bvecs", ".ivecs", ".parquet", ".h5", ".hdf5", ".svm", ".svm.gz"],
)
@pytest.mark.parametrize("n_bytes", [0, 7, 1001])
def test_a_file_of_noise_is_one_line_in_every_format(
    folder: Path, run: Run, suffix: str, n_bytes: int
) -> None:
    Path(f"noise{suffix}").write_bytes(np.random.default_rng(0).bytes(n_bytes))
    require_failure(run("fit", f"noise{suffix}", "-o", "m"), f"noise{suffix}")
    if n_bytes == 0 and suffix.startswith(".svm"):
        return  # no line is no row, of as many columns as the model has
    require_failure(run("encode", "model", f"noise{suffix}", "-o", "c"), f"noise{suffix}")
    assert not Path("c").exists()


def test_a_nan_deep_in_a_file_is_named_by_file_batch_row_and_column(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.ones((5003, 17), dtype=np.float32)
    X[4001, 3] = np.nan
    np.save("deep.npy", X)
    monkeypatch.setattr("bitkin.io.vectors.batch.BATCH_BYTES", 100 * 17 * 4)
    monkeypatch.setattr("bitkin.hashers.encoding._BATCH_BYTES", 100 * 17 * 4)
    place = "deep.npy: NaN at row 4001, column 3, batch 40."
    require_failure(run("fit", "deep.npy", "-o", "m"), place)
    require_failure(run("encode", "model", "deep.npy", "-o", "c"), place)
    require_failure(
        run("search", "index", "deep.npy", "-m", "model"),
        "deep.npy: NaN at row 4001, column 3, batch 3.",
    )
    assert not Path("m").exists()
    assert not Path("c").exists()


def test_an_infinity_in_the_second_file_is_named_by_its_row_there(folder: Path, run: Run) -> None:
    X = np.load("vectors.npy")
    X[5, 16] = -np.inf
    np.save("second.npy", X)
    done = run("encode", "model", "vectors.npy", "second.npy", "-o", "c")
    require_failure(
        done, "second.npy: -infinity at row 5 (row 208 of all files), column 16, batch 0."
    )


def test_a_nan_met_after_a_resumption_is_named_by_the_same_batch(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.hashers.encoding._BATCH_BYTES", 7 * 17 * 4)
    monkeypatch.setattr("bitkin.hashers.encoding._SECONDS_BETWEEN_CHECKPOINTS", -1.0)
    X = np.load("vectors.npy")
    X[100, 0] = np.nan
    np.save("bad.npy", X)
    place = "bad.npy: NaN at row 100, column 0, batch 14."
    require_failure(run("encode", "model", "bad.npy", "-o", "c"), place)
    require_failure(run("encode", "model", "bad.npy", "-o", "c"), place)


def test_numbers_beyond_float32_are_named_by_their_file(folder: Path, run: Run) -> None:
    X = np.load("vectors.npy").astype(np.float64)
    X[111, 1] = 1e300
    np.save("large.npy", X)
    require_failure(
        run("encode", "model", "large.npy", "-o", "c"), "large.npy", "1e+300", "float32"
    )
    require_failure(
        run("search", "index", "large.npy", "-m", "model"), "large.npy", "1e+300", "float32"
    )
    require_failure(run("fit", "large.npy", "-o", "m"), "large.npy", "1e+300", "float32")


def test_a_wrong_number_of_features_is_named_with_its_file(folder: Path, run: Run) -> None:
    np.save("narrow.npy", np.ones((7, 5)))
    words = ("narrow.npy has 5 features", "expecting 17 features")
    require_failure(run("encode", "model", "narrow.npy", "-o", "c"), *words)
    require_failure(run("search", "index", "narrow.npy", "-m", "model"), *words)


def test_files_of_different_widths_are_refused(folder: Path, run: Run) -> None:
    np.save("narrow.npy", np.ones((7, 5)))
    require_failure(
        run("fit", "vectors.npy", "narrow.npy", "-o", "m"), "vectors.npy has 17, narrow.npy has 5"
    )


def test_a_model_needs_rows(folder: Path, run: Run) -> None:
    np.save("none.npy", np.empty((0, 17)))
    for option in ("--center", "--no-center"):
        require_failure(run("fit", "none.npy", "-o", "m", option), "none.npy has no rows")


def test_an_option_that_would_be_ignored_is_refused(folder: Path, run: Run) -> None:
    require_failure(
        run("fit", "vectors.npy", "--column", "x", "-o", "m"),
        "column means nothing for vectors.npy",
    )
    require_failure(
        run("fit", "vectors.npy", "--dataset", "x", "-o", "m"),
        "dataset means nothing for vectors.npy",
    )
    require_failure(
        run("fit", "vectors.npy", "--features", 9, "-o", "m"),
        "n_features means nothing for vectors.npy",
    )


@pytest.mark.parametrize("which, held", [("codes", "Codes"), ("index", "FlatIndex")])
def test_a_file_of_ours_that_is_no_model_is_named_by_what_it_holds(
    folder: Path, run: Run, which: str, held: str
) -> None:
    words = f"{which} holds {held}, not a model. Make one with bitkin fit."
    require_failure(run("encode", which, "vectors.npy", "-o", "c"), words)
    require_failure(run("search", "index", "queries.npy", "-m", which), words)


def test_vectors_in_place_of_a_model(folder: Path, run: Run) -> None:
    require_failure(
        run("encode", "vectors.npy", "vectors.npy", "-o", "c"),
        "vectors.npy is a NumPy array, not a bitkin file. Are two arguments swapped?",
    )


def test_a_model_in_place_of_vectors(folder: Path, run: Run) -> None:
    Path("model").rename("model.bitkin")
    done = run("fit", "model.bitkin", "-o", "other")
    require_failure(done, "model.bitkin must be a file of vectors", "Are two arguments swapped?")


@pytest.mark.parametrize(
    ("message", "spelled"),
    [
        ("n_bits must be at most 7. Use projection='random'.",
         "--bits must be at most 7. Use --projection random."),
        ("Set normalize=True, center=False or rotation=None.",
         "Set --normalize, --no-center or --rotation none."),
        ("zero_based must be given.", "--zero-based or --one-based must be given."),
        ("Ask for a fresh start (fresh=True).", "Ask for a fresh start (--fresh)."),
        ("window must be 2, for x=3.", "--window must be 2, for x=3."),
        ("scale is fine", "scale is fine"),
    ],
)  # fmt: skip
def test_messages_name_options_and_not_arguments_of_python(message: str, spelled: str) -> None:
    assert spell_options(message) == spelled


def test_a_model_in_place_of_codes_or_of_an_index(folder: Path, run: Run) -> None:
    require_failure(
        run("index", "model", "-o", "i"), "model holds ProjectionHash, not Codes", "bitkin encode"
    )
    require_failure(
        run("search", "codes", "codes"),
        "codes holds Codes, not an index. Make one with bitkin index.",
    )
    require_failure(run("search", "index", "model"), "model holds no codes", "--model")


@pytest.mark.parametrize(
    "name", ["queries.npy", "QUERIES.NPY", "queries.svmlight", "queries.libsvm.gz"]
)
def test_vectors_as_queries_need_a_model(folder: Path, run: Run, name: str) -> None:
    Path(name).write_bytes(Path("queries.npy").read_bytes())
    require_failure(run("search", "index", name), f"{name} holds no codes", "--model")


@pytest.mark.parametrize("damage", ["cut", "longer", "a byte of the header", "a byte of the data"])
def test_a_damaged_model_is_refused(folder: Path, run: Run, damage: str) -> None:
    data = bytearray(Path("model").read_bytes())
    if damage == "cut":
        del data[-7:]
    elif damage == "longer":
        data += b"1234567"
    else:
        data[100 if damage == "a byte of the header" else -100] ^= 1
    Path("damaged").write_bytes(data)
    require_failure(
        run("encode", "damaged", "vectors.npy", "-o", "c"), "damaged", "Restore it from a copy"
    )
    assert not Path("c").exists()


def test_codes_of_another_model_are_refused(folder: Path, run: Run) -> None:
    assert run("fit", "vectors.npy", "-o", "other", "--bits", 67, *RANDOM, "--seed", 1).code == 0
    assert run("encode", "other", "vectors.npy", "-o", "other-codes").code == 0
    words = "Encode both sides with the same fitted hasher."
    require_failure(run("index", "codes", "other-codes", "-o", "i"), words)
    require_failure(run("search", "index", "other-codes"), words)
    require_failure(run("search", "index", "queries.npy", "-m", "other"), words)


def test_ids_that_cannot_be(folder: Path, run: Run) -> None:
    np.save("few.npy", np.arange(7))
    require_failure(
        run("index", "codes", "--ids", "few.npy", "-o", "i"),
        "few.npy must hold one id per row, got 7 for 203",
    )
    np.save("twice.npy", np.arange(203) // 2)
    require_failure(run("index", "codes", "--ids", "twice.npy", "-o", "i"), "given more than once")
    np.save("floats.npy", np.arange(203.0))
    require_failure(
        run("index", "codes", "--ids", "floats.npy", "-o", "i"), "floats.npy must be whole numbers"
    )
    np.save("objects.npy", np.array([None] * 203), allow_pickle=True)
    require_failure(
        run("index", "codes", "--ids", "objects.npy", "-o", "i"), "objects.npy holds Python objects"
    )
    Path("noise.npy").write_bytes(b"\x80noise")
    require_failure(
        run("index", "codes", "--ids", "noise.npy", "-o", "i"), "noise.npy is not an .npy array"
    )
    Path("empty.npy").write_bytes(b"")
    require_failure(
        run("search", "index", "codes", "--allow", "empty.npy"), "empty.npy is not an .npy array"
    )
    np.savez("archive.npz", np.arange(203))
    require_failure(run("index", "codes", "--ids", "archive.npz", "-o", "i"), "archive.npz must be")


@pytest.mark.parametrize("out", ["no/such/folder/x.npz", "vectors.npy/x.npz", "folder.npz"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "vectors.npy"),
        ("encode", "model", "vectors.npy"),
        ("index", "codes"),
        ("search", "index", "codes", "--show", "0"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_output_that_cannot_be_written(
    folder: Path, run: Run, arguments: tuple[str, ...], out: str
) -> None:
    (folder / "folder.npz").mkdir()
    before = {path.name for path in folder.iterdir()}
    require_failure(
        run(*arguments, "-o", out), "cannot be written: ", "What was there is unchanged"
    )
    assert {path.name for path in folder.iterdir()} == before


def test_k_beyond_memory_is_one_line(folder: Path, run: Run) -> None:
    require_failure(
        run("search", "index", "codes", "-k", 2**31 - 1, "-o", "found.npz"), "k must be smaller"
    )


def test_a_missing_extra_prints_the_install_line(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("x.parquet").write_bytes(b"PAR1")
    for name in ("pyarrow", "pyarrow.parquet", "h5py"):
        monkeypatch.setitem(sys.modules, name, None)
    Path("x.h5").write_bytes(b"\x89HDF")
    require_failure(run("fit", "x.parquet", "-o", "m"), "pyarrow", "pip install 'bitkin[io]'")
    require_failure(run("fit", "x.h5", "-o", "m"), "h5py", "pip install 'bitkin[io]'")


def test_an_interruption_is_one_line(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bitkin.hashers.encoding.encode_to_file", interrupted)
    done = run("encode", "model", "vectors.npy", "-o", "c")
    assert done.code in (1, 130)
    assert done.err.strip() == "bitkin: interrupted. It continues where it was when run again."


def shell(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bitkin", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "BITKIN_QUIET": "1"},
        **options,
    )


@pytest.mark.parametrize("n_rows", [20, 203])
def test_a_full_disk_is_one_line_and_leaves_the_old_codes(folder: Path, n_rows: int) -> None:
    np.save("some.npy", np.load("vectors.npy")[:n_rows])
    Path("out").write_bytes(Path("codes").read_bytes())
    allowed = 100  # bytes a file may have: the header does not fit either
    done = shell(
        *("encode", "model", "some.npy", "-o", "out", "--force"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, allowed)),
    )
    require_failure(
        Outcome(done.returncode, done.stdout, done.stderr), "out cannot be written: File too large."
    )
    assert bitkin.load("out") == bitkin.load("codes")


def test_a_reader_that_leaves_early_is_no_error_message(folder: Path) -> None:
    command = [sys.executable, "-m", "bitkin", "search", "index", "codes", "--json", "-k", "203"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode != 0
    assert "Traceback" not in said
    assert "Error" not in said


def test_an_earlier_run_on_other_vectors_is_not_continued_unless_asked(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.hashers.encoding._BATCH_BYTES", 7 * 17 * 4)
    monkeypatch.setattr("bitkin.hashers.encoding._SECONDS_BETWEEN_CHECKPOINTS", -1.0)
    X = np.load("vectors.npy")
    X[150] = np.nan
    np.save("changing.npy", X)
    require_failure(run("encode", "model", "changing.npy", "-o", "c"), "row 150")
    X[150] = 0
    np.save("changing.npy", X)
    require_failure(
        run("encode", "model", "changing.npy", "-o", "c"),
        ".c.partial is the beginning of other work",
    )
    [done] = run("encode", "model", "changing.npy", "-o", "c", "--fresh", "--json").objects
    assert done["resumed_at"] == 0
    assert bitkin.load("c") == bitkin.load("model").encode(X)
    assert not list(folder.glob(".*"))


def test_an_interrupted_run_says_where_it_goes_on(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bitkin.io.partial import PartialFile

    monkeypatch.setattr("bitkin.hashers.encoding._BATCH_BYTES", 7 * 17 * 4)
    monkeypatch.setattr("bitkin.hashers.encoding._SECONDS_BETWEEN_CHECKPOINTS", -1.0)

    def interrupted(self: PartialFile) -> None:
        checkpoint(self)
        if self.rows_done == 70:
            raise KeyboardInterrupt

    for options, says in (((), ", from row 70 on, "), (("--json",), '"resumed_at": 70, ')):
        with monkeypatch.context() as patch:
            checkpoint = PartialFile.checkpoint
            patch.setattr(PartialFile, "checkpoint", interrupted)
            assert run("encode", "model", "vectors.npy", "-o", "c").code != 0
        done = run("encode", "model", "vectors.npy", "-o", "c", *options)
        assert done.code == 0
        assert says in done.out
        assert Path("c").read_bytes() == Path("codes").read_bytes()
        Path("c").unlink()


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "vectors.npy", "-o", "vectors.npy"),
        ("encode", "model", "vectors.npy", "-o", "vectors.npy"),
        ("encode", "model", "vectors.npy", "-o", "model"),
        ("index", "codes", "-o", "codes"),
        ("search", "index", "queries.npy", "-m", "model", "-o", "found.npy"),
        ("search", "index", "queries.npy", "-m", "model", "-k", "3", "--radius", "1"),
        ("search", "index", "codes", "--column", "c"),
    ],
    ids=" ".join,
)
def test_a_command_that_would_replace_its_input_or_ignore_an_option_is_wrong_usage(
    folder: Path, run: Run, command: tuple[str, ...]
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert run(*command).code == 2
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_special_file_is_never_replaced(folder: Path, run: Run) -> None:
    os.mkfifo(folder / "pipe")
    require_failure(run("fit", "vectors.npy", "-o", "pipe"), "pipe is not a regular file")
    require_failure(
        run("encode", "model", "vectors.npy", "-o", "pipe"), "pipe is not a regular file"
    )
    assert (folder / "pipe").is_fifo()


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "vectors.npy", "-o", "m", "--bits", 8),
        ("encode", "model", "vectors.npy", "-o", "c"),
        ("search", "index", "queries.npy", "-m", "model"),
        ("search", "index", "queries.npy", "-m", "model", "--vectors", "vectors.npy"),
        ("doctor", "--no-speed"),
    ],
    ids=lambda command: command[0],
)
def test_an_impossible_number_of_threads_is_not_blamed_on_a_file(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[Any, ...]
) -> None:
    monkeypatch.setattr(threads, "_n_threads", None)
    monkeypatch.setenv("BITKIN_NUM_THREADS", "abc")
    done = run(*command)
    require_failure(
        done, "BITKIN_NUM_THREADS must be a whole number, got 'abc'. Unset this variable"
    )
    assert done.err.startswith("bitkin: BITKIN_NUM_THREADS")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize(
    "command",
    [
        ("search", "pipe", "queries.npy", "-m", "model"),
        ("search", "index", "pipe"),
        ("search", "index", "pipe.npy", "-m", "model"),
        ("search", "index", "queries.npy", "-m", "pipe"),
        ("encode", "pipe", "vectors.npy", "-o", "others"),
        ("index", "pipe", "-o", "others"),
    ],
    ids=" ".join,
)
def test_a_pipe_is_refused_at_once_where_a_file_is_read(
    folder: Path, run: Run, command: tuple[str, ...]
) -> None:
    for name in ("pipe", "pipe.npy"):
        os.mkfifo(folder / name)
    require_failure(run(*command), "cannot be read: it is not a regular file")


def test_ctrl_c_while_modules_load_is_one_line() -> None:
    code = (
        "import builtins, signal\n"
        "from bitkin.__main__ import main\n"
        "usual = builtins.__import__\n"
        "def interrupting(name, *arguments, **settings):\n"
        "    if name == 'typer':\n"
        "        builtins.__import__ = usual\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "    return usual(name, *arguments, **settings)\n"
        "builtins.__import__ = interrupting\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "bitkin: interrupted.\n")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--sample-features", "5.5"), "bitkin: --sample-features must be a count"),
        (("--sample-rows", "1.5"), "bitkin: --sample-rows must be a count"),
    ],
)
def test_a_parameter_of_a_slot_is_named_as_it_was_typed(
    folder: Path, run: Run, options: tuple[str, ...], says: str
) -> None:
    done = run("fit", "vectors.npy", "-o", "m", "--bits", 4, "--projection", "nystrom", *options)
    assert (done.code, done.err[: len(says)]) == (1, says)


def test_a_slot_with_a_start_is_named_as_it_was_typed(folder: Path, run: Run) -> None:
    start = ("--rotation", "unifdiag", "--rotation-start", "random")
    done = run("fit", "vectors.npy", "-o", "m", "--bits", 4, *start, "--rotation-rows", 9)
    assert done.code == 2
    assert "means nothing for --rotation unifdiag;" in " ".join(done.err.split())


def test_warnings_name_options_too(folder: Path, run: Run) -> None:
    done = run("fit", "vectors.npy", "-o", "m", "--bits", 20)
    assert done.code == 0, done
    assert done.err.startswith("bitkin: warning: --bits 20 is more than the 17 directions"), done
    assert "n_bits" not in done.err


@pytest.mark.parametrize(
    ("metric", "meant"),
    [("euclidean", "l2"), ("dot", "ip"), ("angular", "cosine"), ("Cosine", "cosine")],
)
def test_a_metric_by_the_name_that_others_give_it_is_suggested(
    folder: Path, run: Run, metric: str, meant: str
) -> None:
    wanted = ("search", "index", "queries.npy", "-m", "model", "--vectors", "vectors.npy")
    done = run(*wanted, "--metric", metric)
    assert done.code == 2
    assert f"Did you mean '{meant}'?" in " ".join(done.err.split())
    with pytest.raises(bitkin.errors.InvalidInputError, match=f"Did you mean '{meant}'"):
        bitkin.EpochIndex(metric)


def test_a_file_given_to_stream_as_an_argument(folder: Path, run: Run) -> None:
    done = run("stream", "vectors.npy", "--bits", "4", "-o", "out")
    assert done.code == 2
    command = "bitkin stream --bits 4 -o out < vectors.npy"
    assert command in " ".join(done.err.replace("│", " ").split())
