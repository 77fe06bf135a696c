"""Find nodes by what they are called: a class by its label, an inner node by a label no other has,
or any by a path.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitkin.errors import InvalidInputError
from bitkin.learn.taxonomy.growing import ROOT
from bitkin.learn.taxonomy.labels import plain_labels, some_labels

if TYPE_CHECKING:
    from bitkin.learn.taxonomy.taxonomy import Taxonomy


def node_paths(taxonomy: Taxonomy, labels: Any) -> npt.NDArray[np.int32]:
    """Return the paths of classes or inner nodes as node numbers from level 1 down, −1 below an
    inner node.
    """
    wanted = plain_labels(labels, "labels")
    # Every different label is looked up once; the last line spreads the answers over the rows.
    row_of = {label: row for row, label in enumerate(dict.fromkeys(wanted))}
    class_of = {label: _class_name(taxonomy, label) for label in row_of}
    found = [label for label, name in class_of.items() if name in taxonomy]
    inner = [label for label, name in class_of.items() if name not in taxonomy]
    paths = np.full((len(row_of), taxonomy.n_levels - 1), -1, dtype=np.int32)
    paths[[row_of[label] for label in found]] = taxonomy.class_paths[
        taxonomy.index_of([class_of[label] for label in found])
    ]
    # An inner node's path: from the node up to the root, each at its own level.
    for label, node in zip(inner, _inner_nodes(taxonomy, inner), strict=True):
        while node != ROOT:
            paths[row_of[label], taxonomy.node_levels[node] - 1] = node
            node = int(taxonomy.node_parents[node])
    return paths[[row_of[label] for label in wanted]]


def _class_name(taxonomy: Taxonomy, label: Hashable) -> Hashable:
    """Return the label of a class that is given by its path; all else stays as it is."""
    if isinstance(label, tuple) and label and label not in taxonomy and label[-1] in taxonomy:
        return label[-1] if taxonomy.path_of(label[-1]) == label else label
    return label


def _inner_nodes(taxonomy: Taxonomy, labels: list[Hashable]) -> list[int]:
    """Return the one node, the root among them, that each label or path names."""
    if not labels:
        return []
    places: dict[Hashable, list[int]] = {label: [] for label in labels}
    children: dict[tuple[int, Hashable], int] = {}
    for node, (label, parent) in enumerate(
        zip(taxonomy.node_labels, taxonomy.node_parents.tolist(), strict=True)
    ):
        if not taxonomy.node_is_copy[node]:
            children[parent, label] = node
            if label in places:
                places[label].append(node)
    if taxonomy.root_label in places:
        places[taxonomy.root_label].append(ROOT)
    # A tuple that starts with the root may also be a path: walk down from the root.
    for name, nodes in places.items():
        if isinstance(name, tuple) and name and name[0] == taxonomy.root_label:
            at: int | None = ROOT
            for label in name[1:]:
                at = None if at is None else children.get((at, label))
            nodes += [] if at is None else [at]
    if unknown := [label for label, nodes in places.items() if not nodes]:
        raise InvalidInputError(
            f"labels must be classes or inner nodes of the taxonomy, got {some_labels(unknown)}. "
            "Add classes by with_paths."
        )
    if several := [label for label, nodes in places.items() if len(nodes) > 1]:
        raise InvalidInputError(
            "labels must name one node, but several inner nodes are called "
            f"{some_labels(several)}. Give their paths from the root, as predict_path does."
        )
    return [nodes[0] for nodes in places.values()]
