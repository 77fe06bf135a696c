"""Which stage looks at all rows: codes, or the estimate with the query in a few bits.

Codes are cheaper per row, the estimate keeps more of what is near. So recall decides, and cost only
where recall is the same:

1. Where codes keep all rows anyway, codes.
2. Where the estimate is no dearer, the estimate. Costs are fixed figures, not timings: the same
   collection must answer the same on a busy machine.
3. Else a sample: some rows are queries, and of the ten nearest of each by the estimate, how many do
   the codes lose? More than one in a hundred, and it is the estimate.
4. Without vectors to be queries, the estimate, which loses nothing.

Queries of the sample are asked some at a time, as long as it takes to know: where codes lose more
than that of the whole sample already, whatever the others say, no more are asked.

The sample is drawn by a fixed seed from the rows that are there, and taken again when there are
twice or half as many, or when as many were written as there were, since codes may fit others less
well. One sample answers for every number of rows that codes keep: it remembers the place of each of
the nearest in the order of codes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from bitkin.arrays import Batch, Ids
from bitkin.codes import Codes
from bitkin.index.results import Neighbors
from bitkin.index.rows.snapshot import Snapshot
from bitkin.rescoring.estimate import Scorer
from bitkin.rescoring.estimate_scan import EstimateRows, QuantizedQueries, scan_estimates

MOST_LOST = 0.01  # of the ten nearest by the estimate
_NEAREST = 10
_FEWEST_QUERIES, _MOST_QUERIES = 8, 64
_MOST_PAIRS = 1 << 24  # of queries and rows, as far as the fewest queries permit
_PAIRS_AT_ONCE = 1 << 20
# Nanoseconds on a Xeon of 2021, one thread: a word compared; a row converted and offered; a row of
# a shortlist fetched, each word of it looked up, and ranked; one more stage, whatever its rows.
# Ratios change little from machine to machine.
_COMPARE, _OFFER, _FETCH, _LOOK_UP, _STAGE = 0.12, 0.4, 40.0, 8.0, 30_000.0


class FirstStage(NamedTuple):
    """The stage that looks at all rows, and why it does."""

    stage: str
    """"codes" or "estimate"."""
    why: str


def choose_by_losses(n_rows: int, last: str, by_codes: int) -> FirstStage:
    """Return the first stage of a search in codes that are scored by losses, which need nothing
    beside the codes; codes would keep `by_codes` of `n_rows` rows.
    """
    if last == "exact" and n_rows <= by_codes:
        return FirstStage("codes", f"codes keep all of {n_rows:,} rows")
    return FirstStage("estimate", "what the query loses ranks rows better than counting")


class RowsToSample(Protocol):
    """Rows of which a sample can be taken: some of `SearchedRows`."""

    @property
    def n_written(self) -> int:
        """How many rows were written, those that replaced others or were removed since counted, as
        far as they still have a place.
        """

    def nearest(self, queries: Codes, k: int, allow: Ids | None, least: int) -> Neighbors:
        """Return the k nearest rows of every query by codes."""

    def rows_to_estimate(self, queries: Codes, allow: Ids | None) -> EstimateRows:
        """Return all rows as a scan by the estimate takes them."""

    def vectors(self, row_ids: Ids) -> Batch:
        """Return the vectors of rows that are there, in that order."""


class _Sample(NamedTuple):
    """What was found of `n_rows` rows, when `n_written` had been written."""

    n_rows: int
    n_written: int
    by_codes: int
    """How far the order of codes was looked through."""
    places: Ids
    """Of the nearest rows by the estimate in the order of codes; beyond `by_codes` it is that."""

    def holds(self, n_rows: int, n_written: int, by_codes: int) -> bool:
        """Whether it still says something about so many rows."""
        written = n_written - self.n_written
        is_recent = self.n_rows < 2 * n_rows < 4 * self.n_rows and 0 <= written < self.n_rows
        return is_recent and by_codes <= self.by_codes


@dataclass(frozen=True, eq=False, slots=True)
class FirstStageChooser:
    """Chooses the first stage for one collection, and remembers what samples said.

    Parameters
    ----------
    scorer : Scorer
    query_bits : int
        Of a number of the query in a scan by the estimate.
    has_vectors : bool
        Whether rows have vectors, which can be queries.
    """

    scorer: Scorer
    query_bits: int
    has_vectors: bool
    _samples: list[_Sample] = field(default_factory=list, init=False, repr=False)
    """The newest, or nothing."""

    def choose(
        self,
        snapshot: Snapshot,
        rows: RowsToSample | None,
        by_codes: int,
        n_allowed: int | None = None,
    ) -> FirstStage:
        """Return the first stage of a search in which codes would keep `by_codes` rows.

        `rows` are those of the snapshot, None where nothing but codes is there; `n_allowed` of them
        may be found, all of them if it is None.
        """
        n_rows = len(snapshot) if n_allowed is None else min(len(snapshot), n_allowed)
        if n_rows <= by_codes:
            return FirstStage("codes", f"codes keep all of {n_rows:,} rows")
        times = self._cost_of_estimate(n_rows) / self._cost_of_codes(n_rows, by_codes)
        if times <= 1.0:
            return FirstStage(
                "estimate",
                f"estimating all {n_rows:,} rows is {times:.2f} of the work of comparing codes and "
                f"estimating the best {by_codes:,}",
            )
        if rows is None or not self.has_vectors:
            return FirstStage("estimate", "there are no vectors to sample what codes would lose")
        lost = self._share_lost(snapshot, rows, by_codes)
        found = f"codes lose {lost:.3f} of the {_NEAREST} nearest by the estimate in a sample"
        if lost > MOST_LOST:
            return FirstStage("estimate", f"{found}, more than {MOST_LOST}")
        return FirstStage("codes", f"{found}, and are 1/{times:.1f} of the work")

    def _cost_of_codes(self, n_rows: int, by_codes: int) -> float:
        n_words = self.scorer.model.spec.plane_words
        shortlist = by_codes * (_FETCH + n_words * _LOOK_UP) + _STAGE
        return n_rows * n_words * _COMPARE + shortlist

    def _cost_of_estimate(self, n_rows: int) -> float:
        n_words = self.scorer.model.spec.plane_words
        return n_rows * (n_words * self.query_bits * _COMPARE + _OFFER)

    def _share_lost(self, snapshot: Snapshot, rows: RowsToSample, by_codes: int) -> float:
        n_rows, n_written = len(snapshot), rows.n_written
        sample = self._samples[-1] if self._samples else None
        if sample is None or not sample.holds(n_rows, n_written, by_codes):
            # up to the next power of two, so that a larger k is seldom a new sample
            reach = min(1 << (by_codes - 1).bit_length(), n_rows)
            segments = snapshot.segments
            ids = segments[0].live_ids() if len(segments) == 1 else snapshot.ids()
            places = self._places_by_codes(ids, rows, reach)
            sample = _Sample(n_rows, n_written, reach, places)
            self._samples[:] = [sample]
        return float(np.mean(sample.places >= by_codes))

    def _places_by_codes(self, ids: Ids, rows: RowsToSample, reach: int) -> Ids:
        """Return the place of the nearest rows by the estimate in the order of codes, for some rows
        as queries; `reach` where it is not below that.
        """
        n_queries = min(max(_FEWEST_QUERIES, _MOST_PAIRS // len(ids)), _MOST_QUERIES)
        rng = np.random.default_rng(0)
        asked = np.sort(rng.choice(ids, min(n_queries, len(ids)), replace=False))
        vectors = rows.vectors(asked)
        rng.shuffle(order := np.arange(len(asked)))
        step = max(1, _PAIRS_AT_ONCE // len(ids))
        places: list[Ids] = []
        for first in range(0, len(asked), step):
            some = np.sort(order[first : first + step])
            places += self._places_of(asked[some], vectors[some], rows, reach)
            lost = sum(int((place >= reach).sum()) for place in places)
            if lost > MOST_LOST * _NEAREST * len(asked):
                break
        return np.concatenate(places)

    def _places_of(self, asked: Ids, vectors: Batch, rows: RowsToSample, reach: int) -> list[Ids]:
        """Return the places for some rows, with their vectors."""
        prepared = self.scorer.prepare_queries(vectors)
        queries = QuantizedQueries.from_prepared(prepared, self.query_bits)
        everything = rows.rows_to_estimate(prepared.codes, None)
        has_small = self.scorer.metric == "l2"
        # one more: every query finds itself
        near = scan_estimates(everything, queries, _NEAREST + 1, has_small=has_small).ids
        kept = rows.nearest(prepared.codes, reach + 1, None, least=1).ids
        places = []
        for query, best, by_code in zip(asked, near, kept, strict=True):
            others = best[(best >= 0) & (best != query)][:_NEAREST]
            in_order = by_code[by_code != query][:reach]
            sorter = np.argsort(in_order)
            at = np.minimum(np.searchsorted(in_order, others, sorter=sorter), len(in_order) - 1)
            place = sorter[at]
            places.append(np.where(in_order[place] == others, place, reach))
        return places
