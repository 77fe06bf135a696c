"""Scores and best classes of rows, by a table of weights and the tree above the classes.

The score of a class is 1/√T · Σ ⟨w, Φ(x, u)⟩ over the nodes u of its path below the root, T levels
with the root's (the paper's Eq. 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import (
    HeshingRows,
    Tree,
    best_classes_into,
    score_classes_into,
    spread_weights_into,
    sure_depths_into,
    work_for,
)
from bitkin.learn.heshing.rows import longest_row

_BLOCK_ROWS = 256  # a thread's piece; rows do not know of each other, so it changes no result


_MOST_SPREAD_BYTES = 2**24  # of the weights of all features in all nodes
_SPREAD_GAIN = 4  # spread weights score so many nodes, or more, while hashing scores one
_NO_WEIGHTS = read_only(np.empty((0, 0), dtype=np.float32))


class SpreadWeights:
    """The weights that all nodes give to all features, of narrow data: made from the table once, by
    the first rows that pay for it, so that predicting hashes nothing.

    At most 16 MB, and never in files or pickles. Two threads that come first both make them, and
    find the same.
    """

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self._made: npt.NDArray[np.float32] | None = None

    @property
    def n_bytes(self) -> int:
        """Memory held; 0 before they are made."""
        return 0 if self._made is None else self._made.nbytes

    def for_rows(
        self, rows: HeshingRows, tree: Tree, weights: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Return them as kernels take them, float32 (n_features + 1, n_nodes); without a row where
        there are none.
        """
        made = self._made
        if made is not None:
            return made
        shape = (self.n_features + 1, len(tree.seeds))
        n_bytes = 4 * shape[0] * shape[1]
        # making them costs as many hashes as a row that has every feature
        if n_bytes > _MOST_SPREAD_BYTES or len(rows.values) < self.n_features:
            return _NO_WEIGHTS
        spread = np.empty(shape, dtype=np.float32)
        spread_weights_into(tree, weights, spread)
        made = read_only(spread)
        self._made = made
        return made


@dataclass(frozen=True)
class ClassScorer:
    """All that a prediction needs.

    Parameters
    ----------
    tree : Tree
    weights : float32 (n_levels − 1, n_buckets)
    intercept : float
        The value of the constant feature; 0 where there is none.
    spread : SpreadWeights, optional
        Of the same tree and weights.
    """

    tree: Tree
    weights: npt.NDArray[np.float32]
    intercept: float
    spread: SpreadWeights | None = None

    @property
    def n_classes(self) -> int:
        """How many classes there are to choose from."""
        return len(self.tree.class_leaves)

    def scores(self, rows: HeshingRows) -> npt.NDArray[np.float32]:
        """Return the scores of all classes: (n, n_classes)."""
        out = np.empty((len(rows.indptr) - 1, self.n_classes), dtype=np.float32)
        self._run_blocks(score_classes_into, rows, (), (out,))
        return out

    def best(
        self, rows: HeshingRows, k: int, beam: int | None
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Return the `k` best classes, best first, and their scores; below the `beam` best nodes
        per level only.

        Classes that the beam reaches come before all others, so that fewer of them are the first of
        more.
        """
        n = len(rows.indptr) - 1
        classes = np.empty((n, k), dtype=np.int32)
        scores = np.empty((n, k), dtype=np.float32)
        width = beam_width(self.tree, beam)
        self._run_blocks(
            best_classes_into,
            rows,
            (width,),
            (classes, scores),
            may_spread=spread_pays(self.tree, width),
        )
        return classes, scores

    def best_and_sure(
        self, rows: HeshingRows, beam: int | None, margin: float
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Return the best class by the beam, and how many nodes of its path lead all classes
        outside by `margin`.

        Every node is scored for it.
        """
        n = len(rows.indptr) - 1
        classes = np.empty(n, dtype=np.int32)
        depths = np.empty(n, dtype=np.int64)
        width = beam_width(self.tree, beam)
        self._run_blocks(sure_depths_into, rows, (width, margin), (classes, depths))
        return classes, depths

    def _run_blocks(
        self,
        score_into: Callable[..., None],
        rows: HeshingRows,
        settings: tuple[float, ...],
        outputs: tuple[npt.NDArray[Any], ...],
        *,
        may_spread: bool = True,
    ) -> None:
        """Let a kernel with settings of its own fill the rows of `outputs`, block by block; unless
        it `may_spread`, it hashes the features of the nodes it visits.
        """
        weights = read_only(self.weights)
        factor = path_factor(weights)
        longest = longest_row(rows)
        spread = _NO_WEIGHTS
        if self.spread is not None and may_spread:
            spread = self.spread.for_rows(rows, self.tree, weights)

        def score_block(first: int) -> None:
            score_into(
                rows,
                first,
                self.tree,
                weights,
                spread,
                factor,
                self.intercept,
                *settings,
                # work arrays belong to a block, so that no two threads share any
                work_for(len(self.tree.seeds), longest),
                *(output[first : first + _BLOCK_ROWS] for output in outputs),
            )

        threads.run(score_block, range(0, len(outputs[0]), _BLOCK_ROWS))


def path_factor(weights: npt.NDArray[np.float32]) -> float:
    """Return 1/√T: a table has one row for each level but the root's."""
    return 1.0 / math.sqrt(len(weights) + 1)


def beam_width(tree: Tree, beam: int | None) -> int:
    """Return how many nodes of a level to continue with; None means all."""
    return len(tree.seeds) if beam is None else min(beam, len(tree.seeds))


def spread_pays(tree: Tree, width: int) -> bool:
    """Tell whether spread weights, which score every node, are faster than hashing for the nodes
    that a beam of this width visits.
    """
    return len(tree.seeds) <= _SPREAD_GAIN * visited_nodes(tree, width)


def visited_nodes(tree: Tree, width: int) -> float:
    """Return how many nodes a beam of this width visits where all nodes of a level have equally
    many children.
    """
    sizes = np.bincount(tree.levels)
    # all below the root, and on every other level the children of `width` nodes
    shares = np.minimum(1.0, width / sizes[:-1])
    return float(sizes[0] + (sizes[1:] * shares).sum())
