"""FileSearch: an index in a file, queries in another, and the stages that more files permit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bitkin._load import load_hasher
from bitkin.arguments import PYTHON, ArgumentSpelling
from bitkin.checks import whole_number
from bitkin.codes import Codes
from bitkin.errors import ArgumentError, InvalidInputError
from bitkin.file_search.epochs import EpochFileSearch, holds_epochs
from bitkin.file_search.queries import (
    QueryBatch,
    encode_vectors,
    load_index,
    open_encoded_vectors,
    read_codes,
)
from bitkin.file_search.request import SearchRequest, describe_distances
from bitkin.file_search.rows import FileCorrections, FileRows, FileVectors
from bitkin.hashers.base import Hasher
from bitkin.hashers.wta.wta_hash import WTAHash
from bitkin.index.base import RowIndex
from bitkin.index.flat import FlatIndex
from bitkin.index.results import Neighbors, RaggedNeighbors, join_ragged, require_fitting
from bitkin.input_files import VectorFileOptions, open_queries, read_ids
from bitkin.rescoring.correction_files import read_corrections
from bitkin.rescoring.corrections import scorer_for
from bitkin.rescoring.first_stage import FirstStage, FirstStageChooser, choose_by_losses
from bitkin.rescoring.funnel import BYTES_PER_HIT, Funnel, join_parts
from bitkin.rescoring.losses import LossScorer
from bitkin.rescoring.row_lengths import LengthGuard, sample_lengths, warn_of_zero_queries
from bitkin.rescoring.row_scorer import EstimateScorer, RowScorer
from bitkin.timings import QUERIES_TO_WARM_UP, Timings

_QUERIES_AT_ONCE = 1024

PathLike: TypeAlias = str | os.PathLike[str]


def search_files(
    index: PathLike,
    queries: PathLike,
    *,
    model: PathLike | None = None,
    k: int | None = None,
    radius: int | None = None,
    stage: str | None = None,
    oversample: int | None = None,
    vectors: PathLike | Sequence[PathLike] | None = None,
    corrections: PathLike | None = None,
    metric: str | None = None,
    ids: PathLike | None = None,
    allow: PathLike | None = None,
    column: str | None = None,
    dataset: str | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    first: str | None = None,
    probes: int | None = None,
) -> Neighbors | RaggedNeighbors:
    """Find the nearest rows of every query, all of them in files: what `bitkin search` does.

    By codes, which count the symbols that differ; then, of the best, by an estimate of the metric,
    which needs `corrections`; then, of the best of those, exactly, which needs `vectors`. Codes
    keep k · `oversample` · 10 rows for the stages after them, the estimate k · `oversample`. Under
    a WTAHash the estimate is what the query loses, which needs no corrections and ranks rows
    without being a distance of vectors; it keeps as many rows as codes (see `Collection.search`).
    Queries are read a batch at a time, and of vectors and corrections only the rows that are asked
    for. `FileSearch` gives results a batch at a time, too.

    Parameters
    ----------
    index : path
        What `save` of an index or `bitkin index` wrote; or a stream, by its state or its file of
        codes.
    queries : path
        Vectors, with `model`, or codes. Vectors alone for an `EpochIndex` or a stream, whose models
        are with their codes.
    model : path, optional
        The fitted hasher that encodes queries.
    k : int, default 10
        Neighbours per query.
    radius : int, optional
        All within this distance of codes, instead of the k nearest.
    stage : {"codes", "estimate", "exact"}, optional
        The last stage; by default the best that the files given permit.
    oversample : int, default 10
        How many more rows than needed the stages before the last one keep.
    vectors : path or list of paths, optional
        The vectors that were encoded, for "exact". Beside "estimate" some of them show, as in a
        collection, what codes would lose, and whether rows are of like length.
    corrections : path, optional
        What `save_corrections` or `bitkin encode --corrections` wrote, for "estimate" unless the
        model is a WTAHash; an .npy array of them is taken as it is.
    metric : {"l2", "cosine", "ip"}, optional
        Of the estimate and of exact distances; by default that of `corrections`, and l2 without.
    ids : path, optional
        The ids of the rows of `vectors` and `corrections`, if not 0, 1, 2, …: an .npy array, or
        text with one per line.
    allow : path, optional
        The ids that may be returned, in such a file.
    column, dataset, n_features, zero_based : optional
        How to read files of vectors, as for `bitkin.io.open_vectors`; meant for `vectors`, too,
        where their format is that of queries.
    first : {"codes", "estimate"}, optional
        The stage that looks at all rows. "estimate" needs `corrections`, or a WTAHash, and an index
        that goes over all rows (FlatIndex, EpochIndex, a stream), keeps k · `oversample` rows for
        the last stage and loses less than codes do; by default it is the one that pays, as for
        `Collection.search`.
    probes : int, optional
        Cells that a query looks into, where the index is a CellIndex; by default as many as it was
        saved with. More take more time and miss less.

    Returns
    -------
    Neighbors or, with `radius`, RaggedNeighbors
        Nearest first, ties by lower id.

    Examples
    --------
    >>> import numpy as np, bitkin, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> X = np.random.default_rng(0).standard_normal((1000, 20)).astype(np.float32)
    >>> np.save(folder / "vectors.npy", X)
    >>> np.save(folder / "queries.npy", X[:3])
    >>> hasher = bitkin.ProjectionHash(n_bits=16).fit(X)
    >>> hasher.save(folder / "model.bitkin")
    >>> index = bitkin.FlatIndex(hasher.spec_)
    >>> _ = index.add(hasher.encode(X))
    >>> index.save(folder / "index.bitkin")
    >>> found = bitkin.search_files(folder / "index.bitkin", folder / "queries.npy", k=5,
    ...     model=folder / "model.bitkin", vectors=folder / "vectors.npy")
    >>> found.ids[:, 0].tolist(), found.ids.shape
    ([0, 1, 2], (3, 5))
    """
    several = (
        vectors if isinstance(vectors, (list, tuple)) else [] if vectors is None else [vectors]
    )
    request = SearchRequest(
        _as_path(index, "index"),
        _as_path(queries, "queries"),
        model=_as_path_or_none(model, "model"),
        k=k,
        radius=radius,
        stage=stage,
        oversample=oversample,
        metric=metric,
        vectors=() if vectors is None else tuple(_as_path(one, "vectors") for one in several),
        corrections=_as_path_or_none(corrections, "corrections"),
        ids=_as_path_or_none(ids, "ids"),
        allow=_as_path_or_none(allow, "allow"),
        first=first,
        probes=probes,
    )
    search = open_search(request, VectorFileOptions(column, dataset, n_features, zero_based))
    search.require_result_fits()
    return search.join(list(search.batches()))


def open_search(
    request: SearchRequest, options: VectorFileOptions, spelling: ArgumentSpelling = PYTHON
) -> FileSearch | EpochFileSearch:
    """Open what is searched: an index of one model, or codes of several."""
    if holds_epochs(request.index):
        return EpochFileSearch(request, options, spelling)
    return FileSearch(request, options, spelling)


class FileSearch:
    """One search in files, whose results come a batch of queries at a time.

    Parameters
    ----------
    request : SearchRequest
    options : VectorFileOptions, optional
        How to read files of vectors.
    spelling : ArgumentSpelling, optional
        How messages name arguments.

    Attributes
    ----------
    index : RowIndex
    n_queries : int
    timings : Timings
        What every stage has taken so far.
    seconds : float
        What searching has taken so far, without reading and encoding queries.
    first : FirstStage
        The stage that looks at all rows, and why.
    """

    def __init__(
        self,
        request: SearchRequest,
        options: VectorFileOptions | None = None,
        spelling: ArgumentSpelling = PYTHON,
    ) -> None:
        options = VectorFileOptions() if options is None else options
        hasher = None if request.model is None else load_hasher(request.model)
        losses = _loss_scorer(hasher, request)
        self._by_losses = by_losses = losses is not None
        self._steps = request.steps(spelling, by_losses=by_losses)
        radius = request.radius
        self._radius = None if radius is None else whole_number(radius, "radius", low=0)
        self.index = load_index(request.index)
        if request.probes is not None:
            _set_probes(self.index, request.probes, spelling)
        self._allowed = None if request.allow is None else read_ids(request.allow)
        self._metric = metric = request.metric_or_default()
        scorer: RowScorer | None = losses
        if any(step.stage == "estimate" for step in self._steps) and losses is None:
            scorer = EstimateScorer(scorer_for(hasher, metric))
        self._rows = self._open_rows(request, options, hasher, metric, spelling)
        self.first = self._choose_first(request, scorer, spelling)
        self._steps = request.steps(spelling, self.first.stage, by_losses=by_losses)
        # a search by codes and exact distances alone prepares no estimates
        if not any(step.stage in ("scan", "estimate") for step in self._steps):
            scorer = None
        self._funnel = Funnel(self._steps, scorer, metric)
        self.timings = Timings()
        self.seconds = 0.0
        # few enough that the shortlists of a batch stay small
        at_once = min(_QUERIES_AT_ONCE, self._funnel.queries_at_once(len(self.index)))
        if hasher is None:
            queries = read_codes(request.queries, options, at_once, spelling)
        else:
            queries = encode_vectors(
                request.queries, options, hasher, scorer, at_once, self.timings
            )
        self._queries = queries.batches
        self.n_queries = queries.total
        if hasher is not None and self._steps[-1].stage != "codes":
            self._require_like_lengths(request, options, hasher)

    def batches(self) -> Iterator[Neighbors | RaggedNeighbors]:
        """Yield what was found for one batch of queries after another, once."""
        is_first = True
        for batch in self._queries:
            if is_first:
                # compiles kernels, outside the clock
                some = None if batch.vectors is None else batch.vectors[:QUERIES_TO_WARM_UP]
                self._find(QueryBatch(some, batch.codes[:QUERIES_TO_WARM_UP]), Timings())
                is_first = False
            start = time.perf_counter()
            found = self._find(batch, self.timings)
            self.seconds += time.perf_counter() - start
            yield found

    @property
    def distance_name(self) -> str:
        """What distances are: the stage that they come from, and the metric."""
        last = self._steps[-1].stage
        return describe_distances(last, self._metric, by_losses=self._by_losses)

    def require_result_fits(self) -> None:
        """Raise where the result of all queries together would not fit this machine's memory."""
        if self._radius is None:
            last = self._steps[-1]
            require_fitting(self.n_queries, last.keep, BYTES_PER_HIT[last.stage])

    def join(self, parts: Sequence[Any]) -> Neighbors | RaggedNeighbors:
        """Return the results of batches as one, with k columns however few rows there are."""
        if self._radius is None:
            return join_parts(list(parts), self._steps[-1], self.index.spec)
        return join_ragged(parts)

    def _find(self, batch: QueryBatch, timings: Timings) -> Neighbors | RaggedNeighbors:
        vectors, codes, prepared, first = batch
        if self._radius is None:
            found = self._funnel.nearest(
                self._rows, vectors, codes, self._allowed, prepared=prepared, timings=timings
            )
            if vectors is not None and self._steps[-1].stage != "codes":
                warn_of_zero_queries(vectors, found, self._metric, first)
            return found
        start = time.perf_counter()
        within = self.index.search_radius(codes, self._radius, allow=self._allowed)
        n_rows = len(self.index)
        if self._allowed is not None:
            n_rows = self._rows.count_present(self._allowed)
        timings.add("codes", start, len(codes) * n_rows, len(within.ids))
        return within

    def _require_like_lengths(
        self, request: SearchRequest, options: VectorFileOptions, hasher: Hasher
    ) -> None:
        """Raise where lengths of rows spoil codes of this model under the metric: some of the
        vectors show it, or else some of the queries.
        """
        guard = LengthGuard(hasher, self._funnel.metric)
        if not guard.watches:
            return
        if request.vectors:
            source = open_encoded_vectors(request.vectors, options, request.queries, hasher)
        else:
            source = open_queries(request.queries, options, hasher)
        guard.require(sample_lengths(source), source.name)

    def _choose_first(
        self, request: SearchRequest, scorer: RowScorer | None, spelling: ArgumentSpelling
    ) -> FirstStage:
        """Return the stage that looks at all rows: the one asked for, or the one that pays."""
        if len(self._steps) == 1:
            return FirstStage("codes", "codes are the last stage too")
        if scorer is None:
            return FirstStage("codes", "there are no corrections to estimate by")
        is_flat = isinstance(self.index, FlatIndex)
        if request.first == "estimate" and not is_flat:
            raise ArgumentError(
                f"must not be estimate for a {type(self.index).__name__}, which looks rows up by "
                "their codes instead of going over all. Search a FlatIndex, or with "
                f"{spelling.given('first', 'codes')}.",
                "first",
            )
        if request.first is not None:
            return FirstStage(request.first, "asked for")
        if not is_flat:
            return FirstStage("codes", f"a {type(self.index).__name__} looks rows up by them")
        spec = scorer.spec
        no_words = np.empty((0, spec.bits_per_symbol, spec.plane_words), dtype=np.uint64)
        self.index.check_queries(Codes.from_parts(no_words, spec, None, scorer.fingerprint), None)
        n_allowed = None if self._allowed is None else len(self._allowed)
        by_codes = self._steps[0].keep
        if isinstance(scorer, EstimateScorer):
            chooser = FirstStageChooser(scorer.scorer, scorer.query_bits, bool(request.vectors))
            return chooser.choose(self.index.snapshot, self._rows, by_codes, n_allowed)
        n_rows = len(self.index) if n_allowed is None else min(len(self.index), n_allowed)
        return choose_by_losses(n_rows, self._steps[-1].stage, by_codes)

    def _open_rows(
        self,
        request: SearchRequest,
        options: VectorFileOptions,
        hasher: Hasher | None,
        metric: str,
        spelling: ArgumentSpelling,
    ) -> FileRows:
        """Open what the stages need beside the index."""
        ids = None if request.ids is None else read_ids(request.ids)
        vectors = corrections = None
        if request.vectors and hasher is not None:
            source = open_encoded_vectors(request.vectors, options, request.queries, hasher)
            vectors = FileVectors(source, ids, self.index, spelling)
        if request.corrections is not None and hasher is not None:
            kept = read_corrections(
                request.corrections, metric, hasher.fingerprint_, "model", spelling
            )
            name = str(request.corrections)
            corrections = FileCorrections(kept, ids, self.index, name, metric, spelling)
        return FileRows(self.index, vectors, corrections)


def _set_probes(index: RowIndex, probes: int, spelling: ArgumentSpelling) -> None:
    """Let a search look into so many cells; raise where there are none."""
    # an index brings its kernels with it, which a search of another kind does not need
    from bitkin.index.cells.cell_index import CellIndex

    if not isinstance(index, CellIndex):
        raise ArgumentError(
            f"means nothing for a {type(index).__name__}, which has no cells to look into. Search "
            f"a CellIndex, or leave out {spelling.name('probes')}.",
            "probes",
        )
    index.probes = probes


def _loss_scorer(hasher: Hasher | None, request: SearchRequest) -> LossScorer | None:
    """Return what scores codes of a WTAHash; None for other hashers, and where that is neither
    possible nor asked for.
    """
    if not isinstance(hasher, WTAHash):
        return None
    try:
        return LossScorer(hasher)
    except InvalidInputError:
        if "estimate" in (request.stage, request.first):
            raise
        return None


def _as_path(value: Any, argument: str) -> Path:
    if not isinstance(value, (str, os.PathLike)):
        raise InvalidInputError(f"{argument} must be a path, got {type(value).__name__}.")
    return Path(value)


def _as_path_or_none(value: Any, argument: str) -> Path | None:
    return None if value is None else _as_path(value, argument)
