"""What a collection is made with, checked once; and what this version cannot do yet, said in one
line.
"""

from __future__ import annotations

import copy
import importlib
from dataclasses import dataclass
from typing import Any

from bitkin.checks import one_of, whole_number
from bitkin.code_spec import CodeSpec
from bitkin.collection.encoder import Encoder
from bitkin.collection.integer_ids import IntegerIds
from bitkin.collection.kept import RowIds
from bitkin.collection.kept_vectors import KINDS, KeptVectors, no_vectors
from bitkin.collection.stages import STAGES, best_of
from bitkin.collection.string_ids import StringIds
from bitkin.errors import InvalidInputError
from bitkin.index.base import RowIndex
from bitkin.rescoring.pair_distances import METRICS

MOST = 2**31 - 1
INDEXES = {
    "flat": ("bitkin.index.flat.flat_index", "FlatIndex"),
    "multi": ("bitkin.index.multi.multi_index", "MultiIndex"),
    "bands": ("bitkin.index.bands.band_index", "BandIndex"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments of `Collection.create` that later calls ask for, each of them possible by
    itself.
    """

    vectors: str | None
    metric: str
    ids: str
    stage: str | None
    oversample: int

    def __post_init__(self) -> None:
        if self.vectors is not None:
            one_of(self.vectors, "vectors", KINDS)
        one_of(self.metric, "metric", METRICS)
        one_of(self.ids, "ids", ("int", "str"))
        whole_number(self.oversample, "oversample", low=1, high=MOST)
        if self.stage is not None:
            one_of(self.stage, "stage", STAGES)

    def able(self, encoder: Encoder) -> frozenset[str]:
        """Return the stages that a search can have."""
        estimate, exact = encoder.scorer is not None, self.vectors is not None
        return frozenset(
            {"codes"} | ({"estimate"} if estimate else set()) | ({"exact"} if exact else set())
        )

    def last_stage(self, stage: Any, encoder: Encoder) -> str:
        """Return the stage asked for, or the one this was made with, or the best; raise where it is
        not possible.
        """
        able = self.able(encoder)
        last = self.stage if stage is None else one_of(stage, "stage", STAGES)
        if last is None:
            return best_of(able)
        if last == "exact" and last not in able:
            raise InvalidInputError(
                "stage must not be 'exact' in a collection with vectors=None, which keeps none to "
                "measure. Create it "
                "with vectors='float32'."
            )
        if last not in able:
            raise InvalidInputError(
                f"stage must not be 'estimate' in this collection: {encoder.why_not}"
            )
        return last

    def new_ids(self) -> RowIds:
        """Return ids of the kind wanted, of which there are none yet."""
        return IntegerIds() if self.ids == "int" else StringIds()

    def new_vectors(self, encoder: Encoder) -> KeptVectors | None:
        """Return vectors of the kind wanted, of which there are none yet; None where none are
        kept.
        """
        if self.vectors is None:
            return None
        n_features = getattr(encoder.hasher, "n_features_in_", None)
        if n_features is None:
            raise InvalidInputError(
                f"vectors must be None for a {type(encoder.hasher).__name__} that was fitted "
                "without a matrix: sets "
                f"have no vectors to keep. Fit it on a matrix to keep vectors={self.vectors!r}."
            )
        return no_vectors(self.vectors, n_features)


def new_index(index: str | RowIndex, spec: CodeSpec) -> RowIndex:
    """Return an index without rows that nobody else has: of the kind wanted, or like the one
    given.
    """
    if isinstance(index, RowIndex):
        if len(index) or index.spec != spec:
            raise InvalidInputError(
                f"index must have no rows, and codes of {spec} like the hasher, got {index}."
            )
        return copy.deepcopy(index)
    module, name = INDEXES[one_of(index, "index", tuple(INDEXES))]
    made: RowIndex = getattr(importlib.import_module(module), name)(spec)
    return made


def require_absent(value: Any, name: str, instead: str) -> None:
    """Raise where something is given that this version does not have yet."""
    if value is not None:
        raise InvalidInputError(f"{name} must be None in this version: {instead}")
