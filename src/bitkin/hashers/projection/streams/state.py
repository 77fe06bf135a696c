"""The state of a live model in a file, so that it goes on to the last bit as if nothing had
happened.

A file of a live hasher holds the model of now, as any hasher's, and beside it tensors whose names
begin with `stream.`: arrays of the tracker, the rotation, the epoch, the probe, and `stream.state`,
which is JSON.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.checks import whole_number
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.hashers.projection.streams.probe import PROBE_ROWS, Probe
from bitkin.hashers.projection.streams.settings import epochs_rule, refresh_count
from bitkin.io.layout import damaged

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash
    from bitkin.hashers.projection.streams.live import LiveModel
    from bitkin.hashers.projection.trackers import Tracker
    from bitkin.io.reader import StoredFile

_VERSION = 2
_STATE = "stream.state"
_COUNTS = ("n_epochs", "epoch_start", "n_skipped")
_MOST = 2**62
# products of orthonormal directions in float32 are nearer than this, however they are added up
_ROUNDED = 1e-4
# what a tracker's numbers repeat of its projection
_GIVEN = {"center", "forgetting", "sketch_size", "chunk_rows"}


def live_tensors(live: LiveModel | None) -> dict[str, npt.NDArray[Any]]:
    """Return the tensors that keep a live model; none where there is no such model."""
    if live is None:
        return {}
    numbers, arrays = live.tracker.state()
    state = {
        "version": _VERSION,
        "refresh": live.settings.refresh,
        "epochs": live.settings.epochs,
        "warming_up": live.warming_up,
        "captured_at_start": live.captured_at_start,
        **{name: getattr(live, name) for name in _COUNTS},
        "tracker": numbers,
    }
    tensors: dict[str, npt.NDArray[Any]] = {
        _STATE: np.frombuffer(json.dumps(state).encode(), dtype=np.uint8),
        "stream.probe": live.probe.rows.copy(),
    }
    tensors |= {f"stream.tracker.{name}": array for name, array in arrays.items()}
    if live.turn is not None:
        tensors["stream.turn"] = live.turn.copy()
    if live.epoch is not None:
        tensors["stream.epoch"] = live.epoch.components
        if live.epoch.mean is not None:
            tensors["stream.epoch_mean"] = live.epoch.mean
    return tensors


def live_from_file(stored: StoredFile, hasher: ProjectionHash) -> LiveModel | None:
    """Return the live model that a file holds, if any; `hasher` is complete but for it, and has the
    model of now.
    """
    tensor = stored.optional_tensor(_STATE, np.uint8, (None,))
    if tensor is None:
        return None
    state = _decoded(tensor, stored.name)
    if state.get("version") != _VERSION:
        raise CorruptFileError(
            f"{stored.name} holds a stream of version {state.get('version')!r}, and this bitkin "
            f"reads {_VERSION}. "
            "Write it again with the same version of bitkin."
        )
    now = hasher._model
    try:
        hasher.refresh, hasher.epochs = (
            refresh_count(state["refresh"]),
            epochs_rule(state["epochs"]),
        )
        live = hasher._new_live(hasher.n_features_in_)
        tracker = _tracker_from(stored, live.tracker, state["tracker"])
        for name, most in (
            ("n_epochs", _MOST),
            ("epoch_start", tracker.n_seen),
            ("n_skipped", _MOST),
        ):
            setattr(live, name, whole_number(state[name], name, low=0, high=most))
        warming_up, live.captured_at_start = state["warming_up"], state["captured_at_start"]
        if type(warming_up) is not bool:
            raise InvalidInputError(f"warming_up must be true or false, got {warming_up!r}.")
        if not (type(live.captured_at_start) is float and 0 <= live.captured_at_start < math.inf):
            raise InvalidInputError(
                f"captured_at_start must be a share, got {live.captured_at_start!r}."
            )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, CorruptFileError):
            raise
        raise damaged(stored.name, f"has an impossible stream: {str(error).rstrip('.')}") from None
    d, c = tracker.n_features, tracker.n_bits
    turn = None if live.turn is None else np.array(stored.tensor("stream.turn", np.float64, (c, c)))
    if turn is not None:
        from bitkin.hashers.projection.trackers.base import (
            require_orthonormal,  # with it comes Numba, 100 MB that others need not
        )

        require_orthonormal(turn, "stream.turn", within=1e-6)
    _require_same_model(now, tracker, turn)
    probe = stored.tensor("stream.probe", np.float32, (min(tracker.n_seen, PROBE_ROWS), d))
    if not np.isfinite(probe).all():
        raise InvalidInputError("stream.probe must be finite, got NaN or infinity.")
    epoch = None
    if live.epoch is not None:
        mean = (
            stored.tensor("stream.epoch_mean", np.float64, (d,)) if live.settings.center else None
        )
        components = stored.tensor("stream.epoch", np.float32, (d, c))
        # An epoch that began before anything was learned is what is warming up.
        epoch = SignModel(components, mean, live.settings.normalize, random=warming_up)
    now = SignModel(now.components, now.mean, now.normalize, random=not tracker.ready)
    live.go_on(tracker, turn, epoch, Probe(d, tracker.n_seen, probe), now, warming_up=warming_up)
    return live


def _require_same_model(
    now: SignModel, tracker: Tracker, turn: npt.NDArray[np.float64] | None
) -> None:
    """Raise unless the model of now is what its tracker and its rotation make, but for how a
    machine may round.
    """
    if now.mean is not None and not np.array_equal(now.mean, tracker.mean):
        raise InvalidInputError("stream.tracker.mean must be the mean of the model.")
    if "directions" not in tracker.state()[1]:
        return  # they follow from a sketch, and those of equal variance may come out in any order
    made = tracker.directions.astype(np.float64)
    with threads.blas_in_one_thread():
        made = made if turn is None else made @ turn
    if not np.allclose(made, now.components, rtol=0.0, atol=_ROUNDED):
        raise InvalidInputError("stream.tracker.directions must be those of the model.")


def _decoded(tensor: npt.NDArray[np.uint8], name: str) -> dict[str, Any]:
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
    if not isinstance(numbers, dict) or set(numbers) != set(known):
        raise InvalidInputError(f"a tracker has the numbers {', '.join(known)}")
    for name in _GIVEN & set(known):
        if numbers[name] != known[name]:
            raise InvalidInputError(f"{name} is not that of the projection")
    found = {}
    for name, array in arrays.items():
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
