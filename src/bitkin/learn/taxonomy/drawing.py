"""A taxonomy to look at: as text for a terminal, as a picture by matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bitkin.checks import whole_number
from bitkin.errors import MissingExtraError
from bitkin.learn.taxonomy.outline import Entry, outline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bitkin.learn.taxonomy.taxonomy import Taxonomy

_LEAST_WIDTH = 20
_LINE_HEIGHT, _LEVEL_WIDTH = 0.26, 2.1  # inches
_LONGEST_IN_PICTURE = 26  # characters that fit a level
_LINK, _COUNT = "#9aa5b1", "#6b7785"


def tree_text(taxonomy: Taxonomy, max_lines: int, width: int) -> str:
    """Return the tree as lines of at most `width` characters; longer ones end in `…`."""
    top = outline(taxonomy, whole_number(max_lines, "max_lines", low=3))
    width = whole_number(width, "width", low=_LEAST_WIDTH)
    return "\n".join(_shortened(line, width) for line in _lines(top))


def tree_picture(taxonomy: Taxonomy, ax: Axes | None, max_nodes: int) -> Axes:
    """Draw the tree from left to right, on new axes unless some are given, and return them."""
    top = outline(taxonomy, whole_number(max_nodes, "max_nodes", low=3))
    places = _places(top)
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
                color=_LINK,
                linewidth=1,
            )
        ax.text(
            level,
            line,
            _shortened(_noted(entry), _LONGEST_IN_PICTURE),
            va="center",
            fontsize=9,
            style="italic" if entry.is_count else "normal",
            color=_COUNT if entry.is_count else "black",
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


def _places(top: Entry) -> list[tuple[Entry, int, float, float]]:
    """Return every entry with its level, its line and the line of its parent.

    Leaves have a line each; the others stand half way between their first and their last child.
    """
    order: list[tuple[Entry, int, Entry]] = []  # parents before children, in the order of lines
    stack = [(top, 0, top)]
    while stack:
        entry, level, above = stack.pop()
        order.append((entry, level, above))
        stack += [(child, level + 1, entry) for child in reversed(entry.children)]
    lines: dict[int, float] = {}
    for entry, _, _ in order:
        if not entry.children:
            lines[id(entry)] = len(lines)
    for entry, _, _ in reversed(order):
        if entry.children:
            lines[id(entry)] = (lines[id(entry.children[0])] + lines[id(entry.children[-1])]) / 2
    return [(entry, level, lines[id(entry)], lines[id(above)]) for entry, level, above in order]


def _lines(top: Entry) -> Iterator[str]:
    stack = [(top, "", "")]
    while stack:
        entry, lead, indent = stack.pop()
        yield lead + _noted(entry)
        below = [(child, f"{indent}├── ", f"{indent}│   ") for child in entry.children[:-1]]
        below += [(child, f"{indent}└── ", f"{indent}    ") for child in entry.children[-1:]]
        stack += reversed(below)


def _noted(entry: Entry) -> str:
    return f"{entry.text} ({entry.note})" if entry.note else entry.text


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
