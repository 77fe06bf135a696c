"""One epoch of a collection: a frozen hasher, and what searches in its codes need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bitkin.collection.encoding import Encoder
from bitkin.collection.searching.lane import Lane
from bitkin.collection.settings import CollectionSettings, later_index, new_index
from bitkin.index.base import RowIndex
from bitkin.index.flat import FlatIndex
from bitkin.rescoring.estimate_scan import QUERY_BITS
from bitkin.rescoring.first_stage import FirstStageChooser
from bitkin.rescoring.row_scorer import EstimateScorer


@dataclass(frozen=True, eq=False, slots=True)
class CollectionEpoch:
    """A frozen hasher of a collection, and what searches in its codes need. It never changes."""

    number: int
    """0 for the hasher that the collection was made with."""
    encoder: Encoder
    settings: CollectionSettings
    index: RowIndex
    """How codes are searched; it holds none itself."""
    later: RowIndex | None
    """How codes are searched once there are many rows, if otherwise."""
    stages: frozenset[str]
    """Those that a search can have."""
    last_stage: str
    """Of a search that does not name one."""
    estimates: EstimateScorer | None
    """What codes of residuals are made by, where rows come into cells around vectors."""
    chooser: FirstStageChooser | None
    lane: Lane | None

    @classmethod
    def begin(
        cls,
        number: int,
        encoder: Encoder,
        settings: CollectionSettings,
        index: str | RowIndex,
        *,
        grows: bool = True,
    ) -> CollectionEpoch:
        """Return the epoch of a hasher; raise where settings ask for what it cannot do. If it
        `grows`, index="auto" takes cells once there are many rows.
        """
        own = new_index(index, encoder.hasher.spec_)
        later = later_index(index, settings, encoder) if grows else None
        return cls._with_indexes(number, encoder, settings, own, later)

    @classmethod
    def _with_indexes(
        cls,
        number: int,
        encoder: Encoder,
        settings: CollectionSettings,
        index: RowIndex,
        later: RowIndex | None,
    ) -> CollectionEpoch:
        stages = settings.possible_stages(encoder)
        last = settings.last_stage(None, stages, encoder)
        if settings.first == "estimate":
            settings.require_estimate_first(encoder, index)
        chooser, lane = None, None
        if encoder.scorer is not None and isinstance(index, FlatIndex):
            query_bits = settings.query_bits or QUERY_BITS
            chooser = FirstStageChooser(encoder.scorer, query_bits, settings.vectors is not None)
            lane = Lane(encoder.scorer, query_bits)
        estimates = settings.estimates_in_cells(encoder)
        return cls(number, encoder, settings, index, later, stages, last, estimates, chooser, lane)

    def __reduce__(self) -> tuple[Any, ...]:
        # what searches have prepared is made again
        parts = (self.number, self.encoder, self.settings, self.index, self.later)
        return CollectionEpoch._with_indexes, parts

    @property
    def fingerprint(self) -> str:
        """Of the hasher."""
        return self.encoder.hasher.fingerprint_

    @property
    def has_estimates(self) -> bool:
        """Whether scores of its codes are distances, which compare with those of other epochs."""
        scorer = self.encoder.row_scorer
        return scorer is not None and not scorer.ranks_only
