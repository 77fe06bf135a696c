"""A taxonomy as what JSON can hold, and back; what comes from a file is not trusted."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Hashable, Mapping
from typing import Any

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.learn.taxonomy.growing import ROOT, TreeParts, copies_below, fits_memory

_FIELDS = ("root", "labels", "parents", "copies", "ends")
_MAX_NESTED = 16


def taxonomy_to_dict(tree: TreeParts) -> dict[str, Any]:
    """Return the tree as lists; a copy has no label of its own, and a class that of the node it
    ends at.
    """
    pairs = zip(tree.node_labels, tree.node_is_copy, strict=True)
    return {
        "root": _label_to_json(tree.root_label),
        "labels": [None if copied else _label_to_json(label) for label, copied in pairs],
        "parents": list(tree.node_parents),
        "copies": [node for node, copied in enumerate(tree.node_is_copy) if copied],
        "ends": list(tree.class_ends),
    }


def tree_from_dict(stored: Mapping[str, Any]) -> TreeParts:
    """Return the tree of `taxonomy_to_dict`, proved to be one that paths could have grown."""
    if not isinstance(stored, Mapping) or set(stored) != set(_FIELDS):
        raise CorruptFileError(f"a stored taxonomy must have the fields {', '.join(_FIELDS)}.")
    root = _label_from_json(stored["root"])
    n_nodes = len(_check_list(stored["labels"]))
    parents = _check_node_numbers(stored["parents"], low=ROOT, n_nodes=n_nodes)
    copies = set(_check_node_numbers(stored["copies"], low=0, n_nodes=n_nodes))
    ends = _check_node_numbers(stored["ends"], low=ROOT, n_nodes=n_nodes)
    if len(parents) != n_nodes or any(parent >= node for node, parent in enumerate(parents)):
        raise CorruptFileError("a stored taxonomy must number every parent before its children.")
    labels: list[Hashable] = []
    for node, parent in enumerate(parents):
        above = root if parent == ROOT else labels[parent]
        labels.append(above if node in copies else _label_from_json(stored["labels"][node]))
    classes = tuple(root if end == ROOT else labels[end] for end in ends)
    tree = TreeParts(
        root,
        tuple(labels),
        parents,
        tuple(node in copies for node in range(n_nodes)),
        classes,
        ends,
    )
    if not _is_whole_tree(tree):
        raise CorruptFileError(
            "a stored taxonomy must have a path to every class, and nothing else."
        )
    return tree


def _is_whole_tree(tree: TreeParts) -> bool:
    """Tell whether classes are different, all equally deep once extended, and reach every node; no
    node is twice.

    Every node is visited a few times only, and no path is kept: a small file may have a deep
    tree.
    """
    n_nodes = len(tree.node_labels)
    places = set(zip(tree.node_parents, tree.node_is_copy, tree.node_labels, strict=True))
    if not 0 < n_nodes == len(places) or len(set(tree.classes)) != len(tree.classes):
        return False
    levels = [0] * (n_nodes + 1)  # the last is the root's, so that −1 finds it
    for node, parent in enumerate(tree.node_parents):
        levels[node] = levels[parent] + 1
    depth = max((levels[end] for end in tree.class_ends), default=0)
    if not fits_memory(len(tree.classes), depth, tree.node_is_copy.count(False)):
        return False
    copy_below = copies_below(tree)
    # From every class up to the root, as far as no other class has been: each node once.
    reached: set[int] = set()
    for end in tree.class_ends:
        node = end
        while node != ROOT and node not in reached:
            if tree.node_is_copy[node]:
                return False
            reached.add(node)
            node = tree.node_parents[node]
    # And from every class down its copies, which must reach the deepest level.
    for end in tree.class_ends:
        node = end
        for _ in range(depth - levels[end]):
            if node not in copy_below:
                return False
            node = copy_below[node]
            reached.add(node)
    return len(reached) == n_nodes


def _label_to_json(label: Hashable, nested: int = 0) -> Any:
    if isinstance(label, tuple) and nested < _MAX_NESTED:
        return {"tuple": [_label_to_json(part, nested + 1) for part in label]}
    if (
        label is None
        or type(label) in (str, bool, int)
        or (type(label) is float and math.isfinite(label))
    ):
        return label
    raise InvalidInputError(
        "labels must be strings, finite numbers, bools, None or tuples of them to be saved, got "
        f"{label!r}. Rename it."
    )


def _label_from_json(stored: Any, nested: int = 0) -> Hashable:
    if isinstance(stored, Mapping) and set(stored) == {"tuple"} and nested < _MAX_NESTED:
        return tuple(_label_from_json(part, nested + 1) for part in _check_list(stored["tuple"]))
    if (
        stored is None
        or type(stored) in (str, bool, int)
        or (type(stored) is float and math.isfinite(stored))
    ):
        return stored  # type: ignore[no-any-return]
    raise CorruptFileError(
        f"a stored taxonomy must not have the label {reprlib.repr(stored)}: none was saved so."
    )


def _check_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise CorruptFileError(f"a stored taxonomy must hold lists, got {reprlib.repr(value)}.")
    return value


def _check_node_numbers(value: Any, *, low: int, n_nodes: int) -> tuple[int, ...]:
    if not all(type(number) is int and low <= number < n_nodes for number in _check_list(value)):
        raise CorruptFileError(
            f"a stored taxonomy must number its nodes from {low} to {n_nodes - 1}."
        )
    return tuple(value)
