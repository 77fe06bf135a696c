"""What a collection returns: plain arrays, one row per query or one per id."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy.typing as npt

from bitkin.arrays import Batch
from bitkin.codes import Codes
from bitkin.index.results import Hit, found_by_query, found_to_pandas
from bitkin.timings import Timing, describe_stages

_SHOWN_HITS = 3  # of the first query, where hits are printed


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """The k nearest rows of every query, nearest first, ties by lower id, or by the name that came
    first.

    Where fewer than k can be returned, the rest is id −1 (None where ids are strings), at distance
    `n_symbols + 1` from codes and infinity otherwise. Iterating goes through the queries, and
    leaves that out.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((100, 8))
    >>> hasher = bitkin.ProjectionHash(n_bits=7).fit(X)
    >>> items = bitkin.Collection.create(None, hasher)
    >>> _ = items.add(X)
    >>> hits = items.search(X[:2], k=3)
    >>> for neighbours in hits:
    ...     print([(hit.id, round(hit.distance, 1)) for hit in neighbours[:1]])
    [(0, 0.0)]
    [(1, 0.0)]
    >>> items.search(X[5], k=3)[0][0].id  # a lone vector is one query
    5
    """

    ids: npt.NDArray[Any]
    """(n_queries, k): int64, or objects, each a string or None."""
    distances: npt.NDArray[Any]
    """(n_queries, k): int32 symbol counts from "codes"; the metric, float32 from "estimate",
    float64 from "exact".

    Where the index is a `BandIndex` with `score="hits"`, "codes" counts the bands that did not find
    a row.
    """
    metadata: list[list[dict[str, Any] | None]] | None = None
    """For every query a list of k dictionaries, None where there is no neighbour; None where no row
    of the collection has any, in memory.
    """

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[list[Hit]]:
        return found_by_query(self.ids, self.distances)

    def __repr__(self) -> str:
        n_queries, k = self.ids.shape
        noun = "query" if n_queries == 1 else "queries"
        shape = f"Hits({n_queries:,} {noun} × {k:,}, {self.distances.dtype} distances"
        if n_queries == 0 or not self[0]:
            return f"{shape})"
        nearest = ", ".join(f"{hit.id!r} at {hit.distance:.4g}" for hit in self[0][:_SHOWN_HITS])
        more = ", …" if k > _SHOWN_HITS or n_queries > 1 else ""
        return f"{shape}: {nearest}{more})"

    def by_query(self) -> Iterator[list[Hit]]:
        """Yield what was found for every query, padding left out; the same as iterating."""
        return iter(self)

    def __getitem__(self, query: int) -> list[Hit]:
        """Return what was found for one query."""
        query = operator.index(query)  # a slice would join what several queries found
        [found] = found_by_query(self.ids[query][None], self.distances[query][None])
        return found

    def to_pandas(self) -> Any:
        """Return a pandas data frame with the columns query, rank, id and distance, a row per
        neighbour.
        """
        return found_to_pandas(self.ids, self.distances)


class Records(NamedTuple):
    """What a collection holds of some ids, in the order in which they were asked for."""

    ids: npt.NDArray[Any]
    """(n,): int64, or objects, each a string."""
    vectors: Batch
    """(n, n_features): as they are kept, float32 for int8; CSR for "csr"; None where vectors are
    not kept.
    """
    codes: Codes
    """n rows; where those are of several epochs, encoded again by the current hasher."""
    metadata: list[dict[str, Any]] | None = None
    """n dictionaries; None where no row of the collection has any, in memory."""

    def __repr__(self) -> str:
        kept = "no vectors" if self.vectors is None else _short(self.vectors)
        return f"Records({len(self.ids):,} ids, {kept}, {self.codes!r})"


def _short(vectors: Any) -> str:
    return f"{vectors.dtype} vectors {vectors.shape}"


class EpochInfo(NamedTuple):
    """What `Collection.epochs` says of one epoch."""

    number: int
    """0 for the hasher that the collection was made with."""
    fingerprint: str
    """Of the hasher."""
    n_rows: int


@dataclass(frozen=True, slots=True, eq=False)
class SearchExplanation:
    """What a search did: printed, it is the table that `bitkin search --explain` prints, a line per
    stage with times and rows per query.
    """

    hits: Hits
    """What was found."""
    first: str
    """The stage that looked at all rows: "codes" or "estimate"."""
    why: str
    """Why it was that one."""
    stages: dict[str, Timing]
    """Seconds, rows in and rows out of every stage, for all queries together: "encode", "codes" or
    "estimate of all rows" (with the query in a few bits), "estimate", "exact".
    """
    index: str
    """The class of the index, such as "FlatIndex"."""

    def __str__(self) -> str:
        return describe_stages(self.index, len(self.hits), self.first, self.why, self.stages)

    def __repr__(self) -> str:
        return f"SearchExplanation({self.hits!r}, first stage {self.first!r})"
