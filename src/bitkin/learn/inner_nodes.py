"""Predictions that stop at an inner node where the leaf is not sure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def sure_depths(
    paths: npt.NDArray[np.int32], classes: npt.NDArray[Any], scores: npt.NDArray[np.float32], margin: float
) -> npt.NDArray[np.int64]:
    """Return how many levels of the best class's path below the root are sure: the last one, or fewer.

    A node is sure when the best class leads every candidate outside the node by at least `margin`.

    Parameters
    ----------
    paths : (n_classes, n_levels − 1)
        Nodes from level 1 to the leaf, by class.
    classes, scores : (n, k)
        The candidates of every row, best first.
    margin : float
        At least 0.
    """
    behind = scores[:, :1] - scores
    depths = np.zeros(len(classes), dtype=np.int64)
    for level in range(paths.shape[1]):
        nodes = paths[classes, level]
        outside = nodes != nodes[:, :1]
        sure = np.where(outside, behind, np.inf).min(axis=1) >= margin
        depths[sure] = level + 1  # a node below a sure one only ever has more outside it
        if not sure.any():
            break
    return depths
