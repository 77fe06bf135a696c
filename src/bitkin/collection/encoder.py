"""The frozen hasher of a collection: what it makes of vectors, and whether its codes can be
scored.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bitkin.arrays import Batch
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.hashers.base import Hasher, naming_batch
from bitkin.hashers.minhash.minhash import MinHash
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.rescoring.corrections import scorer_for
from bitkin.rescoring.estimate import Corrections, Questions, Scorer
from bitkin.sets.members import is_matrix


@dataclass(frozen=True, eq=False, slots=True)
class Encoder:
    """A hasher of our own, and the scorer of its codes where they can be scored."""

    hasher: Hasher
    scorer: Scorer | None
    why_not: str = ""
    """Why codes cannot be scored."""

    @classmethod
    def of(cls, hasher: Any, metric: str) -> Encoder:
        """Freeze a fitted hasher: what is done to it later, such as another `fit`, does not reach
        the encoder.
        """
        own = frozen(hasher)
        try:
            return cls(own, scorer_for(own, metric))
        except InvalidInputError as error:
            return cls(own, None, str(error))

    def takes(self, vectors: Any) -> bool:
        """Whether these are vectors; a MinHash also takes sets, which are none."""
        return not isinstance(self.hasher, MinHash) or is_matrix(vectors)

    def source(self, vectors: Any, name: str) -> VectorSource:
        """Open vectors of the length that the hasher was fitted on."""
        source = open_vectors(vectors, name=name)
        self.hasher.require_features(source)
        return source

    def codes(self, batch: Batch, name: str, first: int) -> Codes:
        """Return the codes of a batch that starts at row `first` of a source."""
        return self.hasher.encode_batch(batch, name, first)

    def questions(self, batch: Batch, name: str, first: int) -> Questions | None:
        """Return what the estimates of a batch of queries are computed from, their codes too, where
        there are any.
        """
        if self.scorer is None:
            return None
        with naming_batch(name, first):
            return self.scorer.questions(batch, name)

    def rows(self, batch: Batch, name: str, first: int) -> tuple[Codes, Corrections | None]:
        """Return the codes of a batch and, where they can be scored, its corrections."""
        if self.scorer is None:
            return self.codes(batch, name, first), None
        return self.scorer.rows(batch, name, first)


def frozen(hasher: Any) -> Hasher:
    """Return a fitted hasher that nobody else has."""
    if not isinstance(hasher, Hasher):
        raise InvalidInputError(
            "hasher must be a fitted ProjectionHash, WTAHash or MinHash, got "
            f"{type(hasher).__name__}."
        )
    try:
        check_is_fitted(hasher)
    except NotFittedError:
        raise InvalidInputError(
            f"hasher must be fitted, got {hasher!r}, which is not. Call its fit with vectors like "
            "those to come."
        ) from None
    return hasher.snapshot() if isinstance(hasher, ProjectionHash) else copy.deepcopy(hasher)
