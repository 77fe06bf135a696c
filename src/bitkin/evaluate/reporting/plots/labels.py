"""Labels of points: put where they cover no other label, no mark and no frame, if there is such a
place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bitkin.arrays import Floats
from bitkin.evaluate.reporting.plots.svg import TEXT_SIZE, element, text_at, text_width

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""

_DISTANCES = (9.0, 15.0, 24.0, 36.0, 52.0, 72.0)
_DIRECTIONS = 16
_NEAR = 16.0  # a label that is farther from its point is tied to it by a line


@dataclass(frozen=True)
class PointLabel:
    """Words for a point."""

    x: float
    y: float
    words: str
    class_: str = ""
    needed: bool = False
    """Drawn even where it covers a mark."""

    @property
    def size(self) -> float:
        """Of its letters; strong ones are wider."""
        return TEXT_SIZE * (1.1 if "strong" in self.class_ else 1.0)


def draw_labels(labels: Sequence[PointLabel], frame: Box, marks: Sequence[Box]) -> str:
    """Return labels inside of a frame, the first ones in the best places; one that is not needed
    and finds no free place is left out.
    """
    taken = np.array(marks, dtype=np.float64).reshape(-1, 4)
    placed = ties = np.empty((0, 4))
    parts = []
    for label in labels:
        boxes = _candidates(label, frame)
        if len(boxes) == 0:
            continue
        own = _ties(label, boxes)
        # labels must not cover labels, nor lines cross them, either way
        crossed = _covered(own.reshape(-1, 4), placed).reshape(len(boxes), -1).sum(axis=1)
        on_labels = _covered(boxes, np.vstack([placed, ties])) + crossed
        on_marks = _covered(boxes, taken)
        # in order of distance: the first free place, else the one that covers least
        best = int(np.argmin(on_labels * 1e6 + on_marks))
        if on_labels[best] > 0 or (on_marks[best] > 0 and not label.needed):
            continue
        placed, ties = np.vstack([placed, boxes[best]]), np.vstack([ties, own[best]])
        parts.append(_drawn(label, boxes[best]))
    return element("g", "".join(parts), class_="labels") if parts else ""


def _candidates(label: PointLabel, frame: Box) -> Floats:
    """Return places around a point, inside of the frame, nearest first."""
    width, height = text_width(label.words, label.size) + 2, TEXT_SIZE + 4
    boxes = []
    for distance in _DISTANCES:
        for turn in range(_DIRECTIONS):
            angle = 2 * math.pi * turn / _DIRECTIONS
            x = label.x + distance * math.cos(angle)
            y = label.y - distance * math.sin(angle)
            # the side of the box that faces the point touches this place
            left = x - width * (1 - math.cos(angle)) / 2
            top = y - height * (1 + math.sin(angle)) / 2
            boxes.append((left, top, left + width, top + height))
    found = np.array(boxes)
    inside = (
        (found[:, 0] >= frame[0])
        & (found[:, 1] >= frame[1])
        & (found[:, 2] <= frame[2])
        & (found[:, 3] <= frame[3])
    )
    return np.asarray(found[inside])


def _ties(label: PointLabel, boxes: Floats) -> Floats:
    """Return small boxes along the line from the point to each label, (n, m, 4)."""
    point = np.array([label.x, label.y])
    ends = np.clip(point, boxes[:, :2], boxes[:, 2:])
    steps = np.linspace(0.1, 0.9, 12)[None, :, None]
    along = point + steps * (ends - point)[:, None, :]
    return np.concatenate([along - 1.0, along + 1.0], axis=2)


def _covered(boxes: Floats, others: Floats) -> Floats:
    """Return how much of other boxes each box covers."""
    if len(others) == 0:
        return np.zeros(len(boxes))
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(axis=2).sum(axis=1))


def _drawn(label: PointLabel, box: Floats) -> str:
    left, top, right, bottom = (float(side) for side in box)
    # the side that faces the point is where the text begins or ends: widths are only estimated
    x, anchor = left + 1, ""
    if label.x >= right:
        x, anchor = right - 1, "end"
    elif label.x > left:
        x, anchor = (left + right) / 2, "middle"
    text = text_at(x, bottom - 5, label.words, f"label {label.class_}".strip(), anchor)
    x, y = min(max(label.x, left), right), min(max(label.y, top), bottom)
    if math.hypot(x - label.x, y - label.y) < _NEAR:
        return text
    return element("line", x1=label.x, y1=label.y, x2=x, y2=y, class_="leader") + text
