"""Exact comparison of pairs of rows, and the clusters that grow by those within the threshold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Floats
from bitkin.dedup.linking import Pairs
from bitkin.index.bands.bands import Rows

ROUNDING = 1e-9  # of a cosine: a row and its double are at 1 − 1e−16
NUMBERS_AT_ONCE = 1 << 21  # of pairs that are compared


class VectorComparison(NamedTuple):
    """Exact comparison of pairs of rows."""

    rows: npt.NDArray[Any]
    lengths: Floats
    metric: str
    threshold: float

    def scores(self, first: Rows, second: Rows) -> Floats:
        """Return cosines, or minus distances, in float64: (pairs,)."""
        out = np.empty(len(first))
        step = max(1, NUMBERS_AT_ONCE // self.rows.shape[1])
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
            return scores >= self.threshold - ROUNDING
        return scores >= -self.threshold


class VectorLinking:
    """Clusters that grow by pairs within the threshold."""

    def __init__(self, n: int, comparison: VectorComparison, *, every_pair: bool) -> None:
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
