"""The slot for projections, and how many directions data can give."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from bitkin.arrays import Batch, Floats
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.statistics.centred_rows import centred_product
from bitkin.hashers.projection.training import TrainingVectors, merge_statistics, round_mean
from bitkin.io.vectors.batch import row_slice
from bitkin.randomness import Draws

if TYPE_CHECKING:
    from bitkin.hashers.projection.trackers import Tracker

VISIBLE = 2.0**-40
"""A direction is visible where the variance along it is above this share of the mean of ‖x‖².

Codes are made in float32: where rows differ by less than 2⁻²⁰ of their length, bits would be noise.
"""

_PIECE_NUMBERS = 1 << 22  # of a sparse batch that is made dense at a time


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What a projection found: a row x is projected to (x − mean) · directions."""

    directions: npt.NDArray[np.float64]
    """Directions as columns: float64 (n_features, n_found), n_bits of them unless rows vary along
    fewer.
    """

    mean: npt.NDArray[np.float64] | None
    """float64 (n_features,), on the grid of float32; None where the hasher does not centre."""

    covariance: npt.NDArray[np.float64] | None = None
    """Second moment of all projected rows, float64 (n_found, n_found); None where only a sample can
    tell.
    """

    def filled_up(self, n_bits: int) -> Learned:
        """Return this with directions of zeros behind, `n_bits` in all: no row has anything along
        those.
        """
        missing = n_bits - self.directions.shape[1]
        covariance = self.covariance
        if covariance is not None:
            covariance = np.pad(covariance, (0, missing))
        return Learned(np.pad(self.directions, ((0, 0), (0, missing))), self.mean, covariance)

    def project(self, rows: Batch) -> npt.NDArray[np.float32]:
        """Return projected rows, rounded to float32 once: dense and CSR rows hardly ever differ."""
        centre = np.zeros(len(self.directions)) if self.mean is None else self.mean
        with np.errstate(over="ignore"):
            projected = centred_product(rows, centre, self.directions).astype(np.float32)
        if not np.isfinite(projected).all():
            raise InvalidInputError(
                "X must have smaller numbers: they project beyond float32. Scale it down."
            )
        return projected


class Projection(BaseEstimator, ABC):  # type: ignore[misc]
    """Finds directions. Stores its parameters only: what it finds belongs to the hasher that
    asked.
    """

    random: bool = False
    """Whether directions are drawn at random: what codes tell about distances depends on it."""

    reads_all_rows: ClassVar[bool] = True
    """Whether `learn` comes across every row, and so across every number that is not finite."""

    @property
    def knows_covariance(self) -> bool:
        """Whether `learn` will hand on the covariance of all projected rows, so that no sample is
        needed for it.
        """
        return False

    @abstractmethod
    def learn(self, vectors: TrainingVectors, n_bits: int, draws: Draws) -> Learned:
        """Return up to `n_bits` directions, as many as rows vary along, and the mean; the
        projection decides which rows are read for them.
        """

    def require_parameters(self) -> None:  # most have none
        """Raise unless every parameter can be used."""


class StreamingProjection(Projection):
    """Finds directions vector by vector, and continues while a stream does."""

    @abstractmethod
    def tracker(self, n_features: int, n_bits: int, *, center: bool, draws: Draws) -> Tracker:
        """Return a tracker that has seen nothing yet; it tells the directions so far whenever it is
        asked.
        """

    def learn(self, vectors: TrainingVectors, n_bits: int, draws: Draws) -> Learned:
        """Return what a tracker knows after all rows, one after another and once."""
        tracker = self.tracker(vectors.n_features, n_bits, center=vectors.center, draws=draws)
        tracker = follow_all_rows(tracker, vectors)
        require_rows(tracker.n_seen, n_bits, center=vectors.center)
        if not tracker.ready:
            raise InvalidInputError(
                "X must have rows that differ, got the same one throughout. Give rows that vary."
            )
        mean = round_mean(tracker.mean) if vectors.center else None
        return Learned(tracker.directions.astype(np.float64), mean, tracker.covariance)


def follow_all_rows(tracker: Tracker, vectors: TrainingVectors) -> Tracker:
    """Return what a tracker that has seen nothing knows after all rows, one after another and once.

    Where rows are in several places, a tracker that can be merged follows those of each.
    """
    tracker.begin_fit()
    if vectors.source.in_parts and tracker.mergeable:
        # a copy of a tracker is made of its state, and so is what is sent
        tracker = vectors.fold(partial(copy.copy, tracker), _follow_rows, merge_statistics)
    else:
        for first, batch in vectors.batches():
            _follow_rows(tracker, first, batch)
    tracker.end_fit()
    return tracker


def _follow_rows(tracker: Tracker, _: int, batch: Batch) -> Tracker:
    # trackers take dense rows; a wide CSR batch is made dense in pieces of 16 MB
    if not issparse(batch):
        tracker.update(batch)
        return tracker
    step = max(1, _PIECE_NUMBERS // batch.shape[1])
    for first in range(0, batch.shape[0], step):
        tracker.update(row_slice(batch, first, min(first + step, batch.shape[0])).toarray())
    return tracker


def require_more_features(n_features: int, n_bits: int, method: str) -> None:
    """Raise unless a stream has more features than bits: with as many there would be nothing to
    follow.
    """
    if n_bits >= n_features:
        raise InvalidInputError(
            f"n_bits must be below n_features = {n_features} for {method}, got {n_bits}: a "
            f"subspace has fewer directions than the space. Ask for at most {n_features - 1} bits. "
            "Only models that do not follow a stream can have more: projection='pca' or "
            "projection='random'."
        )


def require_rows(n_rows: int, n_bits: int, *, center: bool) -> None:
    """Raise unless so many rows, centred or not, span as many directions as there are bits."""
    most = n_rows - center
    if n_bits > most:
        raise InvalidInputError(
            f"n_bits must be at most {most} where n_samples = {n_rows}, got {n_bits}: so few rows "
            "do not vary along more directions. Give more rows, ask for fewer bits, or use "
            "projection='random', which takes any number."
        )


def count_visible(variances: Floats, mean_square: float, n_rows: int) -> int:
    """Return along how many directions rows vary by more than float32 can lose; see `VISIBLE`.
    Raise where there is none.
    """
    # 2⁻⁴⁰ of a squared length is 2⁻²⁰ of a length
    count = int(np.count_nonzero(variances > VISIBLE * mean_square))
    if count == 0:
        raise InvalidInputError(
            f"X must have rows that differ, got n_samples = {n_rows} rows that vary along 0 "
            "directions by more than 2**-20 of their length (one row, the same row throughout, or "
            "a mean far larger than the spread?). Give rows that vary, subtract their mean first, "
            "or use projection='random'."
        )
    return count
