"""What of a tree fits on a page: the nodes to draw, and counts of what is left out.

Levels are opened from the root down while there is room. Where a level does not fit whole, its
nodes share the room that is left: small families are shown whole, large ones by their first members
and a count of the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bitkin.learn.taxonomy.growing import ROOT

if TYPE_CHECKING:
    from bitkin.learn.taxonomy.taxonomy import Taxonomy


@dataclass
class Entry:
    """A node to draw, or several that are only counted."""

    text: str
    children: list[Entry] = field(default_factory=list)
    note: str = ""
    """How many classes are below it but not drawn."""
    is_count: bool = False


def outline(taxonomy: Taxonomy, most: int) -> Entry:
    """Return the root's entry, with at most `most` entries in all."""
    n_below = _classes_below(taxonomy)
    top = Entry(shown_label(taxonomy.root_label))
    level = [(top, ROOT)]
    room = most - 1
    while level:
        families = [(entry, node, _drawn_children(taxonomy, node)) for entry, node in level]
        families = [family for family in families if family[2]]
        opened: list[tuple[Entry, int]] = []
        # The smallest families first: what they do not need of their share is left to the larger
        # ones.
        for place, (entry, node, children) in enumerate(
            sorted(families, key=lambda family: len(family[2]))
        ):
            share = math.ceil(room / (len(families) - place))
            if share < min(2, len(children)):
                entry.note = counted(n_below[node + 1], "class", "classes")
                continue
            kept = children if len(children) <= share else children[: share - 1]
            entry.children = [_entry(taxonomy, child) for child in kept]
            opened += zip(entry.children, kept, strict=True)
            if rest := children[len(kept) :]:
                classes = counted(sum(n_below[child + 1] for child in rest), "class", "classes")
                leaves_only = all(not _drawn_children(taxonomy, child) for child in rest)
                entry.children.append(
                    Entry(f"… {len(rest)} more", note="" if leaves_only else classes, is_count=True)
                )
            room -= len(entry.children)
        level = opened
    return top


def shown_label(label: object) -> str:
    """Return a label in one line of printable characters."""
    text = str(label)
    return text if text.isprintable() and text else repr(label)


def counted(n: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{n:,} {one if n == 1 else many}"


def _entry(taxonomy: Taxonomy, node: int) -> Entry:
    return Entry(
        "(itself)" if taxonomy.node_is_copy[node] else shown_label(taxonomy.node_labels[node])
    )


def _drawn_children(taxonomy: Taxonomy, node: int) -> list[int]:
    """Return the children to draw: a copy is one only where it stands among others, first of
    them.
    """
    start, stop = taxonomy.child_offsets[node + 1 : node + 3].tolist()
    children: list[int] = taxonomy.child_nodes[start:stop].tolist()
    copies = [child for child in children if taxonomy.node_is_copy[child]]
    return (
        copies + [child for child in children if child not in copies]
        if len(children) > len(copies)
        else []
    )


def _classes_below(taxonomy: Taxonomy) -> list[int]:
    """Return how many classes each node has below it; the root is first."""
    counts = np.bincount(taxonomy.class_paths.ravel() + 1, minlength=taxonomy.n_nodes + 1)
    counts[0] = taxonomy.n_classes
    return [int(count) for count in counts]
