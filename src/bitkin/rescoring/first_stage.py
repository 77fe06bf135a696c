"""Which stage looks at all rows: codes, or the estimate with the query in a few bits.

Codes are cheaper per row, the estimate keeps more of what is near. So recall decides, and cost only
where recall is the same:

1. Where codes keep all rows anyway, codes.
2. Where the estimate is no dearer, the estimate. Costs are fixed figures, not timings: the same
   collection must answer the same on a busy machine.
3. Else a sample: some rows are queries, and of the ten nearest of each by the estimate, how many do
   the codes lose? More than one in a hundred, and it is the estimate.
4. Without vectors to be queries, the estimate, which loses nothing.

The sample is of the first 2ⁿ rows, as many as there are of those, and drawn by a fixed seed: it is
taken once and again when rows have doubled, and it does not matter which search came first, nor how
many rows came meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np

from bitkin.arrays import Batch, Ids
from bitkin.index.flat import scan_nearest
from bitkin.index.rows.snapshot import Snapshot
from bitkin.rescoring.estimate import Scorer
from bitkin.rescoring.estimate_scan import EstimateRows, QuantizedQueries, scan_estimates

MOST_LOST = 0.01  # of the ten nearest by the estimate
_NEAREST = 10
_FEWEST_QUERIES, _MOST_QUERIES = 8, 64
_MOST_PAIRS = 1 << 24  # of queries and rows, as far as the fewest queries permit
# Nanoseconds on a Xeon of 2021, one thread: a word compared; a row converted and offered; a row of
# a shortlist fetched, each word of it looked up, and ranked. Ratios change little from machine to
# machine.
_COMPARE, _OFFER, _FETCH, _LOOK_UP = 0.12, 0.4, 40.0, 8.0


class FirstStage(NamedTuple):
    """The stage that looks at all rows, and why it does."""

    stage: str
    """"codes" or "estimate"."""
    why: str


class EstimableRows(Protocol):
    """Rows of which a sample can be taken."""

    def vectors(self, row_ids: Ids) -> Batch:
        """Return the vectors of rows that are there, in that order."""

    def rows_to_estimate_in(self, snapshot: Snapshot) -> EstimateRows:
        """Return rows of a snapshot as a scan by the estimate takes them."""


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
    _lost: dict[tuple[int, int], float] = field(default_factory=dict, init=False, repr=False)

    def choose(self, snapshot: Snapshot, rows: EstimableRows | None, by_codes: int) -> FirstStage:
        """Return the first stage of a search in which codes would keep `by_codes` rows;
        `rows` are those of the snapshot, None where nothing but codes is there.
        """
        n_rows = len(snapshot)
        if n_rows <= by_codes:
            return FirstStage("codes", f"codes keep all of {n_rows:,} rows")
        times = self._cost_of_estimate(n_rows) / self._cost_of_codes(n_rows, by_codes)
        if times <= 1.0:
            return FirstStage(
                "estimate", f"the estimate of {n_rows:,} rows costs {times:.2f} times what codes do"
            )
        if rows is None or not self.has_vectors:
            return FirstStage("estimate", "there are no vectors to sample what codes would lose")
        lost = self._share_lost(snapshot, rows, by_codes)
        stage = "estimate" if lost > MOST_LOST else "codes"
        return FirstStage(
            stage,
            f"of the {_NEAREST} nearest by the estimate codes lose {lost:.3f}, and "
            f"{MOST_LOST} is taken for 1 / {times:.1f} of the cost",
        )

    def _cost_of_codes(self, n_rows: int, by_codes: int) -> float:
        n_words = self.scorer.model.spec.plane_words
        return n_rows * n_words * _COMPARE + by_codes * (_FETCH + n_words * _LOOK_UP)

    def _cost_of_estimate(self, n_rows: int) -> float:
        n_words = self.scorer.model.spec.plane_words
        return n_rows * (n_words * self.query_bits * _COMPARE + _OFFER)

    def _share_lost(self, snapshot: Snapshot, rows: EstimableRows, by_codes: int) -> float:
        doublings = len(snapshot).bit_length() - 1
        known = self._lost.get((doublings, by_codes))
        if known is None:
            known = self._sample(_first_rows(snapshot, 1 << doublings), rows, by_codes)
            self._lost[doublings, by_codes] = known
        return known

    def _sample(self, snapshot: Snapshot, rows: EstimableRows, by_codes: int) -> float:
        """Return the share of the nearest rows by the estimate that codes do not keep."""
        ids = snapshot.ids()
        n_queries = min(max(_FEWEST_QUERIES, _MOST_PAIRS // max(1, len(ids))), _MOST_QUERIES)
        rng = np.random.default_rng(0)
        asked = np.sort(rng.choice(ids, min(n_queries, len(ids)), replace=False))
        prepared = self.scorer.prepare_queries(rows.vectors(asked))
        queries = QuantizedQueries.from_prepared(prepared, self.query_bits)
        everything = rows.rows_to_estimate_in(snapshot)
        has_small = self.scorer.metric == "l2"
        # one more: every query finds itself
        near = scan_estimates(everything, queries, _NEAREST + 1, has_small=has_small).ids
        kept = scan_nearest(snapshot, prepared.codes, by_codes + 1, None).ids
        lost = total = 0
        for query, best, by_code in zip(asked, near, kept, strict=True):
            others = best[(best >= 0) & (best != query)][:_NEAREST]
            lost += int((~np.isin(others, by_code)).sum())
            total += len(others)
        return lost / max(1, total)


def _first_rows(snapshot: Snapshot, n: int) -> Snapshot:
    """Return a snapshot of the first `n` rows, removed ones counted where they still have a
    place.
    """
    segments = []
    for segment in snapshot.segments:
        if n <= 0:
            break
        count = min(n, segment.n)
        segments.append(replace(segment, n=count, n_alive=min(count, segment.n_alive), tables=None))
        n -= count
    return Snapshot(snapshot.spec, snapshot.fingerprint, tuple(segments))
