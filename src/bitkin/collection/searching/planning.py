"""Which stages a search goes through, decided from its arguments and the rows that there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bitkin.arrays import Ids
from bitkin.checks import shown, whole_number
from bitkin.choices import MOST_NEIGHBORS
from bitkin.collection.epoch import CollectionEpoch
from bitkin.collection.metadata.filters import Condition
from bitkin.collection.results import Hits
from bitkin.collection.searching.across import (
    find_across,
    funnel_of_part,
    require_comparable_epochs,
)
from bitkin.collection.searching.search import SearchOptions, SearchPart, as_hits, find_nearest
from bitkin.collection.snapshot import CollectionSnapshot
from bitkin.errors import InvalidInputError
from bitkin.index.cells.cell_index import CellIndex
from bitkin.index.cells.tables import CellTables
from bitkin.index.flat import FlatIndex
from bitkin.rescoring.first_stage import FirstStage, choose_by_losses
from bitkin.rescoring.funnel import CODES_PER_ESTIMATE, Funnel, Step, steps_to
from bitkin.timings import Timings

FEW_IN_CELLS = "cells leave few rows, all of which can be estimated"


class SearchPlan(NamedTuple):
    """What a search does, and with which rows."""

    now: CollectionSnapshot
    parts: tuple[SearchPart, ...]
    """One per epoch that has rows, the newest first."""
    last: Step
    shortlisted: int | None
    """Rows of several epochs that are measured per query; None is all that each of them found."""
    allowed: Ids | None
    probes: int | None
    first: FirstStage
    """Of the newest of them."""

    def run(self, queries: Any, timings: Timings | None = None) -> Hits:
        """Search."""
        options = SearchOptions(self.allowed, self.probes, timings)
        if len(self.parts) == 1:
            return as_hits(self.now, find_nearest(self.parts[0], queries, options))
        found = find_across(self.now, self.parts, self.last, self.shortlisted, queries, options)
        return as_hits(self.now, found)


class SearchArguments(NamedTuple):
    """The arguments of a search, as a caller gave them, and the filter read."""

    k: Any
    stage: Any = None
    oversample: Any = None
    condition: Condition | None = None
    allow: Any = None
    first: Any = None
    probes: Any = None

    def plan(self, now: CollectionSnapshot) -> SearchPlan:
        """Check the arguments, and return through which stages the search goes, for which rows."""
        # an epoch that has just begun has no rows yet
        live = tuple(part for part in now.parts if len(part)) or now.parts[:1]
        epoch = live[0].epoch
        settings = epoch.settings
        k = whole_number(self.k, "k", low=1, high=MOST_NEIGHBORS)
        oversample = settings.oversample
        if self.oversample is not None:
            oversample = whole_number(self.oversample, "oversample", low=1, high=MOST_NEIGHBORS)
        last = _usual_stage(live)
        if self.stage is not None:
            last = settings.last_stage(self.stage, epoch.stages, epoch.encoder)
        require_comparable_epochs(live, last)
        allowed = self._allowed_rows(now)
        wanted = settings.first_stage(self.first, last, epoch.encoder, live[0].index)
        n_allowed = None if allowed is None else len(allowed)
        merge_all = not all(part.epoch.has_estimates for part in live)
        parts, firsts = [], []
        for part in live:
            first = _choose_first(part, wanted, last, k * oversample, n_allowed)
            firsts.append(first)
            if len(live) > 1:
                funnel = funnel_of_part(
                    part, Step(last, k), oversample, first.stage, merge_all=merge_all
                )
            else:
                funnel = _funnel(epoch, last, k, oversample, first.stage)
            parts.append(SearchPart(part, funnel))
        probes = None if self.probes is None else _checked_probes(self.probes, now)
        shortlisted = None if merge_all else k * oversample
        return SearchPlan(now, tuple(parts), Step(last, k), shortlisted, allowed, probes, firsts[0])

    def _allowed_rows(self, now: CollectionSnapshot) -> Ids | None:
        """Return the row ids that may be returned; None is all of them."""
        allowed: Ids | None = None
        if self.allow is not None:
            allowed = now.ids.row_ids(now.ids.check(self.allow, "allow"))
            # strings that never came have no row id
            allowed = allowed[allowed >= 0]
        if self.condition is not None:
            matching = now.matching(self.condition)
            allowed = matching if allowed is None else np.intersect1d(allowed, matching)
        return allowed


def _usual_stage(live: Sequence[CollectionSnapshot]) -> str:
    """Return the last stage of a search that does not name one: what the collection was made with
    where rows of all epochs can be ranked by it, else the vectors, if they are kept.
    """
    epoch = live[0].epoch
    if len(live) == 1:
        return epoch.last_stage
    if epoch.last_stage == "estimate" and all(part.epoch.has_estimates for part in live):
        return "estimate"
    return "estimate" if epoch.settings.vectors is None else "exact"


def _funnel(epoch: CollectionEpoch, last: str, k: int, oversample: int, first: str) -> Funnel:
    """Return the stages of a search over rows of one epoch."""
    scorer = epoch.encoder.row_scorer
    ranks_only = scorer is not None and scorer.ranks_only
    steps = steps_to(last, epoch.stages, k, oversample, first, ranks_only=ranks_only)
    # a search by codes and exact distances alone prepares no estimates
    if not any(step.stage in ("scan", "estimate") for step in steps):
        scorer = None
    return Funnel(steps, scorer, epoch.settings.metric)


def _choose_first(
    now: CollectionSnapshot, wanted: str | None, last: str, keep: int, n_allowed: int | None
) -> FirstStage:
    """Return the first stage of a search in the rows of one epoch whose exact stage measures `keep`
    of the rows allowed, all of them if `n_allowed` is None.
    """
    epoch = now.epoch
    scorer = epoch.encoder.row_scorer
    if last == "codes":
        return FirstStage("codes", "codes are the last stage too")
    if scorer is None or not isinstance(now.index, FlatIndex | CellIndex):
        wanted = None if wanted == "estimate" else wanted  # of another epoch than the current one
    if wanted is not None:
        return FirstStage(wanted, "asked for")
    if isinstance(now.index, CellIndex) and scorer is not None:
        if any(isinstance(segment.tables, CellTables) for segment in now.coded.segments):
            return FirstStage("estimate", FEW_IN_CELLS)
        return FirstStage("estimate", "there are too few rows for cells yet")
    if scorer is not None and scorer.ranks_only and isinstance(now.index, FlatIndex):
        n_rows = len(now) if n_allowed is None else min(len(now), n_allowed)
        return choose_by_losses(n_rows, last, keep * CODES_PER_ESTIMATE)
    if epoch.chooser is None or not isinstance(now.index, FlatIndex):
        return FirstStage("codes", "there is no estimate of all rows in this collection")
    return epoch.chooser.choose(now.coded, now, keep * CODES_PER_ESTIMATE, n_allowed)


def _checked_probes(probes: Any, now: CollectionSnapshot) -> int:
    """Return a number of cells to look into, where there are cells, or will be."""
    has_cells = (isinstance(part.index, CellIndex) or part.later is not None for part in now.parts)
    if not any(has_cells):
        raise InvalidInputError(
            f"probes must be None in a collection without cells, got {shown(probes)}. Create it "
            "with index='cells'."
        )
    return whole_number(probes, "probes", low=1, high=MOST_NEIGHBORS)


def rows_measured(epoch: CollectionEpoch, k: int, oversample: int | None) -> int:
    """Return how many rows per query an exact stage measures: k · oversample after an estimate, ten
    times as many after codes or losses, which are rougher.
    """
    oversample = epoch.settings.oversample if oversample is None else oversample
    return k * oversample * (1 if epoch.has_estimates else CODES_PER_ESTIMATE)
