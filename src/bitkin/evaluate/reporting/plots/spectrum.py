"""The spectrum: how the variance is shared among directions."""

from __future__ import annotations

import numpy as np

from bitkin.arrays import Floats, Ids
from bitkin.evaluate.reporting.plots.frame import BOTTOM, LEFT, RIGHT, TOP, WIDTH, draw_axes
from bitkin.evaluate.reporting.plots.labels import PointLabel, draw_labels
from bitkin.evaluate.reporting.plots.marks import mark_at, shape_of
from bitkin.evaluate.reporting.plots.scales import PlotScale, linear_scale, log_scale
from bitkin.evaluate.reporting.plots.svg import ReportPlot, element, path_of
from bitkin.evaluate.reporting.text import number

_MOST_POINTS = 400
_MOST_MARKS = 60
_SHARES = (0.5, 0.9, 0.99)
_LEAST_SHARE = 1e-5  # of the largest: what is below plays no part in a code
_DIRECTIONS = "direction, largest variance first"


def draw_spectrum(shares: Floats) -> ReportPlot | None:
    """Return the share of the variance that each direction has, None where there is none."""
    shares = np.sort(shares)[::-1]
    largest = float(shares[0])
    if largest <= 0:
        return None
    kept = shares[shares >= largest * _LEAST_SHARE]
    picked = _pick(len(kept))
    values = kept[picked]
    x = log_scale([1, len(shares)], LEFT, RIGHT)
    y = log_scale(values.tolist(), BOTTOM, TOP)
    body = [draw_axes(x, y, _DIRECTIONS, "share of the variance", y_text=_short)]
    body += _line(picked + 1, values, x, y)
    described = (
        f"The first of {len(shares):,} directions has {_percent(float(shares[0]))} of the variance."
    )
    title = "Share of the variance per direction"
    return ReportPlot("spectrum", title, described, WIDTH, BOTTOM + 48, "".join(body))


def draw_cumulative(shares: Floats) -> ReportPlot | None:
    """Return the share of the variance that the first directions have together, None where there
    is none.
    """
    sums = np.cumsum(np.sort(shares)[::-1])
    if sums[-1] <= 0:
        return None
    picked = _pick(len(shares))
    x = log_scale([1, len(shares)], LEFT, RIGHT)
    y = linear_scale([0.0, 1.0, float(sums[-1])], BOTTOM, TOP, (0.0, max(1.0, float(sums[-1]))))
    body = [draw_axes(x, y, "number of directions", "share of the variance, summed up",
                      y_text=_percent)]  # fmt: skip
    body += _line(picked + 1, sums[picked], x, y)
    labels, words = [], []
    for share in _SHARES:
        n = int(np.searchsorted(sums, share * (1 - 1e-12))) + 1
        if n > len(sums):
            break
        said = f"{_percent(share)}: {n:,}"
        words.append(f"{n:,} of {len(shares):,} directions have {_percent(share)}")
        at = x.at(n), y.at(float(sums[n - 1]))
        body.append(mark_at(*at, shape_of(1), f"{words[-1]} of the variance", "point level"))
        labels.append(PointLabel(*at, said, "strong", needed=True))
    curve = [(x.at(int(i) + 1), y.at(float(sums[i]))) for i in picked]
    boxes = [(a - 2, b - 2, a + 2, b + 2) for a, b in curve]
    body.append(draw_labels(labels, (LEFT + 2, TOP - 8, RIGHT + 12, BOTTOM - 2), boxes))
    described = f"{'; '.join(words)} of the variance." if words else "Less than half is shown."
    title = "Directions that hold the variance together"
    return ReportPlot("cumulative", title, described, WIDTH, BOTTOM + 48, "".join(body))


def _line(places: Ids, values: Floats, x: PlotScale, y: PlotScale) -> list[str]:
    points = [
        (x.at(place), y.at(value))
        for place, value in zip(places.tolist(), values.tolist(), strict=True)
    ]
    parts = [element("path", d=path_of(points), class_="curve l1")] if len(points) > 1 else []
    if len(points) <= _MOST_MARKS:
        shape = shape_of(0, small=True)
        parts += [
            mark_at(*at, shape, f"{place:,}: {_percent(value)}")
            for at, place, value in zip(points, places.tolist(), values.tolist(), strict=True)
        ]
    return parts


def _pick(n: int) -> Ids:
    """Return row numbers, evenly on a logarithmic axis, the first and the last among them."""
    if n <= _MOST_POINTS:
        return np.arange(n)
    return np.unique(np.geomspace(1, n, 2 * _MOST_POINTS).round().astype(np.int64)) - 1


def _short(value: float) -> str:
    """Return a number beside an axis; one with many zeros by its power of ten.

    Examples
    --------
    >>> _short(0.02), _short(1e-6), _short(5e-12)
    ('0.02', '10⁻⁶', '5·10⁻¹²')
    """
    if value >= 1e-4:
        return number(value)
    first, power = f"{value:.0e}".split("e-")
    raised = "⁻" + str(int(power)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if first == "1" else f"{first}·10{raised}"


def _percent(share: float) -> str:
    return f"{number(share * 100, 3)}\u00a0%"  # the two stay on one line
