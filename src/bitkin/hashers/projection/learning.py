"""What a sign model is made by, and how it is learned from rows at hand: directions, then a
rotation of what is projected onto them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitkin import threads
from bitkin.arrays import Floats
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.projections.base import Projection, StreamingProjection
from bitkin.hashers.projection.rotations.base import FoundRotation, Projected, Rotation
from bitkin.hashers.projection.rotations.covariance import CovarianceRotation
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.hashers.projection.training import TrainingVectors
from bitkin.io.vectors import VectorSource
from bitkin.memory import require_memory
from bitkin.notices import warn_caller
from bitkin.randomness import Draws

Epochs = int | float | str | None

_SAMPLE_ROWS = 1 << 15
_SAMPLE_BYTES = 1 << 28
_SAMPLE_ROWS_PER_BIT = 64


@dataclass(frozen=True, slots=True, eq=False)
class ModelRecipe:
    """The parameters of a ProjectionHash, checked, with the objects that their names stand for."""

    n_bits: int
    center: bool
    normalize: bool
    refresh: int
    epochs: Epochs
    projection: Projection
    rotation: Rotation | None
    seed: int

    def require_memory(self, n_features: int) -> None:
        """Raise unless directions of so many numbers, and the rotation, fit in memory."""
        needed = 24 * n_features * self.n_bits  # float64 draws, twice, and the result
        require_memory(
            needed, f"A model of n_bits={self.n_bits} and {n_features} features", "Use fewer bits."
        )
        if self.rotation is not None:
            self.rotation.require_memory(self.n_bits)

    def training_vectors(self, source: VectorSource) -> TrainingVectors:
        """Return the rows to learn from, and how many of them the rotation may see; the seed alone
        decides which.
        """
        rotation, sample_rows = self.rotation, 0
        if rotation is not None:
            rotation.require_parameters()
        # None where it looks at no rows, or at a covariance that the projection or a stream knows.
        if not (
            rotation is None
            or not rotation.needs_rows
            or can_stream(self.projection, rotation)
            or (rotation.needs_covariance_only and self.projection.knows_covariance)
        ):
            # 32,768 rows or what it asks for, within 256 MB, and in any case 64 for each bit
            sample_rows = max(_SAMPLE_ROWS, getattr(rotation, "max_rows", None) or 0)
            if not source.sparse:
                sample_rows = min(sample_rows, _SAMPLE_BYTES // (4 * source.shape[1]))
            sample_rows = max(sample_rows, _SAMPLE_ROWS_PER_BIT * self.n_bits)
        return TrainingVectors(
            source,
            center=self.center,
            normalize=self.normalize,
            key=int(Draws(self.seed, "rows").words(1)[0]),
            sample_rows=sample_rows,
        )


def can_stream(projection: Projection, rotation: Rotation | None) -> bool:
    """Whether the two can learn vector by vector: directions that move, and a rotation that needs
    no rows.
    """
    from_covariance = rotation is None or isinstance(rotation, CovarianceRotation)
    return isinstance(projection, StreamingProjection) and from_covariance


def check_epochs(value: Any) -> Epochs:
    """Return when epochs begin: "auto", "request", a number of vectors, a share of the variance, or
    None for never.
    """
    if value is None or (isinstance(value, str) and value in ("auto", "request")):
        return value
    if isinstance(value, (float, np.floating)) and 0 < value < 1:
        return float(value)
    if (
        isinstance(value, (int, np.integer))
        and not isinstance(value, (bool, np.bool_))
        and 1 <= value < 2**62
    ):
        return int(value)
    raise InvalidInputError(
        "epochs must be 'auto', 'request', a whole number of vectors from 1 on, a share of the "
        f"variance that may be lost between 0 and 1, or None, got {value!r}."
    )


def fit_model(
    recipe: ModelRecipe, vectors: TrainingVectors
) -> tuple[SignModel, FoundRotation | None]:
    """Return the model, and the rotation that is in it.

    Where rows vary along fewer directions D than there are bits, the bits are those of D · F: a
    rotation R of as many dimensions as bits, whose rows beyond D meet nothing but zeros, gives an F
    with orthonormal rows, which keeps all inner products as R does. Without a rotation the first
    bits are D's own and the others random combinations of them.
    """
    n_bits, rotation = recipe.n_bits, recipe.rotation
    learned = recipe.projection.learn(vectors, n_bits, Draws(recipe.seed, "projection"))
    n_found, found = learned.directions.shape[1], None
    if n_found < n_bits:
        _warn_of_few_directions(n_bits, n_found)
        learned = learned.filled_up(n_bits)
    components = learned.directions
    if rotation is not None:
        # a known covariance of all rows is better than that of a sample, and saves reading it
        enough = rotation.needs_covariance_only and learned.covariance is not None
        sample = () if enough else vectors.sample_batches()
        rows = np.concatenate(
            [np.empty((0, n_bits), dtype=np.float32), *map(learned.project, sample)]
        )
        found = rotation.find(
            Projected(rows, learned.covariance, vectors.sampled),
            n_bits,
            Draws(recipe.seed, "rotation"),
        )
        # signs of ((x − mean) · directions) · R are those of (x − mean) · (directions · R)
        with threads.blas_in_one_thread():
            components = components @ found.matrix
    elif n_found < n_bits:
        components[:, n_found:] = _combine_at_random(components[:, :n_found], n_bits, recipe.seed)
    model = SignModel(
        components.astype(np.float32),
        learned.mean,
        recipe.normalize,
        random=recipe.projection.random,
    )
    return model.require_smaller_mean(), found


def _combine_at_random(directions: Floats, n_bits: int, seed: int) -> Floats:
    """Return unit directions at random within the span of those given: as many as are missing."""
    n_found = directions.shape[1]
    normals = Draws(seed, "filling").normals((n_found, n_bits - n_found))
    lengths = np.linalg.norm(normals, axis=0)
    with threads.blas_in_one_thread():
        combined: Floats = directions @ (normals / np.where(lengths > 0, lengths, 1.0))
    return combined


def _warn_of_few_directions(n_bits: int, n_found: int) -> None:
    warn_caller(
        f"n_bits={n_bits} is more than the {n_found} directions along which the rows of X vary by "
        "more than 2**-20 of their length (few features or rows, constant or repeated columns, or "
        "a mean far larger than the spread): the bits beyond are random combinations of those. "
        f"They make distances more exact. Ask for n_bits={n_found} to have none."
    )
