"""Scales: where a number stands in a plot, and which round numbers are written beside the axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_MOST_TICKS = 6
_LOG_STEPS = ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,))
_LEAST_RATIO = 1.5  # of the ends of a logarithmic axis


@dataclass(frozen=True)
class PlotScale:
    """Numbers from `low` to `high`, drawn between two places of the picture.

    Examples
    --------
    >>> scale = log_scale([1, 1000], 0, 300)
    >>> [round(scale.at(tick)) for tick in scale.ticks]
    [11, 104, 196, 289]
    """

    low: float
    high: float
    start: float
    end: float
    log: bool
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """Return the place of a number; one beyond the ends is drawn at the end."""
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def linear_scale(
    values: Iterable[float],
    start: float,
    end: float,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> PlotScale:
    """Return a scale that holds the values, with ends on round numbers inside of `bounds`.

    Examples
    --------
    >>> linear_scale([0.62, 0.93], 300, 0, (0, 1)).ticks
    (0.6, 0.7, 0.8, 0.9, 1.0)
    >>> linear_scale([1.0, 1.0], 300, 0, (0, 1)).ticks
    (0.9, 0.92, 0.94, 0.96, 0.98, 1.0)
    """
    low, high = _ends(values)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = 0.1 * abs(low) or 0.1
        low, high = max(low - room, bounds[0]), min(high + room, bounds[1])
    step = _round_step((high - low) / (_MOST_TICKS - 1))
    # a hair inwards: 0.3 / 0.1 is 2.9999999999999996
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [float(f"{i * step:.12g}") for i in range(first, last + 1)]
    kept = tuple(tick for tick in ticks if bounds[0] <= tick <= bounds[1])
    return PlotScale(max(ticks[0], bounds[0]), min(ticks[-1], bounds[1]), start, end, False, kept)


def log_scale(values: Iterable[float], start: float, end: float, room: float = 0.04) -> PlotScale:
    """Return a logarithmic scale that holds the values, all above 0, and a little room beside
    them.
    """
    low, high = _ends(values, 1.0)
    if high < low * _LEAST_RATIO:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = middle / _LEAST_RATIO, middle * _LEAST_RATIO
    extra = (high / low) ** room
    low, high = low / extra, high * extra
    return PlotScale(low, high, start, end, True, _log_ticks(low, high))


def _ends(values: Iterable[float], alone: float = 0.0) -> tuple[float, float]:
    known = [float(value) for value in values if math.isfinite(value)]
    return (min(known), max(known)) if known else (alone, alone)


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def _log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Return round numbers: as many of them as can be read."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in _LOG_STEPS:
        ticks = [float(f"{m}e{p}") for p in powers for m in steps if low <= m * 10.0**p <= high]
        if len(ticks) <= _MOST_TICKS:
            break
    if len(ticks) > _MOST_TICKS:  # many powers of ten: every second or third of them
        ticks = ticks[:: math.ceil(len(ticks) / _MOST_TICKS)]
    if len(ticks) >= 2:
        return tuple(ticks)
    inside = linear_scale([low, high], 0, 1).ticks
    return tuple(tick for tick in inside if low <= tick <= high)
