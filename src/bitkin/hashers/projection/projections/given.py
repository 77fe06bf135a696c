"""Directions that were found elsewhere."""

from __future__ import annotations

from typing import NoReturn

from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.projections.base import Projection
from bitkin.hashers.projection.training import TrainingVectors
from bitkin.randomness import Draws


class Given(Projection):
    """Stands in the slot of a hasher whose directions came from elsewhere; it cannot find any.

    See `bitkin.interop.from_faiss` and `ProjectionHash.snapshot`.

    Parameters
    ----------
    random : bool, default False
        Whether the directions were drawn at random: then they need not be orthonormal for their
        codes to be scored, see `bitkin.corrections`.
    """

    def __init__(self, random: bool = False) -> None:
        self.random = random

    def require_parameters(self) -> None:
        """Raise unless every parameter can be used."""
        if not isinstance(self.random, bool):
            raise InvalidInputError(f"random must be True or False, got {self.random!r}.")

    def learn(self, vectors: TrainingVectors, n_bits: int, draws: Draws) -> NoReturn:
        """Raise: there is nothing to learn by."""
        raise InvalidInputError(
            "This hasher's directions were given, not learned, and it cannot be fitted. "
            "Use it as it is, or fit a ProjectionHash with another projection."
        )
