"""What a collection returns: plain arrays, one row per query or one per id."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.index.results import Neighbors, no_neighbors, require_fitting
from bitkin.rescoring.funnel import Step

_DISTANCES: dict[str, np.dtype[Any]] = {
    "codes": np.dtype(np.int32),
    "estimate": np.dtype(np.float32),
    "exact": np.dtype(np.float64),
}
# An id and a distance, by the last stage.
BYTES_PER_HIT = {stage: 8 + dtype.itemsize for stage, dtype in _DISTANCES.items()}


class Hits(NamedTuple):
    """The k nearest rows of every query, nearest first, ties by lower id, or by the name that came
    first.

    Where fewer than k can be returned, the rest is id −1 (None where ids are strings), at distance
    `n_symbols + 1` from codes and infinity otherwise.
    """

    ids: npt.NDArray[Any]
    """(n_queries, k): int64, or objects, each a string or None."""
    distances: npt.NDArray[Any]
    """(n_queries, k): int32 symbol counts from "codes"; the metric, float32 from "estimate",
    float64 from "exact".

    Where the index is a `BandIndex` with `score="hits"`, "codes" counts the bands that did not find
    a row.
    """
    metadata: None = None
    """Nothing yet: collections have no metadata in this version."""


class Records(NamedTuple):
    """What a collection holds of some ids, in the order in which they were asked for."""

    ids: npt.NDArray[Any]
    """(n,): int64, or objects, each a string."""
    vectors: Batch
    """(n, n_features): as they are kept, float32 for int8; CSR for "csr"; None where vectors are
    not kept.
    """
    codes: Codes
    """n rows."""
    metadata: None = None
    """Nothing yet: collections have no metadata in this version."""


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
