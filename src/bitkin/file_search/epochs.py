"""EpochFileSearch: a saved EpochIndex, or the files of a stream, searched by vectors in a file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bitkin.arguments import PYTHON, ArgumentSpelling
from bitkin.checks import one_of, whole_number
from bitkin.choices import FIRST_STAGES, MOST_NEIGHBORS, STAGES
from bitkin.epochs.epoch_index import EpochIndex
from bitkin.errors import ArgumentError, BitkinError, InvalidInputError
from bitkin.file_search.request import (
    DEFAULT_K,
    DEFAULT_OVERSAMPLE,
    SearchRequest,
    describe_distances,
)
from bitkin.index.results import Neighbors, require_fitting
from bitkin.input_files import VectorFileOptions, open_queries, read_ids
from bitkin.io.reader import read_file
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.formats import has_vector_suffix
from bitkin.rescoring.first_stage import FirstStage
from bitkin.rescoring.funnel import BYTES_PER_HIT
from bitkin.rescoring.rescore import rescore
from bitkin.stream_files.written import is_stream
from bitkin.timings import ALL_ROWS, QUERIES_TO_WARM_UP, Timings

_QUERIES_AT_ONCE = 1024
_CODES_PER_ESTIMATE = 10  # that codes keep for each row that the estimate keeps


def holds_epochs(path: Path) -> bool:
    """Tell whether a file holds an EpochIndex, or is the state or the codes of a stream."""
    if is_stream(path):
        return True
    try:
        return read_file(path, mmap=True).class_name == "EpochIndex"
    except BitkinError:
        return False


class EpochFileSearch:
    """One search of codes of several models, whose results come a batch of queries at a time.

    Every model encodes the queries for its own codes, so these are vectors, and no model is given.
    Distances are estimates of the metric and, with the vectors that were encoded, exact.

    Parameters
    ----------
    request : SearchRequest
    options : VectorFileOptions
        How to read files of vectors.
    spelling : ArgumentSpelling, optional
        How messages name arguments.

    Attributes
    ----------
    index : EpochIndex
    n_queries : int
    timings : Timings
        What every stage has taken so far.
    seconds : float
        What searching has taken so far, without reading queries.
    first : FirstStage
        The stage that looks at all rows, and why.
    """

    def __init__(
        self,
        request: SearchRequest,
        options: VectorFileOptions,
        spelling: ArgumentSpelling = PYTHON,
    ) -> None:
        _require_possible(request, spelling)
        high = MOST_NEIGHBORS
        k = DEFAULT_K if request.k is None else request.k
        oversample = DEFAULT_OVERSAMPLE if request.oversample is None else request.oversample
        self._k = whole_number(k, "k", low=1, high=high)
        self._oversample = whole_number(oversample, "oversample", low=1, high=high)
        self._vectors = None
        if request.vectors:
            alike = all(path.suffix == request.queries.suffix for path in request.vectors)
            self._vectors = (options if alike else VectorFileOptions()).open(request.vectors)
        self._ids = None if request.ids is None else read_ids(request.ids)
        self._allowed = None if request.allow is None else read_ids(request.allow)
        self._is_exact = self._vectors is not None and request.stage != "estimate"
        self._first = request.first
        self.index = _open_index(request, self._vectors, spelling)
        self._queries = open_queries(request.queries, options)
        self.n_queries = len(self._queries)
        self.timings = Timings()
        self.seconds = 0.0
        self._n_rows = len(self.index)
        if self._allowed is not None:
            self._n_rows = int(np.isin(self.index.ids, self._allowed).sum())
        # the index does both where codes come first
        self._stage = ALL_ROWS if self.first.stage == "estimate" else "codes and estimate"

    def batches(self) -> Iterator[Neighbors]:
        """Yield what was found for one batch of queries after another."""
        for first, batch in self._queries.batches(rows=_QUERIES_AT_ONCE):
            if first == 0:
                # compiles kernels, outside the clock
                self._find(batch[:QUERIES_TO_WARM_UP], Timings())
            start = time.perf_counter()
            found = self._find(batch, self.timings)
            self.seconds += time.perf_counter() - start
            yield found

    def _keeps(self) -> tuple[int, int]:
        """Return how many rows the index is asked for, and its oversample."""
        if self._is_exact:
            return min(self._k * self._oversample, MOST_NEIGHBORS), _CODES_PER_ESTIMATE
        return self._k, self._oversample

    def _find(self, batch: Any, timings: Timings) -> Neighbors:
        start = time.perf_counter()
        keep, oversample = self._keeps()
        found = self.index.search(
            batch, keep, oversample=oversample, allow=self._allowed, first=self._first
        )
        n_found = int((found.ids >= 0).sum())
        timings.add(self._stage, start, batch.shape[0] * self._n_rows, n_found)
        if not self._is_exact:
            return found
        then = time.perf_counter()
        found = rescore(
            found,
            batch,
            stage="exact",
            k=self._k,
            metric=self.index.metric,
            vectors=self._vectors,
            ids=self._ids,
        )
        timings.add("exact", then, n_found, int((found.ids >= 0).sum()))
        return found

    @property
    def distance_name(self) -> str:
        """What distances are: the stage that they come from, and the metric."""
        return describe_distances("exact" if self._is_exact else "estimate", self.index.metric)

    @property
    def first(self) -> FirstStage:
        """The stage that looks at all rows, and why: of most epochs, where those differ."""
        if self._first is not None:
            return FirstStage(self._first, "asked for")
        keep, oversample = self._keeps()
        stages = self.index.explain_first(keep, oversample=oversample)
        sizes = [epoch.n_rows for epoch in self.index.epochs]
        if not stages:
            return FirstStage("codes", "there are no epochs")
        # the largest epoch is what a search spends its time on
        chosen = stages[int(np.argmax(sizes))]
        if len(stages) == 1:
            return chosen
        same = sum(other.stage == chosen.stage for other in stages)
        why = f"in {same} of {len(stages)} epochs; in the largest, {chosen.why}"
        return FirstStage(chosen.stage, why)

    def require_result_fits(self) -> None:
        """Raise where the result of all queries together would not fit this machine's memory."""
        last = "exact" if self._is_exact else "estimate"
        require_fitting(self.n_queries, self._k, BYTES_PER_HIT[last])

    def join(self, parts: Sequence[Any]) -> Neighbors:
        """Return the results of batches as one."""
        if not parts:
            nothing = np.empty((0, self._k))
            return Neighbors(nothing.astype(np.int64), nothing.astype(np.float32))
        ids, distances = map(np.concatenate, zip(*parts, strict=True))
        return Neighbors(ids, distances)


def _require_possible(request: SearchRequest, spelling: ArgumentSpelling) -> None:
    """Raise for arguments that mean nothing where every row has a model of its own."""
    if request.model is not None:
        raise ArgumentError("means nothing here: all models are with their codes.", "model")
    if request.radius is not None:
        raise ArgumentError("means nothing here: codes of several models have no radius.", "radius")
    if request.probes is not None:
        raise ArgumentError(
            "means nothing here: codes of several models are in no cells.", "probes"
        )
    if request.stage is not None:
        one_of(request.stage, "stage", STAGES)
    if request.first is not None:
        one_of(request.first, "first", FIRST_STAGES)
    if request.stage == "codes":
        raise ArgumentError(
            "must be estimate or exact: codes of several models cannot be compared.", "stage"
        )
    if request.stage == "exact" and not request.vectors:
        raise ArgumentError(
            f"exact needs {spelling.name('vectors')}, the rows that were encoded.", "stage"
        )
    if request.ids is not None and not request.vectors:
        raise ArgumentError(f"means nothing without {spelling.name('vectors')}.", "ids")
    if not has_vector_suffix(request.queries):
        raise InvalidInputError(
            f"{request.queries} must be a file of vectors: every model encodes them for its codes."
        )


def _open_index(
    request: SearchRequest, vectors: VectorSource | None, spelling: ArgumentSpelling
) -> EpochIndex:
    if is_stream(request.index):
        if vectors is not None and request.ids is not None:
            raise ArgumentError("means nothing for a stream: ids are the rows in order.", "ids")
        return EpochIndex.from_stream(
            request.index, corrections=request.corrections, metric=request.metric, vectors=vectors
        )
    if request.corrections is not None:
        raise ArgumentError(f"means nothing here: {request.index} has its own.", "corrections")
    index = EpochIndex.load(request.index)
    if request.metric not in (None, index.metric):
        raise ArgumentError(
            f"must be {index.metric}, which {request.index} was made for, got {request.metric}.",
            "metric",
        )
    return index
