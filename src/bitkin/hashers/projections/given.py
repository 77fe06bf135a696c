"""Directions that were found elsewhere."""

from __future__ import annotations

from typing import NoReturn

from bitkin.errors import InvalidInputError
from bitkin.hashers.projections.base import Projection
from bitkin.hashers.training import TrainingVectors
from bitkin.randomness import Draws


class Given(Projection):
    """Stands in the slot of a hasher whose directions came from elsewhere; it cannot find any.

    See `bitkin.interop.from_faiss`.
    """

    def learn(self, vectors: TrainingVectors, n_bits: int, draws: Draws) -> NoReturn:
        """Raise: there is nothing to learn by."""
        raise InvalidInputError(
            "This hasher's directions were given, not learned, and it cannot be fitted. "
            "Use it as it is, or fit a ProjectionHash with another projection."
        )
