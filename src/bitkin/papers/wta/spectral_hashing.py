"""Spectral hashing (Weiss, Torralba, Fergus, 2008), a rival of the paper: small, and not a part of
the library.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bitkin.codes import Codes
from bitkin.hashers.projection.projection_hash import ProjectionHash


class SpectralHashing:
    """Bits are signs of eigenfunctions of a uniform distribution along the principal axes.

    On an axis with the range (a, b) these are sin(π/2 + ω(x − a)), ω = kπ / (b − a), and the
    smaller ω is, the better they keep neighbours together: the `n_bits` smallest of all axes are
    taken.
    """

    def __init__(self, n_bits: int) -> None:
        self.n_bits = n_bits

    def fit(self, X: npt.NDArray[np.float32]) -> SpectralHashing:
        """Learn axes and their ranges."""
        n_axes = min(self.n_bits, X.shape[1], len(X) - 1)
        self._axes = ProjectionHash(n_axes, rotation=None).fit(X)
        projected = self._axes.project(X).astype(np.float64)
        low, high = projected.min(axis=0), projected.max(axis=0)
        # the k-th mode of every axis; more than n_bits of one are never needed
        frequencies = np.arange(1, self.n_bits + 1)[:, None] * np.pi / (high - low)
        smallest = np.argsort(frequencies, axis=None, kind="stable")[: self.n_bits]
        mode, self._axis = np.unravel_index(smallest, frequencies.shape)
        self._frequency, self._low = frequencies[mode, self._axis], low[self._axis]
        return self

    def encode(self, X: npt.NDArray[np.float32]) -> Codes:
        """Return the codes of rows."""
        along = self._axes.project(X).astype(np.float64)[:, self._axis]
        waves = np.sin(np.pi / 2 + self._frequency * (along - self._low))
        return Codes.from_symbols((waves >= 0).astype(np.uint8), 1)
