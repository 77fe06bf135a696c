"""The order in which a scan by the estimate keeps rows for the exact stage."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Floats, Ids
from bitkin.codes import Codes
from bitkin.evaluate.trials.trial import Trial
from bitkin.hashers.base import Hasher
from bitkin.index.flat import FlatIndex
from bitkin.index.results import Neighbors
from bitkin.rescoring.corrections import encode_with_corrections, scorer_for
from bitkin.rescoring.estimate import Corrections
from bitkin.rescoring.estimate_scan import (
    QUERY_BITS,
    EstimateRows,
    QuantizedQueries,
    scan_estimates,
)


class ScanOrder:
    """Rows by the estimate with queries in a few bits, as a collection scans them all: it loses
    some of what the estimate as such finds, which a collection computes of the best rows alone.
    """

    def __init__(self, trial: Trial, hasher: Hasher) -> None:
        self.trial = trial
        self._scorer = scorer_for(hasher, trial.metric)
        self._near = encode_with_corrections(self._scorer, trial.near_rows)
        prepared = self._scorer.prepare_queries(trial.queries)
        self._queries = QuantizedQueries.from_prepared(prepared, QUERY_BITS)

    def search_sample(self, depth: int) -> tuple[Ids, npt.NDArray[Any]]:
        """Return the first rows of the sample."""
        rows = encode_with_corrections(self._scorer, self.trial.rows)
        return self._scan(*rows, self._queries, depth)

    def measure_near(self, some: slice) -> Floats:
        """Return the distances of the near rows of some queries."""
        near = self.trial.near[some]
        rows, places = np.unique(near[near >= 0], return_inverse=True)
        distances = np.full(near.shape, np.inf)
        if rows.size == 0:
            return distances
        codes, corrections = self._near
        queries = self._queries.between(some.start, some.start + len(near))
        found = self._scan(codes[rows], corrections[rows], queries, rows.size)
        by_row = np.empty((len(near), rows.size))
        np.put_along_axis(by_row, found.ids, found.distances, 1)
        query, _ = np.nonzero(near >= 0)
        distances[near >= 0] = by_row[query, places]
        return distances

    def _scan(
        self, codes: Codes, corrections: Corrections, queries: QuantizedQueries, k: int
    ) -> Neighbors:
        index = FlatIndex(codes.spec)
        index.add(codes)
        rows = EstimateRows.from_stretches(index.snapshot.whole, corrections, lambda ids: 0)
        return scan_estimates(rows, queries, k, has_small=self.trial.metric == "l2")
