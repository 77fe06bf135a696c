"""State files that cannot be trusted are refused, whatever is wrong with them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import ProjectionHash
from bitkin.errors import CorruptFileError
from bitkin.hashers.projection import files as projection_file
from bitkin.hashers.projection.streams import state
from bitkin.io.writer import write_file
from bitkin.kernels.hashing import streaming
from tests.hashers.streams.data import live, turning

Tensors = dict[str, Any]


def test_a_file_cut_short_or_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live().partial_fit(turning(300)).save(tmp_path / "state")
    data = (tmp_path / "state").read_bytes()
    for length in (0, 7, 100, len(data) // 2, len(data) - 1):
        (tmp_path / "cut").write_bytes(data[:length])
        with pytest.raises(CorruptFileError):
            bitkin.load(tmp_path / "cut")
    monkeypatch.setattr(state, "_VERSION", 3)
    with pytest.raises(CorruptFileError, match="stream of version 2, and this bitkin reads 3"):
        bitkin.load(tmp_path / "state")


def refused(
    hasher: ProjectionHash, forge: Callable[[Tensors], Tensors], words: str, path: Path
) -> None:
    """Write the hasher's file with other tensors of its stream, and see that it is not believed."""

    def write_forged(
        path: Path, name: str, parameters: Any, fingerprint: str, tensors: Tensors
    ) -> None:
        own = {name: tensor for name, tensor in tensors.items() if name.startswith("stream.")}
        rest = {name: tensor for name, tensor in tensors.items() if name not in own}
        write_file(path, name, parameters, fingerprint, rest | forge(own))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection_file, "write_file", write_forged)
        hasher.save(path)
    with pytest.raises(CorruptFileError, match=words):
        bitkin.load(path)


def telling(**changes: Any) -> Callable[[Tensors], Tensors]:
    """Change what the JSON says; a name `tracker_x` is x of the tracker, and ... takes the entry
    away.
    """

    def forge(tensors: Tensors) -> Tensors:
        told = json.loads(tensors["stream.state"].tobytes())
        for name, value in changes.items():
            inner, name = (
                (told["tracker"], name[8:]) if name.startswith("tracker_") else (told, name)
            )
            inner[name] = value
            if value is ...:
                del inner[name]
        return tensors | {"stream.state": np.frombuffer(json.dumps(told).encode(), dtype=np.uint8)}

    return forge


def with_tensor(name: str, tensor: Any) -> Callable[[Tensors], Tensors]:
    """Replace a tensor, or take it away."""
    return lambda tensors: {k: v for k, v in (tensors | {name: tensor}).items() if v is not None}


def changing(name: str, place: tuple[int, ...], value: float) -> Callable[[Tensors], Tensors]:
    """Change one number of a tensor."""

    def forge(tensors: Tensors) -> Tensors:
        changed = tensors[name].copy()
        changed[place] = value
        return tensors | {name: changed}

    return forge


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (telling(refresh=0), "impossible stream: refresh must be"),
        (telling(epochs="daily"), "impossible stream: epochs must be"),
        (telling(epochs=...), "impossible stream"),
        (telling(n_epochs=-1), "impossible stream: n_epochs must be"),
        (telling(n_skipped=1.5), "impossible stream: n_skipped must be"),
        (telling(version=...), "stream of version None"),
        (telling(tracker=[]), "impossible stream: a tracker has the numbers"),
        (telling(tracker_forgetting=0.5), "forgetting is not that of the projection"),
        (telling(tracker_n_held=...), "a tracker has the numbers"),
        (with_tensor("stream.state", np.frombuffer(b"[1, 2]", dtype=np.uint8)), "not JSON"),
        (with_tensor("stream.state", np.frombuffer(b"{{", dtype=np.uint8)), "not JSON"),
        (with_tensor("stream.state", None), "tensors that do not belong there"),
        (with_tensor("stream.tracker.mean", None), "lacks the tensor stream.tracker.mean"),
        (with_tensor("stream.tracker.mean", np.zeros(14)), "has a tensor stream.tracker.mean"),
        (with_tensor("stream.tracker.mean", np.full(13, np.nan)), "mean is not finite"),
        (
            with_tensor("stream.tracker.directions", np.zeros((13, 4), np.float32)),
            "has a tensor stream.tracker.directions",
        ),
        (with_tensor("stream.turn", None), "lacks the tensor stream.turn"),
        (with_tensor("stream.turn", np.eye(4)), "has a tensor stream.turn"),
        (with_tensor("stream.epoch", None), "lacks the tensor stream.epoch"),
        (
            with_tensor("stream.epoch", np.full((13, 5), np.nan, np.float32)),
            "impossible model: .* not finite",
        ),
        (with_tensor("stream.epoch_mean", None), "lacks the tensor stream.epoch_mean"),
        (with_tensor("stream.probe", np.zeros((15, 13), np.float32)), "has a tensor stream.probe"),
        (telling(warming_up="no"), "impossible stream: warming_up must be true or false, got 'no'"),
        (
            telling(captured_at_start=float("nan")),
            "impossible stream: captured_at_start must be a share, got nan",
        ),
        (telling(captured_at_start=-1.0), "captured_at_start must be a share"),
        (telling(epoch_start=301), "epoch_start must be between 0 and 300, got 301"),
        (telling(n_epochs=10**30), "n_epochs must be between 0 and"),
        (telling(n_skipped=10**30), "n_skipped must be between 0 and"),
        (
            with_tensor("stream.turn", np.full((5, 5), np.nan)),
            "stream.turn must have orthonormal columns",
        ),
        (with_tensor("stream.turn", np.zeros((5, 5))), "stream.turn must have orthonormal columns"),
        (
            with_tensor("stream.probe", np.full((16, 13), np.nan, np.float32)),
            "stream.probe must be finite",
        ),
        (
            with_tensor("stream.tracker.inverse", np.zeros((5, 5))),
            "inverse must have a diagonal above zero",
        ),
        (
            with_tensor("stream.tracker.inverse", np.full((5, 5), 1e300)),
            "inverse must be finite and below 1e",
        ),
        (
            with_tensor("stream.tracker.moment", np.full((5, 5), -1e300)),
            "moment must be finite and below 1e",
        ),
        (
            with_tensor("stream.tracker.directions", np.zeros((13, 5), np.float32)),
            "directions must have orthonormal",
        ),
        (
            with_tensor("stream.tracker.counts", np.array([2**63 - 1, 0])),
            "seen vectors must be between 0 and",
        ),
        (
            with_tensor("stream.tracker.counts", np.array([-1, 0])),
            "seen vectors must be between 0 and",
        ),
        (
            with_tensor("stream.tracker.counts", np.array([300, 301])),
            "clipped vectors must be between 0 and 300",
        ),
        (
            with_tensor("stream.tracker.mean", np.full(13, 0.25)),
            "stream.tracker.mean must be the mean of the model",
        ),
        (
            with_tensor("stream.tracker.directions", np.eye(13, 5, dtype=np.float32)),
            "stream.tracker.directions must be those of the model",
        ),
        (
            with_tensor("stream.turn", np.eye(5)[::-1]),
            "stream.tracker.directions must be those of the model",
        ),
        (changing("stream.tracker.inverse", (0, 1), 0.5), "inverse must be symmetric"),
        (changing("stream.tracker.moment", (3, 2), -7.0), "moment must be symmetric"),
        (
            changing("stream.tracker.recent", (4, 4), -1.0),
            "recent must be symmetric and have no negative",
        ),
        (
            with_tensor("stream.tracker.moment", np.eye(5) - 0.5),
            "moment must .* no negative eigenvalue",
        ),
        (
            with_tensor("stream.tracker.inverse", np.eye(5) - 0.5),
            "inverse must .* no negative eigenvalue",
        ),
        (
            with_tensor("stream.tracker.recent", 1 - np.eye(5)),
            "recent must .* no negative eigenvalue",
        ),
        (
            with_tensor("stream.other", np.zeros(3)),
            "tensors that do not belong there: stream.other",
        ),
    ],
)
def test_impossible_streams_are_refused(
    forge: Callable[[Tensors], Tensors], words: str, tmp_path: Path
) -> None:
    refused(live().partial_fit(turning(300)), forge, words, tmp_path / "bad")


def test_more_vectors_held_back_than_there_is_room_for_are_refused(tmp_path: Path) -> None:
    held = np.zeros((8, 13), dtype=np.float32)

    def forge(tensors: Tensors) -> Tensors:
        return telling(tracker_n_held=8)(tensors) | {"stream.tracker.held": held}

    refused(
        live().partial_fit(turning(3)),
        forge,
        "n_held must be between 0 and 7, got 8",
        tmp_path / "bad",
    )
    chunks = live(projection=bitkin.projections.FrequentDirections(chunk_rows=8)).partial_fit(
        turning(3)
    )
    refused(
        chunks,
        with_tensor("stream.tracker.held", held),
        "holds back more vectors",
        tmp_path / "bad",
    )
    refused(
        chunks, telling(tracker_sketch_size=10**12), "sketch_size is not that of", tmp_path / "bad"
    )


@pytest.mark.parametrize("name", ["inverse", "moment", "recent"])
def test_a_stream_that_has_learned_nothing_knows_nothing(name: str, tmp_path: Path) -> None:
    forge = changing(f"stream.tracker.{name}", (0, 1), 0.5)
    refused(
        live().partial_fit(turning(3)),
        forge,
        f"{name} must be zero where nothing",
        tmp_path / "bad",
    )


def test_what_a_long_stream_of_one_direction_leaves_behind_is_believed(tmp_path: Path) -> None:
    for forgetting in (1.0, 0.9):
        hasher = live(projection=bitkin.projections.OPAST(forgetting)).partial_fit(turning(50))
        along = np.outer(np.random.default_rng(0).standard_normal(30_000), np.arange(13.0)).astype(
            np.float32
        )
        hasher.partial_fit(along)
        hasher.save(tmp_path / "state")
        assert bitkin.load(tmp_path / "state").n_seen_ == 30_050


def test_a_stream_in_the_file_of_a_hasher_that_follows_none_is_refused(tmp_path: Path) -> None:
    tensors = state.tensors_of_stream(live().partial_fit(turning(300)).stream_)
    refused(
        ProjectionHash(5).fit(turning(300)),
        lambda _: tensors,
        "impossible stream",
        tmp_path / "bad",
    )


@pytest.mark.parametrize("place", range(streaming.N_NUMBERS))
@pytest.mark.parametrize("value", [-1.0, 0.0, 1e300, np.nan])
def test_impossible_numbers_of_a_tracker_are_refused(
    place: int, value: float, tmp_path: Path
) -> None:
    if value == 0 and place in (streaming.TOTAL, streaming.RECENT_TOTAL):
        return  # which equal vectors have

    def forge(tensors: Tensors) -> Tensors:
        numbers = tensors["stream.tracker.numbers"].copy()
        numbers[place] = value
        return tensors | {"stream.tracker.numbers": numbers}

    refused(live().partial_fit(turning(300)), forge, "numbers (must|is not)", tmp_path / "bad")


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (telling(tracker_n=float("inf")), "n must be a whole number, got inf"),
        (telling(tracker_n=1e300), "n must be a whole number"),
        (telling(tracker_n="7"), "n must be a whole number, got '7'"),
        (telling(tracker_n=-5), "n must be between 0 and"),
        (telling(tracker_n=10**30), "n must be between 0 and"),
        (telling(tracker_total=float("nan")), "total must be finite"),
        (telling(tracker_total=-1.0), "total must be finite and not negative, got -1.0"),
        (telling(tracker_total="x"), "impossible stream: .*'x'"),
        (telling(tracker_total=None), "impossible stream"),
        (telling(tracker_chunk_rows=8.0), "chunk_rows must be a whole number, got 8.0"),
        (
            with_tensor("stream.tracker.sketch", np.zeros((41, 13))),
            "rows of the sketch must be between 0 and 40",
        ),
        (
            with_tensor("stream.tracker.sketch", np.full((6, 13), 1e300)),
            "sketch must be finite and below 1e",
        ),
        (
            with_tensor("stream.tracker.start", np.zeros((13, 5), np.float32)),
            "start must have orthonormal columns",
        ),
    ],
)
def test_impossible_sketches_are_refused(
    forge: Callable[[Tensors], Tensors], words: str, tmp_path: Path
) -> None:
    chunks = live(projection=bitkin.projections.FrequentDirections(chunk_rows=8)).partial_fit(
        turning(50)
    )
    refused(chunks, forge, words, tmp_path / "bad")


@pytest.mark.parametrize("name", ["sketch_size", "chunk_rows"])
def test_sizes_that_fit_no_memory_are_refused_before_anything_is_made(
    name: str, tmp_path: Path
) -> None:
    projection = bitkin.projections.FrequentDirections(sketch_size=20, chunk_rows=8)
    chunks = live(projection=projection).partial_fit(turning(50))
    setattr(chunks.recipe_.projection, name, 10**13)
    refused(
        chunks,
        telling(**{f"tracker_{name}": 10**13}),
        "impossible stream: .*fit in memory",
        tmp_path / "bad",
    )


@pytest.mark.parametrize("n", [1, 7, 8, 31, 32, 500])
def test_the_whole_state_is_below_400_kilobytes_at_any_time(n: int) -> None:
    X = np.random.default_rng(0).standard_normal((n, 960), dtype=np.float32)
    for rows in (X, np.ones_like(X)):
        hasher = live(32).partial_fit(rows)
        list(hasher.sketch_stream(rows[:1]))
        assert len(pickle.dumps(hasher)) < 400_000
