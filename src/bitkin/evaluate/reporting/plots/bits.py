"""The bits of a code: how much each says, and which say the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Floats
from bitkin.evaluate.reporting.content import CodeStatistics
from bitkin.evaluate.reporting.pictures import data_uri, encode_png
from bitkin.evaluate.reporting.plots.frame import BOTTOM, LEFT, RIGHT, TOP, WIDTH, draw_axes
from bitkin.evaluate.reporting.plots.scales import PlotScale, linear_scale
from bitkin.evaluate.reporting.plots.svg import (
    ReportPlot,
    element,
    path_of,
    text_at,
    titled,
    written,
)
from bitkin.evaluate.reporting.text import number

_MOST_DOTS = 512
_MOST_CELLS = 256  # of a side of the heat map
_LEAST_COLOR = 0.1  # the correlation that has full colour at least
_SIDE = 262.0
_LEVELS = 127
_POSITIVE, _NEGATIVE = (20, 110, 190), (217, 95, 14)


def draw_entropy(code: CodeStatistics) -> ReportPlot | None:
    """Return a dot per bit, None for a code without bits."""
    entropy = code.entropy
    if entropy.size == 0:
        return None
    shown, per_dot = _lowest(entropy)
    x = _bits_scale(code.n_bits, LEFT, RIGHT)
    # at least from 0.9, lest differences that do not matter look large
    y = linear_scale([float(entropy.min()), 0.9, 1.0], BOTTOM, TOP, (0.0, 1.0))
    # a line of no length has round ends: a dot
    dots = "".join(
        f"M{written(x.at((i + 0.5) * per_dot))},{written(y.at(value))}h0"
        for i, value in enumerate(shown.tolist())
    )
    mean, low = float(entropy.mean()), int(entropy.argmin())
    words = f"mean {mean:.3f} · lowest {entropy[low]:.3f}, bit {low:,}"
    body = [
        draw_axes(x, y, "bit", "entropy of a bit"),
        element("path", d=dots, class_="dots"),
        element("path", titled(words), d=path_of([(x.start, y.at(mean)), (x.end, y.at(mean))]),
                class_="mean"),
        text_at(x.end, TOP - 16, words, "small", "end"),
    ]  # fmt: skip
    described = (
        f"{code.name}: {code.n_bits:,} bits, entropy {mean:.3f} on average; the lowest is "
        f"{entropy[low]:.3f}, of bit {low:,}. At best it is 1: a bit that is set for half of the "
        "rows."
    )
    if per_dot > 1:
        described += f" A dot is the lowest of {per_dot} bits."
    title = "Entropy of each bit"
    return ReportPlot("entropy", title, described, WIDTH, BOTTOM + 48, "".join(body))


def draw_correlation(code: CodeStatistics) -> ReportPlot | None:
    """Return a heat map of every two bits, None for fewer than two."""
    if code.n_bits < 2:
        return None
    cells, per_cell = _strongest(code.correlation)
    strongest = float(np.abs(cells).max())
    full = min(1.0, max(_LEAST_COLOR, strongest))
    bottom = TOP + _SIDE
    x = _bits_scale(code.n_bits, LEFT, LEFT + _SIDE)
    # the first bit is at the top, as in a matrix
    y = _bits_scale(code.n_bits, TOP, bottom)
    body = [
        element("rect", x=LEFT, y=TOP, width=_SIDE, height=_SIDE, class_="axis"),
        element("image", x=LEFT, y=TOP, width=_SIDE, height=_SIDE, preserveAspectRatio="none",
                style="image-rendering: pixelated", href=data_uri(_colored(cells / full))),
        *_heat_ticks(x, y),
        _color_bar(full),
    ]  # fmt: skip
    off = np.abs(code.correlation[~np.eye(code.n_bits, dtype=bool)])
    described = (
        f"{code.name}: correlations of every two of {code.n_bits:,} bits, {off.mean():.3f} on "
        f"average without their signs; the strongest is {strongest:.3f}. At best all are 0."
    )
    if per_cell > 1:
        described += f" A cell is the strongest of {per_cell} × {per_cell} correlations."
    title = "Correlation of every two bits"
    return ReportPlot("correlation", title, described, WIDTH, bottom + 48, "".join(body))


def _bits_scale(n: int, start: float, end: float) -> PlotScale:
    """Return a scale on which bit i lies from i to i + 1."""
    ticks = linear_scale([0.0, float(n)], start, end).ticks
    kept = tuple(tick for tick in ticks if tick == int(tick) and tick <= n)
    return PlotScale(0.0, float(n), start, end, False, kept)


def _lowest(entropy: Floats) -> tuple[Floats, int]:
    """Return at most so many values, the lowest of as many neighbours, and of how many."""
    per_dot = -(-len(entropy) // _MOST_DOTS)
    starts = np.arange(0, len(entropy), per_dot)
    return np.minimum.reduceat(entropy, starts), per_dot


def _strongest(correlation: Floats) -> tuple[Floats, int]:
    """Return at most so many rows and columns, each cell the strongest of its block, and the side
    of a block; a bit's correlation with itself is left out.
    """
    n = len(correlation)
    own = np.where(np.eye(n, dtype=bool), 0.0, np.clip(correlation, -1.0, 1.0))
    side = -(-n // _MOST_CELLS)
    if side == 1:
        return own, 1
    starts = np.arange(0, n, side)
    high = np.maximum.reduceat(np.maximum.reduceat(own, starts, axis=0), starts, axis=1)
    low = np.minimum.reduceat(np.minimum.reduceat(own, starts, axis=0), starts, axis=1)
    return np.where(high >= -low, high, low), side


def _colored(cells: Floats) -> bytes:
    """Return values from −1 to 1 as a picture in which 0 is clear, so that it fits any page."""
    levels = np.arange(-_LEVELS, _LEVELS + 1)
    colors = np.where((levels >= 0)[:, None], _POSITIVE, _NEGATIVE).astype(np.uint8)
    alphas = np.abs(levels * 255 / _LEVELS).round().astype(np.uint8)
    picked: npt.NDArray[np.uint8] = (
        (np.clip(cells, -1, 1) * _LEVELS + _LEVELS).round().astype(np.uint8)
    )
    return encode_png(picked, colors, alphas)


def _heat_ticks(x: PlotScale, y: PlotScale) -> list[str]:
    parts = []
    for tick in x.ticks:
        words = number(tick)
        parts.append(text_at(x.at(tick), y.end + 16, words, "tick x-tick", "middle"))
        parts.append(text_at(x.start - 6, y.at(tick) + 4, words, "tick y-tick", "end"))
    middle = (x.start + x.end) / 2
    parts.append(text_at(middle, y.end + 38, "bit", "small", "middle"))
    parts.append(text_at(8, TOP - 16, "bit", "small"))
    return parts


def _color_bar(full: float) -> str:
    """Return what the colours mean, at the right of the map."""
    left, width = LEFT + _SIDE + 36, 16.0
    bar = _colored(np.linspace(1, -1, 2 * _LEVELS + 1)[:, None])
    parts = [
        text_at(left, TOP - 16, "correlation", "small"),
        element("rect", x=left, y=TOP, width=width, height=_SIDE, class_="axis"),
        element("image", x=left, y=TOP, width=width, height=_SIDE, preserveAspectRatio="none",
                href=data_uri(bar)),
    ]  # fmt: skip
    for value in (full, full / 2, 0.0, -full / 2, -full):
        share = (value + full) / (2 * full)
        at = TOP + _SIDE * (1 - share) + 4
        parts.append(text_at(left + width + 8, at, number(value, 2), "tick scale-tick"))
    return element("g", "".join(parts), class_="scale")
