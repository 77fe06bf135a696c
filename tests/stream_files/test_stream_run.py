"""`bitkin.StreamRun` from Python: the same files as the command writes, continued after a kill, and
what is refused.
"""

from __future__ import annotations

import io
import json
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csr_matrix

import bitkin
from bitkin.errors import ArgumentError, CorruptFileError, FileAccessError, InvalidInputError
from bitkin.stream_files import StreamPosition, StreamRun
from tests.cli.conftest import Run
from tests.cli.conftest import run as run  # a fixture
from tests.cli.streams import files_in, stdin_of, stream_in

X: npt.NDArray[np.float32] = (
    np.random.default_rng(7).standard_normal((503, 13)) * np.linspace(3, 1, 13)
).astype("f4")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def new_hasher(**options: Any) -> bitkin.ProjectionHash:
    slots: dict[str, Any] = {"projection": "opast", "rotation": "auto", "epochs": 100}
    return bitkin.ProjectionHash(7, **(slots | options))


@pytest.fixture
def command(run: Run) -> Callable[..., None]:
    """Run `bitkin stream` in this process, with these bytes on stdin."""

    def call(*arguments: object, stdin: bytes) -> None:
        with stdin_of(stdin):
            assert run("stream", *arguments).code == 0

    return call


OPTIONS = ("--dim", 13, "--bits", 7, "--epochs", 100, "-o", "codes", "--state", "state")


def test_python_and_the_command_write_the_same_files_and_continue_each_other(
    command: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("command", "python", "both"):
        Path(name).mkdir()
    monkeypatch.chdir(tmp_path / "command")
    command(*OPTIONS, "--corrections", "kept", "--metric", "ip", stdin=X.tobytes())
    monkeypatch.chdir(tmp_path / "python")
    files: dict[str, Any] = {"state": "state", "corrections": "kept", "metric": "ip"}
    with StreamRun(new_hasher(), "codes", **files) as run:
        assert not run.resumed
        assert run.encode(X) == 503
    monkeypatch.chdir(tmp_path / "both")
    command(*OPTIONS, "--corrections", "kept", "--metric", "ip", stdin=X[:200].tobytes())
    with StreamRun(new_hasher(), "codes", **files) as run:
        assert (run.resumed, run.position.n_vectors) == (True, 200)
        assert run.encode(X[200:300]) == 100
    command(*OPTIONS, "--corrections", "kept", "--metric", "ip", stdin=X[300:].tobytes())
    written = stream_in(tmp_path / "command")
    assert len(Path("kept").read_bytes()) == 503 * 8
    assert stream_in(tmp_path / "python") == stream_in(tmp_path / "both") == written


def test_a_fitted_hasher_and_the_commands_model_are_one(command: Callable[..., None]) -> None:
    hasher = new_hasher().fit(X[:100])
    hasher.save("model")
    command("-m", "model", "-o", "codes", "--state", "state", stdin=npy(X[100:300]))
    with StreamRun(hasher, "codes", state="state") as run:
        run.encode(X[300:])
    codes = hasher.sketch_stream(X[100:])  # it was copied, and has learned nothing
    assert Path("codes").read_bytes() == b"".join(part.to_bytes().tobytes() for part in codes)


def npy(array: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def json_lines(rows: npt.NDArray[Any]) -> bytes:
    return b"".join(json.dumps({"vector": row.tolist()}).encode() + b"\n" for row in rows)


def coded(rows: npt.NDArray[Any], **options: Any) -> bytes:
    parts = new_hasher(**options).sketch_stream(rows)
    return b"".join(codes.to_bytes().tobytes() for codes in parts)


@pytest.mark.parametrize(
    "vectors",
    [
        X,
        X.astype(np.float64),
        csr_matrix(X),
        [row.tolist() for row in X],
        iter(X),
        (X[i : i + 50] for i in range(0, 503, 50)),
        bitkin.io.open_vectors(X),
    ],
    ids=["float32", "float64", "csr", "lists", "vectors", "batches", "source"],
)
def test_vectors_in_memory_may_have_any_form(vectors: Any) -> None:
    with StreamRun(new_hasher(), "codes") as run:
        assert run.encode(vectors) == 503
    assert Path("codes").read_bytes() == coded(X)
    assert run.position.input_bytes == X.nbytes  # as if they had come as raw float32


@pytest.mark.parametrize(
    "data, options",
    [
        (X.tobytes(), {"dim": 13}),
        (npy(X), {}),
        (json_lines(X), {"format": "jsonl"}),
    ],
    ids=["f32", "npy", "jsonl"],
)
def test_files_may_be_paths_or_open(data: bytes, options: dict[str, Any]) -> None:
    Path("vectors").write_bytes(data)
    for n, file in enumerate(("vectors", Path("vectors"), io.BytesIO(data), OnlyRead(data))):
        with StreamRun(new_hasher(), f"codes{n}") as run:
            assert run.encode_file(file, **options) == 503  # type: ignore[arg-type]
        assert Path(f"codes{n}").read_bytes() == coded(X)


class OnlyRead:
    """A binary file that has one method."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, n: int) -> bytes:
        return self._file.read(min(n, 1000))


def test_codes_may_leave_through_a_pipe_as_they_are_made() -> None:
    out = io.BytesIO()
    with StreamRun(new_hasher(), out, state="state") as run:
        for i in range(3):
            run.encode(X[i])
            assert len(out.getvalue()) == i + 1
    again = io.BytesIO()
    with StreamRun(new_hasher(), again, state="state") as run:
        assert run.position.output_bytes == 3
        run.encode(X, from_start=True)
    assert out.getvalue() + again.getvalue() == coded(X)
    assert sorted(Path().iterdir()) == [Path("state"), Path("state.epochs")]


KILLED = """
import numpy as np, os, signal, sys, bitkin
X = np.load("X.npy")
hasher = bitkin.ProjectionHash(7, projection="opast", rotation="auto", epochs=100)

def die_at_300(n_vectors):
    if run.position.n_vectors >= 300:
        os.kill(os.getpid(), signal.SIGKILL)

run = bitkin.StreamRun(hasher, "codes", state="state", save_every=70, progress=die_at_300)
for batch in np.array_split(X, 20):
    run.encode(batch)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this platform has no SIGKILL")
def test_a_run_that_was_killed_continues_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("whole").mkdir()
    Path("apart").mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    with StreamRun(new_hasher(), "codes", state="state") as run:
        run.encode(X)
    monkeypatch.chdir(tmp_path / "apart")
    np.save("X.npy", X)
    done = subprocess.run([sys.executable, "-c", KILLED], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    Path("X.npy").unlink()
    assert Path("codes").stat().st_size >= 300
    assert StreamPosition.from_state("state").n_vectors == 280
    with StreamRun(new_hasher(), "codes", state="state") as run:
        assert run.position.n_vectors == 280
        assert Path("codes").stat().st_size == 280
        assert run.encode(X, from_start=True) == 223
    assert stream_in(tmp_path / "apart") == stream_in(tmp_path / "whole")


def test_an_error_of_the_producer_keeps_what_came_before() -> None:
    def vectors() -> Any:
        yield X[:100]
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError), StreamRun(new_hasher(), "codes", state="state") as run:
        run.encode(vectors())
    assert StreamPosition.from_state("state").n_vectors == 100
    with StreamRun(new_hasher(), "codes", state="state") as run:
        run.encode(X[100:])
    assert Path("codes").read_bytes() == coded(X)


def test_where_writing_fails_the_run_must_be_opened_again() -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            if len(self.getvalue()) >= 100:
                raise OSError("no space left")
            return super().write(data)

    out = Full()
    with StreamRun(new_hasher(), out, state="state", save_every=50) as run:
        run.encode(X[:100])
        with pytest.raises(OSError, match="no space left"):
            run.encode(X[100:])
        assert not run.whole
        with pytest.raises(InvalidInputError, match="Open it again with StreamRun"):
            run.encode(X[100:])
        with pytest.raises(InvalidInputError, match="Open it again with StreamRun"):
            run.save()
    assert StreamPosition.from_state("state").n_vectors == 100
    more = io.BytesIO()
    with StreamRun(new_hasher(), more, state="state") as run:
        run.encode(X[100:])
    assert out.getvalue()[:100] + more.getvalue() == coded(X)


def test_an_epoch_begins_on_request_and_is_saved() -> None:
    def requesting(n_vectors: int) -> None:
        if stream.position.n_vectors == 300:
            assert stream.begin_epoch() == (True, 300, None)
            assert stream.begin_epoch() == (False, 300, "nothing learned")

    stream = StreamRun(
        new_hasher(epochs="request"), "codes", state="state", save_every=300, progress=requesting
    )
    assert stream.begin_epoch() == (False, 0, "no vectors")
    stream.encode(X[:400])
    assert stream.saved.n_vectors == 300
    stream.close()
    stream.close()
    hasher = new_hasher(epochs="request")
    codes = list(hasher.sketch_stream(X[:300]))
    hasher.new_epoch()
    codes += hasher.sketch_stream(X[300:400])
    assert Path("codes").read_bytes() == b"".join(part.to_bytes().tobytes() for part in codes)
    with StreamRun(new_hasher(epochs=None), "moving") as moving:
        assert moving.begin_epoch() == (False, 0, "no epochs")
    with pytest.raises(InvalidInputError, match="is closed"):
        stream.encode(X)


def test_a_vector_that_is_not_finite_is_skipped_with_a_warning_or_an_error() -> None:
    rows = X.copy()
    rows[[3, 9]] = np.nan
    with StreamRun(new_hasher(), "codes") as run:
        with pytest.warns(UserWarning, match=r"vector 3 is not finite.*strict=True makes") as said:
            assert run.encode(rows) == 503
        assert len(said) == 1
        assert said[0].filename == __file__
    assert run.hasher.n_skipped_ == 2
    seen: list[int] = []
    with StreamRun(new_hasher(), "other", on_skip=lambda row, text: seen.append(row)) as run:
        run.encode(rows)
    assert seen == [3]
    run = StreamRun(new_hasher(), "third", state="state", strict=True)
    with run, pytest.raises(InvalidInputError, match=r"vectors: vector 3 of the stream is not fin"):
        run.encode(rows)
    assert StreamPosition.from_state("state").n_vectors == 3


def test_what_is_no_stream_of_vectors_is_named() -> None:
    with StreamRun(new_hasher(), "codes") as run:
        for vectors, says in (
            ("vectors.npy", "vectors must be an array.*got str. Read a file by encode_file"),
            (3, "vectors must be an array.*got int"),
            (np.zeros((2, 3, 4)), r"vectors must be vectors .* got \(2, 3, 4\)"),
            (X.astype(complex), "vectors must hold integers or floats"),
            ([["a", "b"]], "vectors must hold integers or floats.*text"),
            (np.ma.masked_less(X, 0), "vectors has masked entries"),
        ):
            with pytest.raises(InvalidInputError, match=says):
                run.encode(vectors)
        assert run.whole
        run.encode(X[:50])
        with pytest.raises(InvalidInputError, match="vectors of 13 numbers, as the model has, got"):
            run.encode(X[:, :12])
        assert run.encode(X[50:]) == 453
    assert Path("codes").read_bytes() == coded(X)


def test_a_file_that_is_none_is_named() -> None:
    Path("text").write_text("[1, 2]")
    with StreamRun(new_hasher(), "codes") as run:
        with pytest.raises(FileAccessError, match="no-such cannot be read: No such file"):
            run.encode_file("no-such")
        with pytest.raises(InvalidInputError, match="file must be a path or a binary file, got i"):
            run.encode_file(3)  # type: ignore[arg-type]
        with (
            Path("text").open() as file,
            pytest.raises(InvalidInputError, match="must be open in binary mode"),
        ):
            run.encode_file(file)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="dim is missing"):
            run.encode_file(io.BytesIO(X.tobytes()))
        with pytest.raises(InvalidInputError, match="format must be one of 'auto', 'f32'"):
            run.encode_file(io.BytesIO(), format="csv")
        with pytest.raises(InvalidInputError, match="dim must be between 1 and"):
            run.encode_file(io.BytesIO(), dim=0)
        with pytest.raises(CorruptFileError, match="file ends in the middle of a vector"):
            run.encode_file(io.BytesIO(X.tobytes()[:-1]), dim=13)
        assert run.position.n_vectors == 502


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"out": None}, "out must be a path or a binary file, got None"),
        ({"out": 3}, "out must be a path or a binary file, got int"),
        ({"out": io.StringIO()}, "out must be open in binary mode"),
        ({"state": 3}, "state must be a path, got int"),
        ({"state": "codes"}, "^state: codes is also given to out"),
        ({"save_every": 5}, "^save_every: means nothing without state"),
        ({"state": "state", "save_every": 0}, "save_every must be at least 1"),
        ({"metric": "l2"}, "^metric: means nothing without corrections"),
        ({"corrections": "kept", "metric": "l1"}, "metric must be one of 'l2'"),
        ({"output_format": "csv"}, "output_format must be one of 'raw', 'jsonl'"),
        (
            {"hasher": new_hasher(epochs=None), "corrections": "kept"},
            "^corrections: needs epochs: .* Leave out epochs=None",
        ),
        ({"hasher": bitkin.ProjectionHash(7)}, "hasher must be a ProjectionHash that keeps learn"),
        ({"hasher": bitkin.MinHash()}, "hasher must be a ProjectionHash that keeps learning"),
        (
            {"hasher": new_hasher(projection=bitkin.projections.OPAST(forgetting=2))},
            "forgetting must be",
        ),
    ],
)
def test_arguments_that_cannot_be_are_named_before_any_file_is_made(
    arguments: dict[str, Any], says: str
) -> None:
    given = {"hasher": new_hasher(), "out": "codes"} | arguments
    with pytest.raises(InvalidInputError, match=says):
        StreamRun(**given)
    assert files_in(Path()) == {}


def test_from_start_needs_a_state() -> None:
    with (
        StreamRun(new_hasher(), "codes") as run,
        pytest.raises(ArgumentError, match=r"^from_start: means nothing without state") as said,
    ):
        run.encode(X, from_start=True)
    again = pickle.loads(pickle.dumps(said.value))
    assert (again.argument, again.reason, str(again)) == (
        "from_start",
        "means nothing without state.",
        str(said.value),
    )


def test_another_hasher_does_not_continue_a_state() -> None:
    with StreamRun(new_hasher(), "codes", state="state") as run:
        run.encode(X)
    before = files_in(Path())
    for other, says in (
        (new_hasher(random_state=3), "random_state was 0, now it is 3"),
        (new_hasher(projection="frequent-directions"), "projection was opast, now it is frequent"),
        (
            new_hasher(projection=bitkin.projections.FrequentDirections(sketch_size=50)),
            r"now it is frequent-directions\(sketch_size=50\)",
        ),
        (new_hasher().fit(X), "n_bits was 7, now it is absent.*hasher was absent, now it is"),
    ):
        with pytest.raises(InvalidInputError, match=says) as said:
            StreamRun(other, "codes", state="state")
        assert "Give the same arguments, another state, or fresh=True." in str(said.value)
    with pytest.raises(InvalidInputError, match="Give the state of the run that began it"):
        StreamRun(new_hasher(), "codes")
    assert files_in(Path()) == before
    with StreamRun(new_hasher(), "codes", state="state", fresh=True) as run:
        assert run.encode(X[:9]) == 9
    assert Path("codes").read_bytes() == coded(X)[:9]


def test_a_slot_given_by_name_and_as_an_object_is_the_same() -> None:
    with StreamRun(new_hasher(rotation="unifdiag"), "codes", state="state") as run:
        run.encode(X[:99])
    objects = {"projection": bitkin.projections.OPAST(), "rotation": bitkin.rotations.UnifDiag()}
    with StreamRun(new_hasher(**objects, refresh=np.int64(100)), "codes", state="state") as run:
        run.encode(X[99:])
    assert Path("codes").read_bytes() == coded(X, rotation="unifdiag")


def test_a_second_run_beside_an_open_one_is_refused() -> None:
    with StreamRun(new_hasher(), "codes", state="state") as run:
        run.encode(X[:100])
        run.save()
        with pytest.raises(FileAccessError, match="codes is being written by another process"):
            StreamRun(new_hasher(), "codes", state="state")
        run.encode(X[100:])
    assert Path("codes").read_bytes() == coded(X)


def test_no_file_stays_open_where_a_run_is_refused() -> None:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("open files are counted in /proc")
    Path("no").touch()
    before = len(list(folder.iterdir()))
    for _ in range(3):
        with pytest.raises(FileAccessError):
            StreamRun(new_hasher(), "codes", corrections="no/such", fresh=True)
    assert len(list(folder.iterdir())) == before
