"""An evaluation of files: what a search found, the truth about it, and the figures asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse

from bitkin.arrays import Floats, Ids
from bitkin.errors import ArgumentError, InvalidInputError
from bitkin.evaluate.exact.pairing import Pairing
from bitkin.evaluate.exact.rows import ComparedRows
from bitkin.evaluate.found.measures import (
    Figure,
    measure_agreement,
    measure_average_precision,
    measure_error_at_recall,
    measure_gain,
    measure_precision_recall,
    measure_recall,
)
from bitkin.evaluate.found.relevance import FoundRelevance, RowIds, mark_neighbors, mark_relevant
from bitkin.evaluate.found.request import EvaluationRequest
from bitkin.evaluate.found.results import read_found, read_id_table
from bitkin.evaluate.labels import same_label
from bitkin.evaluate.ranking import check_relevance
from bitkin.evaluate.truth import nearest
from bitkin.input_files import VectorFileOptions, open_queries, read_ids
from bitkin.io.vectors import VectorSource

_MOST_NEIGHBORS = 10  # that are taken for the truth, unless another number is given


class Evaluation:
    """What a search found beside what it should have found.

    Attributes
    ----------
    request : EvaluationRequest
        What was asked.
    rows : FoundRows
        What was found.
    facts : dict of str to value
        What is compared with what, in order.
    n_to_search : int or None
        Rows that an exact search must look at; None where the truth is in a file.
    """

    def __init__(
        self,
        request: EvaluationRequest,
        options: VectorFileOptions | None = None,
        *,
        cache: bool | str | os.PathLike[str] | None = None,
    ) -> None:
        request.require_sense()
        self.request = request
        self.rows = read_found(request.found)
        self.facts: dict[str, Any] = {
            "found": str(request.found),
            "queries": self.rows.n_queries,
            "rows found per query": f"up to {self.rows.most:,}",
        }
        self._options = VectorFileOptions() if options is None else options
        self._cache = cache
        self._true_ids: Ids | None = None
        self._k: int | None = None
        self.n_to_search = len(self._source) if request.vectors else None

    def figures(self, progress: Callable[[int], None] | None = None) -> list[Figure]:
        """Return the figures asked for; `progress` is called with the rows that were searched."""
        found = self._from_vectors(progress) if self.request.vectors else self._from_files()
        figures: list[Figure] = []
        for measure in self.request.measures_or_default:
            figures += self._measure(measure, found)
        return figures

    def _from_files(self) -> FoundRelevance:
        if self.request.truth is not None:
            return self._from_truth()
        return self._from_relevant() if self.request.labels is None else self._from_labels()

    def _measure(self, measure: str, found: FoundRelevance) -> list[Figure]:
        if measure == "recall":
            return measure_recall(found, self._k, self.rows.most)
        if measure == "map":
            return measure_average_precision(self.rows, found)
        if measure == "ndcg":
            return measure_gain(self.rows, found)
        if measure == "precision-recall":
            return measure_precision_recall(self.rows, found)
        if measure == "error-at-recall":
            recall = 0.95 if self.request.recall is None else float(self.request.recall)
            return measure_error_at_recall(self.rows, found, recall)
        return measure_agreement(measure, self.rows, self._true_distances())

    def missed(self, query: int, most: int = 5) -> list[int] | None:
        """Return the nearest of the k true ids of a query that are not among the first k found;
        None where true ids are not known.
        """
        if self._true_ids is None:
            return None
        own = self._true_ids[query]
        is_missed = (own >= 0) & ~np.isin(own, self.rows.ids[query, : self._k])
        return [int(i) for i in own[is_missed][:most]]

    def _from_truth(self) -> FoundRelevance:
        path = self.request.truth
        if path is None:
            raise ArgumentError("is missing.", "truth")
        true = read_id_table(path)
        self._require_queries(len(true), str(path))
        k = true.shape[1] if self.request.k is None else self.request.k
        if k > true.shape[1]:
            raise InvalidInputError(
                f"k must be at most the {true.shape[1]} ids per query of {path}, got {k}."
            )
        self.facts["truth"] = f"the first {k:,} ids of {path}"
        if self.request.ids is not None:
            true = RowIds(len(read_ids(self.request.ids)), str(path), self.request.ids).ids_of(true)
        return self._from_neighbors(true[:, :k], None)

    def _from_vectors(self, progress: Callable[[int], None] | None) -> FoundRelevance:
        request, source, queries = self.request, self._source, self._queries
        k = max(1, min(_MOST_NEIGHBORS, self.rows.most)) if request.k is None else request.k
        n_rows = len(source)
        row_ids = RowIds(n_rows, source.name, request.ids)
        metric = self._metric
        self.facts["truth"] = (
            f"the {k:,} nearest of {n_rows:,} rows in {source.name} by {metric}, exact"
        )
        row_ids.rows_of(self.rows.ids, request.found)  # all are there, before the long search
        true = nearest(source, queries.matrix, k, metric, cache=self._cache, progress=progress)
        return self._from_neighbors(row_ids.ids_of(true.ids), n_rows)

    def _from_labels(self) -> FoundRelevance:
        request = self.request
        truth = same_label(request.labels, request.query_labels)
        self.facts["truth"] = (
            f"rows with a label of the query, of {truth.shape[1]:,} in {request.labels}"
        )
        return self._from_flags(truth, str(request.labels), str(request.query_labels))

    def _from_relevant(self) -> FoundRelevance:
        path = str(self.request.relevant)
        truth = scipy.sparse.csr_matrix(check_relevance(self.request.relevant))
        truth.sort_indices()
        self.facts["truth"] = f"relevant rows, of {truth.shape[1]:,} in {path}"
        return self._from_flags(truth, path, path)

    def _from_neighbors(self, true: Ids, n_rows: int | None) -> FoundRelevance:
        self._true_ids, self._k = true, true.shape[1]
        return mark_neighbors(self.rows.ids, true, n_rows)

    def _from_flags(self, truth: Any, where: str, asked: str) -> FoundRelevance:
        self._require_queries(truth.shape[0], asked)
        row_ids = RowIds(truth.shape[1], where, self.request.ids)
        return mark_relevant(row_ids.rows_of(self.rows.ids, self.request.found), truth)

    def _require_queries(self, n: int, where: str) -> None:
        if n != self.rows.n_queries:
            raise InvalidInputError(
                f"{where} must be about the {self.rows.n_queries:,} queries of "
                f"{self.request.found}, got {n:,}."
            )

    @property
    def _metric(self) -> str:
        return "l2" if self.request.metric is None else self.request.metric

    @cached_property
    def _source(self) -> VectorSource:
        return self._options.open(self.request.vectors)

    @cached_property
    def _queries(self) -> ComparedRows:
        path = self.request.queries
        if path is None:
            raise ArgumentError("must be given with vectors.", "queries")
        # options are meant for queries too where their format is that of the vectors
        alike = any(path.suffix == other.suffix for other in self.request.vectors)
        options = self._options if alike else VectorFileOptions()
        columns = SimpleNamespace(n_features_in_=self._source.shape[1])  # of svmlight text
        queries = ComparedRows(open_queries(path, options, columns), str(path))
        self._require_queries(queries.n_rows, str(path))
        return queries

    def _true_distances(self) -> Floats:
        """Return the exact distances of the rows found, scaled, which no ranking minds; 0 for
        padding.
        """
        ids = self.rows.ids
        row_ids = RowIds(len(self._source), self._source.name, self.request.ids)
        at = row_ids.rows_of(ids, self.request.found)
        out: Floats = np.zeros(ids.shape)
        distinct = np.unique(at[at >= 0])
        if distinct.size == 0:
            return out
        rows = ComparedRows(self._source.gather(distinct), self._source.name)
        query_ids, places = np.nonzero(at >= 0)
        pairs = np.searchsorted(distinct, at[query_ids, places])
        pairing = Pairing(rows, self._queries, self._metric)
        out[query_ids, places] = pairing.distances(pairs, query_ids)
        return out
