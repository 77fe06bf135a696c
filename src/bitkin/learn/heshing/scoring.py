"""Scores and best classes of rows, by a table of weights and the tree above the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from bitkin import threads
from bitkin.arrays import Batch
from bitkin.hashers.projection.training import prepared
from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import (
    Rows,
    Tree,
    best_classes_into,
    score_classes_into,
    sure_depths_into,
    work_for,
)

_BLOCK_ROWS = 256  # a thread's piece; rows do not know of each other, so it changes no result


def rows_of(batch: Batch) -> Rows:
    """Return finite rows as kernels take them; a sparse matrix and its dense copy give the same."""
    sparse = csr_array(prepared(batch, normalize=False))
    if issparse(batch) and not sparse.data.all():
        sparse = sparse.copy()
        sparse.eliminate_zeros()
    return Rows(
        indptr=read_only(sparse.indptr.astype(np.int64, copy=False)),
        features=read_only(sparse.indices.astype(np.int32, copy=False).view(np.uint32)),
        values=read_only(sparse.data),
    )


def longest_row(rows: Rows) -> int:
    """Return the number of features in the longest row."""
    return int(np.diff(rows.indptr).max(initial=0))


@dataclass(frozen=True)
class Scorer:
    """All that a prediction needs.

    Parameters
    ----------
    tree : Tree
    weights : float32 (n_levels − 1, n_buckets)
    factor : float
        1/√T.
    intercept : float
        The value of the constant feature; 0 where there is none.
    """

    tree: Tree
    weights: npt.NDArray[np.float32]
    factor: float
    intercept: float

    @property
    def n_classes(self) -> int:
        """How many classes there are to choose from."""
        return len(self.tree.class_leaves)

    def scores(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Return the scores of all classes: (n, n_classes)."""
        out = np.empty((len(rows.indptr) - 1, self.n_classes), dtype=np.float32)
        weights = read_only(self.weights)

        def block(first: int) -> None:
            part = out[first : first + _BLOCK_ROWS]
            work = work_for(len(self.tree.seeds), longest_row(rows))
            score_classes_into(
                rows, first, self.tree, weights, self.factor, self.intercept, work, part
            )

        threads.run(block, range(0, len(out), _BLOCK_ROWS))
        return out

    def best(
        self, rows: Rows, k: int, beam: int | None
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Return the `k` best classes, best first, and their scores; below the `beam` best nodes a
        level only.

        Classes that the beam reaches come before all others, so that fewer of them are the first of
        more.
        """
        n = len(rows.indptr) - 1
        classes, scores = np.empty((n, k), dtype=np.int32), np.empty((n, k), dtype=np.float32)
        weights = read_only(self.weights)
        width = beam_width(self.tree, beam)

        def block(first: int) -> None:
            part: Any = slice(first, first + _BLOCK_ROWS)
            work = work_for(len(self.tree.seeds), longest_row(rows))
            best_classes_into(
                rows,
                first,
                self.tree,
                weights,
                self.factor,
                self.intercept,
                width,
                work,
                classes[part],
                scores[part],
            )

        threads.run(block, range(0, n, _BLOCK_ROWS))
        return classes, scores

    def best_and_sure(
        self, rows: Rows, beam: int | None, margin: float
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return the best class by the beam, and how many nodes of its path lead all classes
        outside by `margin`.

        Every node is scored for it.
        """
        n = len(rows.indptr) - 1
        classes, depths = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int64)
        weights, width = read_only(self.weights), beam_width(self.tree, beam)

        def block(first: int) -> None:
            part: Any = slice(first, first + _BLOCK_ROWS)
            work = work_for(len(self.tree.seeds), longest_row(rows))
            sure_depths_into(
                rows,
                first,
                self.tree,
                weights,
                self.factor,
                self.intercept,
                width,
                margin,
                work,
                classes[part],
                depths[part],
            )

        threads.run(block, range(0, n, _BLOCK_ROWS))
        return classes, depths


def beam_width(tree: Tree, beam: int | None) -> int:
    """Return how many nodes of a level to go on with; None means all."""
    return len(tree.seeds) if beam is None else min(beam, len(tree.seeds))
