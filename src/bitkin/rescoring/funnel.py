"""The funnel: all rows by their codes, the best of them by the estimate, the best of those by the
vectors themselves.

Or, with first="estimate", all rows by the estimate with the query in a few bits ("scan"): it keeps
as few rows as the estimate after codes would.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from bitkin.arrays import Batch, Ids, Words
from bitkin.choices import STAGES
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.index.results import Neighbors, no_neighbors, require_fitting
from bitkin.rescoring.cells.scan import EstimateCells
from bitkin.rescoring.estimate import NO_CORRECTIONS, CodedRows, Corrections
from bitkin.rescoring.estimate_scan import EstimateRows
from bitkin.rescoring.exact import VectorsInPlace, nearest_by_vectors
from bitkin.rescoring.row_scorer import RowScorer, ScoredQueries
from bitkin.rescoring.shortlist import Shortlist
from bitkin.timings import Timings

CODES_PER_ESTIMATE = 10  # rows that codes keep for every one that the estimate keeps
PAIRS_AT_ONCE = 1 << 20  # shortlisted for a block of queries: 50 MB of ids, codes and corrections

_NUMBERS_AT_ONCE = 1 << 23  # of vectors that are measured, held at a time
_DISTANCES: dict[str, np.dtype[Any]] = {
    "codes": np.dtype(np.int32),
    "estimate": np.dtype(np.float32),
    "exact": np.dtype(np.float64),
}
# An id and a distance, by the last stage.
BYTES_PER_HIT = {stage: 8 + dtype.itemsize for stage, dtype in _DISTANCES.items()}


class Step(NamedTuple):
    """A stage, and how many rows per query it keeps."""

    stage: str
    keep: int


@lru_cache(maxsize=64)
def steps_to(
    last: str,
    possible: frozenset[str],
    k: int,
    oversample: int,
    first: str = "codes",
    *,
    ranks_only: bool = False,
) -> tuple[Step, ...]:
    """Return the possible stages up to `last`: codes keep k · oversample · 10, the estimate
    k · oversample, the last one k.

    With `first` "estimate", a "scan" of all rows by the estimate is in the place of codes and of
    the estimate before the last stage. Scores that rank rows only (`ranks_only`) are no step
    between codes and the exact stage, and as a first one they keep as many rows as codes.
    """
    if last == "codes":
        return (Step(last, k),)
    if ranks_only:
        stage = "scan" if first == "estimate" else "codes"
        ends = stage == "scan" and last == "estimate"  # the scan has found the k best already
        return Step(stage, k if ends else k * oversample * CODES_PER_ESTIMATE), Step(last, k)
    if first == "estimate":
        return Step("scan", k * oversample), Step(last, k)
    # codes are the roughest measure, so they keep the most
    keeps = {"codes": k * oversample * CODES_PER_ESTIMATE, "estimate": k * oversample}
    before = [stage for stage in STAGES[: STAGES.index(last)] if stage in possible]
    return (*(Step(stage, keeps[stage]) for stage in before), Step(last, k))


class SearchedRows(Protocol):
    """Rows by id, all as of one moment, however they are kept.

    A collection in memory is one, an index in a file with vectors in others another.
    """

    def __len__(self) -> int:
        """Return how many rows there are."""

    def looked_at(self, queries: Codes, allow: Ids | None) -> tuple[str, int]:
        """Return what a scan by the estimate looks at in words, and how many rows that are for all
        of these queries.
        """

    def count_compared(self, queries: Codes, k: int, allow: Ids | None, least: int) -> int:
        """Return how many rows `nearest` looks at for all of these queries."""

    def nearest(self, queries: Codes, k: int, allow: Ids | None, least: int) -> Neighbors:
        """Return the k nearest rows of every query by codes, nearest first, ties by lower id.

        An index that may miss rows may return fewer than k, but not fewer than `least` while there
        are as many.
        """

    def rows_to_estimate(self, queries: Codes, allow: Ids | None) -> EstimateRows | EstimateCells:
        """Return all rows, or those allowed, as a scan by the estimate takes them."""

    def words(self, row_ids: Ids) -> Words:
        """Return the codes of rows that are there, in that order, as uint64 (n, planes, words per
        plane).
        """

    def corrections(self, row_ids: Ids) -> Corrections:
        """Return the corrections of rows that are there, in that order."""

    def vectors(self, row_ids: Ids) -> Batch:
        """Return the vectors of rows that are there, in that order."""

    def coded_in_place(self, row_ids: Ids) -> CodedRows | None:
        """Return codes and corrections of rows that are there where they stand, for (q, m) ids;
        None where they do not stand in one array each.
        """

    def vectors_in_place(self, row_ids: Ids) -> VectorsInPlace | None:
        """Return vectors of rows that are there where they stand, for (n,) ids; None where they do
        not stand in one array.
        """


@dataclass(frozen=True, slots=True)
class Funnel:
    """Stages in their order, the first of them "codes" or "scan", and what they need.

    Parameters
    ----------
    steps : tuple of Step
    scorer : RowScorer or None
        None where the estimate is not among the stages.
    metric : {"l2", "cosine", "ip"}
    """

    steps: tuple[Step, ...]
    scorer: RowScorer | None
    metric: str

    def queries_at_once(self, n_rows: int) -> int:
        """Return how many queries keep the shortlists of a block small."""
        return max(1, PAIRS_AT_ONCE // max(1, min(self.steps[0].keep, n_rows)))

    def nearest(
        self,
        rows: SearchedRows,
        batch: Batch,
        codes: Codes,
        allow: Ids | None,
        *,
        prepared: ScoredQueries | None = None,
        timings: Timings | None = None,
    ) -> Neighbors:
        """Return the nearest rows of a batch of queries, as many columns as the last stage keeps.

        There are no more columns than rows, but always one. `batch` is None where all that is known
        of queries is their codes. `prepared` is what the estimate makes of the batch, computed here
        if it is needed and not given.
        """
        since = time.perf_counter()
        k = self.first_keep(len(rows))
        if self.steps[0].stage == "scan":
            if prepared is None:
                prepared = self._require_scorer().prepare_queries(batch)
            found = self._scan(rows, codes, prepared, allow, k)
        else:
            found = rows.nearest(codes, k, allow, least=self.steps[-1].keep)
        if timings is not None:
            self.note_first(timings, since, rows, codes, allow, found)
        return self.finish(rows, batch, found, prepared=prepared, timings=timings)

    def first_keep(self, n_rows: int) -> int:
        """Return how many rows the first stage keeps: no more columns than rows, so that nothing is
        held for neighbours that cannot be, but always one.
        """
        return max(1, min(self.steps[0].keep, n_rows))

    def note_first(
        self,
        timings: Timings,
        since: float,
        rows: SearchedRows,
        queries: Any,
        allow: Ids | None,
        found: Neighbors,
    ) -> None:
        """Note what the first stage looked at and found, and how long it took until now. Queries
        are codes, or anything as long where they are none.
        """
        until = time.perf_counter()
        name = self.steps[0].stage
        if name == "scan":
            what, count = rows.looked_at(queries, allow)
            name = f"estimate of {what}"
        else:
            k = self.first_keep(len(rows))
            count = rows.count_compared(queries, k, allow, self.steps[-1].keep)
        timings.add(name, since, count, _count(found), until)

    def finish(
        self,
        rows: SearchedRows,
        batch: Batch,
        found: Neighbors,
        *,
        prepared: ScoredQueries | None = None,
        timings: Timings | None = None,
    ) -> Neighbors:
        """Return what comes out of the stages behind the first one, which found this."""
        since = time.perf_counter()
        for step in self.steps[1:]:
            before, ids = found, found.ids
            k = min(step.keep, ids.shape[1])
            if step.stage == "estimate" and self._scan_is_estimate():
                continue
            if step.stage == "exact":
                found = self._measure(rows, batch, ids, k)
            else:
                found = self._estimate(rows, batch, prepared, ids, k)
            if timings is not None:
                since = timings.add(step.stage, since, _count(before), _count(found))
        # scores rank rows for the next stage as they are; only those that are reported become
        # distances
        if self.steps[-1].stage == "estimate":
            return self._require_scorer().reported(found)
        return found

    def _measure(self, rows: SearchedRows, batch: Batch, ids: Ids, k: int) -> Neighbors:
        """Return the best k of every query by their vectors."""
        # so many queries that their rows fit even where they are not read in place
        step = max(1, _NUMBERS_AT_ONCE // max(1, ids.shape[1] * batch.shape[1]))
        parts = []
        for first in range(0, len(ids), step):
            some, queries = ids[first : first + step], batch[first : first + step]
            here = rows.vectors_in_place(some.ravel()) if _have_no_padding(some) else None
            some = some if here is not None else _in_order(some)
            parts.append(
                nearest_by_vectors(some, some, rows.vectors, queries, self.metric, k, in_place=here)
            )
        if len(parts) == 1:
            return parts[0]
        return Neighbors(*map(np.concatenate, zip(no_neighbors(0, k), *parts, strict=True)))

    def _scan_is_estimate(self) -> bool:
        """Whether a scan has given the scores of the estimate already, as one by losses does."""
        return self.steps[0].stage == "scan" and self._require_scorer().ranks_only

    def _require_scorer(self) -> RowScorer:
        if self.scorer is None:
            raise InvalidInputError("hasher must be one whose codes can be scored for an estimate.")
        return self.scorer

    def _scan(
        self,
        rows: SearchedRows,
        codes: Codes,
        prepared: ScoredQueries,
        allow: Ids | None,
        k: int,
    ) -> Neighbors:
        """Return the best k rows of all by the estimate, with queries in a few bits."""
        return self._require_scorer().scan(rows.rows_to_estimate(codes, allow), prepared, k)

    def _estimate(
        self, rows: SearchedRows, batch: Batch, prepared: ScoredQueries | None, ids: Ids, k: int
    ) -> Neighbors:
        """Return the best k of every query by their scores."""
        scorer = self._require_scorer()
        if prepared is None:
            prepared = scorer.prepare_queries(batch)
        coded = rows.coded_in_place(ids) if _is_whole(ids) else None
        if coded is None:
            # Every row is fetched once, however many queries share it.
            ids = _in_order(ids)
            shortlist = Shortlist.from_ids(ids)
            words, corrections = rows.words(shortlist.wanted), NO_CORRECTIONS
            if scorer.needs_corrections:
                corrections = rows.corrections(shortlist.wanted)
            places = shortlist.places
            coded = CodedRows(words[:, :, :, None], corrections, places, places)
        return scorer.nearest(prepared, coded, ids, k)


def _is_whole(ids: Ids) -> bool:
    """Whether these are the ids of a lone query without padding, which would come last: so few rows
    are read where they stand, since gathering them would take as long as the rest.
    """
    return len(ids) == 1 and _have_no_padding(ids)


def _have_no_padding(ids: Ids) -> bool:
    """Whether all places of ids are taken; those that are not come last."""
    return ids.size > 0 and bool((ids[:, -1] >= 0).all())


def _in_order(ids: Ids) -> Ids:
    """Return the ids of a lone query in ascending order, in which they are a shortlist already."""
    return np.sort(ids) if len(ids) == 1 else ids


def _count(found: Neighbors) -> int:
    return int(np.count_nonzero(found.ids >= 0))


def join_parts(parts: list[Neighbors], last: Step, spec: CodeSpec) -> Neighbors:
    """Join the results of blocks of queries, padded to the k columns of the last stage.

    Padding is id −1, farther than everything.
    """
    if len(parts) == 1 and parts[0].ids.shape[1] == last.keep:
        return parts[0]
    n_queries = sum(len(part.ids) for part in parts)
    require_fitting(n_queries, last.keep, BYTES_PER_HIT[last.stage])
    farther: Any = spec.n_symbols + 1 if last.stage == "codes" else np.inf
    joined = no_neighbors(n_queries, last.keep, farther, _DISTANCES[last.stage])
    first = 0
    for part in parts:
        some = np.s_[first : first + len(part.ids), : part.ids.shape[1]]
        joined.ids[some] = part.ids
        joined.distances[some] = part.distances
        first += len(part.ids)
    return joined
