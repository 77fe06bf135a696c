"""How wrong predicted classes are: counted flat, by height in the tree, by level, and by shared
ancestors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.errors import InvalidInputError
from bitkin.learn.taxonomy.labels import plain_labels
from bitkin.learn.taxonomy.taxonomy import Taxonomy


class HierarchicalScores(NamedTuple):
    """Hierarchical precision, recall and their harmonic mean, from 0 to 1."""

    precision: float
    recall: float
    f1: float


def flat_error(y: Any, p: Any) -> float:
    """Return the share of predictions `p` that are not the true label in `y`.

    Examples
    --------
    >>> import bitkin
    >>> bitkin.flat_error(["lily", "rose", "moss"], ["lily", "lily", "moss"])
    0.3333333333333333
    """
    true, predicted = _check_pairs(y, p)
    wrong = [label for label, guess in zip(true, predicted, strict=True) if label != guess]
    return len(wrong) / len(true)


def hierarchical_error(taxonomy: Taxonomy, y: Any, p: Any) -> float:
    """Return the mean height of the lowest common ancestor of true and predicted class, on the
    extended tree.

    It is T minus that ancestor's level, the root's level being 1: 0 for a hit, T − 1 where only the
    root is common. Predictions may be inner nodes, and paths from the root may stand for labels.

    Examples
    --------
    >>> import bitkin
    >>> parents = {2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 3, 8: 3}  # the paper's figure 2(a)
    >>> tree = bitkin.Taxonomy.from_parents(parents)
    >>> bitkin.hierarchical_error(tree, [8], [4]), bitkin.hierarchical_error(tree, [8], [7])
    (2.0, 1.0)
    """
    true, predicted = _check_pairs(y, p)
    return float(taxonomy.lca_heights(true, predicted).mean())


def level_errors(taxonomy: Taxonomy, y: Any, p: Any) -> npt.NDArray[np.float64]:
    """Return for every level below the root the share of predictions in another node than the
    truth; float64.

    They never fall from one level to the next, and their sum is the hierarchical error. An inner
    node as a prediction is wrong on all levels below it.

    Examples
    --------
    >>> import bitkin
    >>> tree = bitkin.Taxonomy.from_parents({2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 3, 8: 3})
    >>> bitkin.level_errors(tree, [8, 8], [4, 7])
    array([0.5, 1. ])
    """
    true, predicted = _check_pairs(y, p)
    heights = taxonomy.lca_heights(true, predicted)
    levels = np.arange(1, taxonomy.n_levels)
    # A prediction whose common ancestor has height h is wrong on the lowest h levels.
    errors: npt.NDArray[np.float64] = (heights[:, None] >= taxonomy.n_levels - levels).mean(axis=0)
    return errors


def hierarchical_scores(taxonomy: Taxonomy, y: Any, p: Any) -> HierarchicalScores:
    """Return precision, recall and F1 of the sets of nodes on the paths, the root left out, summed
    over all rows.

    Paths are as they were given: copies that extend short leaves count for nothing. Predictions may
    be inner nodes. Where no path has a node (all are the root), the share is 0.

    Examples
    --------
    >>> import bitkin
    >>> paths = [("plant", "flower", "lily"), ("plant", "flower", "rose"), ("plant", "moss")]
    >>> tree = bitkin.Taxonomy.from_paths(paths)
    >>> # Of lily, flower and moss, the last two are found.
    >>> bitkin.hierarchical_scores(tree, ["lily", "moss"], ["rose", "moss"])
    HierarchicalScores(precision=0.66..., recall=0.66..., f1=0.66...)
    """
    true, predicted = (_own_nodes(taxonomy, labels) for labels in _check_pairs(y, p))
    # Two paths have a node in common exactly where they have it on the same level.
    n_shared = int(((true == predicted) & (true >= 0)).sum())
    n_true, n_predicted = int((true >= 0).sum()), int((predicted >= 0).sum())
    return HierarchicalScores(
        _share(n_shared, n_predicted),
        _share(n_shared, n_true),
        _share(2 * n_shared, n_true + n_predicted),
    )


def _own_nodes(taxonomy: Taxonomy, labels: list[Any]) -> npt.NDArray[np.int32]:
    """Return the paths of nodes with −1 in the place of copies."""
    paths = taxonomy.node_paths(labels)
    return np.where((paths >= 0) & ~taxonomy.node_is_copy[paths], paths, np.int32(-1))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _check_pairs(y: Any, p: Any) -> tuple[list[Any], list[Any]]:
    true, predicted = plain_labels(y, "y"), plain_labels(p, "p")
    if len(true) != len(predicted) or not true:
        raise InvalidInputError(
            f"y and p must have one length, at least 1, got {len(true)} and {len(predicted)} "
            "labels."
        )
    return true, predicted
