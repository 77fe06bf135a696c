"""Near-duplicate vectors: candidates by sign codes, compared exactly, put in clusters.

A sign code has one bit per random direction: on which side of the plane through the origin (for
cosine) or through the mean of all rows (for l2) a row is. Two rows at an angle θ differ in a bit
with chance θ/π, whatever the data, so the number of different bits of a pair at the threshold is a
binomial sum, and the radius to search is its quantile: `MISS_RATE` of such pairs are beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.checks import is_number, one_of, shown, whole_number
from bitkin.codes import Codes
from bitkin.dedup.duplicates import Clustered, find_closest_links
from bitkin.dedup.linking import Pairs, sort_pairs
from bitkin.dedup.vector_rows import first_equals, read_rows, require_squares
from bitkin.errors import InvalidInputError
from bitkin.index.bands.bands import Rows
from bitkin.index.flat import FlatIndex
from bitkin.io.vectors import open_vectors
from bitkin.randomness import Draws, resolve_seed

MISS_RATE = 1e-4
"""Share of the pairs right at the threshold that may be missed; of closer pairs, far fewer are."""

_METRICS = ("cosine", "l2")
_COSINE_THRESHOLD = 0.95
_ROUNDING = 1e-9  # of a cosine: a row and its double are at 1 − 1e−16
_CANDIDATES_AT_ONCE = 1 << 23  # rows that may be found for some queries
_NUMBERS_AT_ONCE = 1 << 21  # of pairs that are compared
_PRODUCT_SHARE = 1 / 32  # of pairs that are candidates, from which one matrix product is quicker
_PROBE_STEP = 16  # every so many queries tell whether candidates are many
_RADIUS_STEP = 8  # queries of l2 have radii of their own; those within a step share a search

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class DuplicateVectors(Clustered):
    """Near-duplicates among n vectors, numbered from 0.

    Clusters, and what of them is kept, are as in `Duplicates`.

    Attributes
    ----------
    cluster_of : int64 (n,)
        The kept row of every row's cluster; itself where it is kept.
    kept, dropped : int64
        Both ascending.
    measure : float64 (dropped,)
        Cosine similarity, or l2 distance, of every dropped row to the one kept for it.
    like, like_measure : int64 and float64 (dropped,)
        The nearest row that it was joined by, and how near: within the threshold.
    first, second, pair_measure : int64, int64, float64 (pairs,)
        Pairs within the threshold: those that joined clusters, or with `pairs="all"` all found,
        where equal rows are represented by the first of them.
    n_zero : int
        Rows of zeros, for cosine: they are similar to nothing, and kept.
    n_equal : int
        Rows dropped because an earlier one is equal to the last bit.
    n_compared : int
        Pairs that were compared one by one: candidates, without those that a matrix product ruled
        out.
    metric, threshold, n_bits
        As they were given.
    """

    unit = "vectors"

    cluster_of: Rows
    measure: Floats
    like: Rows
    like_measure: Floats
    first: Rows
    second: Rows
    pair_measure: Floats
    n_zero: int
    n_equal: int
    n_compared: int
    metric: str
    threshold: float
    n_bits: int


def find_duplicate_vectors(
    vectors: Any,
    threshold: float | None = None,
    *,
    metric: str = "cosine",
    n_bits: int = 256,
    pairs: str = "links",
    random_state: int | None = 0,
    progress: Callable[[int], None] | None = None,
) -> DuplicateVectors:
    """Find clusters of vectors within a threshold of each other.

    No pair beyond the threshold is ever joined: candidates come from codes, and are compared
    exactly. Of pairs right at the threshold 1 in 10,000 is missed, and far fewer of closer ones.
    Time grows with the square of the rows, at the speed of codes: 32 bytes per row instead of the
    row itself.

    Parameters
    ----------
    vectors : 2-D array, data frame, path, list of paths or VectorSource
        Dense rows, held in memory as float32 where that holds them exactly, else (float64, and
        integers of 32 bits or more) as float64. Integers beyond 2**53 are refused,
        and numbers whose squares float64 does not hold.
    threshold : float, optional
        For metric="cosine" the least cosine similarity of near-duplicates, 0.95 by default, for
        "l2" the largest distance, which has no default.
    metric : {"cosine", "l2"}, default "cosine"
        Cosine leaves lengths aside: a row and its double are equal, and zeros are like nothing.
    n_bits : int, default 256
        Bits of a code. More leave fewer pairs to compare, and take longer to search.
    pairs : {"links", "all"}, default "links"
        Which pairs the result lists; clusters are the same.
    random_state : int or None, default 0
        The seed of the directions.
    progress : callable, optional
        Called with the number of rows done.

    Examples
    --------
    >>> import bitkin, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((100, 16))
    >>> X[7] = 3 * X[2]
    >>> X[50] = X[2] + 0.05
    >>> found = bitkin.dedup.find_duplicate_vectors(X)
    >>> found
    DuplicateVectors(100 vectors, 98 kept, 1 cluster)
    >>> found.clusters, found.measure.round(4).tolist()
    ([array([ 2,  7, 50])], [1.0, 0.9991])
    >>> bitkin.dedup.find_duplicate_vectors(X, 0.3, metric="l2").dropped
    array([50])
    """
    one_of(metric, "metric", _METRICS)
    threshold = vector_threshold(threshold, metric)
    n_bits = whole_number(n_bits, "n_bits", low=64, high=4096)
    every_pair = one_of(pairs, "pairs", ("links", "all")) == "all"
    rows = read_rows(open_vectors(vectors, name="vectors"))
    rows = require_squares(rows, "vectors", None if metric == "cosine" else threshold)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    zero = (lengths == 0) & (metric == "cosine")
    first_equal = first_equals(rows)
    first_equal[zero] = np.flatnonzero(zero)
    compared = np.flatnonzero((first_equal == np.arange(len(rows))) & ~zero)
    copies = np.flatnonzero(first_equal != np.arange(len(rows)))
    comparison = _Comparison(rows, lengths, metric, threshold)
    linking = _Linking(len(rows), comparison, every_pair=every_pair)
    # scores rise with likeness: a cosine, or minus a distance
    equal_score = np.full(len(copies), 1.0 if metric == "cosine" else 0.0)
    linking.join(first_equal[copies], copies, equal_score)
    seed = resolve_seed(random_state)
    if len(compared):
        for pair in _candidates(rows, compared, comparison, n_bits, seed, progress):
            linking.compare(*pair)
    cluster_of = linking.roots()
    dropped = np.flatnonzero(cluster_of != np.arange(len(rows)))
    links, found = sort_pairs(linking.links), sort_pairs(linking.parts)
    like, like_score = find_closest_links(len(rows), links, dropped)
    sign = 1.0 if metric == "cosine" else -1.0
    return DuplicateVectors(
        cluster_of=cluster_of,
        measure=sign * comparison.scores(cluster_of[dropped], dropped),
        like=like,
        like_measure=sign * like_score,
        first=found.first,
        second=found.second,
        pair_measure=sign * found.jaccard,
        n_zero=int(np.count_nonzero(zero)),
        n_equal=len(copies),
        n_compared=linking.n_compared,
        metric=metric,
        threshold=threshold,
        n_bits=n_bits,
    )


def vector_threshold(threshold: Any, metric: str) -> float:
    """Return the checked threshold of a metric, by default that of cosine."""
    if threshold is None and metric == "cosine":
        return _COSINE_THRESHOLD
    if threshold is None:
        raise InvalidInputError(
            'threshold must be given for metric="l2": the largest distance of near-duplicates.'
        )
    high = 1.0 if metric == "cosine" else np.inf
    if not is_number(threshold) or not 0 < threshold <= high or not np.isfinite(threshold):
        bound = "above 0 and up to 1" if metric == "cosine" else "above 0 and finite"
        raise InvalidInputError(
            f"threshold must be {bound} for metric={metric!r}, got {shown(threshold)}."
        )
    return float(threshold)


class _Comparison(NamedTuple):
    """Exact comparison of pairs of rows."""

    rows: npt.NDArray[Any]
    lengths: Floats
    metric: str
    threshold: float

    def scores(self, first: Rows, second: Rows) -> Floats:
        """Return cosines, or minus distances, in float64: (pairs,)."""
        out = np.empty(len(first))
        step = max(1, _NUMBERS_AT_ONCE // self.rows.shape[1])
        for start in range(0, len(first), step):
            a, b = first[start : start + step], second[start : start + step]
            x, y = self.rows[a].astype(np.float64), self.rows[b].astype(np.float64)
            if self.metric == "cosine":
                out[start : start + step] = np.minimum(
                    np.einsum("ij,ij->i", x, y) / (self.lengths[a] * self.lengths[b]), 1.0
                )
            else:
                x -= y
                out[start : start + step] = -np.sqrt(np.einsum("ij,ij->i", x, x))
        return out

    def is_near(self, scores: Floats) -> npt.NDArray[np.bool_]:
        """Whether scores are within the threshold."""
        if self.metric == "cosine":
            return scores >= self.threshold - _ROUNDING
        return scores >= -self.threshold


class _Linking:
    """Clusters that grow by pairs within the threshold."""

    def __init__(self, n: int, comparison: _Comparison, *, every_pair: bool) -> None:
        self._parents = np.arange(n)
        self._roots = self._parents.copy()  # as they were some time ago
        self._since = 0  # pairs seen since then
        self._comparison = comparison
        self._every_pair = every_pair
        self.links: list[Pairs] = []
        """Pairs that joined clusters."""
        self.parts: list[Pairs] = []
        """Those, or all pairs."""
        self.n_compared = 0

    def compare(self, first: Rows, second: Rows) -> None:
        """Compare candidates, `first` < `second`, and join those within the threshold; pairs of one
        cluster are skipped unless all are wanted.
        """
        if not self._every_pair:
            # roots of a while ago serve: what was one cluster then is one now
            self._since += len(first)
            if self._since >= len(self._roots):
                self._roots, self._since = self.roots(), 0
            apart = self._roots[first] != self._roots[second]
            first, second = first[apart], second[apart]
        scores = self._comparison.scores(first, second)
        self.n_compared += len(first)
        near = self._comparison.is_near(scores)
        self.join(first[near], second[near], scores[near])

    def join(self, first: Rows, second: Rows, scores: Floats) -> None:
        """Join pairs within the threshold."""
        from bitkin.kernels.blocks import read_only
        from bitkin.kernels.search.bands import unite_into

        joined = np.empty(len(first), dtype=np.bool_)
        unite_into(self._parents, read_only(first), read_only(second), joined)
        links = Pairs(first[joined], second[joined], scores[joined])
        self.links.append(links)
        self.parts.append(Pairs(first, second, scores) if self._every_pair else links)

    def roots(self) -> Rows:
        """Return the first row of every row's cluster."""
        from bitkin.kernels.search.bands import roots_into

        roots = np.empty_like(self._parents)
        roots_into(self._parents, roots)
        return roots


def _candidates(
    rows: npt.NDArray[Any],
    compared: Rows,
    comparison: _Comparison,
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
    radii = _radii(angles, n_bits)
    index = FlatIndex(codes.spec)
    index.add(codes)
    at_once = int(np.clip(_CANDIDATES_AT_ONCE // len(compared), 32, 1024))
    one_radius = bool((radii == radii[0]).all())
    done = 0
    for radius in np.unique(radii):
        queries = np.flatnonzero(radii == radius)
        for start in range(0, len(queries), at_once):
            some = queries[start : start + at_once]
            probed = some[::_PROBE_STEP]
            probe = index.search_radius(codes[probed], int(radius)) if one_radius else None
            if probe is not None and len(probe.ids) > _PRODUCT_SHARE * len(probed) * len(compared):
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


def _may_be_near(
    comparison: _Comparison, others: Rows, some: Rows, center: Any
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
    step = max(1, _NUMBERS_AT_ONCE // max(d, len(some)))
    for start in range(0, len(others), step):
        part = prepared(others[start : start + step])
        products = queries @ part.T
        if comparison.metric == "cosine":
            bound = comparison.threshold - _ROUNDING - rounding
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
    step = max(1, _NUMBERS_AT_ONCE // max(rows.shape[1], n_bits))
    packed = [np.empty((0, -(-n_bits // 8)), dtype=np.uint8)]
    for start in range(0, len(compared), step):
        some = (rows[compared[start : start + step]] - center).astype(rows.dtype)
        packed.append(np.packbits(some @ directions > 0, axis=1))
    return Codes.from_bytes(np.concatenate(packed), n_bits)


def _distances_to(rows: npt.NDArray[Any], compared: Rows, center: Any) -> Floats:
    out = np.empty(len(compared))
    step = max(1, _NUMBERS_AT_ONCE // rows.shape[1])
    for start in range(0, len(compared), step):
        apart = rows[compared[start : start + step]] - center
        out[start : start + step] = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    return out


def _radii(angles: Floats, n_bits: int) -> npt.NDArray[np.int64]:
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
