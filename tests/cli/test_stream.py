"""`bitkin stream`: the codes, the models beside them, going on, and what is refused."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin.io.growing import GrowingFile
from bitkin.stream_files.epoch_folder import EpochFolder
from tests.cli.conftest import Outcome, Run
from tests.cli.streams import files_in, start_stream, stdin_of, stream_in

X: npt.NDArray[np.float32] = (
    np.random.default_rng(7).standard_normal((503, 13)) * np.linspace(3, 1, 13)
).astype("f4")
WITH_NAN = X.copy()
SKIPPED = [0, 40, 250, 502]
WITH_NAN[SKIPPED] = np.nan

Feed = Callable[..., Outcome]


def npy(array: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def json_lines(rows: npt.NDArray[Any], field: str = "vector") -> bytes:
    return b"".join(json.dumps({field: row.tolist()}).encode() + b"\n" for row in rows)


@pytest.fixture
def feed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Feed:
    """Run `bitkin stream` in this process, in a folder of its own, with these bytes on stdin."""
    monkeypatch.chdir(tmp_path)

    def call(data: bytes, *arguments: object) -> Outcome:
        with stdin_of(data):
            return run("stream", *arguments)

    return call


def hasher(**options: Any) -> bitkin.ProjectionHash:
    return bitkin.ProjectionHash(7, projection="opast", rotation="auto", **options)


def coded(rows: npt.NDArray[Any], **options: Any) -> bytes:
    """What the library makes of the rows."""
    return b"".join(codes.to_bytes().tobytes() for codes in hasher(**options).sketch_stream(rows))


def require_failure(done: Outcome, *words: str) -> None:
    assert done.code == 1, done
    assert done.err.startswith("bitkin: ")
    assert len(done.err.splitlines()) == 1, done.err
    assert done.out == ""
    for word in words:
        assert word in done.err


def require_usage_error(done: Outcome, *words: str) -> None:
    assert done.code == 2, done
    for word in words:
        assert word in done.err


@pytest.mark.parametrize(
    "data, options",
    [
        (X.tobytes(), ["--dim", 13]),
        (npy(X), []),
        (npy(X.astype(">f8")), ["--format", "npy"]),
        (json_lines(X), []),
        (json_lines(X, "e"), ["--format", "jsonl", "--field", "e"]),
    ],
    ids=["f32", "npy", "npy of float64", "jsonl", "jsonl with a field"],
)
def test_codes_are_those_of_the_library_whatever_the_input(
    feed: Feed, data: bytes, options: list[object]
) -> None:
    done = feed(data, "--bits", 7, "-o", "codes", "--epochs", 200, *options)
    assert (done.code, done.out) == (0, "")
    assert Path("codes").read_bytes() == coded(X, epochs=200)
    assert "503 vectors, " in done.err
    assert "vectors, 0/s" not in done.err  # though all of them came at once
    assert "of the variance kept" in done.err


def test_the_model_of_every_epoch_is_kept_with_the_rows_it_made(feed: Feed) -> None:
    assert feed(npy(X), "--bits", 7, "-o", "codes", "--epochs", 200).code == 0
    rows = [json.loads(line) for line in Path("codes.epochs/rows.jsonl").read_text().splitlines()]
    assert [line["row"] for line in rows] == [0, 224, 424]  # 32 vectors a bit first, then 200
    assert [line["model"][:6] for line in rows] == ["00000-", "00001-", "00002-"]
    codes = np.fromfile("codes", dtype=np.uint8).reshape(-1, 1)
    for line, stop in zip(rows, [224, 424, 503], strict=True):
        model = bitkin.load(Path("codes.epochs") / line["model"])
        assert model.fingerprint_ == line["fingerprint"]
        assert np.array_equal(
            model.encode(X[line["row"] : stop]).to_bytes(), codes[line["row"] : stop]
        )


def test_json_lines_on_stdout_name_row_code_and_epoch_and_leave_skipped_vectors_empty(
    feed: Feed,
) -> None:
    done = feed(npy(WITH_NAN), "--bits", 7, "--epochs", 200, "--json", "--state", "state")
    assert done.code == 0
    assert [line["row"] for line in done.objects] == list(range(503))
    assert [line["row"] for line in done.objects if line["code"] is None] == SKIPPED
    assert [line["row"] for line in done.objects if line["epoch"] is None] == SKIPPED
    used = [(line["code"], line["epoch"]) for line in done.objects if line["code"] is not None]
    parts = list(hasher(epochs=200).sketch_stream(np.delete(X, SKIPPED, axis=0)))
    assert used == [
        (row.to_bytes().tobytes().hex(), codes.fingerprint) for codes in parts for row in codes
    ]
    assert sorted(Path("state.epochs").iterdir())[0].name == f"00000-{parts[0].fingerprint}.bitkin"
    skipped, end, saved = (json.loads(line) for line in done.err.splitlines())
    assert skipped == {"event": "skipped", "vector": 0}
    assert (end["event"], end["vectors"], end["skipped"], end["epochs"]) == ("end", 503, 4, 3)
    assert 0 < end["variance_kept"] <= 1.01
    assert 0 < end["variance_captured"] <= 1
    assert (saved["event"], saved["vectors"], saved["bytes"]) == ("saved", 503, len(npy(WITH_NAN)))


def test_skipped_vectors_are_zeros_in_raw_codes_and_listed(feed: Feed) -> None:
    done = feed(npy(WITH_NAN), "--bits", 7, "-o", "codes")
    assert done.code == 0
    assert "vector 0 is not finite" in done.err
    assert "4 skipped" in done.err
    codes = np.fromfile("codes", dtype=np.uint8)
    assert np.delete(codes, SKIPPED).tobytes() == coded(np.delete(X, SKIPPED, axis=0))
    assert not codes[SKIPPED].any()
    rows = [json.loads(line) for line in Path("codes.epochs/rows.jsonl").read_text().splitlines()]
    assert [line["row"] for line in rows if "empty" in line] == SKIPPED
    assert [line["row"] for line in rows if "model" in line] == [
        1,
        2 * 7 + 1,
        8 * 7 + 2,
        32 * 7 + 2,
    ]


def test_short_epochs_lose_no_code_beside_skipped_vectors(feed: Feed) -> None:
    slots: dict[str, Any] = {"projection": "frequent-directions", "rotation": None, "epochs": 5}
    # 224 vectors begin the first learned epoch; from there on an epoch ends every 5, with nothing
    # learned between.
    done = feed(
        npy(WITH_NAN),
        "--bits",
        7,
        "--projection",
        "frequent-directions",
        "--rotation",
        "none",
        "--epochs",
        5,
        "-o",
        "codes",
    )
    assert done.code == 0, done.err
    codes = np.fromfile("codes", dtype=np.uint8)
    one_by_one = bitkin.ProjectionHash(7, **slots)
    expected = b"".join(
        one_by_one.sketch(x).to_bytes().tobytes() for x in np.delete(X, SKIPPED, axis=0)
    )
    assert np.delete(codes, SKIPPED).tobytes() == expected
    assert not codes[SKIPPED].any()


def test_without_epochs_codes_are_the_moving_models_and_no_model_is_kept(feed: Feed) -> None:
    options = ("--bits", 7, "--epochs", "none", "--refresh", 1)
    assert feed(npy(X), *options, "-o", "codes").code == 0
    assert Path("codes").read_bytes() == coded(X, epochs=None, refresh=1)
    assert Path("codes.epochs/rows.jsonl").read_bytes() == b""
    done = feed(npy(X[:9]), *options, "--json")
    assert {line["epoch"] for line in done.objects} == {None}


def test_every_option_of_a_hasher_reaches_it(feed: Feed) -> None:
    options = (
        "--projection",
        "frequent-directions",
        "--rotation",
        "none",
        "--no-center",
        "--normalize",
        "--seed",
        3,
    )
    assert feed(npy(X), "--bits", 5, "-o", "codes", *options, "--epochs", "0.25").code == 0
    same = bitkin.ProjectionHash(
        5,
        projection="frequent-directions",
        rotation=None,
        center=False,
        normalize=True,
        random_state=3,
        epochs=0.25,
    )
    assert Path("codes").read_bytes() == b"".join(
        codes.to_bytes().tobytes() for codes in same.sketch_stream(X)
    )
    assert (
        feed(
            npy(X),
            "--bits",
            7,
            "-o",
            "f",
            "--forgetting",
            0.99,
            "--refresh",
            9,
            "--rotation",
            "isohash",
        ).code
        == 0
    )
    opast = bitkin.projections.OPAST(forgetting=0.99)
    same = bitkin.ProjectionHash(7, projection=opast, rotation="isohash", refresh=9)
    assert Path("f").read_bytes() == b"".join(
        codes.to_bytes().tobytes() for codes in same.sketch_stream(X)
    )


def test_a_stream_can_begin_with_a_fitted_model(feed: Feed) -> None:
    hasher().fit(X[:200]).save("model")
    assert feed(npy(X[200:]), "-m", "model", "-o", "codes").code == 0
    codes = bitkin.load("model").sketch_stream(X[200:])
    assert Path("codes").read_bytes() == b"".join(part.to_bytes().tobytes() for part in codes)
    require_usage_error(
        feed(b"", "-m", "model", "--bits", 8, "-o", "new"), "'--bits'", "means nothing with --model"
    )
    bitkin.ProjectionHash(7).fit(X).save("pca")
    require_failure(
        feed(b"", "-m", "pca", "-o", "new"), "pca holds a model that does not keep learning"
    )
    require_failure(
        feed(npy(X[:, :12]), "-m", "model", "-o", "new"), "vectors of 13 numbers", "12 columns"
    )
    require_failure(
        feed(b"", "-m", "model", "--dim", 9, "-o", "fresh"), "--dim must be 13", "got 9"
    )


def test_a_stream_goes_on_from_its_state(feed: Feed, run: Run) -> None:
    options = ("--bits", 7, "-o", "codes", "--state", "state", "--epochs", 100, "--save-every", 50)
    assert run("stream", "--state", "state", "--position", "bytes").out == "0\n"
    assert feed(X[:203].tobytes(), "--dim", 13, *options).code == 0
    assert run("stream", "--state", "state", "--position", "vectors").out == "203\n"
    assert run("stream", "--state", "state", "--position", "bytes").out == f"{203 * 52}\n"
    assert run("stream", "--state", "state", "--position", "bytes", "--json").objects == [
        {"vectors": 203, "bytes": 203 * 52, "output_bytes": 203}
    ]
    with Path("codes").open("ab") as file:
        file.write(b"what a killed run wrote after its last state")
    done = feed(X[203:350].tobytes(), *options)  # the state knows the length of vectors
    assert done.err.startswith(
        "bitkin: state: continues from vector 203 (byte 10,556); codes is cut back to 203 bytes."
    )
    done = feed(X.tobytes(), *options, "--from-start")
    assert "stdin began again: its first 350 vectors were coded before, and skipped" in done.err
    apart = stream_in(Path())
    for name in ("codes", "state"):
        Path(name).unlink()
    assert feed(X.tobytes(), "--dim", 13, *options, "--fresh").code == 0
    assert stream_in(Path()) == apart
    assert Path("codes").read_bytes() == coded(X, epochs=100)
    assert bitkin.load("state").n_seen_ == 503  # a hasher like any other


def test_the_same_command_again_is_right_or_refused(feed: Feed) -> None:
    options = ("--dim", 13, "--bits", 7, "-o", "codes", "--state", "state")
    assert feed(X[:120].tobytes(), *options).code == 0
    done = feed(X.tobytes(), *options)
    assert done.code == 0
    assert "stdin began again: its first 120 vectors were coded before, and skipped." in done.err
    done = feed(X.tobytes(), *options, "--json")
    assert done.code == 0
    events = {line["event"]: line for line in map(json.loads, done.err.splitlines())}
    assert (events["repeated"]["vectors"], events["end"]["vectors"]) == (503, 0)
    assert Path("codes").read_bytes() == coded(X)
    done = feed(X[:99].tobytes(), *options)
    assert done.code == 1
    assert "stdin has 99 vectors, the first of those that the state has taken already" in done.err
    assert "say so with --continue" in done.err
    changed = X.copy()
    changed[200] = 1
    done = feed(changed.tobytes(), *options)
    assert done.code == 1
    assert "stdin begins as before, and then differs: the state has taken 503 other" in done.err
    assert "say so with --continue; if it was changed, begin again with --fresh." in done.err
    assert Path("codes").read_bytes() == coded(X)
    assert feed(X[:99].tobytes(), *options, "--continue").code == 0
    assert Path("codes").read_bytes() == coded(np.concatenate([X, X[:99]]))


def test_a_file_on_stdin_that_begins_otherwise_now_is_refused(feed: Feed, run: Run) -> None:
    options = ("--dim", 13, "--bits", 7, "-o", "codes", "--state", "state")
    Path("vectors").write_bytes(X.tobytes())
    with stdin_of(Path("vectors")):
        assert run("stream", *options).code == 0
    Path("vectors").write_bytes(X[::-1].tobytes())
    Path("others").write_bytes(X[::-1].tobytes())
    with stdin_of(Path("vectors")):
        done = run("stream", *options)
    assert done.code == 1
    assert "stdin is the file that was read before, and differs now" in done.err
    assert Path("codes").read_bytes() == coded(X)
    with stdin_of(Path("others")):
        assert run("stream", *options).code == 0
    assert Path("codes").read_bytes() == coded(np.concatenate([X, X[::-1]]))


def test_the_end_of_a_stream_says_that_all_is_saved_and_counts_epochs(feed: Feed) -> None:
    options = ("--bits", 7, "-o", "codes", "--state", "state", "--epochs", "request")
    done = feed(X[:50].tobytes(), "--dim", 13, *options)
    assert done.err.splitlines()[-1] == (
        "bitkin: state: the whole stream is saved; what comes later continues from vector 50 (byte "
        "2,600)."
    )
    assert "feed again" not in done.err
    assert ", 1 epoch;" in done.err or ", 1 epoch\n" in done.err


def test_a_hyphen_for_the_output_is_stdout(feed: Feed) -> None:
    options = ("--bits", 7, "--output-format", "jsonl", "--epochs-to", "models")
    done = feed(npy(X), *options, "-o", "-")
    assert done.code == 0
    assert [line["row"] for line in done.objects] == list(range(len(X)))
    assert not Path("-").exists()


def test_what_the_input_was_does_not_change_the_state(feed: Feed) -> None:
    for form, data, options in (("f32", X.tobytes(), ["--dim", 13]), ("jsonl", json_lines(X), [])):
        assert feed(data, "--bits", 7, "-o", form, "--state", f"{form}.state", *options).code == 0
    assert Path("f32").read_bytes() == Path("jsonl").read_bytes()
    assert bitkin.load("f32.state").fingerprint_ == bitkin.load("jsonl.state").fingerprint_


def test_a_stream_of_float32_in_npy_goes_on_in_the_middle_only_where_that_is_said(
    feed: Feed, run: Run
) -> None:
    options = ("--bits", 7, "-o", "codes", "--state", "state")
    done = feed(npy(X)[: 128 + 203 * 52], *options)
    assert done.code == 1  # cut off
    assert "feed again from" not in done.err
    first = int(run("stream", "--state", "state", "--position", "bytes").out)
    assert first == 128 + 203 * 52
    before = files_in(Path())
    done = feed(npy(X)[first:], *options)
    assert done.code == 1
    assert "vector 203 (the whole .npy again, or from byte 10,684 with --format f32)" in done.err
    assert (
        "stdin has no header, and the stream so far was an .npy array of float32 numbers"
        in done.err
    )
    assert files_in(Path()) == before
    assert feed(npy(X)[first:], *options, "--format", "f32").code == 0
    assert Path("codes").read_bytes() == coded(X)


def test_a_stream_of_other_numbers_in_npy_goes_on_from_its_start_only(feed: Feed, run: Run) -> None:
    options = ("--bits", 7, "-o", "codes", "--state", "state")
    data = npy(X.astype(">f8"))
    assert feed(data[: 128 + 203 * 104 + 5], *options).code == 1
    done = run("stream", "--state", "state", "--position", "bytes")
    require_failure(
        done,
        "an .npy array of float64 numbers, which cannot be fed from the middle",
        "Feed the whole array again.",
    )
    assert run("stream", "--state", "state", "--position", "vectors").out == "203\n"
    assert run("stream", "--state", "state", "--position", "bytes", "--json").objects == [
        {"vectors": 203, "bytes": None, "output_bytes": 203}
    ]
    assert "no header" in feed(data[128 + 203 * 104 :], *options).err
    assert feed(data, *options, "--from-start").code == 0
    assert Path("codes").read_bytes() == coded(X)
    assert feed(X.tobytes(), *options, "--from-start").code == 0
    # in this input
    assert run("stream", "--state", "state", "--position", "bytes").out == f"{X.nbytes}\n"


def test_a_stream_fed_from_its_start_must_be_long_enough(feed: Feed) -> None:
    options = ("--bits", 7, "-o", "codes", "--state", "state")
    assert feed(npy(X), *options).code == 0
    done = feed(npy(X[:100]), *options, "--from-start")
    assert done.code == 1
    assert "stdin has 100 vectors, and the state has taken 503 already" in done.err


def test_another_command_does_not_go_on_with_a_state(feed: Feed) -> None:
    assert feed(npy(X), "--bits", 7, "-o", "codes", "--state", "state").code == 0
    before = files_in(Path())
    words = "state is the state of another stream: "
    other = feed(npy(X), "--bits", 9, "-o", "codes", "--state", "state", "--rotation", "none")
    require_failure(
        other,
        words,
        "--bits was 7, now it is 9; --rotation was auto, now it is none",
        "--fresh",
    )
    other = feed(npy(X), "--bits", 7, "--json", "--state", "state")
    require_failure(other, words, "--out was codes, now it is stdout")
    Path("other").write_bytes(bytes(1000))
    other = feed(npy(X), "--bits", 7, "-o", "other", "--state", "state")
    require_failure(other, words, "--out was codes, now it is other")
    assert Path("other").read_bytes() == bytes(1000)
    Path("other").unlink()
    assert files_in(Path()) == before


@pytest.mark.parametrize(
    "damage", ["cut", "a byte", "empty", "another version", "a model", "codes"]
)
def test_a_state_that_cannot_be_trusted_is_refused(
    feed: Feed, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    options = ("--bits", 7, "-o", "codes", "--state", "state")
    with monkeypatch.context() as patch:
        if damage == "another version":
            patch.setattr("bitkin.stream_files.state._VERSION", 4)
        assert feed(npy(X), *options).code == 0
    data, words = bytearray(Path("state").read_bytes()), "state"
    if damage == "cut":
        del data[-7:]
    elif damage == "a byte":
        data[-100] ^= 1
    elif damage == "empty":
        data.clear()
    elif damage == "another version":
        words = "state is a state of version 4, and this bitkin reads 3"
    elif damage == "a model":
        hasher().fit(X).save("state")
        data, words = (
            bytearray(Path("state").read_bytes()),
            "state holds ProjectionHash, not the state of a stream",
        )
    else:
        hasher().fit(X).encode(X).save("state")
        data, words = (
            bytearray(Path("state").read_bytes()),
            "state holds Codes, not the state of a stream",
        )
    Path("state").write_bytes(data)
    before = files_in(Path())
    require_failure(feed(npy(X), *options), words)
    assert files_in(Path()) == before


def test_output_that_was_changed_or_is_somebody_elses_is_refused(feed: Feed) -> None:
    options = ("--bits", 7, "-o", "codes", "--state", "state")
    assert feed(npy(X), *options).code == 0
    codes = Path("codes").read_bytes()
    Path("codes").write_bytes(codes[:100])
    require_failure(feed(npy(X), *options), "codes has 100 bytes where 503 were written")
    assert Path("codes").read_bytes() == codes[:100]
    Path("state").unlink()
    require_failure(
        feed(npy(X), *options), "codes is there already, and no state to continue from", "--fresh"
    )
    Path("codes").unlink()
    require_failure(feed(npy(X), *options), "codes.epochs is there already")
    assert feed(npy(X), *options, "--fresh").code == 0
    assert Path("codes").read_bytes() == codes
    next(Path("codes.epochs").glob("00001-*")).unlink()
    require_failure(feed(npy(X), *options), "codes.epochs lacks the model of epoch 1")


FILES = ("-o", "codes", "--state", "state", "--corrections", "kept")


@pytest.mark.parametrize("name", ["codes", "kept", "codes.epochs/rows.jsonl"])
@pytest.mark.parametrize("fresh", [[], ["--fresh"]], ids=["resumed", "fresh"])
def test_a_start_beside_a_running_stream_changes_nothing(
    feed: Feed, name: str, fresh: list[str]
) -> None:
    assert feed(npy(X), "--bits", 7, *FILES).code == 0
    before = files_in(Path())
    with GrowingFile(name):  # as a running stream has it
        require_failure(
            feed(npy(X), "--bits", 7, *FILES, *fresh), f"{name} is being written by another process"
        )
    assert files_in(Path()) == before


@pytest.mark.parametrize("name", ["codes", "kept", "codes.epochs/rows.jsonl"])
def test_the_state_of_a_running_stream_is_not_replaced_for_another_output(
    feed: Feed, name: str
) -> None:
    assert feed(npy(X), "--bits", 7, *FILES).code == 0
    before = files_in(Path())
    with GrowingFile(name):
        done = feed(npy(X), "--bits", 7, "-o", "other", "--state", "state", "--fresh")
        require_failure(done, f"{name} is being written by another process")
    assert files_in(Path()) == before
    assert feed(npy(X), "--bits", 7, "-o", "other", "--state", "state", "--fresh").code == 0


@pytest.mark.parametrize("option", ["-o", "--corrections", "--epochs-to"])
def test_a_fresh_start_that_fails_leaves_what_was_there(feed: Feed, option: str) -> None:
    assert feed(npy(X), "--bits", 7, *FILES, "--epochs-to", "epochs").code == 0
    before = files_in(Path())
    done = feed(npy(X), "--bits", 7, *FILES, "--epochs-to", "epochs", option, "no/such", "--fresh")
    require_failure(done, "cannot be written")
    assert files_in(Path()) == before


@pytest.mark.parametrize(
    "damage, words",
    [
        ("a model less", "codes.epochs lacks the model of epoch 0"),
        ("a line less", "rows.jsonl lists 1 models where 2 were kept"),
        ("another name", "as the model of epoch 1"),
        ("no JSON", "has lines that are not those of a stream"),
        ("another stream", "which is not the model that the state continues with"),
    ],
)
def test_models_that_are_not_those_of_the_state_are_refused_before_anything_goes(
    feed: Feed, damage: str, words: str
) -> None:
    options = ("--bits", 7, "--epochs", "request", "-o", "codes", "--state", "state")
    assert feed(npy(X), *options).code == 0
    rows = Path("codes.epochs/rows.jsonl")
    first, last = rows.read_text().splitlines(keepends=True)
    names = [json.loads(line)["model"] for line in (first, last)]
    if damage == "a model less":
        Path("codes.epochs", names[0]).unlink()
    elif damage == "a line less":
        rows.write_text(first + '{"row": 224, "empty": true}'.ljust(len(last) - 1) + "\n")
    elif damage == "another name":
        rows.write_text(first + last.replace("00001-", "00002-"))
    elif damage == "no JSON":
        rows.write_text(first + last[1:] + "\n")
    else:
        other = names[1][:6] + "0" * 32 + ".bitkin"
        Path("codes.epochs", names[1]).rename(Path("codes.epochs", other))
        rows.write_text(first + last.replace(names[1], other))
    with Path("codes").open("ab") as file:
        file.write(b"what a killed run wrote")
    Path("codes.epochs", "00002-" + "1" * 32 + ".bitkin").write_bytes(b"what a killed run kept")
    before = files_in(Path())
    require_failure(feed(npy(X), *options), words)
    assert files_in(Path()) == before


def test_a_new_folder_of_models_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("bitkin.stream_files.epoch_folder.sync_folder", synced.append)
    for _ in range(2):
        EpochFolder(tmp_path / "epochs").close()
    assert synced == [tmp_path]


@pytest.mark.parametrize("option", ["-o", "--state", "--epochs-to"])
def test_what_cannot_be_written_is_named(feed: Feed, option: str) -> None:
    arguments = {"-o": "codes", "--state": "state", "--epochs-to": "epochs"}
    for path in (
        ("no/such/folder", "folder") if option != "--epochs-to" else ("no/such/folder", "file")
    ):
        Path("folder").mkdir(exist_ok=True)
        Path("file").write_bytes(b"")
        done = feed(
            npy(X),
            *(word for pair in (arguments | {option: path}).items() for word in pair),
            "--fresh",
        )
        require_failure(done, path, "cannot be written")


def test_an_error_in_the_stream_keeps_what_came_before_it(feed: Feed, run: Run) -> None:
    options = ("--bits", 7, "-o", "codes", "--state", "state")
    lines = json_lines(X)
    done = feed(lines[: len(json_lines(X[:99]))] + b"[1, 2]\n" + lines, *options)
    require_failure(done, "stdin, line 100: must be a vector of 13 numbers, got 2")
    assert run("stream", "--state", "state", "--position", "vectors").out == "99\n"
    assert feed(X[99:300].tobytes() + b"half", *options, "--format", "f32").code == 1
    assert run("stream", "--state", "state", "--position", "vectors").out == "300\n"
    assert feed(npy(X[300:]), *options).code == 0
    assert Path("codes").read_bytes() == coded(X)


def test_strict_ends_at_a_vector_that_is_not_finite(feed: Feed, run: Run) -> None:
    bad = X.astype(np.float64)
    bad[77, 3] = 1e300
    done = feed(
        npy(bad), "--bits", 7, "-o", "codes", "--state", "state", "--strict", "--save-every", 50
    )
    require_failure(done, "stdin: vector 77 of the stream is not finite in float32", "--strict")
    assert run("stream", "--state", "state", "--position", "vectors").out == "77\n"
    assert Path("codes").read_bytes() == coded(X)[:77]


@pytest.mark.parametrize(
    "options, words",
    [
        (["--bits", 13], ["13"]),
    ],
)
def test_parameters_that_cannot_be_are_one_line(
    feed: Feed, options: list[object], words: list[str]
) -> None:
    require_failure(
        feed(npy(X), "-o", "codes", *(["--bits", 7] if "--bits" not in options else []), *options),
        *words,
    )


@pytest.mark.parametrize(
    "options, words",
    [
        (["--epochs", "sometimes"], ["'--epochs'", "'sometimes'"]),
        (["--epochs", "1.5"], ["'--epochs'"]),
        (["--epochs", "0"], ["'--epochs'"]),
        (["--epochs", "nan"], ["'--epochs'"]),
        (["--projection", "opsat"], ["'--projection'", "Did you mean 'opast'?"]),
        (["--projection", "pca"], ["'--projection'", "opast, frequent-directions"]),
        (["--rotation", "itq"], ["'--rotation'", "auto, unifdiag, isohash, random, none"]),
        (
            ["--projection", "frequent-directions", "--forgetting", "0.5"],
            ["'--forgetting'", "belongs to opast"],
        ),
        (
            ["--forgetting", "1.5"],
            ["'--forgetting'", "'1.5' is neither 'auto' nor a number above 0"],
        ),
        (["--forgetting", "0"], ["'--forgetting'"]),
        (["--forgetting", "nan"], ["'--forgetting'"]),
        (["--forgetting", "often"], ["'--forgetting'", "'often'"]),
        (["--rotation-start", "random"], ["'--rotation-start'", "belongs to --rotation unifdiag"]),
        (
            ["--rotation", "unifdiag", "--rotation-start", "other"],
            ["'--rotation-start'", "identity, random"],
        ),
        (["--format", "csv"], ["'--format'"]),
        (["--output-format", "csv"], ["'--output-format'"]),
        (["--save-every", "5"], ["'--save-every'", "means nothing without --state"]),
        (["--from-start"], ["'--from-start'", "means nothing without --state"]),
        (["--position", "bytes"], ["'--position'", "needs --state"]),
        (["--state", "s", "--position", "rows"], ["'--position'"]),
        (["--state", "codes"], ["'--state'", "also given to --out"]),
        (["--dim", "0"], ["--dim"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_usage_is_named(feed: Feed, options: list[str], words: list[str]) -> None:
    require_usage_error(feed(npy(X), "-o", "codes", *options), *words)
    assert files_in(Path()) == {}


@pytest.mark.parametrize(
    "options, parameters",
    [
        (["--forgetting", "0.99"], {"projection": bitkin.projections.OPAST(0.99)}),
        (["--forgetting", "auto", "--epochs", "auto", "--rotation", "auto"], {}),
        (
            ["--rotation", "unifdiag", "--rotation-start", "random"],
            {"rotation": bitkin.rotations.UnifDiag("random")},
        ),
        (["--rotation", "unifdiag", "--epochs", "0.05"], {"rotation": "unifdiag", "epochs": 0.05}),
    ],
)
def test_options_are_the_parameters_of_the_library(
    feed: Feed, options: list[str], parameters: dict[str, Any]
) -> None:
    slots = {"projection": "opast", "rotation": "auto"} | parameters
    made = [part.to_bytes() for part in bitkin.ProjectionHash(7, **slots).sketch_stream(X)]
    assert feed(npy(X), "--bits", 7, "-o", "codes", *options).code == 0
    assert Path("codes").read_bytes() == np.concatenate(made).tobytes()


def test_a_stream_that_began_under_other_defaults_continues_as_it_began(feed: Feed) -> None:
    never = bitkin.projections.OPAST(forgetting=1.0)
    slots: dict[str, Any] = {"rotation": "unifdiag", "epochs": "request"}
    chosen = bitkin.ProjectionHash(7, projection=never, **slots)
    with bitkin.StreamRun(chosen, "codes", state="state") as run:
        run.encode(X[:300])
    # the command says nothing of these, so that they stay
    options = ("--bits", 7, "-o", "codes", "--state", "state")
    assert feed(npy(X), *options).code == 0
    made = [codes.to_bytes() for codes in chosen.sketch_stream(X)]
    assert Path("codes").read_bytes() == np.concatenate(made).tobytes()
    require_failure(
        feed(npy(X), *options, "--rotation", "random"), "--rotation was unifdiag, now it is random"
    )


def test_no_vectors_at_all_is_no_error(feed: Feed) -> None:
    done = feed(b"", "--dim", 13, "-o", "codes", "--state", "state")
    assert done.code == 0
    assert "0 vectors" in done.err
    assert Path("codes").read_bytes() == b""
    # 32 bits of 13 numbers
    assert feed(npy(X), "-o", "codes", "--state", "state", "--bits", 32).code == 1
    require_failure(feed(X.tobytes(), "-o", "other"), "--dim is missing")


def test_a_code_leaves_before_the_next_vector_comes_and_a_reader_may_leave(tmp_path: Path) -> None:
    data, got = X[:10].tobytes(), b""
    process = start_stream(
        "--dim", 13, "--bits", 7, "--state", tmp_path / "state", stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for begin, end in ((0, 52), (52, 59), (59, 104), (104, 311), (311, 520)):  # 52 bytes a vector
        os.write(process.stdin.fileno(), data[begin:end])
        while len(got) < end // 52:
            got += os.read(process.stdout.fileno(), 100)
    assert got == coded(X[:10])
    process.stdout.close()
    process.stdin.write(X.tobytes())
    process.stdin.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 1
    process.stderr.close()


def test_a_reader_that_does_not_read_does_not_keep_a_stream_from_stopping(
    tmp_path: Path, run: Run
) -> None:
    state = tmp_path / "state"
    options = (
        "--dim",
        13,
        "--bits",
        7,
        "--output-format",
        "jsonl",
        "--state",
        state,
        "--save-every",
        100,
    )
    process = start_stream(*options, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(np.concatenate([X, X, X, X]).tobytes())  # more codes than fit in a pipe
    while int(run("stream", "--state", state, "--position", "vectors").out) < 500:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    out, said = process.communicate()
    assert process.returncode == -signal.SIGTERM
    n_saved = int(run("stream", "--state", state, "--position", "vectors").out)
    assert (
        f"state: feed again from vector {n_saved:,} (byte {n_saved * 52:,}). Drop the codes from "
        "there on." in said.decode()
    )
    rows = [json.loads(line) for line in out.splitlines()[:n_saved]]
    assert [line["row"] for line in rows] == list(range(n_saved))


def test_news_comes_every_few_seconds_and_rewrites_itself_on_a_terminal(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.cli.streaming.news._SECONDS", 0.0)
    monkeypatch.setattr("bitkin.cli.streaming.news._SECONDS_ON_A_TERMINAL", 0.0)
    options = ("--dim", 13, "--bits", 7, "--fresh", "--state", "state", "--save-every", 200)
    lines = [
        json.loads(line)
        for line in feed(X.tobytes(), *options, "-o", "a", "--json").err.splitlines()
    ]
    assert [(line["event"], line["vectors"]) for line in lines] == [
        ("progress", 200), ("progress", 400), ("progress", 503), ("end", 503), ("saved", 503),
    ]  # fmt: skip
    assert all(
        {"vectors_per_second", "bits_flipped", "diagonal_spread"} <= set(line) for line in lines[:4]
    )
    moving = [
        json.loads(line)
        for line in feed(
            X.tobytes(), *options, "--epochs", "none", "-o", "a", "--json"
        ).err.splitlines()
    ]
    # since the last report
    assert ["variance_kept" in line for line in moving] == [False, True, True, True, False]
    with monkeypatch.context() as patch:
        patch.setattr(type(sys.stderr), "isatty", lambda self: self is sys.stderr, raising=False)
        said = feed(X.tobytes(), *options, "-o", "a").err
    assert said.count("\r\x1b[K") == 4
    assert len(said.splitlines()) >= 2
    assert "503 vectors" in said


def test_codes_for_a_terminal_must_be_text(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(type(sys.stdout), "isatty", lambda self: self is sys.stdout, raising=False)
        done = feed(npy(X), "--bits", 7)
        require_usage_error(
            done, "'--out'", "codes are bytes, not text for a terminal. Give a file, or --json."
        )
        assert feed(npy(X), "--bits", 7, "--json").code == 0
