"""Smaller trees over the same classes, as paths below a root."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from bitkin.errors import InvalidInputError
from bitkin.learn.taxonomy.labels import Path

if TYPE_CHECKING:
    from bitkin.learn.taxonomy.taxonomy import Taxonomy


def cut_paths(taxonomy: Taxonomy, n_inner: int) -> list[Path]:
    """Return the paths of all classes with their first `n_inner` inner nodes only."""
    return _label_paths(
        taxonomy, [nodes[:-1][:n_inner] + nodes[-1:] for nodes in _node_paths(taxonomy)]
    )


def condensed_paths(taxonomy: Taxonomy) -> tuple[Hashable, list[Path]]:
    """Return the root and the paths of all classes without inner nodes that have one child only."""
    n_children = np.diff(taxonomy.child_offsets)[1:]
    paths = [
        [node for node in nodes if node == nodes[-1] or n_children[node] > 1]
        for nodes in _node_paths(taxonomy)
    ]
    # One node above all classes, and more than the class itself: it takes the root's place.
    tops = {tuple(nodes[:1]) for nodes in paths}
    if len(tops) == 1 and max(map(len, paths)) > 1:
        (only,) = tops.pop()
        return taxonomy.node_labels[only], _label_paths(taxonomy, [nodes[1:] for nodes in paths])
    return taxonomy.root_label, _label_paths(taxonomy, paths)


def _node_paths(taxonomy: Taxonomy) -> list[list[int]]:
    """Return the nodes from below the root to every class, its copies left out."""
    pairs = zip(taxonomy.class_paths.tolist(), taxonomy.class_depths.tolist(), strict=True)
    return [nodes[:depth] for nodes, depth in pairs]


def _label_paths(taxonomy: Taxonomy, paths: Iterable[list[int]]) -> list[Path]:
    """Return the labels of paths, proved to tell the nodes apart even though some that stood
    between are gone.
    """
    node_at: dict[Path, int] = {}
    named = []
    for nodes in paths:
        labels = tuple(taxonomy.node_labels[node] for node in nodes)
        for level, node in enumerate(nodes, 1):
            if node_at.setdefault(labels[:level], node) != node:
                raise InvalidInputError(
                    f"labels must stay different, but two nodes called {labels[level - 1]!r} would "
                    "meet. Give them different names first."
                )
        named.append(labels)
    return named
