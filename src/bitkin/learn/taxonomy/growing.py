"""A tree of labels while it grows: nodes are numbered as they come, and no number ever changes.

A class ends at the node its path leads to. Below that node hang copies of it, one per level, down
to the deepest level: the paper's extension of short leaves (figure 2(c)). A class whose node has
children of its own needs nothing else: its first copy is then a leaf among those children. A parent
is always numbered before its children; −1 is the root.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from bitkin.errors import InvalidInputError
from bitkin.learn.taxonomy.labels import Path

ROOT = -1
_SMALL_TREE = 2**22  # node numbers in the paths of all classes, whatever the depth
_MAX_LEVELS = 64  # of trees with more
# what a copy is called among its parent's children; a child of its own is called (label,)
_COPY: Path = ()


class TreeParts(NamedTuple):
    """All that a taxonomy is made of: a tree that grows no more."""

    root_label: Hashable
    node_labels: tuple[Hashable, ...]
    """A copy has the label of the class it extends."""
    node_parents: tuple[int, ...]
    node_is_copy: tuple[bool, ...]
    classes: tuple[Hashable, ...]
    class_ends: tuple[int, ...]
    """The node a class's path leads to, before its copies."""


def copies_below(tree: TreeParts) -> dict[int, int]:
    """Return the copy below each node that has one."""
    return {
        parent: node for node, parent in enumerate(tree.node_parents) if tree.node_is_copy[node]
    }


def fits_memory(n_classes: int, depth: int, n_nodes: int) -> bool:
    """Tell whether the paths of all classes, extended to one depth, take memory in proportion to
    the nodes given.

    A chain of n nodes above n classes has n² numbers in its paths: a small file must not fill all
    memory. Every tree of up to 64 levels fits.
    """
    return n_classes * depth <= max(_SMALL_TREE, _MAX_LEVELS * n_nodes)


def too_large(n_classes: int, depth: int) -> InvalidInputError:
    """Return the error for a tree that does not fit."""
    return InvalidInputError(
        f"a taxonomy of many classes must have paths of up to {_MAX_LEVELS} levels, got "
        f"{n_classes:,} classes and a path of {depth:,} levels. Leave inner nodes out."
    )


class GrowingTree:
    """Takes one path at a time; `freeze` then extends all classes to one depth."""

    def __init__(self, tree: TreeParts) -> None:
        self._root_label = tree.root_label
        self._labels = list(tree.node_labels)
        self._parents = list(tree.node_parents)
        self._is_copy = list(tree.node_is_copy)
        self._ends = dict(zip(tree.classes, tree.class_ends, strict=True))
        self._levels: list[int] = []
        self._children: dict[tuple[int, Path], int] = {}
        for node, parent in enumerate(self._parents):
            self._levels.append(self._level(parent) + 1)
            self._children[parent, _COPY if self._is_copy[node] else (self._labels[node],)] = node

    def add(self, path: Sequence[Hashable]) -> None:
        """Add a class by its path below the root; an empty one makes the root itself a class."""
        end = ROOT
        for label in path:
            end = self._child(end, (label,), label)
        name = path[-1] if path else self._root_label
        if self._ends.setdefault(name, end) != end:
            here, there = (
                " / ".join(map(str, self._path(node))) for node in (end, self._ends[name])
            )
            raise InvalidInputError(
                f"paths must lead to each class once, got {name!r} at {there} and at {here}. "
                f"Give the two different names, such as their paths joined by dots."
            )

    def freeze(self) -> TreeParts:
        """Return the tree, every class extended to the depth of the deepest."""
        depth = max(map(self._level, self._ends.values()))
        if depth == 0:
            raise InvalidInputError(
                f"a taxonomy must have classes below its root, got one node, {self._root_label!r}. "
                f"Give the paths of two or more classes."
            )
        if not fits_memory(len(self._ends), depth, self._is_copy.count(False)):
            raise too_large(len(self._ends), depth)
        for name, end in self._ends.items():
            node = end
            # the paper's extension: every leaf ends on the last
            # level, by copies with seeds of their own
            while self._level(node) < depth:
                node = self._child(node, _COPY, name)
        return TreeParts(
            self._root_label,
            tuple(self._labels),
            tuple(self._parents),
            tuple(self._is_copy),
            tuple(self._ends),
            tuple(self._ends.values()),
        )

    def _child(self, parent: int, key: Path, label: Hashable) -> int:
        # the next number, unless this child was met before
        node = self._children.setdefault((parent, key), len(self._labels))
        if node == len(self._labels):
            self._labels.append(label)
            self._parents.append(parent)
            self._is_copy.append(key == _COPY)
            self._levels.append(self._level(parent) + 1)
        return node

    def _level(self, node: int) -> int:
        return 0 if node == ROOT else self._levels[node]

    def _path(self, node: int) -> Iterable[Hashable]:
        labels = []
        while node != ROOT:
            labels.append(self._labels[node])
            node = self._parents[node]
        return [self._root_label, *reversed(labels)]


def grow(root_label: Hashable, paths: Iterable[Sequence[Hashable]]) -> TreeParts:
    """Return the tree of `paths`, which start below the root."""
    return extend(TreeParts(root_label, (), (), (), (), ()), paths)


def extend(tree: TreeParts, paths: Iterable[Sequence[Hashable]]) -> TreeParts:
    """Return `tree` with more paths, which start below the root; what it had keeps its numbers."""
    growing = GrowingTree(tree)
    for path in paths:
        growing.add(path)
    return growing.freeze()
