"""OPAST: an orthonormal basis that follows a stream, updated by every vector."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.trackers.base import (
    Tracker,
    TrackerArrays,
    TrackerScalars,
    draw_basis,
    require_orthonormal,
    require_semidefinite,
    restore_array,
)
from bitkin.kernels.blocks import read_only
from bitkin.kernels.hashing import streaming
from bitkin.randomness import Draws

_N_FIRST = 8  # so that one wild vector among the first cannot be their median
# What the random basis weighs against what is learned, in vectors along each axis. A tenth captures
# more than one vector, from the first hundred vectors on: Z starts ten times as large.
_START_WEIGHT = 0.1
_OLD_START_WEIGHT = 1.0  # of states that do not say
_FEWEST_REMEMBERED, _REMEMBERED_PER_BIT = 1024, 32  # vectors, with forgetting="auto"
_LARGEST_COUNT = 2**62
# of what a sound state holds: squares of float32 numbers, in any units, times a weight
_LARGEST = 1e60
_NO_BLOCKS = np.empty((0, 0, 0), dtype=np.float32)


class FrozenSigns:
    """A model that stands still while another learns: bits are signs of x · components − offset.

    Sums are made in one order whatever the batch, so that the same vector always gets the same
    code.
    """

    def __init__(self, components: npt.NDArray[np.float32], offset: npt.NDArray[Any]) -> None:
        self.blocks = streaming.in_blocks(components)
        self.offset = np.asarray(offset, dtype=np.float64)
        n_blocks, n_directions, width = self.blocks.shape
        self._room = np.zeros((n_blocks, width), dtype=np.float32), np.empty(n_directions)

    def write(self, rows: npt.NDArray[np.float32], words: npt.NDArray[np.uint64]) -> None:
        """Write the codes of rows, float32 (n, n_features), C-contiguous and finite, to `words`,
        uint64 (n, words).
        """
        # (x − mean) · W ≥ 0 is asked as x · W ≥ mean · W, the offset
        streaming.signs_into(
            read_only(rows), read_only(self.blocks), read_only(self.offset), *self._room, words
        )


class OPASTTracker(Tracker):
    """Orthonormal projection approximation subspace tracking; see `bitkin.projections.OPAST` for
    what it does.

    Parameters
    ----------
    n_features, n_bits : int
        `n_bits` < `n_features`.
    forgetting : float or "auto"
        Weight of the past at each step, in (0, 1]. "auto": 1 until `memory` vectors have been
        learned from, and 1 − 1 / `memory` from there on.
    center : bool
        Whether to follow the mean, or to take it as zero.
    draws : Draws
        For the basis to start from.

    Attributes
    ----------
    memory : float
        What all vectors together weigh at most; infinite where a forgetting factor is given.
    """

    def __init__(
        self, n_features: int, n_bits: int, *, forgetting: float | str, center: bool, draws: Draws
    ) -> None:
        self.n_features, self.n_bits = n_features, n_bits
        self.forgetting, self.center = _check_forgetting(forgetting), bool(center)
        self._start_weight = _START_WEIGHT
        self._fitting = False
        self._model: streaming.Model
        self._held: npt.NDArray[np.float32] | None
        self._model, self._held = self._fresh(draw_basis(n_features, n_bits, draws))
        self._n_held = 0
        self._room = streaming.room_for(n_features, n_bits)

    @property
    def n_seen(self) -> int:
        """How many vectors were taken in, zero and clipped ones included."""
        return int(self._model.counts[streaming.SEEN])

    @property
    def n_clipped(self) -> int:
        """How many of them were farther than ten times the root mean square distance and were
        pulled back to it.
        """
        return int(self._model.counts[streaming.CLIPPED])

    @property
    def memory(self) -> float:
        """What all vectors together weigh at most, as a number of them."""
        if self.forgetting != "auto":
            return math.inf
        return max(_FEWEST_REMEMBERED, _REMEMBERED_PER_BIT * self.n_bits)

    @property
    def ready(self) -> bool:
        """Whether the first eight vectors have been learned from."""
        return self._held is None

    @property
    def directions(self) -> npt.NDArray[np.float32]:
        """The current basis: float32 (n_features, n_bits), a copy, orthonormal columns."""
        return streaming.from_blocks(self._model.blocks, self.n_features, self.n_bits)

    @property
    def mean(self) -> npt.NDArray[np.float64]:
        """Weighted mean of the stream, float64 (n_features,), a copy; zeros until ready and without
        centring.
        """
        return self._model.mean.copy()

    @property
    def covariance(self) -> npt.NDArray[np.float64]:
        """Second moment of the projected stream about its mean, carried along as the basis
        moves.
        """
        covariance: npt.NDArray[np.float64] = self._average(self._model.moment, streaming.WEIGHT)
        return covariance

    @property
    def total_variance(self) -> float:
        """Mean squared distance of the vectors to their mean, weighted as `covariance` is."""
        return float(self._average(self._model.numbers[streaming.TOTAL], streaming.WEIGHT))

    @property
    def recent_covariance(self) -> npt.NDArray[np.float64]:
        """Like `covariance`, of about the last 1,024 vectors."""
        covariance: npt.NDArray[np.float64] = self._average(
            self._model.recent, streaming.RECENT_WEIGHT
        )
        return covariance

    @property
    def recent_total_variance(self) -> float:
        """Like `total_variance`, of about the last 1,024 vectors."""
        return float(
            self._average(self._model.numbers[streaming.RECENT_TOTAL], streaming.RECENT_WEIGHT)
        )

    def update(self, rows: npt.NDArray[np.float32]) -> None:
        """Take in rows, float32 (n, n_features), C-contiguous and finite, one after another."""
        self.follow(rows, np.empty((len(rows), 0), dtype=np.uint64))

    def follow(
        self,
        rows: npt.NDArray[np.float32],
        words: npt.NDArray[np.uint64],
        *,
        frozen: FrozenSigns | None = None,
        rotation: npt.NDArray[np.float64] | None = None,
        refresh: int = 0,
    ) -> None:
        """Take in rows as `update` does, and write the code of each to its row of `words` before it
        is learned from.

        `words` is uint64 (n, words per code), or of no columns where no codes are wanted. Codes are
        those of `frozen` or, without it, of the model as it moves. `rotation`, float64 (n_bits,
        n_bits), C-contiguous, rotates the moving model's; every `refresh` vectors (0: never),
        counted from the first one, and once when the first vectors have been learned from, it is
        overwritten with what `UnifDiag` makes of `covariance`.
        """
        done = 0
        # The first vectors are only held: until they are
        # complete, codes come from random directions.
        while not self.ready and done < len(rows):
            stop = min(len(rows), done + _N_FIRST - self._n_held)
            if words.shape[1]:
                self._sign(rows[done:stop], words[done:stop], frozen, rotation)
            if self._hold(rows[done:stop]) and rotation is not None and refresh:
                streaming.rotate_into(self._model, rotation, self._room)
            done = stop
        if done < len(rows):
            self._feed(rows[done:], words[done:], frozen, rotation, refresh)

    def begin_fit(self) -> None:
        """Let all vectors from here to `end_fit` weigh the same, unless a factor is given."""
        self._fitting = True

    def end_fit(self) -> None:
        """Let what was learned weigh no more than `memory` against what comes."""
        self._fitting = False
        self.flush()
        weight = float(self._model.numbers[streaming.WEIGHT])
        if weight > self.memory:
            self._fade(self.memory / weight)

    def vectors_to_next_change(self) -> int:
        """Return how many more of the first vectors it takes, or 1 once directions move."""
        return 1 if self._held is None else len(self._held) - self._n_held

    def flush(self) -> None:
        """Learn from the first vectors, though they are fewer than usual; not where all are the
        same.
        """
        if self._held is not None and self._differ(self._held[: self._n_held]):
            self._start(self._held[: self._n_held])

    def state(self) -> tuple[TrackerScalars, TrackerArrays]:
        """Return everything `from_state` needs to continue to the last bit."""
        numbers: TrackerScalars = {
            "forgetting": self.forgetting,
            "center": int(self.center),
            "n_held": self._n_held,
            "start_weight": self._start_weight,
        }
        arrays: TrackerArrays = {
            "directions": self.directions,
            **{
                name: array.copy()
                for name, array in self._model._asdict().items()
                if name != "blocks"
            },
        }
        if self._held is not None:
            arrays["held"] = self._held[: self._n_held].copy()
        return numbers, arrays

    def restore(self, numbers: TrackerScalars, arrays: TrackerArrays) -> None:
        """Become the tracker whose `state` this is."""
        self.n_features, self.n_bits = arrays["directions"].shape
        self.forgetting = _check_forgetting(numbers["forgetting"])
        self.center = bool(numbers["center"])
        self._start_weight, self._fitting = float(numbers["start_weight"]), False
        if self._start_weight not in (_START_WEIGHT, _OLD_START_WEIGHT):
            raise InvalidInputError(
                f"start_weight must be {_START_WEIGHT} or {_OLD_START_WEIGHT}, got "
                f"{self._start_weight!r}."
            )
        self._model, self._held = self._fresh(arrays["directions"])
        for name, array in self._model._asdict().items():
            if name != "blocks":
                array[:] = restore_array(arrays, name, array)
        _require_sound(self._model, arrays["directions"])
        self._n_held = whole_number(numbers["n_held"], "n_held", low=0, high=_N_FIRST - 1)
        if self._model.numbers[streaming.SCALE]:
            self._held = None
        else:
            n_held = self._n_held
            self._held[:n_held] = restore_array(arrays, "held", self._held, rows=n_held)
        self._room = streaming.room_for(self.n_features, self.n_bits)

    @classmethod
    def complete_state(cls, numbers: TrackerScalars) -> TrackerScalars:
        """Return the numbers of a state of any version, with what earlier ones did not keep."""
        return {"start_weight": _OLD_START_WEIGHT, **numbers}

    def _fade(self, share: float) -> None:
        """Let everything learned so far weigh only such a share of what it did."""
        # Σ and the weights shrink alike, so that all averages stay; Z = Σ⁻¹ grows.
        model = self._model
        model.moment[:] *= share
        model.inverse[:] /= share
        model.numbers[[streaming.WEIGHT, streaming.SPREAD_WEIGHT, streaming.TOTAL]] *= share

    def _fresh(
        self, basis: npt.NDArray[np.float32]
    ) -> tuple[streaming.Model, npt.NDArray[np.float32]]:
        """Return a model that has learned nothing, and room for the first vectors."""
        c = self.n_bits
        model = streaming.Model(
            streaming.in_blocks(basis),
            np.zeros((c, c)),
            np.zeros((c, c)),
            np.zeros((c, c)),
            np.zeros(self.n_features),
            np.zeros(streaming.N_NUMBERS),
            np.zeros(streaming.N_COUNTS, dtype=np.int64),
        )
        return model, np.empty((_N_FIRST, self.n_features), dtype=np.float32)

    def _average(self, sums: Any, weight: int) -> Any:
        """Return sums divided by their weight, in the units of the stream; zero before there is
        any.
        """
        if not self.ready:
            return 0.0 * sums
        # sums are of vectors times SCALE, so a second moment carries its square
        return sums / self._model.numbers[weight] / self._model.numbers[streaming.SCALE] ** 2

    def _sign(
        self,
        rows: npt.NDArray[np.float32],
        words: npt.NDArray[np.uint64],
        frozen: FrozenSigns | None,
        rotation: npt.NDArray[np.float64] | None,
    ) -> None:
        """Write the codes of rows that are only held."""
        if frozen is None:
            components = self.directions
            if rotation is not None:
                with threads.blas_in_one_thread():
                    components = (components @ rotation).astype(np.float32)
            # nothing has been learned, so the mean to subtract is zero
            frozen = FrozenSigns(components, np.zeros(self.n_bits))
        frozen.write(rows, words)

    def _hold(self, rows: npt.NDArray[np.float32]) -> bool:
        """Keep the first vectors back until they tell how large vectors are; return whether that is
        now.
        """
        held = self._held
        if held is None:
            return False
        held[self._n_held : self._n_held + len(rows)] = rows
        self._n_held += len(rows)
        self._model.counts[streaming.SEEN] += len(rows)
        if self._n_held < len(held):
            return False
        if not self._differ(held):
            self._n_held -= 1  # wait for one that differs; `n_seen` remembers how many were dropped
            return False
        self._start(held)
        return True

    def _differ(self, rows: npt.NDArray[np.float32]) -> bool:
        """Whether any row is off the centre of all."""
        return bool((rows != (rows[:1] if self.center else 0.0)).any())

    def _start(self, held: npt.NDArray[np.float32]) -> None:
        # The scale is a power of two that makes the median distance r lie between ½ and 1: no
        # number is rounded by it, and squares stay far from the ends of float64.
        model = self._model
        wide = held.astype(np.float64)
        if self.center:
            # Medians, because a mean or a mean length would
            # follow one wild vector among the eight.
            model.mean[:] = np.median(wide, axis=0)
        distances = np.sqrt(((wide - model.mean) ** 2).sum(axis=1))
        reference = float(np.median(distances[distances > 0]))
        scale = 2.0 ** -int(np.frexp(reference)[1])
        # Equal vectors that were dropped while waiting count in the weight of the mean.
        n_dropped = self.n_seen - len(held)
        model.numbers[streaming.SCALE] = scale
        model.numbers[streaming.REFERENCE] = (reference * scale) ** 2
        forgetting = 1.0 if isinstance(self.forgetting, str) else self.forgetting
        model.numbers[streaming.WEIGHT] = min(self.memory, _weight_of(n_dropped, forgetting))
        model.numbers[streaming.RECENT_WEIGHT] = _weight_of(n_dropped, streaming.RECENT)
        # Z = (ΣWᵀx xᵀW)⁻¹ starts as I/(s·r²): as if vectors of that length and of the weight s in
        # all had come along each axis.
        np.fill_diagonal(
            model.inverse, 1.0 / (self._start_weight * model.numbers[streaming.REFERENCE])
        )
        # they were counted when they were held, and will be again when they are learned from
        model.counts[streaming.SEEN] -= len(held)
        self._held, self._n_held = None, 0
        self._feed(held, np.empty((len(held), 0), dtype=np.uint64), None, None, 0)

    def _feed(
        self,
        rows: npt.NDArray[np.float32],
        words: npt.NDArray[np.uint64],
        frozen: FrozenSigns | None,
        rotation: npt.NDArray[np.float64] | None,
        refresh: int,
    ) -> None:
        done = 0
        while done < len(rows):
            forgetting, n_rows = self._next_forgetting()
            stop = min(len(rows), done + n_rows)
            streaming.follow_into(
                read_only(rows[done:stop]),
                self._model,
                self._room,
                forgetting,
                self.center,
                read_only(_NO_BLOCKS if frozen is None else frozen.blocks),
                read_only(np.zeros(self.n_bits) if frozen is None else frozen.offset),
                np.empty((0, 0)) if rotation is None else rotation,
                refresh if rotation is not None else 0,
                words[done:stop],
            )
            done = stop

    def _next_forgetting(self) -> tuple[float, int]:
        """Return the weight of the past at the next step, and for how many steps it holds."""
        if not isinstance(self.forgetting, str):
            return self.forgetting, _LARGEST_COUNT
        # At a factor of 1 every vector adds 1 to the weight w until w is the memory m; then
        # w ← (1 − 1/m) w + 1 leaves it there.
        missing = self.memory - float(self._model.numbers[streaming.WEIGHT])
        if self._fitting:
            return 1.0, _LARGEST_COUNT
        if missing >= 1:
            return 1.0, int(missing)
        return 1.0 - 1.0 / self.memory, _LARGEST_COUNT


def _check_forgetting(forgetting: Any) -> float | Literal["auto"]:
    return "auto" if forgetting == "auto" else float(forgetting)


def _weight_of(n: int, forgetting: float) -> float:
    """Return what `n` vectors weigh together: 1 + β + … + βⁿ⁻¹."""
    return n if forgetting == 1 else (1.0 - forgetting**n) / (1.0 - forgetting)


def _require_sound(model: streaming.Model, directions: npt.NDArray[np.float32]) -> None:
    """Raise for what no stream leads to and kernels would stumble over: they do not check."""
    seen, clipped = (int(count) for count in model.counts)
    whole_number(
        clipped,
        "clipped vectors",
        low=0,
        high=whole_number(seen, "seen vectors", low=0, high=_LARGEST_COUNT),
    )
    require_orthonormal(directions, "directions", within=0.1)
    for name in ("inverse", "moment", "recent", "mean", "numbers"):
        if not (np.abs(getattr(model, name)) <= _LARGEST).all():
            raise InvalidInputError(f"{name} must be finite and below {_LARGEST:g}.")
    totals = [streaming.TOTAL, streaming.RECENT_TOTAL]
    if not model.numbers[streaming.SCALE]:
        for name in ("numbers", "inverse", "moment", "recent", "mean"):
            if getattr(model, name).any():
                raise InvalidInputError(f"{name} must be zero where nothing has been learned.")
    elif (np.delete(model.numbers, totals) < 1 / _LARGEST).any() or (
        model.numbers[totals] < 0
    ).any():
        raise InvalidInputError(
            "numbers must not be negative, and scale, reference and weights must be above zero."
        )
    elif not model.inverse.diagonal().max() > 0:
        raise InvalidInputError("inverse must have a diagonal above zero.")
    # Forgetting lets rounding grow in Z, in moments it does not.
    for name, within in (("inverse", 1e-3), ("moment", 1e-6), ("recent", 1e-6)):
        require_semidefinite(getattr(model, name), name, within=within)
