"""Random directions: bits collide with probability 1 − θ/π, whatever the data."""

from __future__ import annotations

from bitkin.hashers.projection.projections.base import Learned, Projection
from bitkin.hashers.projection.statistics.moments import RowMean
from bitkin.hashers.projection.training import TrainingVectors, round_mean
from bitkin.randomness import Draws


class RandomProjection(Projection):
    """Directions with independent normal entries; any number of bits, no data needed.

    Two vectors at angle θ get the same bit with probability 1 − θ/π.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> directions = bitkin.projections.RandomProjection()
    >>> hasher = bitkin.ProjectionHash(n_bits=64, projection=directions, rotation=None)
    >>> hasher.fit(np.eye(3)).spec_.n_bits
    64
    """

    random = True

    def learn(self, vectors: TrainingVectors, n_bits: int, draws: Draws) -> Learned:
        """Return normals, multiples of 2⁻¹⁶, the same on every machine, and the mean of all
        rows.
        """
        return self.from_statistics(
            vectors.mean_of_all(), n_bits, center=vectors.center, draws=draws
        )

    def statistics(self, n_features: int) -> RowMean:
        """Return what to update with rows, here or on several machines, and to merge."""
        return RowMean(n_features)

    def from_statistics(self, mean: RowMean, n_bits: int, *, center: bool, draws: Draws) -> Learned:
        """Return the directions and the mean of the rows that `mean` has seen."""
        return Learned(
            draws.normals((mean.n_features, n_bits)), round_mean(mean.mean) if center else None
        )
