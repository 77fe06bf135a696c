"""A taxonomy to look at: as text for a terminal, as a picture by matplotlib.

The outline is what of a tree fits on a page: the nodes to draw, and counts of what is left out.
Levels are opened from the root down while there is room. Where a level does not fit whole, its
nodes share the room that is left: small families are shown whole, large ones by their first members
and a count of the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bitkin.checks import whole_number
from bitkin.errors import MissingExtraError
from bitkin.learn.taxonomy.growing import ROOT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bitkin.learn.taxonomy.taxonomy import Taxonomy

_MIN_WIDTH = 20  # of a line, in characters
_LINE_HEIGHT, _LEVEL_WIDTH = 0.26, 2.1  # inches
_LONGEST_IN_PICTURE = 26  # characters that fit a level
_LINK_COLOR, _COUNT_COLOR = "#9aa5b1", "#6b7785"


@dataclass
class OutlineEntry:
    """A node to draw, or several that are only counted."""

    text: str
    children: list[OutlineEntry] = field(default_factory=list)
    note: str = ""
    """How many classes are below it but not drawn."""
    is_count: bool = False


def outline(taxonomy: Taxonomy, most: int) -> OutlineEntry:
    """Return the root's entry, with at most `most` entries in all."""
    n_below = _classes_below(taxonomy)
    top = OutlineEntry(_printable(taxonomy.root_label))
    level = [(top, ROOT)]
    room = most - 1
    while level:
        families = [(entry, node, _drawn_children(taxonomy, node)) for entry, node in level]
        families = [family for family in families if family[2]]
        opened: list[tuple[OutlineEntry, int]] = []
        # The smallest families first: what they do not need of their share is left to the larger
        # ones.
        for place, (entry, node, children) in enumerate(
            sorted(families, key=lambda family: len(family[2]))
        ):
            # an even share of the room that is left, for the families that are left
            share = math.ceil(room / (len(families) - place))
            if share < min(2, len(children)):
                entry.note = _count(n_below[node + 1], "class", "classes")
                continue
            kept = children if len(children) <= share else children[: share - 1]
            entry.children = [_new_entry(taxonomy, child) for child in kept]
            opened += zip(entry.children, kept, strict=True)
            if rest := children[len(kept) :]:
                classes = _count(sum(n_below[child + 1] for child in rest), "class", "classes")
                leaves_only = all(not _drawn_children(taxonomy, child) for child in rest)
                entry.children.append(
                    OutlineEntry(
                        f"… {len(rest)} more", note="" if leaves_only else classes, is_count=True
                    )
                )
            room -= len(entry.children)
        level = opened
    return top


def _printable(label: object) -> str:
    """Return a label in one line of printable characters."""
    text = str(label)
    return text if text.isprintable() and text else repr(label)


def _count(n: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{n:,} {one if n == 1 else many}"


def _new_entry(taxonomy: Taxonomy, node: int) -> OutlineEntry:
    return OutlineEntry(
        "(itself)" if taxonomy.node_is_copy[node] else _printable(taxonomy.node_labels[node])
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
    # every class counts once for each node of its path; + 1, as the root is −1
    counts = np.bincount(taxonomy.class_paths.ravel() + 1, minlength=taxonomy.n_nodes + 1)
    counts[0] = taxonomy.n_classes
    return [int(count) for count in counts]


def tree_text(taxonomy: Taxonomy, max_lines: int, width: int) -> str:
    """Return the tree as lines of at most `width` characters; longer ones end in `…`."""
    top = outline(taxonomy, whole_number(max_lines, "max_lines", low=3))
    width = whole_number(width, "width", low=_MIN_WIDTH)
    return "\n".join(_shorten(line, width) for line in _lines(top))


def tree_picture(taxonomy: Taxonomy, ax: Axes | None, max_nodes: int) -> Axes:
    """Draw the tree from left to right, on new axes unless some are given, and return them."""
    top = outline(taxonomy, whole_number(max_nodes, "max_nodes", low=3))
    places = _place_entries(top)
    n_levels = 1 + max(level for _, level, _, _ in places)
    n_lines = 1 + max(line for _, _, line, _ in places)
    if ax is None:
        ax = _new_axes(_LEVEL_WIDTH * n_levels, 0.4 + _LINE_HEIGHT * n_lines)
    for entry, level, line, line_above in places:
        if level:
            bend = level - 0.08
            ax.plot(
                [level - 1, bend, bend, level],
                [line_above, line_above, line, line],
                color=_LINK_COLOR,
                linewidth=1,
            )
        ax.text(
            level,
            line,
            _shorten(_with_note(entry), _LONGEST_IN_PICTURE),
            va="center",
            fontsize=9,
            style="italic" if entry.is_count else "normal",
            color=_COUNT_COLOR if entry.is_count else "black",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
        )
    ax.set_xlim(-0.05, n_levels - 0.05)
    ax.set_ylim(n_lines - 0.4, -0.6)
    ax.set_axis_off()
    return ax


def _new_axes(width: float, height: float) -> Axes:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError(
            "the picture needs matplotlib: pip install 'bitkin[plot]'"
        ) from None
    _, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    return ax


def _place_entries(top: OutlineEntry) -> list[tuple[OutlineEntry, int, float, float]]:
    """Return every entry with its level, its line and the line of its parent.

    Leaves have a line each; the others stand half way between their first and their last child.
    """
    order: list[
        tuple[OutlineEntry, int, OutlineEntry]
    ] = []  # parents before children, in the order of lines
    stack = [(top, 0, top)]
    while stack:
        entry, level, above = stack.pop()
        order.append((entry, level, above))
        stack += [(child, level + 1, entry) for child in reversed(entry.children)]
    lines: dict[int, float] = {}
    for entry, _, _ in order:
        if not entry.children:
            # leaves get the lines 0, 1, … in the order in which they are drawn
            lines[id(entry)] = len(lines)
    for entry, _, _ in reversed(order):
        if entry.children:
            lines[id(entry)] = (lines[id(entry.children[0])] + lines[id(entry.children[-1])]) / 2
    return [(entry, level, lines[id(entry)], lines[id(above)]) for entry, level, above in order]


def _lines(top: OutlineEntry) -> Iterator[str]:
    stack = [(top, "", "")]
    while stack:
        entry, lead, indent = stack.pop()
        yield lead + _with_note(entry)
        below = [(child, f"{indent}├── ", f"{indent}│   ") for child in entry.children[:-1]]
        below += [(child, f"{indent}└── ", f"{indent}    ") for child in entry.children[-1:]]
        stack += reversed(below)


def _with_note(entry: OutlineEntry) -> str:
    return f"{entry.text} ({entry.note})" if entry.note else entry.text


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
