"""The frame of a plot: axes, grid, the names of both, and a legend below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bitkin.evaluate.reporting.plots.scales import PlotScale
from bitkin.evaluate.reporting.plots.svg import (
    TEXT_SIZE,
    TICK_SIZE,
    element,
    fit_text,
    text_at,
    text_width,
    titled,
)
from bitkin.evaluate.reporting.text import number

WIDTH = 480.0
LEFT, TOP = 54.0, 34.0
RIGHT, BOTTOM = WIDTH - 16.0, 310.0
_TICK_ROOM = 6.0
_LEGEND_LINE = 20.0
_LEGEND_WORDS = 230.0
_SWATCH = 18.0


@dataclass(frozen=True)
class LegendEntry:
    """A sample of a mark or a line, drawn with its middle at 0, 0, and what it stands for."""

    sample: str
    words: str


def draw_axes(
    x: PlotScale,
    y: PlotScale,
    x_name: str,
    y_name: str,
    x_text: Callable[[float], str] = number,
    y_text: Callable[[float], str] = number,
) -> str:
    """Return grid, axes, numbers and names; what is measured upwards is named above the axis, where
    it needs no turned letters.
    """
    parts = []
    for tick in y.ticks:
        at = y.at(tick)
        parts.append(element("line", x1=x.start, x2=x.end, y1=at, y2=at, class_="grid"))
        parts.append(
            text_at(x.start - _TICK_ROOM, at + TICK_SIZE / 3, y_text(tick), "tick y-tick", "end")
        )
    for tick, words in _readable(x, x_text):
        at = x.at(tick)
        parts.append(
            element("line", x1=at, x2=at, y1=y.start, y2=y.start + _TICK_ROOM - 1, class_="axis")
        )
        parts.append(text_at(at, y.start + 19, words, "tick x-tick", "middle"))
    parts.append(element("line", x1=x.start, x2=x.end, y1=y.start, y2=y.start, class_="axis"))
    parts.append(text_at((x.start + x.end) / 2, y.start + 38, x_name, "small", "middle"))
    parts.append(text_at(8, TOP - 16, y_name, "small"))
    return element("g", "".join(parts), class_="axes")


def _readable(scale: PlotScale, words_of: Callable[[float], str]) -> list[tuple[float, str]]:
    """Return ticks with their words, without those that would run into the one before or over the
    edge of the plot.
    """
    kept: list[tuple[float, str]] = []
    free = 0.0
    for tick in scale.ticks:
        words, at = words_of(tick), scale.at(tick)
        half = text_width(words, TICK_SIZE) / 2
        if at - half >= free and at + half <= scale.end + 16:
            kept.append((tick, words))
            free = at + half + 4
    return kept


def draw_legend(
    entries: Sequence[LegendEntry], top: float, left: float = 12.0, right: float = WIDTH - 8.0
) -> tuple[str, float]:
    """Return entries in as many lines as they need, and where the last one ends."""
    parts = []
    x, y = left, top + _LEGEND_LINE / 2
    for entry in entries:
        words = fit_text(entry.words, _LEGEND_WORDS)
        width = _SWATCH + 4 + text_width(words) + 12
        if x > left and x + width - 12 > right:
            x, y = left, y + _LEGEND_LINE
        sample = element("g", entry.sample, transform=f"translate({x + _SWATCH / 2:.1f},{y:.1f})")
        label = text_at(x + _SWATCH + 4, y + TEXT_SIZE / 3, words, "legend")
        parts.append(element("g", titled(entry.words) + sample + label))
        x += width
    return element("g", "".join(parts), class_="key"), y + _LEGEND_LINE / 2
