"""The papers' protocol: random partitions, truth by a radius, and means with their standard errors.

A partition puts 1,000 random vectors of a data set aside as queries; one for each seed, since the
choice of queries moves mean average precision more than most methods differ. Neighbours are those
nearer than the mean distance to the 50th nearest; queries without any are left out, and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

import bitkin
from _data import data_file
from _tiny import sized
from bitkin import Codes, ProjectionHash
from bitkin.evaluate import mean_average_precision, radius_truth
from bitkin.randomness import Draws

N_QUERIES, N_NEIGHBORS = sized(1000, 40), sized(50, 5)
DATA = {"cifar10_gist960": ("X", "Q"), "fashion_mnist": ("X_train", "X_test")}


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Rows, queries, and what is relevant to each query."""

    rows: npt.NDArray[np.float32]
    queries: npt.NDArray[np.float32]
    relevant: Any

    @property
    def queries_left_out(self) -> int:
        """How many queries have no neighbour."""
        return int((np.diff(self.relevant.indptr) == 0).sum())

    def precision(self, codes: Codes, queries: Codes) -> float:
        """Mean average precision of the ranking by code distance."""
        return mean_average_precision(bitkin.distances(queries, codes), self.relevant)

    def precision_of(self, hasher: ProjectionHash) -> float:
        """Mean average precision of a hasher fitted to the rows."""
        hasher.fit(self.rows)
        return self.precision(hasher.encode(self.rows), hasher.encode(self.queries))


@lru_cache(maxsize=len(DATA))
def all_vectors(name: str) -> npt.NDArray[np.float32]:
    """Return every vector of a data set, whatever part it was in."""
    with np.load(data_file(f"{name}.npz")) as file:
        return np.concatenate(
            [file[part].reshape(len(file[part]), -1).astype(np.float32) for part in DATA[name]]
        )


def partition(name: str, seed: int, n_rows: int | None = None) -> Partition:
    """Draw the queries, and so many of the other vectors as rows; all of them without a number."""
    vectors = all_vectors(name)
    order = Draws(seed, f"partition of {name}").permutation(len(vectors))
    queries, rows = vectors[order[:N_QUERIES]], vectors[order[N_QUERIES:][:n_rows]]
    return Partition(rows, queries, radius_truth(rows, queries, n_neighbors=N_NEIGHBORS))


def mean_and_error(values: list[float]) -> dict[str, float]:
    """Return the mean and its standard error."""
    return {"mean": round(float(np.mean(values)), 4), "error": round(standard_error(values), 4)}


def standard_error(values: list[float]) -> float:
    """Return the standard error of the mean, nan for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
