"""Reading a plot back: what stands where, by its axes alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np

from bitkin.evaluate.reporting.plots.svg import ReportPlot

SVG = "{http://www.w3.org/2000/svg}"
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


def parse(plot: ReportPlot | None) -> ElementTree.Element:
    """The drawing as a tree; that it is well-formed is half of the test."""
    assert plot is not None
    return ElementTree.fromstring(plot.to_file())


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [e for e in root.iter() if name in (e.get("class") or "").split()]


def number_of(words: str) -> float:
    """What is written beside an axis, as a number: "10,000", "50 %", "5·10⁻¹²"."""
    share = 0.01 if words.endswith("%") else 1.0
    words = words.replace(",", "").replace("%", "").strip()
    power = re.fullmatch(r"(?:(\d)·)?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", words)
    if power:
        return int(power[1] or 1) * 10.0 ** int(power[2].translate(_RAISED))
    return float(words) * share


def axis(root: ElementTree.Element, name: str, log: bool = False) -> Callable[[float], float]:
    """From places on the x or y axis to numbers, by the outermost ticks."""
    ticks = of_class(root, f"{name}-tick")
    places = np.array([float(t.get(name) or "nan") for t in ticks])
    values = np.array([number_of(t.text or "") for t in ticks])
    if name == "y":
        places -= 4  # the baseline is below the middle of the digits
    if log:
        values = np.log(values)
    low, high = int(places.argmin()), int(places.argmax())
    slope = (values[high] - values[low]) / (places[high] - places[low])

    def back(place: float) -> float:
        value = float(values[low] + (place - places[low]) * slope)
        return float(np.exp(value)) if log else value

    return back


def places_of(elements: list[ElementTree.Element]) -> list[tuple[float, float]]:
    """Where marks stand."""
    found = [re.fullmatch(r"translate\((.+),(.+)\)", e.get("transform") or "") for e in elements]
    return [(float(m[1]), float(m[2])) for m in found if m is not None]


def path_points(d: str) -> list[tuple[float, float]]:
    """The corners of a line, or the dots of many."""
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", d)]
