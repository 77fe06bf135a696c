"""How far down the best path is sure, by the definition: for one row; kernels do it for many."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def sure_depth(paths: npt.NDArray[np.int32], scores: npt.NDArray[np.float32], margin: float) -> int:
    """Return how many nodes of the best class's path, from level 1 down, lead every class outside
    them by `margin`.

    Parameters
    ----------
    paths : (n_classes, n_levels − 1)
        Nodes from level 1 to the leaf, by class.
    scores : (n_classes,)
        The first of equal ones is the best class.
    margin : float
        At least 0.
    """
    best = int(np.argmax(scores))
    behind = scores[best] - scores
    outside = paths != paths[best]
    leads = np.where(outside, behind[:, None], np.inf).min(axis=0)
    # scores are float32, and a margin may be anything
    margin = min(margin, float(np.finfo(np.float32).max))
    return int((leads >= margin).sum())  # a node below another only ever has more outside it
