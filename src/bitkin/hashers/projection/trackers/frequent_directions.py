"""Frequent directions of a centred stream: a few rows that stand for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Floats
from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.statistics.spectra import (
    fix_signs,
    leading_eigenvectors,
    orthonormalize,
)
from bitkin.hashers.projection.statistics.sums import column_sums
from bitkin.hashers.projection.trackers.base import (
    Tracker,
    TrackerArrays,
    TrackerScalars,
    draw_basis,
    require_orthonormal,
    restore_array,
)
from bitkin.hashers.projection.trackers.sketch import FrequentDirectionsSketch
from bitkin.randomness import Draws

FloatRows = npt.NDArray[np.float32]

_LARGEST_COUNT = 2**62
# of what a sketch of float32 rows may hold: squares of it are far from beyond float64
_LARGEST = 1e60


class FrequentDirectionsTracker(Tracker):
    """Online sketching; see `bitkin.projections.FrequentDirections` for what it does.

    Rows wait until a chunk is full. What the tracker tells is about whole chunks, until `flush`
    takes in the rest.

    Parameters
    ----------
    n_features, n_bits : int
        `n_bits` < `n_features`.
    sketch_size : int
        Rows of the sketch (the paper's l), at least `n_bits`.
    chunk_rows : int
        Rows of a chunk.
    center : bool
        Whether to centre, or to take the mean as zero.
    draws : Draws
        For the directions to tell before the first chunk is full.
    """

    mergeable = True

    def __init__(
        self,
        n_features: int,
        n_bits: int,
        *,
        sketch_size: int,
        chunk_rows: int,
        center: bool,
        draws: Draws,
    ) -> None:
        self.n_features, self.n_bits = n_features, n_bits
        self.chunk_rows, self.center = chunk_rows, bool(center)
        self._sketch = FrequentDirectionsSketch(n_features, sketch_size)
        self._mean = np.zeros(n_features)
        self._n = 0  # rows of whole chunks
        self._total = 0.0  # Σ ‖x − mean‖² of those
        self._held: list[FloatRows] = []
        self._n_held = 0
        self._last: FloatRows = np.empty((0, n_features), dtype=np.float32)
        self._start: FloatRows = draw_basis(n_features, n_bits, draws)
        self._found: tuple[Floats, Floats] | None = None

    @property
    def n_seen(self) -> int:
        """How many vectors were taken in, those of the chunk that is not full included."""
        return self._n + self._n_held

    @property
    def n_clipped(self) -> int:
        """None ever is: a vector counts as it is, however long."""
        return 0

    @property
    def ready(self) -> bool:
        """Whether a first chunk has been learned from."""
        return self._n > 0

    @property
    def directions(self) -> FloatRows:
        """The strongest directions of the sketch, strongest first: float32 (n_features, n_bits)."""
        return self._leading()[1].astype(np.float32) if self.ready else self._start.copy()

    @property
    def mean(self) -> Floats:
        """Mean of all chunks; zeros without centring."""
        return self._mean.copy()

    @property
    def covariance(self) -> Floats:
        """Second moment of the projected chunks as the sketch has it: diagonal, and at most what it
        truly is.
        """
        return (
            # In the basis of its own eigenvectors BᵀB is diagonal, with the eigenvalues on it.
            np.diag(self._leading()[0] / self._n)
            if self.ready
            else np.zeros((self.n_bits, self.n_bits))
        )

    @property
    def total_variance(self) -> float:
        """Mean squared distance of the rows of all chunks to their mean."""
        return self._total / max(1, self._n)

    @property
    def recent_covariance(self) -> Floats:
        """Second moment of the last chunk about the mean of all, projected onto the current
        directions.
        """
        with threads.blas_in_one_thread():
            # y = Vᵀ(x − m) with V the current directions; the moment is the mean of y yᵀ.
            projected = (
                (self._last - self._mean) @ self._leading()[1]
                if self.ready
                else np.empty((0, self.n_bits))
            )
            moment = projected.T @ projected / max(1, len(projected))
        # BLAS may round the two halves differently
        return (moment + moment.T) / 2

    @property
    def recent_total_variance(self) -> float:
        """Mean squared distance of the last chunk to the mean of all."""
        return float(((self._last - self._mean) ** 2).sum()) / max(1, len(self._last))

    def update(self, rows: FloatRows) -> None:
        """Take in rows, float32 (n, n_features), C-contiguous and finite; whole chunks at once."""
        at = 0
        while at < len(rows):
            # Chunks begin at fixed counts of vectors, not where a call begins: any cut of the
            # stream into calls gives the same chunks.
            stop = min(len(rows), at + self.chunk_rows - self._n_held)
            self._held.append(rows[at:stop].copy())
            self._n_held += stop - at
            at = stop
            if self._n_held == self.chunk_rows:
                self.flush()

    def vectors_to_next_change(self) -> int:
        """Return how many more vectors make the chunk full."""
        return self.chunk_rows - self._n_held

    def flush(self) -> None:
        """Take in the rows that wait, as a chunk however short."""
        if self._n_held:
            chunk = np.concatenate(self._held)
            self._held, self._n_held = [], 0
            self._absorb(chunk)

    def merge(self, other: FrequentDirectionsTracker) -> FrequentDirectionsTracker:
        """Return the tracker of both streams, as if flushed; associative up to rounding and what
        sketches lose.
        """
        if (other.n_features, other.n_bits, other.center) != (
            self.n_features,
            self.n_bits,
            self.center,
        ):
            raise InvalidInputError(
                f"other must follow {self.n_features} features by {self.n_bits} bits, "
                f"center={self.center}, got {other.n_features} features, {other.n_bits} bits, "
                f"center={other.center}."
            )
        # copies: merging changes neither of the two
        both, theirs = self.from_state(*self.state()), other.from_state(*other.state())
        both.flush()
        theirs.flush()
        both.absorb_flushed(theirs)
        return both

    def absorb_flushed(self, other: FrequentDirectionsTracker) -> None:
        """Take in what another tracker has learned; the rows that wait in it are left out."""
        self._join(other._sketch.rows, other._mean, other._n, other._total)
        if other._n:
            self._last = other._last

    def state(self) -> tuple[TrackerScalars, TrackerArrays]:
        """Return everything `from_state` needs to continue to the last bit."""
        numbers: TrackerScalars = {
            "sketch_size": self._sketch.size,
            "chunk_rows": self.chunk_rows,
            "center": int(self.center),
            "n": self._n,
            "total": self._total,
        }
        nothing = np.empty((0, self.n_features), dtype=np.float32)
        arrays: TrackerArrays = {
            "start": self._start,
            "mean": self._mean,
            "sketch": self._sketch.rows,
            "held": np.concatenate([nothing, *self._held]),
            "last": self._last,
        }
        return numbers, {name: array.copy() for name, array in arrays.items()}

    def restore(self, numbers: TrackerScalars, arrays: TrackerArrays) -> None:
        """Become the tracker whose `state` this is."""
        self.n_features, self.n_bits = d, _ = arrays["start"].shape
        self._start = restore_array(arrays, "start", np.empty((d, self.n_bits), dtype=np.float32))
        require_orthonormal(self._start, "start", within=0.1)
        self.chunk_rows = whole_number(numbers["chunk_rows"], "chunk_rows", low=1)
        self.center = bool(numbers["center"])
        size = whole_number(numbers["sketch_size"], "sketch_size", low=self.n_bits)
        sketch = _rows(arrays, "sketch", np.empty((0, d)))
        whole_number(len(sketch), "rows of the sketch", low=0, high=2 * size)
        self._sketch = FrequentDirectionsSketch(d, size)
        # no more rows than there is room for, so nothing is shrunk
        self._sketch.add(sketch)
        self._mean = restore_array(arrays, "mean", np.empty(d))
        self._n = whole_number(numbers["n"], "n", low=0, high=_LARGEST_COUNT)
        self._total = float(numbers["total"])
        if not 0 <= self._total <= _LARGEST**2:
            raise InvalidInputError(f"total must be finite and not negative, got {self._total}.")
        for name, array in (("sketch", sketch), ("mean", self._mean)):
            if not (np.abs(array) <= _LARGEST).all():
                raise InvalidInputError(f"{name} must be finite and below {_LARGEST:g}.")
        nothing = np.empty((0, d), dtype=np.float32)
        held, self._last = (_rows(arrays, name, nothing) for name in ("held", "last"))
        self._held, self._n_held = [held], len(held)
        self._found = None

    def _absorb(self, chunk: FloatRows) -> None:
        wide = chunk.astype(np.float64)
        # Σ (x − m_b)(x − m_b)ᵀ of the chunk about its own mean
        # m_b; `_join` adds what the means differ by.
        mean = column_sums(chunk) / len(chunk) if self.center else np.zeros(self.n_features)
        wide -= mean
        self._join(wide, mean, len(chunk), float(np.square(wide).sum()))
        self._last = chunk

    def _join(self, rows: Floats, mean: Floats, n: int, total: float) -> None:
        """Add rows about their own mean that stand for `n` rows, and the shift between that mean
        and ours.
        """
        self._found = None
        if not n:
            return
        self._sketch.add(rows)
        self._total += total
        if self._n and self.center:
            # Σ (x − m)(x − m)ᵀ of two sets about the mean of both is the sum of their own and
            # n₁n₂/(n₁ + n₂) · (m₂ − m₁)(m₂ − m₁)ᵀ, which one more row stands for.
            shift = mean - self._mean
            row = np.sqrt(self._n * n / (self._n + n)) * shift
            self._sketch.add(row[None])
            self._total += float(np.square(row).sum())
            # m = m₁ + n₂/(n₁ + n₂) · (m₂ − m₁), the mean of both
            self._mean += n / (self._n + n) * shift
        elif self.center:
            self._mean = mean.copy()
        self._n += n

    def _leading(self) -> tuple[Floats, Floats]:
        """Return the largest eigenvalues of the sketch's scatter, and their directions; found once
        per chunk.
        """
        if self._found is None:
            # Rows of zeros where the sketch has fewer rows than there are bits: `orthonormalize`
            # then completes the directions.
            rows = np.zeros((max(self.n_bits, len(self._sketch.rows)), self.n_features))
            rows[: len(self._sketch.rows)] = self._sketch.rows
            # With B Bᵀ u = λ u, Bᵀ B has the eigenvector Bᵀ u: the smaller side is solved.
            with threads.blas_in_one_thread():
                values, left = leading_eigenvectors(rows @ rows.T, self.n_bits)
                directions = rows.T @ left
            self._found = np.maximum(values, 0.0), fix_signs(orthonormalize(directions))
        return self._found


def _rows(arrays: TrackerArrays, name: str, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return restore_array(arrays, name, like, rows=len(arrays.get(name, like)))
