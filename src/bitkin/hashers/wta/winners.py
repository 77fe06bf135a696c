"""From rows to winners: batches cut for threads and caches, and the kernels fed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin.hashers.wta.column_moments import exact_float_type
from bitkin.hashers.wta.standardizer import Standardizer
from bitkin.hashers.wta.windows import Windows
from bitkin.io.vectors.batch import row_slice
from bitkin.kernels.blocks import read_only
from bitkin.kernels.hashing.wta import dense_winners_into, sparse_winners_into

_LARGEST_UNROLLED = 16  # features per window for which the kernel unrolls its loop
_ROWS_PER_PIECE = 4096  # what a thread takes at a time
_WINNERS_PER_BLOCK = 1 << 16  # 256 KB of int32 between two kernels: they stay in a core's cache
_NUMBERS_PER_BLOCK = 1 << 16  # 512 KB of standardized rows

HashRows = Callable[[Any, npt.NDArray[np.int32]], None]


def cut_rows(n_rows: int) -> list[slice]:
    """Cut rows into pieces for threads: a few thousand rows each, but at least two pieces where
    there are enough rows to be worth a second thread.
    """
    step = max(256, min(_ROWS_PER_PIECE, -(-n_rows // 2)))
    return [slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step)]


def is_sparse_work(batch: Any, standardizer: Standardizer) -> bool:
    """Tell whether rows are hashed by their nonzeros alone: sparse rows that stay sparse."""
    return bool(issparse(batch)) and standardizer.keeps_zeros


def find_winners(
    batch: Any, piece: slice, windows: Windows, standardizer: Standardizer
) -> Iterator[tuple[slice, npt.NDArray[np.int32]]]:
    """Yield the winners of a few rows at a time, int32 (rows, n_hashes), −1 for an empty window.
    The next ones overwrite them.

    The winner of a window is the place k (0 … K − 1) of its largest component.
    """
    n_hashes = windows.plan.n_hashes
    # Components are compared in float32 only where that gives the same winners as float64: numbers
    # that float32 holds exactly, and no products or differences of them.
    wide = windows.plan.degree > 1 or standardizer.changes_rows
    best = np.empty(n_hashes, dtype=np.float64 if wide else exact_float_type(batch.dtype))
    step = max(1, _WINNERS_PER_BLOCK // n_hashes)
    if is_sparse_work(batch, standardizer):
        hash_rows = _sparse_hasher(batch, windows, standardizer, best)
    else:
        if standardizer.changes_rows:
            step = max(1, min(step, _NUMBERS_PER_BLOCK // windows.plan.n_features))
        hash_rows = _dense_hasher(windows, standardizer, best, min(step, piece.stop - piece.start))
    room = np.empty((min(step, piece.stop - piece.start), n_hashes), dtype=np.int32)
    for first in range(piece.start, piece.stop, step):
        rows = slice(first, min(first + step, piece.stop))
        winners = room[: rows.stop - first]
        hash_rows(row_slice(batch, first, rows.stop), winners)
        yield rows, winners


def _dense_hasher(
    windows: Windows, standardizer: Standardizer, best: npt.NDArray[Any], most_rows: int
) -> HashRows:
    several = windows.plan.degree > 1  # a component is a product, computed before it is compared
    components = np.empty(windows.features.shape[1] if several else 0)
    # The length of a tuple is part of its type: the kernel is compiled for this many features per
    # window, and its inner loop unrolled. Length 1 stands for a loop of any length.
    slots = (0,) * (
        windows.plan.window if windows.plan.window <= _LARGEST_UNROLLED and not several else 1
    )
    standardizes = standardizer.changes_rows
    room = np.empty((most_rows if standardizes else 0, windows.plan.n_features))

    def hash_rows(rows: Any, winners: npt.NDArray[np.int32]) -> None:
        numbers = rows.toarray() if issparse(rows) else rows
        compared = (
            standardizer.apply_into(numbers, room)
            if standardizes
            else numbers.astype(best.dtype, copy=False)
        )
        dense_winners_into(
            read_only(compared),
            windows.features,
            windows.coefficients,
            slots,
            components,
            best,
            winners,
        )
        if standardizes:
            counts = np.count_nonzero(numbers, axis=1)
            # a row of zeros has nothing to hash, wherever the centre is
            winners[counts == 0] = -1
            hollow = np.flatnonzero(counts < standardizer.fewest_nonzeros)
            if len(hollow):
                winners[hollow] = np.where(sees_nonzeros(numbers[hollow]), winners[hollow], -1)

    def sees_nonzeros(numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Tell for every row, not centred, and window whether it looks at any nonzero."""
        raw = read_only(numbers.astype(np.float64))
        found = np.empty((len(raw), windows.plan.n_hashes), dtype=np.int32)
        seen = np.zeros(found.shape, dtype=bool)
        # Factor by factor, as if there were no products: one is zero already if one factor is.
        for factor in range(windows.plan.degree):
            features = windows.features[factor : factor + 1]
            dense_winners_into(raw, features, windows.coefficients, slots, components, best, found)
            seen |= found >= 0
        return seen

    return hash_rows


def _sparse_hasher(
    batch: Any, windows: Windows, standardizer: Standardizer, best: npt.NDArray[Any]
) -> HashRows:
    places = windows.places
    n_hashes = windows.plan.n_hashes
    # A nonzero is looked at by as many places as its feature has: so many hits at most per row.
    n_hits = places.most * int(np.diff(batch.indptr).max(initial=0))
    values = np.zeros(windows.plan.n_features if windows.plan.degree > 1 else 0)
    hit_places = np.empty(n_hits, dtype=np.uint32)
    hits = np.empty(n_hits, dtype=best.dtype)
    counts = np.empty(n_hashes, dtype=np.int64)
    taken = np.empty(n_hits + n_hashes, dtype=bool)

    def hash_rows(rows: Any, winners: npt.NDArray[np.int32]) -> None:
        numbers = (
            standardizer.scale_entries(rows.data, rows.indices)
            if standardizer.changes_rows
            else rows.data.astype(best.dtype, copy=False)
        )
        sparse_winners_into(
            read_only(numbers),
            read_only(rows.indices),
            read_only(rows.indptr),
            places.places,
            places.starts,
            places.stride,
            windows.features,
            windows.coefficients,
            values,
            hit_places,
            hits,
            best,
            counts,
            taken,
            winners,
        )

    return hash_rows
