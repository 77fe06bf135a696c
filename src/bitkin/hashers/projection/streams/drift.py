"""How far a model has moved away from an earlier one, in numbers a person can act on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Floats
from bitkin.code_spec import WORD
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.hashers.projection.trackers import FrozenSigns, Tracker
from bitkin.hashers.projection.training import prepare_rows


@dataclass(frozen=True, slots=True)
class Drift:
    """What the stream has done to an earlier model; made by `ProjectionHash.drift`.

    Examples
    --------
    >>> from bitkin import Drift
    >>> print(Drift(0.93, 0.61, bits_flipped=0.21, diagonal_spread=0.8, n_vectors=5000))
    93.0 % of the variance kept, 61.0 % captured, 21.0 % of bits flipped, bits spread by 0.80, ...
    """

    variance_kept: float
    """Variance of about the last 1,000 vectors that the earlier directions capture, over what the
    current directions do.

    Near 1, the earlier model is as good as the current one, and a new epoch gains nothing. Below
    about 0.95, its codes lose neighbours that current codes would find: begin an epoch
    (`new_epoch`, or `epochs=0.05`). Below about 0.7 it is time to re-encode what the earlier model
    coded, where vectors are still there.

    It compares two models, so that it says nothing where neither is any good: see
    `variance_captured`.
    """

    variance_captured: float
    """Share of the variance of about the last 1,000 vectors, all of it, that the earlier directions
    capture.

    How much is usual depends on the data: compare with the share that the same model had when its
    epoch began. Where it has fallen though `variance_kept` is near 1, the stream has turned and the
    current model does not follow either: with `forgetting=1` it cannot any more after so many
    vectors. Begin again by `fit`, or use `OPAST(forgetting=0.999)`.
    """

    bits_flipped: float
    """Share of bits that differ between the two models' codes of 16 recent vectors.

    Above 0, codes of the two must not be compared with one another. About 0.5 is what unrelated
    models have; a rotation that has moved flips bits too, and loses nothing.
    """

    diagonal_spread: float
    """(largest − smallest) / mean of the variances of the earlier model's bits in about the last
    1,000 vectors.

    0 where all bits tell equally much. Above about 1 some bits hardly tell anything: begin an epoch
    even where the variance is kept.
    """

    n_vectors: int
    """Vectors learned from so far. Of fewer than about 1,000, the other figures are those of a
    beginning.
    """

    mean_shift: float = 0.0
    """Squared distance between the earlier mean and the current one, over the variance of about the
    last 1,000 vectors.

    Bits are signs about the mean, and tell less about vectors that lie elsewhere. Epochs by a share
    of the variance count it as variance lost.
    """

    def __str__(self) -> str:
        return (
            f"{self.variance_kept:.1%} of the variance kept, {self.variance_captured:.1%} "
            f"captured, {self.bits_flipped:.1%} of bits flipped, bits spread by "
            f"{self.diagonal_spread:.2f}, after {self.n_vectors:,} vectors"
        ).replace("%", " %")


class EarlierModel:
    """The directions A of an earlier model, not necessarily orthonormal, and (AᵀA)⁺."""

    def __init__(self, model: SignModel) -> None:
        self.directions = model.components.astype(np.float64)
        self.mean = model.mean
        with threads.blas_in_one_thread():
            self.gram = self.directions.T @ self.directions
            # a pseudoinverse, for nothing promises that the directions are independent
            self.inverse = np.linalg.pinv(self.gram, hermitian=True)


class RecentStream:
    """What is known of the recent stream's covariance C: that within the directions W, and how much
    is left outside.

    C ≈ W Σ Wᵀ + s (I − W Wᵀ), where s spreads what is outside evenly over the other directions. As
    Fashion-MNIST turned from five classes to the other five, at 32 bits, `variance_kept` was within
    0.04 of what it truly was.
    """

    def __init__(self, tracker: Tracker) -> None:
        self._directions = tracker.directions.astype(np.float64)
        self._mean = tracker.mean
        self._covariance = tracker.recent_covariance
        n_features, n_bits = self._directions.shape
        self._captured = float(self._covariance.trace())
        # two sums of the same vectors, rounded apart: what is outside must not be negative
        self._total = max(self._captured, tracker.recent_total_variance)
        # s = (total − tr Σ) / (d − c): the variance outside W,
        # spread evenly over its d − c directions
        self._each_outside = (self._total - self._captured) / (n_features - n_bits)

    def variance_kept(self, earlier: EarlierModel) -> float:
        """Return the variance in the span of the earlier directions over that in W; 1 where there
        is none.
        """
        return self._within(earlier) / self._captured if self._captured > 0 else 1.0

    def variance_captured(self, earlier: EarlierModel) -> float:
        """Return the variance in the span of the earlier directions over all there is; 1 where
        there is none.
        """
        return self._within(earlier) / self._total if self._total > 0 else 1.0

    def mean_shift(self, earlier: EarlierModel) -> float:
        """Return how far the mean is from the earlier one, squared, over all the variance there is;
        0 where there is none, and of models that do not centre.
        """
        if earlier.mean is None or not self._total > 0:
            return 0.0
        # in units of the variance before squaring: numbers may be as large as float32 allows
        moved = (self._mean - earlier.mean) / np.sqrt(self._total)
        return float(moved @ moved)

    def diagonal_spread(self, earlier: EarlierModel) -> float:
        """Return (largest − smallest) / mean of the variances along the earlier directions."""
        variances = self._along(earlier).diagonal()
        mean = float(variances.mean())
        return float(variances.max() - variances.min()) / mean if mean > 0 else 0.0

    def _within(self, earlier: EarlierModel) -> float:
        """Return the variance in the span of the earlier directions, the trace of (AᵀA)⁺ AᵀCA."""
        # The projector onto the span of A is A (AᵀA)⁺ Aᵀ, and tr(A G⁺ Aᵀ C) = tr(G⁺ AᵀCA). The
        # trace of a product of two symmetric matrices is the sum of their products entry by entry.
        return float(np.sum(earlier.inverse * self._along(earlier)))

    def _along(self, earlier: EarlierModel) -> Floats:
        """Return AᵀCA."""
        # With P = WᵀA and C ≈ W Σ Wᵀ + s (I − W Wᵀ): AᵀCA = PᵀΣP + s (AᵀA − PᵀP).
        with threads.blas_in_one_thread():
            seen = self._directions.T @ earlier.directions
            along: Floats = seen.T @ self._covariance @ seen + self._each_outside * (
                earlier.gram - seen.T @ seen
            )
        return along


def share_of_flipped_bits(a: SignModel, b: SignModel, rows: npt.NDArray[np.float32]) -> float:
    """Return the share of bits that differ between two models' codes of some rows, however large; 0
    of no rows.
    """
    # unused high bits of a word are zero in both codes, so they never differ
    differ = np.unpackbits((_words(a, rows) ^ _words(b, rows)).view(np.uint8))
    return int(differ.sum()) / max(1, len(rows) * a.spec.n_symbols)


def _words(model: SignModel, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
    """Return packed codes as a stream gets them, for `SignModel.words` would refuse what overflows
    float32.
    """
    words = np.empty((len(rows), model.spec.plane_words), dtype=WORD)
    FrozenSigns(model.components, model.exact_offset).write(
        prepare_rows(rows, model.normalize), words
    )
    return words
