"""The same input again after a stop or after the end: nothing is coded twice, nothing is lost."""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.stream_files import StreamPosition, StreamRun
from bitkin.stream_files.state import load_state

Floats = npt.NDArray[np.float32]

X: Floats = (np.random.default_rng(8).standard_normal((300, 9)) * np.linspace(3, 1, 9)).astype("f4")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def open_run(**options: Any) -> StreamRun:
    hasher = bitkin.ProjectionHash(5, projection="opast", rotation="unifdiag", epochs=100)
    options = {"on_repeat": lambda n_vectors, text: None, **options}
    return StreamRun(hasher, "codes", state="state", **options)


def coded(rows: Floats) -> bytes:
    hasher = bitkin.ProjectionHash(5, projection="opast", rotation="unifdiag", epochs=100)
    return b"".join(codes.to_bytes().tobytes() for codes in hasher.sketch_stream(rows))


def feed_file(data: bytes, name: str = "vectors", **options: Any) -> tuple[int, int]:
    """Write a file and feed it as a new run; return vectors coded and passed over."""
    Path(name).write_bytes(data)
    with open_run() as run:
        return run.encode_file(name, dim=9, **options), run.n_repeated


def as_npy(rows: Floats) -> bytes:
    file = io.BytesIO()
    np.save(file, rows)
    return file.getvalue()


def as_lines(rows: Floats) -> bytes:
    return b"".join(json.dumps(row.tolist()).encode() + b"\n" for row in rows)


@pytest.mark.parametrize("n_first", [1, 7, 16, 17, 120, 299, 300])
def test_a_file_fed_again_continues_where_it_was_and_may_have_grown(n_first: int) -> None:
    assert feed_file(X[:n_first].tobytes()) == (n_first, 0)
    assert feed_file(X[:n_first].tobytes()) == (0, n_first)
    assert feed_file(X.tobytes()) == (300 - n_first, n_first)
    assert feed_file(X.tobytes()) == (0, 300)
    assert Path("codes").read_bytes() == coded(X)
    assert StreamPosition.from_state("state").input_bytes == X.nbytes


@pytest.mark.parametrize("again", [as_npy, as_lines], ids=["npy", "jsonl"])
def test_a_stream_that_begins_again_in_another_format_is_recognized(again: Any) -> None:
    feed_file(X[:120].tobytes())
    with open_run() as run:
        assert run.encode_file(io.BytesIO(again(X))) == 180
    assert Path("codes").read_bytes() == coded(X)


@pytest.mark.parametrize("n", [1, 5, 50])
def test_a_producer_that_starts_again_is_passed_over_batch_by_batch(n: int) -> None:
    with open_run() as run:
        run.encode(X[:120])
    with open_run() as run:
        written = [run.encode(X[i : i + n]) for i in range(0, 300, n)]
        assert sum(written) == 180
        assert run.n_repeated == 120
    assert Path("codes").read_bytes() == coded(X)


def test_vectors_that_continue_are_held_back_only_while_they_repeat_the_first_ones() -> None:
    rows = X.copy()
    rows[120:123] = rows[:3]
    with open_run() as run:
        run.encode(rows[:120])
    with open_run() as run:
        assert [run.encode(row) for row in rows[120:125]] == [0, 0, 0, 4, 1]
        assert (run.n_repeated, run.n_awaited) == (0, 0)
        run.encode(rows[125:])
    assert Path("codes").read_bytes() == coded(rows)


def test_the_last_input_is_recognized_when_it_comes_again() -> None:
    feed_file(X[:120].tobytes(), "monday")
    assert feed_file(X[120:200].tobytes(), "tuesday") == (80, 0)
    assert feed_file(X[120:280].tobytes(), "tuesday") == (80, 80)
    assert feed_file(X[120:280].tobytes(), "tuesday") == (0, 160)
    with open_run() as run:
        assert run.encode(X) == 20
        assert run.n_repeated == 280
    assert Path("codes").read_bytes() == coded(X)


def test_a_short_last_input_is_not_taken_for_the_stream_that_begins_like_it() -> None:
    rows = X.copy()
    rows[120:123] = rows[:3]
    with open_run() as run:
        run.encode(rows[:120])
    with open_run() as run:
        assert run.encode(rows[120:123], from_start=False) == 3
    with open_run() as run:
        with pytest.raises(InvalidInputError, match="begins with 3 vectors that the state has"):
            run.encode(rows[120:200])  # those of the last input, or the same three again
        assert run.encode(rows[123:200], from_start=False) == 77
    with open_run() as run:
        assert run.encode(rows) == 100
    assert Path("codes").read_bytes() == coded(rows)


def test_a_file_that_was_changed_is_refused() -> None:
    feed_file(X[:120].tobytes())
    before, codes = Path("state").read_bytes(), Path("codes").read_bytes()
    for row in (0, 5, 15, 16, 60, 119):
        changed = X.copy()
        changed[row, 3] += 1
        for from_start in (None, True):
            with pytest.raises(InvalidInputError, match="the state has taken 120 other") as said:
                feed_file(changed.tobytes(), from_start=from_start)
            assert "say so with from_start=False" in str(said.value)
            assert "begin again with fresh=True" in str(said.value)
        assert (Path("state").read_bytes(), Path("codes").read_bytes()) == (before, codes)
    assert feed_file(changed.tobytes(), from_start=False) == (300, 0)
    assert Path("codes").read_bytes() == coded(np.concatenate([X[:120], changed]))


def test_a_refused_input_leaves_a_run_that_takes_the_right_one() -> None:
    with open_run() as run:
        run.encode(X[:120])
    changed = X.copy()
    changed[60] = 0
    with open_run() as run:
        with pytest.raises(InvalidInputError, match="begins as before, and then differs"):
            run.encode(changed)
        assert run.encode(X) == 180
    assert Path("codes").read_bytes() == coded(X)


def test_input_that_ends_before_anything_new_is_said() -> None:
    with open_run() as run:
        run.encode(X[:120])
    run = open_run()
    assert run.encode(X[:50]) == 0
    assert run.n_awaited == 70
    with pytest.warns(UserWarning, match="has 50 vectors, the first of those .* ends 70 before"):
        run.close()
    assert Path("codes").read_bytes() == coded(X[:120])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with open_run() as run:
            assert run.encode(X[:50], from_start=False) == 50
        with open_run() as run:
            run.encode(np.empty((0, 9)))


def test_a_state_of_an_earlier_bitkin_does_not_guess_about_files() -> None:
    """It did not note what it read: version 2."""
    feed_file(X[:120].tobytes())
    hasher, position, settings, _ = load_state(Path("state"))
    assert hasher is not None
    record = {"version": 2, "position": _as_json(position), "options": settings}
    from bitkin.hashers.projection.files import save_hasher

    save_hasher(hasher, Path("state"), {"stream": record})
    old = Path("state").read_bytes()
    with pytest.raises(InvalidInputError, match="does not say what an earlier bitkin has read"):
        feed_file(X.tobytes())
    assert feed_file(X[:200].tobytes(), from_start=True) == (80, 120)
    assert feed_file(X.tobytes()) == (100, 200)
    assert Path("codes").read_bytes() == coded(X)
    Path("state").write_bytes(old)
    with open_run() as run:
        assert run.encode(X[120:200]) == 80  # what continues, as ever
    with open_run() as run:
        assert run.encode(X[120:]) == 100
    assert Path("codes").read_bytes() == coded(X)


def _as_json(position: StreamPosition) -> dict[str, Any]:
    return {name: getattr(position, name) for name in position.__slots__}


@pytest.mark.parametrize(
    "forge",
    [
        lambda taken: taken.pop("source"),
        lambda taken: taken.update(source=3),
        lambda taken: taken.update(stream=[]),
        lambda taken: taken["stream"].update(n_vectors=121),
        lambda taken: taken["stream"].update(checksum=-1),
        lambda taken: taken["stream"].update(head=[1.5] * 16),
        lambda taken: taken["stream"]["head"].pop(),
        lambda taken: taken.update(last={"n_vectors": 1, "checksum": 0, "head": []}),
    ],
)
def test_a_state_whose_record_of_inputs_cannot_be_is_refused(forge: Any) -> None:
    feed_file(X[:120].tobytes())
    hasher, position, settings, taken = load_state(Path("state"))
    assert hasher is not None
    record = taken.to_record()
    forge(record)
    from bitkin.hashers.projection.files import save_hasher

    kept = {"version": 3, "position": _as_json(position), "options": settings, "taken": record}
    save_hasher(hasher, Path("state"), {"stream": kept})
    with pytest.raises(CorruptFileError, match="has a position that cannot be"):
        load_state(Path("state"))


@pytest.mark.parametrize("n", [1, 2, 15])
def test_few_vectors_that_come_again_are_not_passed_over_in_silence(n: int) -> None:
    with open_run() as run:
        run.encode(X[:120])
    with open_run() as run:
        run.encode(X[120 : 120 + n])
    before, codes = Path("state").read_bytes(), Path("codes").read_bytes()
    for more in (0, 1):
        with open_run() as run, pytest.raises(InvalidInputError) as said:
            run.encode(X[120 : 120 + n + more])
        assert "say so with from_start=False" in str(said.value)
        assert "with from_start=True" in str(said.value)
    with open_run() as run, pytest.raises(InvalidInputError, match="nothing was coded"):
        run.encode_file(io.BytesIO(X[120 : 120 + n].tobytes()), dim=9)
    assert (Path("state").read_bytes(), Path("codes").read_bytes()) == (before, codes)
    with open_run() as run:
        assert run.encode(X[120 : 120 + n], from_start=False) == n
    rows = np.concatenate([X[: 120 + n], X[120 : 120 + n]])
    assert Path("codes").read_bytes() == coded(rows)
    with open_run() as run:
        assert (run.encode(np.concatenate([rows, X[:3]]), from_start=True), run.n_repeated) == (
            3,
            120 + 2 * n,
        )


@pytest.mark.parametrize("n_kinds", [1, 2])
def test_a_stream_of_hardly_any_different_vectors_does_not_guess(n_kinds: int) -> None:
    still = np.tile(X[:n_kinds], (30, 1))
    assert feed_file(still.tobytes()) == (len(still), 0)
    with open_run() as run, pytest.raises(InvalidInputError, match="too much alike"):
        run.encode(still)
    assert feed_file(still.tobytes()) == (0, len(still))  # the very same file
    with open_run() as run:
        assert run.encode(still, from_start=False) == len(still)


def test_vectors_that_only_seem_to_come_again_are_passed_over_with_a_warning() -> None:
    with open_run(on_repeat=None) as run:
        run.encode(X[:120])
    with open_run(on_repeat=None) as run:
        with pytest.warns(UserWarning, match="first 120 vectors were coded before") as said:
            assert run.encode(X[:150]) == 30
        assert said[0].filename == __file__
        assert run.encode(X[150:200]) == 50  # once
    with open_run(on_repeat=None) as run:
        assert run.encode(X, from_start=True) == 100  # as told: no warning
    assert Path("codes").read_bytes() == coded(X)
