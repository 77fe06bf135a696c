"""State files that cannot be trusted are refused, whatever is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import ProjectionHash
from bitkin.errors import CorruptFileError
from bitkin.hashers import projection_file
from bitkin.hashers.streams import state
from tests.hashers.streams.data import live, turning

Tensors = dict[str, Any]


def test_a_file_cut_short_or_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live().partial_fit(turning(300)).save(tmp_path / "state")
    data = (tmp_path / "state").read_bytes()
    for length in (0, 7, 100, len(data) // 2, len(data) - 1):
        (tmp_path / "cut").write_bytes(data[:length])
        with pytest.raises(CorruptFileError):
            bitkin.load(tmp_path / "cut")
    monkeypatch.setattr(state, "_VERSION", 2)
    with pytest.raises(CorruptFileError, match="stream of version 1, and this bitkin reads 2"):
        bitkin.load(tmp_path / "state")


def refused(hasher: ProjectionHash, forge: Callable[[Tensors], Tensors], words: str, path: Path) -> None:
    """Write the hasher's file with other tensors of its stream, and see that it is not believed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection_file, "live_tensors", lambda model: forge(state.live_tensors(model)))
        hasher.save(path)
    with pytest.raises(CorruptFileError, match=words):
        bitkin.load(path)


def telling(**changes: Any) -> Callable[[Tensors], Tensors]:
    """Change what the JSON says; a name `tracker_x` is x of the tracker, and ... takes the entry away."""

    def forge(tensors: Tensors) -> Tensors:
        told = json.loads(tensors["stream.state"].tobytes())
        for name, value in changes.items():
            inner, name = (told["tracker"], name[8:]) if name.startswith("tracker_") else (told, name)
            inner[name] = value
            if value is ...:
                del inner[name]
        return tensors | {"stream.state": np.frombuffer(json.dumps(told).encode(), dtype=np.uint8)}

    return forge


def with_tensor(name: str, tensor: Any) -> Callable[[Tensors], Tensors]:
    """Replace a tensor, or take it away."""
    return lambda tensors: {k: v for k, v in (tensors | {name: tensor}).items() if v is not None}


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
        (with_tensor("stream.epoch", np.full((13, 5), np.nan, np.float32)), "not finite"),
        (with_tensor("stream.epoch_mean", None), "lacks the tensor stream.epoch_mean"),
        (with_tensor("stream.probe", np.zeros((15, 13), np.float32)), "has a tensor stream.probe"),
        (with_tensor("stream.other", np.zeros(3)), "tensors that do not belong there: stream.other"),
    ],
)
def test_impossible_streams_are_refused(forge: Callable[[Tensors], Tensors], words: str, tmp_path: Path) -> None:
    refused(live().partial_fit(turning(300)), forge, words, tmp_path / "bad")


def test_more_vectors_held_back_than_there_is_room_for_are_refused(tmp_path: Path) -> None:
    held = np.zeros((8, 13), dtype=np.float32)

    def forge(tensors: Tensors) -> Tensors:
        return telling(tracker_n_held=8)(tensors) | {"stream.tracker.held": held}

    refused(live().partial_fit(turning(3)), forge, "n_held must be between 0 and 7, got 8", tmp_path / "bad")
    chunks = live(projection=bitkin.projections.FrequentDirections(chunk_rows=8)).partial_fit(turning(3))
    refused(chunks, with_tensor("stream.tracker.held", held), "holds back more vectors", tmp_path / "bad")
    refused(chunks, telling(tracker_sketch_size=10**12), "sketch_size is not that of", tmp_path / "bad")


def test_a_stream_in_the_file_of_a_hasher_that_follows_none_is_refused(tmp_path: Path) -> None:
    tensors = state.live_tensors(live().partial_fit(turning(300))._live)
    refused(ProjectionHash(5).fit(turning(300)), lambda _: tensors, "impossible stream", tmp_path / "bad")
