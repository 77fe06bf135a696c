"""What runs measured, by what was measured; and the papers' protocol of retrieval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.codes import Codes, distances
from bitkin.evaluate import mean_average_precision, radius_truth
from bitkin.papers.data import DenseSet
from bitkin.papers.report import MeanOfRuns
from bitkin.randomness import Draws

Job = Callable[[], None]
"""A step of an experiment, of seconds: the unit of its progress."""


class Scores:
    """Numbers by key, one per run; runs of one key are in the order of their seeds."""

    def __init__(self) -> None:
        self._values: dict[Hashable, list[float]] = defaultdict(list)

    def add(self, key: Hashable, value: float) -> None:
        """Keep what one run gave."""
        self._values[key].append(float(value))

    def values(self, key: Hashable) -> list[float]:
        """Return what all runs gave."""
        return list(self._values[key])

    def mean(self, key: Hashable) -> MeanOfRuns:
        """Return the mean of all runs."""
        return MeanOfRuns.from_values(self._values[key])

    def ratio(self, key: Hashable, other: Hashable) -> MeanOfRuns:
        """Return the mean of the ratios of two keys, run by run: both had the same rows."""
        pairs = zip(self._values[key], self._values[other], strict=True)
        return MeanOfRuns.from_values([one / another for one, another in pairs])

    def gain(self, key: Hashable, other: Hashable) -> MeanOfRuns:
        """Return the mean of the differences of two keys, run by run."""
        pairs = zip(self._values[key], self._values[other], strict=True)
        return MeanOfRuns.from_values([one - another for one, another in pairs])


@dataclass(frozen=True, slots=True, eq=False)
class RetrievalSplit:
    """Rows to search, queries that are not among them, and the neighbours of each.

    Neighbours are the rows nearer than the mean distance to the 50th nearest row. About a fifth of
    the queries have none and are left out of every mean.
    """

    rows: npt.NDArray[np.float32]
    queries: npt.NDArray[np.float32]
    relevant: Any

    @classmethod
    def draw(
        cls, data: DenseSet, seed: int, n_rows: int, n_queries: int, n_neighbors: int = 50
    ) -> RetrievalSplit:
        """Draw queries and rows, both in random order."""
        order = Draws(seed, f"split of {data.name}").permutation(len(data.X))
        queries = data.X[order[:n_queries]].astype(np.float32)
        rows = data.X[order[n_queries : n_queries + n_rows]].astype(np.float32)
        return cls(rows, queries, radius_truth(rows, queries, n_neighbors=n_neighbors))

    @property
    def share_without_neighbors(self) -> float:
        """Share of the queries that have no neighbour."""
        return float((np.diff(self.relevant.indptr) == 0).mean())

    def precision(self, codes: Codes, queries: Codes) -> float:
        """Return the mean average precision of the ranking by code distance."""
        return mean_average_precision(distances(queries, codes), self.relevant)

    def precision_of(self, hasher: Any) -> float:
        """Return the mean average precision of a fitted hasher."""
        return self.precision(hasher.encode(self.rows), hasher.encode(self.queries))
