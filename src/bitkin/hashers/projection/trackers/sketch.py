"""The sketch of frequent directions: few rows B for many rows A, such that BᵀB is nearly AᵀA."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from bitkin import threads
from bitkin.arrays import Floats


class FrequentDirectionsSketch:
    """Rows that stand for all rows added: ‖AᵀA − BᵀB‖₂ ≤ ‖A − A_k‖²_F / (size − k) for every k <
    size.

    "Simple and deterministic matrix sketching" (Liberty, 2013), with room for twice `size` rows, so
    that they are shrunk rarely: by the squared singular value after the `size`-th, which leaves
    `size` rows.

    Parameters
    ----------
    n_features : int
        Length of a row.
    size : int
        Rows that a shrunk sketch has (l).
    """

    def __init__(self, n_features: int, size: int) -> None:
        self.size = size
        self._room = np.zeros((2 * size, n_features))
        self._n = 0

    @property
    def rows(self) -> Floats:
        """The sketch B, float64 (at most 2 · size, n_features); a view."""
        return self._room[: self._n]

    def add(self, rows: Floats) -> None:
        """Add rows one after another; the sketch is shrunk whenever one more would not fit."""
        at = 0
        while at < len(rows):
            if self._n == len(self._room):
                self._shrink()
            stop = min(len(rows), at + len(self._room) - self._n)
            self._room[self._n : self._n + stop - at] = rows[at:stop]
            self._n += stop - at
            at = stop

    def _shrink(self) -> None:
        # By the eigenvectors of the small B Bᵀ: an error of 2⁻⁵³ of the largest eigenvalue is far
        # below the bound.
        with threads.blas_in_one_thread():
            values, left = scipy.linalg.eigh(self._room @ self._room.T, check_finite=False)
            values, left = np.maximum(values[::-1], 0.0), left[:, ::-1]
            kept = int(np.count_nonzero(values[: self.size] > values[self.size]))
            # With B = U S Vᵀ and δ the squared singular value after the `size`-th, the shrunk rows
            # are √(S² − δ) Vᵀ = √(1 − δ/S²) Uᵀ B.
            shares = np.sqrt(1.0 - values[self.size] / values[:kept])
            self._room[:kept] = (left[:, :kept] * shares).T @ self._room
        self._n = kept
