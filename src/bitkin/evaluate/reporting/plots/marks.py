"""Marks of points: shapes around 0, 0, so that a mark is one shape moved to its place."""

from __future__ import annotations

from bitkin.evaluate.reporting.plots.palette import N_COLORS
from bitkin.evaluate.reporting.plots.svg import element, titled, written

_SHAPES = (
    "M-4.5,0A4.5,4.5 0 1 0 4.5,0A4.5,4.5 0 1 0 -4.5,0Z",  # circle
    "M-4,-4H4V4H-4Z",  # square
    "M0,-5.2L5,4H-5Z",  # triangle
    "M0,-5.6L5.6,0L0,5.6L-5.6,0Z",  # diamond
    "M0,5.2L5,-4H-5Z",  # triangle that stands on its tip
)
_THEIRS = "M-4,-4L4,4M-4,4L4,-4"  # a cross
RING = "M-9,0A9,9 0 1 0 9,0A9,9 0 1 0 -9,0Z"


def color_number(place: int) -> int:
    """Return the colour of the n-th family, from 1; those past the last colour share it."""
    return min(place, N_COLORS - 1) + 1


def shape_of(place: int | None, small: bool = False) -> str:
    """Return the shape of the n-th family, or of what is not ours for None."""
    scale = "scale(0.75)" if small else ""
    if place is None:
        return element("path", d=_THEIRS, class_="theirs", transform=scale)
    color = color_number(place)
    shape = _SHAPES[(color - 1) % len(_SHAPES)]
    return element("path", d=shape, class_=f"mark k{color}", transform=scale)


def mark_at(x: float, y: float, shape: str, words: str, class_: str = "point") -> str:
    """Return a shape at its place; the words show where the pointer rests."""
    at = f"translate({written(x)},{written(y)})"
    return element("g", titled(words) + shape, transform=at, class_=class_)
