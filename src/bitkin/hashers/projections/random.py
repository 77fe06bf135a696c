"""Random directions: bits collide with probability 1 − θ/π, whatever the data."""

from __future__ import annotations

from bitkin.hashers.projections.base import Learned, Projection
from bitkin.hashers.training import TrainingVectors
from bitkin.randomness import Draws


class RandomProjection(Projection):
    """Directions with independent normal entries; any number of bits, no data needed.

    Two vectors at angle θ get the same bit with probability 1 − θ/π.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> hasher = bitkin.ProjectionHash(n_bits=64, projection=bitkin.projections.RandomProjection(), rotation=None)
    >>> hasher.fit(np.eye(3)).spec_.n_bits
    64
    """

    def learn(self, vectors: TrainingVectors, n_bits: int, draws: Draws) -> Learned:
        """Return normals, multiples of 2⁻¹⁶, the same on every machine, and the mean of all rows."""
        mean = vectors.mean_of_all()
        return Learned(draws.normals((vectors.n_features, n_bits)), mean)
