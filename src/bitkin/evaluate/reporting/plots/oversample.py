"""Recall against oversample: how many more rows have to be looked at for a higher recall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bitkin.arrays import Floats
from bitkin.evaluate.reporting.plots.frame import BOTTOM, LEFT, RIGHT, TOP, WIDTH, draw_axes
from bitkin.evaluate.reporting.plots.marks import color_number, mark_at, shape_of
from bitkin.evaluate.reporting.plots.palette import DASHES
from bitkin.evaluate.reporting.plots.scales import PlotScale, linear_scale, log_scale
from bitkin.evaluate.reporting.plots.svg import (
    TEXT_SIZE,
    ReportPlot,
    element,
    fit_name,
    path_of,
    text_at,
    text_width,
    titled,
)
from bitkin.evaluate.reporting.shown import ShownMeasurement, mean_curve
from bitkin.evaluate.trials.measurement import OVERSAMPLES

_MOST_CURVES = 6
_MOST_LABEL = 160.0
_LINE = 17.0
_TITLE = "Recall against oversample"


@dataclass(frozen=True, eq=False)
class _Drawn:
    """A curve, from the best to the worst."""

    shown: ShownMeasurement
    recalls: Floats


def draw_oversample(shown: Sequence[ShownMeasurement]) -> ReportPlot | None:
    """Return the plot of the best few codes, None where no curve is known."""
    curves = _choose(shown)
    if not curves:
        return None
    names = [
        fit_name(c.shown.measurement.method, c.shown.measurement.n_bits, _MOST_LABEL)
        for c in curves
    ]
    right = RIGHT - max(text_width(name) for name in names) - 28
    x = log_scale(OVERSAMPLES, LEFT, right, room=0.03)
    recalls = np.concatenate([c.recalls for c in curves])
    y = linear_scale(recalls[np.isfinite(recalls)], BOTTOM, TOP, (0.0, 1.0))
    body = [draw_axes(x, y, "oversample", "recall")]
    body += [_curve(c, i, x, y) for i, c in enumerate(curves)]
    body.append(_end_labels(curves, names, x, y))
    best, worst = curves[0], curves[-1]
    described = (
        f"{len(curves)} curves over oversamples from {OVERSAMPLES[0]} to {OVERSAMPLES[-1]}. "
        f"{best.shown.short_name} goes from {_ends(best)}; {worst.shown.short_name} from "
        f"{_ends(worst)}."
    )
    return ReportPlot("oversample", _TITLE, described, WIDTH, BOTTOM + 48, "".join(body))


def _choose(shown: Sequence[ShownMeasurement]) -> list[_Drawn]:
    """Return what was chosen and the runner-up, then the best code of each number of bits, then
    the best of the rest; those whose last stage is exact first, as there the oversample counts.
    """
    known = [_Drawn(s, mean_curve(s.measurement)) for s in shown]
    known = [c for c in known if np.isfinite(c.recalls).sum() > 1]
    known.sort(key=_goodness, reverse=True)
    exact = [c for c in known if c.shown.measurement.stage == "exact"] or known
    marked = [c for mark in ("chosen", "runner-up") for c in known if c.shown.mark == mark]
    ours = [c for c in exact if c.shown.measurement.ours]
    per_bits = {c.shown.measurement.n_bits: c for c in reversed(ours)}
    firsts = sorted(per_bits.values(), key=_goodness, reverse=True)
    picked: dict[tuple[str, int], _Drawn] = {}
    for c in (*marked, *firsts, *ours, *known):
        m = c.shown.measurement
        if len(picked) < _MOST_CURVES:
            picked.setdefault((m.method, m.n_bits), c)
    return sorted(picked.values(), key=_goodness, reverse=True)


def _goodness(curve: _Drawn) -> float:
    return float(np.nanmean(curve.recalls))


def _curve(curve: _Drawn, place: int, x: PlotScale, y: PlotScale) -> str:
    color = color_number(place)
    points = _points(curve, x, y)
    parts = [
        titled(curve.shown.measurement.name),
        element(
            "path", d=path_of(points), class_=f"curve l{color}", stroke_dasharray=DASHES[color - 1]
        ),
    ]
    for oversample, recall in zip(OVERSAMPLES, curve.recalls.tolist(), strict=True):
        if math.isfinite(recall):
            words = f"{curve.shown.measurement.name}: recall {recall:.3f} at {oversample}"
            shape = shape_of(place, small=True)
            parts.append(mark_at(x.at(oversample), y.at(recall), shape, words))
    return element("g", "".join(parts), class_="series")


def _points(curve: _Drawn, x: PlotScale, y: PlotScale) -> list[tuple[float, float]]:
    pairs = zip(OVERSAMPLES, curve.recalls.tolist(), strict=True)
    return [(x.at(o), y.at(r)) for o, r in pairs if math.isfinite(r)]


def _end_labels(curves: Sequence[_Drawn], names: Sequence[str], x: PlotScale, y: PlotScale) -> str:
    """Return names at the ends of the curves, pushed apart, each tied to its end."""
    ends = [_points(c, x, y)[-1] for c in curves]
    order = sorted(range(len(curves)), key=lambda i: (ends[i][1], -_goodness(curves[i])))
    places = _push_apart([ends[i][1] for i in order], TOP + 2, BOTTOM - 2)
    parts = []
    for i, at in zip(order, places, strict=True):
        name, left = curves[i].shown.measurement.name, x.end + 18
        tie = path_of([ends[i], (left, at)])
        parts.append(element("path", d=tie, class_=f"tie l{color_number(i)}"))
        parts.append(mark_at(left, at, shape_of(i, small=True), name, "sample"))
        style = "legend strong" if curves[i].shown.mark == "chosen" else "legend"
        label = text_at(left + 9, at + TEXT_SIZE / 3, names[i], style)
        parts.append(element("g", titled(name) + label))
    return element("g", "".join(parts), class_="labels")


def _push_apart(wanted: Sequence[float], low: float, high: float) -> list[float]:
    """Return places in order, near the wanted ones, a line apart, within low and high.

    Examples
    --------
    >>> _push_apart([40.0, 41.0, 42.0], 0.0, 70.0)
    [36.0, 53.0, 70.0]
    """
    places: list[float] = []
    for at in wanted:
        places.append(max(at, places[-1] + _LINE if places else low))
    top = high
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], top)
        top = places[i] - _LINE
    return places


def _ends(curve: _Drawn) -> str:
    known = curve.recalls[np.isfinite(curve.recalls)]
    return f"{known[0]:.3f} to {known[-1]:.3f}"
