"""The part of a taxonomy that a model searches: its nodes in the order that kernels want, the seeds
of their hashes, and how far down a path is sure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import Tree
from bitkin.learn.taxonomy.taxonomy import Taxonomy
from bitkin.randomness import Draws

_LOW_32 = np.uint64(2**32 - 1)
# odd, so one to one
_STEP, _MIX_1, _MIX_2 = np.uint64(0x9E3779B1), np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
_13, _16, _32 = np.uint64(13), np.uint64(16), np.uint64(32)


def node_seeds(nodes: npt.NDArray[Any], seed: int) -> npt.NDArray[np.uint32]:
    """Return the seeds of the hashes of nodes, given by number, in a model of this seed; −1 is the
    root.

    A seed depends on the node's number and the model's seed only, so trees may grow. Different
    nodes of one model have different seeds. This is part of what a saved model means and must never
    change.

    Examples
    --------
    >>> node_seeds(np.array([-1, 0, 1]), seed=0)
    array([  27889370, 3743412036, 1475380799], dtype=uint32)
    """
    start = Draws(seed, "heshing nodes").words(1) >> _32
    # MurmurHash3's finalizer on 32 bits. Products with odd numbers and x ^ (x >> s) can be undone,
    # so every step, and all of them together, is one to one.
    mixed = ((nodes + 1).astype(np.uint64) * _STEP + start) & _LOW_32
    mixed = ((mixed ^ (mixed >> _16)) * _MIX_1) & _LOW_32
    mixed = ((mixed ^ (mixed >> _13)) * _MIX_2) & _LOW_32
    return (mixed ^ (mixed >> _16)).astype(np.uint32)


def build_tree(taxonomy: Taxonomy, class_numbers: npt.NDArray[Any], seed: int) -> Tree:
    """Return the nodes on the paths of some classes; class c of the tree is `class_numbers[c]` of
    the taxonomy.

    Nodes come level by level, those of one level in the order of their parents. Only places change:
    the seeds are those of the taxonomy's node numbers, so that weights stay what they are when
    classes are added.
    """
    paths = taxonomy.class_paths[class_numbers]
    nodes: list[npt.NDArray[np.int32]] = []
    parents: list[npt.NDArray[np.int32]] = []
    place = np.full(taxonomy.n_nodes + 1, -1, dtype=np.int32)  # the last is the root's
    n_placed = 0
    for level in range(paths.shape[1]):
        # Sorted by the places of their parents, the children of one node stand in a row.
        on_level = np.unique(paths[:, level])
        on_level = on_level[np.argsort(place[taxonomy.node_parents[on_level]], kind="stable")]
        place[on_level] = np.arange(n_placed, n_placed + len(on_level))
        n_placed += len(on_level)
        nodes.append(on_level)
        parents.append(place[taxonomy.node_parents[on_level]])
    all_nodes, all_parents = np.concatenate(nodes), np.concatenate(parents)
    class_leaves = place[paths[:, -1]]
    leaf_classes = np.full(n_placed, -1, dtype=np.int32)
    leaf_classes[class_leaves] = np.arange(len(class_leaves))
    # Children of node i are those from children[i + 1] to children[i + 2], of the root (−1) from
    # children[0] on: running sums of their counts, the root's first.
    n_children = np.bincount(all_parents + 1, minlength=n_placed + 1)
    return Tree(
        seeds=read_only(node_seeds(all_nodes, seed)),
        levels=read_only((taxonomy.node_levels[all_nodes] - 1).astype(np.int32)),
        parents=read_only(all_parents),
        children=read_only(np.concatenate([[0], np.cumsum(n_children)]).astype(np.int64)),
        leaf_classes=read_only(leaf_classes),
        class_leaves=read_only(class_leaves),
    )


def sure_depth(paths: npt.NDArray[np.int32], scores: npt.NDArray[np.float32], margin: float) -> int:
    """Return how many nodes of the best class's path, from level 1 down, lead every class outside
    them by `margin`; for one row, by the definition. Kernels do it for many.

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
    # The lead of the best path's node on a level: the least s(best) − s(c) over the classes c whose
    # paths go through another node there.
    outside = paths != paths[best]
    leads = np.where(outside, behind[:, None], np.inf).min(axis=0)
    # scores are float32, and a margin may be anything
    margin = min(margin, float(np.finfo(np.float32).max))
    return int((leads >= margin).sum())  # a node below another only ever has more outside it
