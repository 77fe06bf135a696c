"""The part of a taxonomy that a model searches: the nodes above its classes, in the order that
kernels want.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import Tree
from bitkin.learn.heshing.node_seeds import node_seeds
from bitkin.learn.taxonomy.taxonomy import Taxonomy


def searched_tree(taxonomy: Taxonomy, class_numbers: npt.NDArray[Any], seed: int) -> Tree:
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
    done = 0
    for level in range(paths.shape[1]):
        on_level = np.unique(paths[:, level])
        on_level = on_level[np.argsort(place[taxonomy.node_parents[on_level]], kind="stable")]
        place[on_level] = np.arange(done, done + len(on_level))
        done += len(on_level)
        nodes.append(on_level)
        parents.append(place[taxonomy.node_parents[on_level]])
    all_nodes, all_parents = np.concatenate(nodes), np.concatenate(parents)
    class_leaves = place[paths[:, -1]]
    leaf_classes = np.full(done, -1, dtype=np.int32)
    leaf_classes[class_leaves] = np.arange(len(class_leaves))
    n_children = np.bincount(all_parents + 1, minlength=done + 1)
    return Tree(
        seeds=read_only(node_seeds(all_nodes, seed)),
        levels=read_only((taxonomy.node_levels[all_nodes] - 1).astype(np.int32)),
        parents=read_only(all_parents),
        children=read_only(np.concatenate([[0], np.cumsum(n_children)]).astype(np.int64)),
        leaf_classes=read_only(leaf_classes),
        class_leaves=read_only(class_leaves),
    )
