"""ShardedFileSearch: `bitkin search` by the workers of a cluster, with queries in a file here."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from distributed import Client

from bitkin._load import load_hasher
from bitkin.arguments import PYTHON, ArgumentSpelling
from bitkin.checks import whole_number
from bitkin.choices import MOST_NEIGHBORS
from bitkin.distributed.searching.sharded_index import ShardedIndex
from bitkin.errors import ArgumentError
from bitkin.file_search.queries import encode_vectors, read_codes
from bitkin.file_search.request import DEFAULT_K, SearchRequest, describe_distances
from bitkin.hashers.wta import WTAHash
from bitkin.index.results import (
    Neighbors,
    RaggedNeighbors,
    join_ragged,
    no_neighbors,
    require_fitting,
)
from bitkin.input_files import VectorFileOptions, read_ids
from bitkin.rescoring.first_stage import FirstStage
from bitkin.timings import Timings

_QUERIES_AT_ONCE = 1024


class ShardedFileSearch:
    """One search by codes on a cluster, whose results come a batch of queries at a time; for the
    rest as `FileSearch`.

    Parameters
    ----------
    request : SearchRequest
        Its index may also be a file of codes, or a folder of such files, that workers read.
    options : VectorFileOptions
        How to read files of queries.
    client : distributed.Client
    spelling : ArgumentSpelling, optional
        How messages name arguments.
    """

    def __init__(
        self,
        request: SearchRequest,
        options: VectorFileOptions,
        client: Client,
        spelling: ArgumentSpelling = PYTHON,
    ) -> None:
        _require_codes_alone(request, spelling)
        k, radius = request.k, request.radius
        self._k = whole_number(DEFAULT_K if k is None else k, "k", low=1, high=MOST_NEIGHBORS)
        self._radius = None if radius is None else whole_number(radius, "radius", low=0)
        self._allowed = None if request.allow is None else read_ids(request.allow)
        self.timings = Timings()
        self.seconds = 0.0
        self.first = FirstStage("codes", "codes are the last stage too")
        if request.model is None:
            queries = read_codes(request.queries, options, _QUERIES_AT_ONCE, spelling)
        else:
            hasher = load_hasher(request.model)
            if isinstance(hasher, WTAHash) and request.stage is None and self._radius is None:
                raise ArgumentError(
                    "must be codes on a cluster, which does not score codes of a WTAHash.", "stage"
                )
            queries = encode_vectors(
                request.queries, options, hasher, None, _QUERIES_AT_ONCE, self.timings
            )
        self._queries = queries.batches
        self.n_queries = queries.total
        self.index = ShardedIndex.from_codes(request.index, client)

    def batches(self) -> Iterator[Neighbors | RaggedNeighbors]:
        """Yield what was found for one batch of queries after another, once."""
        n_rows = len(self.index)
        for batch in self._queries:
            start = time.perf_counter()
            found: Neighbors | RaggedNeighbors
            if self._radius is None:
                found = self.index.search(batch.codes, self._k, allow=self._allowed)
            else:
                found = self.index.search_radius(batch.codes, self._radius, allow=self._allowed)
            n_found = int(np.count_nonzero(found.ids >= 0))
            self.timings.add("codes", start, len(batch.codes) * n_rows, n_found)
            self.seconds += time.perf_counter() - start
            yield found

    @property
    def distance_name(self) -> str:
        """What distances are."""
        return describe_distances("codes", "")

    def require_result_fits(self) -> None:
        """Raise where the result of all queries together would not fit this machine's memory."""
        if self._radius is None:
            require_fitting(self.n_queries, self._k)

    def join(self, parts: Sequence[Any]) -> Neighbors | RaggedNeighbors:
        """Return the results of batches as one."""
        if self._radius is not None:
            return join_ragged(parts)
        farther = self.index.spec.n_symbols + 1
        nothing = no_neighbors(0, self._k, farther, np.int32)
        return Neighbors(*map(np.concatenate, zip(nothing, *parts, strict=True)))


def _require_codes_alone(request: SearchRequest, spelling: ArgumentSpelling) -> None:
    """Raise for what workers cannot be asked of files: they compare codes."""
    last = request.last_stage(spelling)
    if request.probes is not None:
        raise ArgumentError("means nothing on a cluster, where all codes are compared.", "probes")
    if last == "codes":
        return
    argument = "vectors" if last == "exact" else "corrections"
    raise ArgumentError(
        "cannot be given on a cluster, whose workers compare codes of files. In Python, "
        "bitkin.distributed.ShardedIndex.from_codes(..., hasher=, vectors=) measures vectors "
        "there too, and from_collections searches collections by every stage.",
        argument,
    )
