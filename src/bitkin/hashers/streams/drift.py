"""How far a model has moved away from an earlier one, in numbers a person can act on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.hashers.sign_model import SignModel
from bitkin.hashers.trackers.base import Tracker

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Drift:
    """What the stream has done to an earlier model; made by `ProjectionHash.drift`.

    Examples
    --------
    >>> from bitkin.hashers.streams.drift import Drift
    >>> print(Drift(variance_kept=0.93, bits_flipped=0.21, diagonal_spread=0.8, n_vectors=5000))
    93.0 % of the variance kept, 21.0 % of bits flipped, variances of bits spread by 0.80, after 5,000 vectors
    """

    variance_kept: float
    """Variance of about the last 1,000 vectors that the earlier directions capture, over what the directions of now do.

    Near 1, the earlier model is as good as the one of now, and a new epoch gains nothing. Below about 0.95, its codes
    lose neighbours that codes of now would find: begin an epoch (`new_epoch`, or `epochs=0.05`). Below about 0.7 it is
    time to re-encode what the earlier model coded, where vectors are still there.
    """

    bits_flipped: float
    """Share of bits that differ between the two models' codes of 16 recent vectors.

    Above 0, codes of the two must not be compared with one another. About 0.5 is what unrelated models have; a
    rotation that has moved flips bits too, and loses nothing.
    """

    diagonal_spread: float
    """(largest − smallest) / mean of the variances of the earlier model's bits in about the last 1,000 vectors.

    0 where all bits tell equally much. Above about 1 some bits hardly tell anything: begin an epoch even where the
    variance is kept.
    """

    n_vectors: int
    """Vectors learned from so far. Of fewer than about 1,000, the other figures are those of a beginning."""

    def __str__(self) -> str:
        return (
            f"{self.variance_kept:.1%} of the variance kept, {self.bits_flipped:.1%} of bits flipped, variances of "
            f"bits spread by {self.diagonal_spread:.2f}, after {self.n_vectors:,} vectors"
        ).replace("%", " %")


class Earlier:
    """The directions A of an earlier model, not necessarily orthonormal, and (AᵀA)⁺."""

    def __init__(self, model: SignModel) -> None:
        self.directions = model.components.astype(np.float64)
        with threads.blas_in_one_thread():
            self.gram = self.directions.T @ self.directions
            self.inverse = np.linalg.pinv(self.gram, hermitian=True)


class RecentStream:
    """What is known of the recent stream's covariance C: that within the directions W, and how much is left outside.

    C ≈ W Σ Wᵀ + s (I − W Wᵀ), where s spreads what is outside evenly over the other directions. As Fashion-MNIST
    turned from five classes to the other five, at 32 bits, `variance_kept` was within 0.04 of what it truly was.
    """

    def __init__(self, tracker: Tracker) -> None:
        self._directions = tracker.directions.astype(np.float64)
        self._covariance = tracker.recent_covariance
        n_features, n_bits = self._directions.shape
        self._captured = float(self._covariance.trace())
        outside = max(0.0, tracker.recent_total_variance - self._captured)
        self._each_outside = outside / (n_features - n_bits)

    def variance_kept(self, earlier: Earlier) -> float:
        """Return the variance in the span of the earlier directions, the trace of (AᵀA)⁺ AᵀCA, over that in W."""
        if self._captured <= 0:
            return 1.0
        return float(np.sum(earlier.inverse * self._along(earlier))) / self._captured

    def diagonal_spread(self, earlier: Earlier) -> float:
        """Return (largest − smallest) / mean of the variances along the earlier directions."""
        variances = self._along(earlier).diagonal()
        mean = float(variances.mean())
        return float(variances.max() - variances.min()) / mean if mean > 0 else 0.0

    def _along(self, earlier: Earlier) -> Floats:
        """Return AᵀCA."""
        with threads.blas_in_one_thread():
            seen = self._directions.T @ earlier.directions
            along: Floats = seen.T @ self._covariance @ seen + self._each_outside * (earlier.gram - seen.T @ seen)
        return along


def bits_flipped(a: SignModel, b: SignModel, rows: npt.NDArray[np.float32]) -> float:
    """Return the share of bits that differ between two models' codes of some rows; 0 of no rows."""
    if not len(rows):
        return 0.0
    return float(((a.project(rows) >= 0) != (b.project(rows) >= 0)).mean())
