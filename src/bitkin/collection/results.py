"""What a collection returns: plain arrays, one row per query or one per id."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from bitkin.arrays import Batch
from bitkin.codes import Codes


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
