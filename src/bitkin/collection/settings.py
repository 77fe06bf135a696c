"""What a collection is made with, checked once."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from bitkin.checks import one_of, shown, suggest, whole_number
from bitkin.choices import FIRST_STAGES, METRICS, MOST_NEIGHBORS, STAGES
from bitkin.code_spec import CodeSpec
from bitkin.collection.encoding import Encoder
from bitkin.collection.ids import CollectionIds, IntegerIds, StringIds
from bitkin.collection.vectors import KINDS, KeptVectors, no_vectors
from bitkin.errors import InvalidInputError
from bitkin.index.base import RowIndex
from bitkin.index.cells.cell_index import CellIndex
from bitkin.index.flat import FlatIndex
from bitkin.rescoring.estimate_scan import MOST_QUERY_BITS
from bitkin.rescoring.row_scorer import EstimateScorer

INDEXES = {
    "flat": ("bitkin.index.flat", "FlatIndex"),
    "multi": ("bitkin.index.multi.multi_index", "MultiIndex"),
    "bands": ("bitkin.index.bands.band_index", "BandIndex"),
    "cells": ("bitkin.index.cells.cell_index", "CellIndex"),
    "auto": ("bitkin.index.flat", "FlatIndex"),  # to begin with: see `later_index`
}

_SETTINGS_OF_INDEXES = {
    "band_bits": "BandIndex",
    "budget": "BandIndex",
    "n_cells": "CellIndex",
    "probes": "CellIndex",
}


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """The arguments of `Collection.create` that later calls ask for, each of them possible by
    itself.
    """

    vectors: str | None
    metric: str
    ids: str
    stage: str | None
    oversample: int
    first: str | None = None
    query_bits: int | None = None
    fields: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.vectors is not None:
            one_of(self.vectors, "vectors", KINDS, or_none=True)
        one_of(self.metric, "metric", METRICS)
        one_of(self.ids, "ids", ("int", "str"))
        whole_number(self.oversample, "oversample", low=1, high=MOST_NEIGHBORS)
        if self.stage is not None:
            one_of(self.stage, "stage", STAGES, or_none=True)
        if self.first is not None:
            one_of(self.first, "first", FIRST_STAGES, or_none=True)
        if self.query_bits is not None:
            whole_number(self.query_bits, "query_bits", low=1, high=MOST_QUERY_BITS)

    def possible_stages(self, encoder: Encoder) -> frozenset[str]:
        """Return the stages that a search can have."""
        # in the order of the funnel: each stage needs something more to be kept
        possible = {"codes"}
        if encoder.row_scorer is not None:
            possible.add("estimate")
        if self.vectors is not None:
            possible.add("exact")
        return frozenset(possible)

    def last_stage(self, stage: Any, possible: frozenset[str], encoder: Encoder) -> str:
        """Return the stage asked for, or the one this was made with, or the best; raise where it is
        not possible.
        """
        last = self.stage if stage is None else one_of(stage, "stage", STAGES)
        if last is None:
            return max(possible, key=STAGES.index)
        if last == "exact" and last not in possible:
            raise InvalidInputError(
                "stage must not be 'exact' in a collection with vectors=None, which keeps none to "
                "measure. Create it with vectors='float32'."
            )
        if last not in possible:
            raise InvalidInputError(
                f"stage must not be 'estimate' in this collection: {encoder.why_not}"
            )
        return last

    def first_stage(self, first: Any, last: str, encoder: Encoder, index: RowIndex) -> str | None:
        """Return the first stage asked for, or the one this was made with, None where the search is
        to choose; raise where it is not possible.
        """
        if first is None:
            # what a collection was made with is for searches in which it is possible
            return self.first if last != "codes" else "codes"
        one_of(first, "first", FIRST_STAGES)
        if first == "estimate":
            if last == "codes":
                raise InvalidInputError(
                    "first must not be 'estimate' for stage='codes', which counts the symbols that "
                    "differ. Search with stage='estimate'."
                )
            self.require_estimate_first(encoder, index)
        return str(first)

    def require_estimate_first(self, encoder: Encoder, index: RowIndex) -> None:
        """Raise where a search cannot begin with an estimate of all rows."""
        if encoder.row_scorer is None:
            raise InvalidInputError(
                f"first must not be 'estimate' in this collection: {encoder.why_not}"
            )
        if not isinstance(index, FlatIndex | CellIndex):
            raise InvalidInputError(
                f"first must not be 'estimate' in a collection with a {type(index).__name__}, "
                "which looks rows up by their codes instead of going over all. Create it with "
                "index='flat', or search with first='codes'."
            )

    def estimates_in_cells(self, encoder: Encoder) -> EstimateScorer | None:
        """Return what makes codes of residuals for rows in cells; None where there are no vectors
        to make them of, and where codes themselves are what searches compare.
        """
        scorer = encoder.row_scorer
        dense = self.vectors is not None and self.vectors != "csr"
        if not dense or self.stage == "codes" or not isinstance(scorer, EstimateScorer):
            return None
        return scorer

    def new_ids(self) -> CollectionIds:
        """Return an empty table of ids of the kind wanted."""
        return IntegerIds() if self.ids == "int" else StringIds()

    def new_vectors(self, encoder: Encoder) -> KeptVectors | None:
        """Return an empty store of vectors of the kind wanted; None where none are kept."""
        if self.vectors is None:
            return None
        n_features = getattr(encoder.hasher, "n_features_in_", None)
        if n_features is None:
            raise InvalidInputError(
                f"vectors must be None for a {type(encoder.hasher).__name__} that was fitted "
                "without a matrix: sets have no vectors to keep. Fit it on a matrix to keep "
                f"vectors={self.vectors!r}."
            )
        return no_vectors(self.vectors, n_features)


def later_index(
    index: str | RowIndex, settings: CollectionSettings, encoder: Encoder
) -> RowIndex | None:
    """Return the index to take once there are many rows, without any; None where it stays what it
    is: cells pay at so few rows only where codes are those of residuals.
    """
    if not isinstance(index, str) or index != "auto":
        return None
    residual = settings.estimates_in_cells(encoder) is not None
    return CellIndex(encoder.hasher.spec_) if residual else None


def new_index(index: Any, spec: CodeSpec) -> RowIndex:
    """Return an index of our own without rows: of the kind wanted, or like the one
    given.
    """
    if isinstance(index, RowIndex):
        if index.spec != spec:
            raise InvalidInputError(
                f"index must be for codes of {spec}, which the hasher makes, got {index}. Write "
                f"{type(index).__name__}(hasher.spec_)."
            )
        if len(index):
            raise InvalidInputError(
                f"index must have no rows: it is taken for its settings alone, got {index}. Add "
                "the vectors to the collection."
            )
        return copy.deepcopy(index)
    if isinstance(index, type) and issubclass(index, RowIndex):
        raise InvalidInputError(
            f"index must be an index, got the class {index.__name__}. Write "
            f"{index.__name__}(hasher.spec_)."
        )
    # imported only when asked for: an index brings its kernels with it
    module, name = INDEXES[one_of(index, "index", tuple(INDEXES))]
    made: RowIndex = getattr(importlib.import_module(module), name)(spec)
    return made


def refuse_arguments(others: Mapping[str, Any]) -> NoReturn:
    """Raise for arguments that `Collection.create` does not have; settings of an index are given
    with it.
    """
    name, value = next(iter(others.items()))
    if name not in _SETTINGS_OF_INDEXES:
        hint = suggest(name, tuple(inspect.signature(CollectionSettings).parameters))
        raise TypeError(f"Collection.create() got an unexpected keyword argument {name!r}.{hint}")
    made = f"index=bitkin.{_SETTINGS_OF_INDEXES[name]}(hasher.spec_, {name}={shown(value)})"
    later = ", or give it to search" if name == "probes" else ""
    raise InvalidInputError(f"{name} is a setting of an index, not of create. Write {made}{later}.")
