"""How a sign model is learned from rows at hand: directions, then a rotation of what is projected
onto them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.hashers.projection.projections import Projection, RandomProjection
from bitkin.hashers.projection.projections.given import Given
from bitkin.hashers.projection.projections.limits import require_memory
from bitkin.hashers.projection.rotations import Projected, Rotation
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.hashers.projection.training import TrainingVectors
from bitkin.io.vectors import VectorSource
from bitkin.randomness import Draws

_SAMPLE_ROWS = 1 << 15
_SAMPLE_BYTES = 1 << 28
_SAMPLE_ROWS_A_BIT = 64


class Slots(NamedTuple):
    """What a model is made by, and of how many bits."""

    n_bits: int
    projection: Projection
    rotation: Rotation | None

    @property
    def random(self) -> bool:
        """Whether directions are drawn, not learned."""
        projection = self.projection
        return isinstance(projection, RandomProjection) or (
            isinstance(projection, Given) and projection.random
        )

    def require_memory(self, n_features: int) -> None:
        """Raise unless directions of so many numbers, and the rotation, fit in memory."""
        needed = 24 * n_features * self.n_bits  # float64 draws, twice, and the result
        require_memory(
            needed, f"A model of n_bits={self.n_bits} and {n_features} features", "Use fewer bits."
        )
        if self.rotation is not None:
            self.rotation.require_memory(self.n_bits)

    def sample_rows(self, source: VectorSource) -> int:
        """Return how many rows the rotation may learn from: 32,768 or what it asks for, within 256
        MB.

        None where it looks at none, or at a covariance that the projection knows.
        """
        rotation = self.rotation
        if rotation is None or not rotation.needs_rows:
            return 0
        if rotation.needs_covariance_only and self.projection.knows_covariance:
            return 0
        most = max(_SAMPLE_ROWS, getattr(rotation, "max_rows", None) or 0)
        if not source.sparse:
            most = min(most, _SAMPLE_BYTES // (4 * source.shape[1]))
        return max(most, _SAMPLE_ROWS_A_BIT * self.n_bits)


def training_vectors(
    source: VectorSource, *, center: bool, normalize: bool, seed: int, sample_rows: int = 0
) -> TrainingVectors:
    """Return rows to learn from; the seed alone decides which of them a rotation looks at."""
    key = int(Draws(seed, "rows").words(1)[0])
    return TrainingVectors(
        source, center=center, normalize=normalize, key=key, sample_rows=sample_rows
    )


def learn_signs(
    slots: Slots, vectors: TrainingVectors, seed: int
) -> tuple[SignModel, npt.NDArray[np.float64]]:
    """Return the model, and the loss after each turn of a rotation that is found in turns."""
    learned = slots.projection.learn(vectors, slots.n_bits, Draws(seed, "projection"))
    components, losses = learned.directions, np.empty(0)
    if slots.rotation is not None:
        enough = slots.rotation.needs_covariance_only and learned.covariance is not None
        sample = () if enough else vectors.sample_batches()
        rows = np.concatenate(
            [np.empty((0, slots.n_bits), dtype=np.float32), *map(learned.project, sample)]
        )
        projected = Projected(rows, learned.covariance)
        rotation, losses = slots.rotation.matrix_and_losses(
            projected, slots.n_bits, Draws(seed, "rotation")
        )
        with threads.blas_in_one_thread():
            components = components @ rotation
    model = SignModel(
        components.astype(np.float32), learned.mean, vectors.normalize, random=slots.random
    )
    return model.require_smaller_mean(), losses
