"""Pairs of rows that may be within the threshold, by sign codes.

A sign code has one bit per random direction: on which side of the plane through the origin (for
cosine) or through the mean of all rows (for l2) a row is. Two rows at an angle θ differ in a bit
with chance θ/π, whatever the data, so the number of different bits of a pair at the threshold is a
binomial sum, and the radius to search is its quantile: `MISS_RATE` of such pairs are beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Floats
from bitkin.codes import Codes
from bitkin.dedup.vectors.comparison import NUMBERS_AT_ONCE, ROUNDING, VectorComparison
from bitkin.index.bands.bands import Rows
from bitkin.index.flat import FlatIndex
from bitkin.randomness import Draws

MISS_RATE = 1e-4
"""Share of the pairs right at the threshold that may be missed; of closer pairs, far fewer are."""

_CANDIDATES_AT_ONCE = 1 << 23  # rows that may be found for some queries
_PRODUCT_SHARE = 1 / 32  # of pairs that are candidates, from which one matrix product is quicker
_PROBE_STEP = 16  # every so many queries tell whether candidates are many
_PROBED = 32  # queries of a radius that tell it, where there are several radii
_RADIUS_STEP = 8  # queries of l2 have radii of their own; those within a step share a search


def find_candidates(
    rows: npt.NDArray[Any],
    compared: Rows,
    comparison: VectorComparison,
    n_bits: int,
    seed: int,
    progress: Callable[[int], None] | None,
) -> Iterator[tuple[Rows, Rows]]:
    """Yield pairs of row numbers, the lower one first, that may be within the threshold: each pair
    once.
    """
    metric, threshold = comparison.metric, comparison.threshold
    # Cosine is an angle at the origin. A ball of radius t around x is seen from the mean μ under an
    # angle of arcsin(t / ‖x − μ‖) at most.
    center = rows[compared].mean(axis=0, dtype=np.float64) if metric == "l2" else 0.0
    directions = Draws(seed, "dedup vectors").normals((rows.shape[1], n_bits))
    codes = _sign_codes(rows, compared, center, directions.astype(rows.dtype))
    if metric == "cosine":
        angles = np.full(len(compared), np.arccos(threshold))
    else:
        away = _distances_to(rows, compared, center)
        angles = np.arcsin(np.minimum(threshold / np.maximum(away, 1e-300), 1.0))
        # from within the ball the mean is no help: such rows are compared with all
        angles[away <= threshold] = np.pi
    radii = find_radii(angles, n_bits)
    index = FlatIndex(codes.spec)
    index.add(codes)
    at_once = int(np.clip(_CANDIDATES_AT_ONCE // len(compared), 32, 1024))
    one_radius = bool((radii == radii[0]).all())
    # Rows whose candidates are most rows: a matrix product compares those with all at once. It is
    # exact, so pairs of such a row with others are left to it.
    wide = np.zeros(len(compared), dtype=np.bool_)
    if not one_radius:
        wide = radii >= _widest_search(index, codes, radii)
    done = 0
    for radius in np.unique(radii):
        queries = np.flatnonzero(radii == radius)
        for start in range(0, len(queries), at_once):
            some = queries[start : start + at_once]
            if wide[some[0]]:
                near = _may_be_near(comparison, compared, compared[some], center)
                local, asked = np.nonzero(near)
                once = ~wide[asked] | (asked < some[local])
                asking, asked = some[local[once]], asked[once]
            elif one_radius and _finds_many(index, codes[some[::_PROBE_STEP]], int(radius)):
                # each pair once, by the later row, as below
                last = int(some[-1])
                local, asked = np.nonzero(
                    _may_be_near(comparison, compared[:last], compared[some], center)
                )
                earlier = asked < some[local]
                asking, asked = some[local[earlier]], asked[earlier]
            else:
                found = index.search_radius(codes[some], int(radius))
                local = np.repeat(np.arange(len(some)), np.diff(found.offsets))
                asking, asked = some[local], found.ids
                # once per pair: by the later row, or by the earlier where the later does not
                # reach it
                reached = found.distances <= radii[asked]
                wanted = (asked < asking) | ((asked > asking) & ~reached)
                wanted &= ~wide[asked]
                if np.count_nonzero(wanted) > _PRODUCT_SHARE * len(some) * len(compared):
                    wanted &= _may_be_near(comparison, compared, compared[some], center)[
                        local, asked
                    ]
                asking, asked = asking[wanted], asked[wanted]
            one, other = compared[asking], compared[asked]
            first, second = np.minimum(one, other), np.maximum(one, other)
            # a piece at a time, so that pairs of clusters that grew are skipped
            step = max(len(rows), 1 << 14)
            for piece in range(0, len(first), step):
                yield first[piece : piece + step], second[piece : piece + step]
            done += len(some)
            if progress is not None:
                progress(done)


def _finds_many(index: FlatIndex, queries: Codes, radius: int) -> bool:
    """Tell whether queries find so many rows that a matrix product is quicker."""
    found = index.search_radius(queries, radius)
    return len(found.ids) > _PRODUCT_SHARE * len(queries) * len(index)


def _widest_search(index: FlatIndex, codes: Codes, radii: npt.NDArray[np.int64]) -> float:
    """Return the least radius whose searches find too many rows, infinity where none does."""
    for radius in np.unique(radii):
        queries = np.flatnonzero(radii == radius)
        some = queries[:: -(-len(queries) // _PROBED)]
        if _finds_many(index, codes[some], int(radius)):
            return float(radius)
    return np.inf


def _may_be_near(
    comparison: VectorComparison, others: Rows, some: Rows, center: Any
) -> npt.NDArray[np.bool_]:
    """Return which of the rows `others` may be within the threshold of rows `some`, by a
    matrix product in float64: (some, others). Only its rounding error lets others pass.
    """
    rows, lengths = comparison.rows, comparison.lengths
    d = rows.shape[1]
    # of a product, beside the lengths of its rows
    rounding = 4 * (d + 4) * np.finfo(np.float64).eps

    def prepared(numbers: Rows) -> Floats:
        whole = rows[numbers].astype(np.float64)
        if comparison.metric == "cosine":
            return np.asarray(whole / lengths[numbers, None])
        return np.asarray(whole - center)

    queries = prepared(some)
    squares = np.einsum("ij,ij->i", queries, queries)[:, None]
    near = np.empty((len(some), len(others)), dtype=np.bool_)
    step = max(1, NUMBERS_AT_ONCE // max(d, len(some)))
    for start in range(0, len(others), step):
        part = prepared(others[start : start + step])
        products = queries @ part.T
        if comparison.metric == "cosine":
            bound = comparison.threshold - ROUNDING - rounding
            # written so that what is not a number passes, to be compared exactly
            near[:, start : start + step] = ~(products < bound)
        else:
            both = squares + np.einsum("ij,ij->i", part, part)
            bound = comparison.threshold**2 * (1 + rounding)
            near[:, start : start + step] = ~(both - 2 * products - rounding * both > bound)
    return near


def _sign_codes(
    rows: npt.NDArray[Any], compared: Rows, center: Any, directions: npt.NDArray[Any]
) -> Codes:
    """Return one bit per direction: whether a row is above the plane through the center."""
    n_bits = directions.shape[1]
    step = max(1, NUMBERS_AT_ONCE // max(rows.shape[1], n_bits))
    packed = [np.empty((0, -(-n_bits // 8)), dtype=np.uint8)]
    for start in range(0, len(compared), step):
        some = (rows[compared[start : start + step]] - center).astype(rows.dtype)
        packed.append(np.packbits(some @ directions > 0, axis=1))
    return Codes.from_bytes(np.concatenate(packed), n_bits)


def _distances_to(rows: npt.NDArray[Any], compared: Rows, center: Any) -> Floats:
    out = np.empty(len(compared))
    step = max(1, NUMBERS_AT_ONCE // rows.shape[1])
    for start in range(0, len(compared), step):
        apart = rows[compared[start : start + step]] - center
        out[start : start + step] = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    return out


def find_radii(angles: Floats, n_bits: int) -> npt.NDArray[np.int64]:
    """Return for every angle how many bits may differ: all but `MISS_RATE` of pairs at it have at
    most as many. Rounded up to a few different radii.
    """
    from scipy.special import bdtr

    grid = np.linspace(0.0, 1.0, 513)  # shares of bits that differ
    within = bdtr(np.arange(n_bits + 1)[None, :].astype(np.float64), n_bits, grid[:, None])
    of_grid = np.argmax(within >= 1.0 - MISS_RATE, axis=1)
    of_grid[-1] = n_bits
    radii = of_grid[np.minimum(np.ceil(angles / np.pi * 512).astype(np.int64), 512)]
    stepped: npt.NDArray[np.int64] = np.minimum(-(-radii // _RADIUS_STEP) * _RADIUS_STEP, n_bits)
    return stepped
