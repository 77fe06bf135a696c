"""The state of a stream in a file, so that it continues to the last bit as if nothing had happened.

The file of a hasher that follows a stream holds the current model, as any hasher's, and beside it
tensors whose names begin with `stream.`: arrays of the tracker, the rotation, the epoch, the probe,
and `stream.state`, which is JSON.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.checks import whole_number
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.hashers.projection.learning import ModelRecipe, check_epochs
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.hashers.projection.streams.probe import PROBE_ROWS, Probe
from bitkin.hashers.projection.streams.stream import Stream
from bitkin.hashers.projection.trackers import Tracker
from bitkin.hashers.projection.trackers.base import require_orthonormal
from bitkin.io.layout import damaged

if TYPE_CHECKING:
    from bitkin.io.reader import StoredFile

_VERSION = 2
_LARGEST_COUNT = 2**62
# products of orthonormal directions in float32 are nearer than this, however they are added up
_ROUNDING = 1e-4
# what the state of a tracker repeats of its projection's parameters
_OF_THE_PROJECTION = {"center", "forgetting", "sketch_size", "chunk_rows"}


def tensors_of_stream(stream: Stream) -> dict[str, npt.NDArray[Any]]:
    """Return the tensors that keep a stream."""
    numbers, arrays = stream.tracker.state()
    state = {
        "version": _VERSION,
        "refresh": stream.recipe.refresh,
        "epochs": stream.recipe.epochs,
        "warming_up": stream.warming_up,
        "captured_at_start": stream.captured_at_start,
        "counts_mean": stream.counts_mean,
        "n_epochs": stream.n_epochs,
        "epoch_start": stream.epoch_start,
        "n_skipped": stream.n_skipped,
        "tracker": numbers,
    }
    tensors: dict[str, npt.NDArray[Any]] = {
        "stream.state": np.frombuffer(json.dumps(state).encode(), dtype=np.uint8),
        "stream.probe": stream.probe.rows.copy(),
    }
    tensors |= {f"stream.tracker.{name}": array for name, array in arrays.items()}
    if stream.rotation_matrix is not None:
        # "turn" is the file format's name of the rotation
        tensors["stream.turn"] = stream.rotation_matrix.copy()
    if stream.epoch is not None:
        tensors["stream.epoch"] = stream.epoch.components
        if stream.epoch.mean is not None:
            tensors["stream.epoch_mean"] = stream.epoch.mean
    return tensors


def stream_from_file(
    stored: StoredFile, tensor: npt.NDArray[np.uint8], recipe: ModelRecipe, model: SignModel
) -> Stream:
    """Return the stream whose state `tensor` is, with its own `refresh` and `epochs` in the recipe;
    `model` is the current one.
    """
    state = _decode(tensor, stored.name)
    if state.get("version") != _VERSION:
        raise CorruptFileError(
            f"{stored.name} holds a stream of version {state.get('version')!r}, and this bitkin "
            f"reads {_VERSION}. Write it again with the same version of bitkin."
        )
    try:
        refresh = whole_number(state["refresh"], "refresh", low=1, high=2**62)
        epochs = check_epochs(state["epochs"])
        stream = Stream(replace(recipe, refresh=refresh, epochs=epochs), len(model.components))
        tracker = _tracker_from(stored, stream.tracker, state["tracker"])
        _set_counts(stream, state, tracker.n_seen)
        warming_up = state["warming_up"]
        if type(warming_up) is not bool:
            raise InvalidInputError(f"warming_up must be true or false, got {warming_up!r}.")
        counts_mean = state.get("counts_mean", False)  # which old files do not have
        if type(counts_mean) is not bool:
            raise InvalidInputError(f"counts_mean must be true or false, got {counts_mean!r}.")
        stream.counts_mean = counts_mean
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, CorruptFileError):
            raise
        raise damaged(stored.name, f"has an impossible stream: {str(error).rstrip('.')}") from None
    d, c = tracker.n_features, tracker.n_bits
    matrix = None
    if stream.rotation_matrix is not None:
        matrix = np.array(stored.tensor("stream.turn", np.float64, (c, c)))
        require_orthonormal(matrix, "stream.turn", within=1e-6)
    _require_same_model(model, tracker, matrix)
    probe = stored.tensor("stream.probe", np.float32, (min(tracker.n_seen, PROBE_ROWS), d))
    if not np.isfinite(probe).all():
        raise InvalidInputError("stream.probe must be finite, got NaN or infinity.")
    epoch = None
    if stream.epoch is not None:
        mean = stored.tensor("stream.epoch_mean", np.float64, (d,)) if recipe.center else None
        components = stored.tensor("stream.epoch", np.float32, (d, c))
        # An epoch that began before anything was learned is what is warming up.
        epoch = SignModel(components, mean, recipe.normalize, random=warming_up)
    current = SignModel(model.components, model.mean, model.normalize, random=not tracker.ready)
    stream.restore(
        tracker, matrix, epoch, Probe(d, tracker.n_seen, probe), current, warming_up=warming_up
    )
    return stream


def _set_counts(stream: Stream, state: dict[str, Any], n_seen: int) -> None:
    """Let a stream have the counts of a file, and the share that its epoch captured; a file may
    hold anything.
    """
    stream.n_epochs = whole_number(state["n_epochs"], "n_epochs", low=0, high=_LARGEST_COUNT)
    stream.epoch_start = whole_number(state["epoch_start"], "epoch_start", low=0, high=n_seen)
    stream.n_skipped = whole_number(state["n_skipped"], "n_skipped", low=0, high=_LARGEST_COUNT)
    captured = state["captured_at_start"]
    if not (type(captured) is float and 0 <= captured < math.inf):
        raise InvalidInputError(f"captured_at_start must be a share, got {captured!r}.")
    stream.captured_at_start = captured


def _require_same_model(
    model: SignModel, tracker: Tracker, matrix: npt.NDArray[np.float64] | None
) -> None:
    """Raise unless a model is what its tracker and its rotation make, but for how a machine may
    round.
    """
    if model.mean is not None and not np.array_equal(model.mean, tracker.mean):
        raise InvalidInputError("stream.tracker.mean must be the mean of the model.")
    if "directions" not in tracker.state()[1]:
        return  # they follow from a sketch, and those of equal variance may come out in any order
    made = tracker.directions.astype(np.float64)
    with threads.blas_in_one_thread():
        made = made if matrix is None else made @ matrix
    if not np.allclose(made, model.components, rtol=0.0, atol=_ROUNDING):
        raise InvalidInputError("stream.tracker.directions must be those of the model.")


def _decode(tensor: npt.NDArray[np.uint8], name: str) -> dict[str, Any]:
    try:
        state = json.loads(tensor.tobytes())
    except (ValueError, RecursionError):
        state = None
    if not isinstance(state, dict):
        raise damaged(name, "has a stream that is not JSON")
    return state


def _tracker_from(stored: StoredFile, fresh: Tracker, numbers: Any) -> Tracker:
    """Return the tracker of a file: its arrays are those of a fresh one, but for rows it may hold
    back.
    """
    known, arrays = fresh.state()
    if isinstance(numbers, dict):
        numbers = type(fresh).complete_state(numbers)
    if not isinstance(numbers, dict) or set(numbers) != set(known):
        raise InvalidInputError(f"a tracker has the numbers {', '.join(known)}")
    for name in _OF_THE_PROJECTION & set(known):
        if numbers[name] != known[name]:
            raise InvalidInputError(f"{name} is not that of the projection")
    found = {}
    for name, array in arrays.items():
        # An array without rows in a fresh tracker is one whose
        # length varies: rows held back, the sketch.
        key = f"stream.tracker.{name}"
        if len(array):
            found[name] = stored.tensor(key, array.dtype, array.shape)
        else:
            held = stored.optional_tensor(key, array.dtype, (None, *array.shape[1:]))
            found |= {} if held is None else {name: held}
    for name, array in found.items():
        if not np.isfinite(array).all():
            raise InvalidInputError(f"{name} is not finite")
    tracker = type(fresh).from_state(numbers, found)
    if tracker.vectors_to_next_change() < 1:
        raise InvalidInputError("a tracker holds back more vectors than it would")
    return tracker
