"""Four real sets as a search sees them: rows, queries that are not among them, the metric, and the
true ten nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from _data import data_file
from _tiny import sized
from bitkin.evaluate import nearest
from bitkin.randomness import Draws

N_QUERIES = sized(1000, 30)
METRICS = {
    "fashion_mnist": "l2",
    "glove100_100k": "cosine",
    "onet_tasks_minilm384": "cosine",
    "cifar10_gist960": "l2",
}

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class RealSet:
    """Rows and 1,000 queries; those compared by cosine have length 1."""

    name: str
    metric: str
    rows: Vectors
    queries: Vectors
    truth: npt.NDArray[np.int64]


@lru_cache(maxsize=len(METRICS))
def real_set(name: str) -> RealSet:
    """Load a set. One that has no queries of its own gives 1,000 random rows away."""
    with np.load(data_file(f"{name}.npz")) as file:
        parts = (
            ("X_train", "X_test") if "X_train" in file else ("X", "Q") if "Q" in file else ("X",)
        )
        rows, *others = (
            file[part].reshape(len(file[part]), -1).astype(np.float32) for part in parts
        )
    if others:
        queries = others[0][:N_QUERIES]
    else:
        order = Draws(0, f"queries of {name}").permutation(len(rows))
        queries, rows = rows[order[:N_QUERIES]], rows[order[N_QUERIES:]]
    if METRICS[name] == "cosine":
        rows, queries = (
            part / np.linalg.norm(part, axis=1, keepdims=True) for part in (rows, queries)
        )
    return RealSet(name, METRICS[name], rows, queries, nearest(rows, queries, 10).ids)
