"""Recall against bytes per vector: what is measured, and what no other one beats."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from bitkin.evaluate.reporting.plots.frame import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    LegendEntry,
    draw_axes,
    draw_legend,
)
from bitkin.evaluate.reporting.plots.labels import Box, PointLabel, draw_labels
from bitkin.evaluate.reporting.plots.marks import RING, mark_at, shape_of
from bitkin.evaluate.reporting.plots.palette import N_COLORS
from bitkin.evaluate.reporting.plots.scales import PlotScale, linear_scale, log_scale
from bitkin.evaluate.reporting.plots.svg import ReportPlot, element, fit_name, path_of
from bitkin.evaluate.reporting.shown import ShownMeasurement, thin_out
from bitkin.evaluate.reporting.text import number

_MOST_INTERVALS = 300
_MOST_LABELS = 8
_LABEL_WIDTH = 170.0
_TITLE = "Recall against bytes per vector"
_RING = element("path", d=RING, class_="ring")


def draw_pareto(shown: Sequence[ShownMeasurement], most: int) -> ReportPlot | None:
    """Return the plot of at most so many points, None where there is nothing to draw."""
    points = [s for s in shown if math.isfinite(s.bytes_per_vector) and s.bytes_per_vector > 0]
    points = thin_out(points, most)
    if not points:
        return None
    # the special ones last: on top
    points.sort(key=lambda s: ("", "frontier", "runner-up", "chosen").index(s.mark))
    x = log_scale([s.bytes_per_vector for s in points], LEFT, RIGHT)
    intervals = _known_intervals(points)
    ends = [end for _, *both in intervals for end in both]
    y = linear_scale([*(s.recall for s in points), *ends], BOTTOM, TOP, (0.0, 1.0))
    families = _families(points)
    frontier = _frontier_line(points, x, y)
    axes = draw_axes(x, y, "bytes per vector", "recall")
    body = [axes, _draw_intervals(intervals, x, y)]
    body.append(element("path", d=path_of(frontier), class_="frontier"))
    body += [_mark(s, families, x, y) for s in points]
    body.append(_labels(points, frontier, x, y))
    legend, height = draw_legend(_legend(families, points), BOTTOM + 48)
    body.append(legend)
    return ReportPlot("recall", _TITLE, _describe(points), WIDTH, height + 6, "".join(body))


def _families(points: Sequence[ShownMeasurement]) -> dict[str | None, int | None]:
    """Return the place of each family, those with most points first: they get colours of their
    own.
    """
    counted = Counter(s.family for s in points if s.family is not None)
    places: dict[str | None, int | None] = {name: i for i, name in enumerate(sorted(counted))}
    if len(counted) >= N_COLORS:
        places = {name: i for i, (name, _) in enumerate(counted.most_common())}
    places[None] = None
    return places


def _mark(
    s: ShownMeasurement, families: dict[str | None, int | None], x: PlotScale, y: PlotScale
) -> str:
    shape = shape_of(families[s.family], small=not s.mark)
    ring = _RING if s.mark in ("chosen", "runner-up") else ""
    kind = f"point {s.mark}".strip()
    return mark_at(x.at(s.bytes_per_vector), y.at(s.recall), ring + shape, s.words, kind)


def _known_intervals(
    points: Sequence[ShownMeasurement],
) -> list[tuple[ShownMeasurement, float, float]]:
    """Return the intervals that are drawn: of many points only those of the special ones."""
    drawn = points if len(points) <= _MOST_INTERVALS else [s for s in points if s.mark]
    ends = [(s, *s.interval) for s in drawn]
    return [(s, low, high) for s, low, high in ends if math.isfinite(low) and math.isfinite(high)]


def _draw_intervals(
    intervals: Sequence[tuple[ShownMeasurement, float, float]], x: PlotScale, y: PlotScale
) -> str:
    bars = []
    for s, low, high in intervals:
        at = x.at(s.bytes_per_vector)
        bars.append(element("line", x1=at, x2=at, y1=y.at(low), y2=y.at(high)))
    return element("g", "".join(bars), class_="interval") if bars else ""


def _frontier_line(
    points: Sequence[ShownMeasurement], x: PlotScale, y: PlotScale
) -> list[tuple[float, float]]:
    """Return the corners of the best recall that a size reaches, up to the right edge."""
    corners: list[tuple[float, float]] = []
    best = -1.0
    for s in sorted(points, key=lambda s: (s.bytes_per_vector, -s.recall)):
        if s.recall > best:
            best, at = s.recall, x.at(s.bytes_per_vector)
            corners += [(at, corners[-1][1] if corners else y.at(best)), (at, y.at(best))]
    return [*corners, (x.end, corners[-1][1])]


def _labels(
    points: Sequence[ShownMeasurement],
    frontier: Sequence[tuple[float, float]],
    x: PlotScale,
    y: PlotScale,
) -> str:
    special = [s for s in reversed(points) if s.mark]
    if len(special) > _MOST_LABELS:  # evenly along the frontier
        named = [s for s in special if s.mark != "frontier"]
        special = named + thin_out(
            [s for s in special if s.mark == "frontier"], _MOST_LABELS - len(named)
        )
    labels = []
    for s in special:
        chosen = s.mark in ("chosen", "runner-up")
        words = fit_name(s.measurement.method, s.measurement.n_bits, _LABEL_WIDTH)
        words = f"{s.mark}: {words}" if chosen else words
        style = "strong" if s.mark == "chosen" else "small" if not chosen else ""
        at = x.at(s.bytes_per_vector), y.at(s.recall)
        labels.append(PointLabel(*at, words, style, chosen))
    boxes = [_box(x.at(s.bytes_per_vector), y.at(s.recall), 9 if s.mark else 5) for s in points]
    return draw_labels(labels, (LEFT + 2, TOP - 8, RIGHT + 14, BOTTOM - 2),
                       boxes + _boxes_along(frontier))  # fmt: skip


def _box(x: float, y: float, half: float) -> Box:
    return (x - half, y - half, x + half, y + half)


def _boxes_along(corners: Sequence[tuple[float, float]]) -> list[Box]:
    """Return boxes of the parts of a line, all of which are upright or level."""
    return [
        (min(a[0], b[0]) - 1, min(a[1], b[1]) - 1, max(a[0], b[0]) + 1, max(a[1], b[1]) + 1)
        for a, b in pairwise(corners)
    ]


def _legend(
    families: dict[str | None, int | None], points: Sequence[ShownMeasurement]
) -> list[LegendEntry]:
    entries = []
    for name, place in families.items():
        if name is not None and place is not None and place < N_COLORS - 1:
            entries.append(LegendEntry(shape_of(place), name or "no name"))
    others = len(families) - 1 - len(entries)
    if others:
        entries.append(LegendEntry(shape_of(N_COLORS - 1), f"{others} other families"))
    if any(s.family is None for s in points):
        entries.append(LegendEntry(shape_of(None), "other libraries and baselines"))
    line = element("line", x1=-9, x2=9, y1=0, y2=0, class_="frontier")
    entries.append(LegendEntry(line, "best at its size"))
    bar = element("line", x1=0, x2=0, y1=-8, y2=8, class_="interval")
    entries.append(LegendEntry(bar, "95 % interval"))
    return entries


def _describe(points: Sequence[ShownMeasurement]) -> str:
    best = max(points, key=lambda s: (s.recall, -s.bytes_per_vector))
    least = min(points, key=lambda s: (s.bytes_per_vector, -s.recall))
    words = (
        f"{len(points):,} measurements. The highest recall: {best.words}. The smallest: "
        f"{least.words}."
    )
    for s in points:
        if s.mark == "chosen":
            words += f" Chosen: {s.measurement.method}, recall {s.recall:.3f} with "
            words += f"{number(s.bytes_per_vector)} bytes per vector."
    return words
