"""Whether lengths of rows spoil the codes of a hasher under a metric, and queries without any."""

from __future__ import annotations

import numpy as np

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.hashers.lengths import NO_LENGTHS, Lengths
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.hashers.wta.wta_hash import WTAHash
from bitkin.index.results import Neighbors
from bitkin.io.vectors import VectorSource
from bitkin.notices import warn_caller

ROWS_FOR_LENGTHS = 1024
"""So many show how long all rows are."""
_FEWEST_ROWS = 32  # fewer say little about how much lengths differ
_MOST = 0.1  # of the spread of lengths times the length of the mean; see LengthGuard


class LengthGuard:
    """Says whether codes of a hasher serve rows of such lengths.

    Under cosine lengths must not count, and they do where a hasher centres rows without normalizing
    them; under l2 they must, and do not where it normalizes. How much is lost grows with the spread
    of the lengths (standard deviation / mean) times the length of the mean that is subtracted
    (relative to that of rows). True 10 by cosine in the best 50 of 4,000 rows, 64 bits, not
    normalized against normalized: 0.60 and 0.78 at 0.25 (Fashion-MNIST), 0.38 and 0.49 at 0.16
    (GIST), within 0.02 up to 0.05 (GloVe, sentence embeddings, visual words); by l2, the other way
    round, 0.68 and 0.77, 0.41 and 0.44, and equal. Beyond 0.1 the first rows of a collection are
    refused. Where some are in it already, those that lead beyond are taken with a warning: who
    adds row by row cannot begin again. An `EpochIndex` does the same, with the estimate after the
    codes: 0.39 and 0.51 of the true 10 by cosine in the best 10 of Fashion-MNIST, 0.34 and 0.40 of
    GIST, 0.41 and 0.42 of GloVe.

    Parameters
    ----------
    hasher : Hasher or SignModel
        Fitted. Only one that centres rows can be at odds with a metric.
    metric : {"l2", "cosine", "ip"}
    """

    def __init__(self, hasher: Hasher | SignModel, metric: str) -> None:
        self._fix, self._normalizes, self._center = _conflict(hasher, metric)

    @property
    def watches(self) -> bool:
        """Whether lengths can do harm at all."""
        return self._center is not None

    def complaint(self, lengths: Lengths, name: str) -> str | None:
        """Return what is wrong with rows of such lengths, and what to do; None if nothing is."""
        if self._center is None or lengths.n < _FEWEST_ROWS:
            return None
        spread = lengths.spread
        if spread * self._center / (1.0 if self._normalizes else lengths.mean) <= _MOST:
            return None
        return (
            f"{name} must have rows of like length, got a standard deviation of {spread:.0%}: "
            f"{self._fix}"
        )

    def require(self, lengths: Lengths, name: str) -> None:
        """Raise where rows differ too much in length."""
        complaint = self.complaint(lengths, name)
        if complaint is not None:
            raise InvalidInputError(complaint)

    def warning(self, before: Lengths, new: Lengths, name: str) -> str | None:
        """Return what to say of rows that come to others; nothing where it was said before."""
        if self.complaint(before, name) is not None:
            return None
        return self.complaint(before.plus(new), name)


def sample_lengths(source: VectorSource, at_most: int = ROWS_FOR_LENGTHS) -> Lengths:
    """Return the lengths of some rows, spread evenly over all."""
    n = len(source)
    n_some = min(n, at_most)
    return NO_LENGTHS.with_rows(source.gather(np.arange(n_some) * n // max(1, n_some)))


def warn_of_zero_queries(batch: Batch, found: Neighbors, metric: str, first: int = 0) -> None:
    """Warn of queries that are all zeros, where the metric is cosine and they found something;
    `first` is the number of the first of them.
    """
    if metric != "cosine" or found.ids.size == 0:
        return
    suspects = found.ids[:, 0] >= 0
    if found.distances.dtype.kind == "f":
        suspects &= found.distances[:, 0] == 1.0  # as everything is from zeros
    if not suspects.any():
        return
    rows = np.flatnonzero(suspects)
    zeros = rows[np.asarray((batch[rows] != 0).sum(axis=1)).ravel() == 0]
    if len(zeros):
        warn_caller(
            f"queries should not be all zeros under metric='cosine', got zeros in row "
            f"{first + zeros[0]}: they have no direction, all rows are equally far from them, and "
            "which ones are found says nothing. Leave such queries out."
        )


def _conflict(hasher: Hasher | SignModel, metric: str) -> tuple[str, bool, float | None]:
    """Return what to do where lengths of rows can spoil codes, whether the hasher normalizes, and
    the length of the mean it subtracts: None where it is not at odds with the metric.
    """
    if isinstance(hasher, WTAHash):
        centre = hasher.mean_
        if metric != "cosine" or centre is None:
            return "", False, None
        fix = (
            "metric='cosine' does not depend on lengths, and codes of a WTAHash that centres its "
            "rows do, so that many neighbours would be missed. Scale all rows to length 1 before "
            "fit, add and search, or fit it with center=False."
        )
        return fix, False, float(np.linalg.norm(centre))
    model = hasher if isinstance(hasher, SignModel) else getattr(hasher, "model_", None)
    if not isinstance(model, SignModel) or model.mean is None:
        return "", False, None
    if metric == "l2" and model.normalize:
        fix = (
            "metric='l2' depends on lengths, and codes of a hasher with normalize=True do not, so "
            "that many neighbours would be missed. Fit it with normalize=False, or use "
            "metric='cosine'."
        )
        return fix, True, float(np.linalg.norm(model.mean))
    if metric == "cosine" and not model.normalize:
        fix = (
            "metric='cosine' does not depend on lengths, and codes of a hasher with "
            "normalize=False do, so that many neighbours would be missed. Fit it with "
            "normalize=True."
        )
        return fix, False, float(np.linalg.norm(model.mean))
    return "", False, None
