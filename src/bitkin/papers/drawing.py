"""Figures as pictures: readable at half the width of a page, lines apart without colour."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from bitkin.errors import MissingExtraError
from bitkin.io.writer import write_aside
from bitkin.papers.report import Curve, Panel, ResultFigure

# Colours that differ for colour-blind readers too (Okabe and Ito), with a marker and a dash each.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#7F7F7F")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES: tuple[Any, ...] = (
    "-",
    "--",
    (0, (3, 1.5)),
    (0, (5, 1, 1, 1)),
    "-",
    "--",
    (0, (1, 1)),
    ":",
)
_PANEL_INCHES = (3.6, 3.1)  # two side by side at half a page have letters of 8 pixels
_LEGEND_INCHES = 0.3  # a line of the legend
_DPI = 140
_MOST_TICKS = 6  # with labels that do not touch; of more, the powers of ten are enough


def draw_figure(figure: ResultFigure, path: Path) -> None:
    """Draw a figure to a PNG file, the same bytes for the same values."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("figures need matplotlib: pip install 'bitkin[plot]'") from None
    columns = min(figure.n_columns, len(figure.panels))
    rows = math.ceil(len(figure.panels) / columns)
    labels = list(dict.fromkeys(curve.label for panel in figure.panels for curve in panel.curves))
    longest = max(map(len, labels), default=0)
    per_line = max(1, int(columns * _PANEL_INCHES[0] * 10.5 / (longest + 7)))
    legend_lines = math.ceil(len(labels) / per_line)
    size = (
        columns * _PANEL_INCHES[0],
        rows * _PANEL_INCHES[1] + _LEGEND_INCHES * (legend_lines + 0.5),
    )
    with rc_context({"font.size": 12, "axes.titlesize": 11.5, "legend.fontsize": 11.5}):
        drawn = Figure(figsize=size, layout="constrained")
        axes = drawn.subplots(rows, columns, squeeze=False).ravel()
        handles: dict[str, Any] = {}
        for axis, panel in zip(axes, figure.panels, strict=False):
            _draw_panel(axis, panel, labels, handles)
        for axis in axes[len(figure.panels) :]:
            axis.set_axis_off()
        if labels:
            drawn.legend(
                [handles[label] for label in labels],
                labels,
                loc="outside lower center",
                ncols=min(per_line, len(labels)),
                frameon=False,
                handlelength=2.6,
            )
        write_aside(
            path,
            lambda file: drawn.savefig(file, format="png", dpi=_DPI, metadata={"Software": None}),
        )


def _draw_panel(axis: Any, panel: Panel, labels: list[str], handles: dict[str, Any]) -> None:
    if panel.bars:
        names, lengths = zip(*reversed(panel.bars), strict=True)
        axis.barh(names, lengths, color=_COLOURS[0], height=0.7)
        axis.tick_params(axis="y", labelsize=10.5)
    for curve in panel.curves:
        handles[curve.label] = _draw_curve(axis, curve, labels.index(curve.label))
    ticks = sorted({x for curve in panel.curves if not curve.flat for x in curve.x})
    few = 0 < len(ticks) <= _MOST_TICKS
    if panel.log_x:
        axis.set_xscale("log")
    if few and (panel.log_x or all(x == round(x) for x in ticks)):
        axis.set_xticks(ticks, [_tick_label(x) for x in ticks])
        axis.minorticks_off()
    if panel.log_y:
        axis.set_yscale("log")
    elif heights := [curve.y[0] for curve in panel.curves if curve.flat]:
        # lines across a panel have no margin of their own, and the frame would cover half of them
        low, high = axis.get_ylim()
        room = 0.03 * (high - low)
        axis.set_ylim(min(low, min(heights) - room), max(high, max(heights) + room))
    axis.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.set_axisbelow(True)


def _tick_label(x: float) -> str:
    """Return a short label: thousands as 10k."""
    return f"{x:g}" if x < 1e4 else f"{x / 1e3:g}k"


def _draw_curve(axis: Any, curve: Curve, place: int) -> Any:
    """Draw a line and return what the legend shows of it; the same label looks the same in every
    panel.
    """
    style: dict[str, Any] = {
        "color": _COLOURS[place % len(_COLOURS)],
        "linestyle": _DASHES[place % len(_DASHES)],
        "linewidth": 1.8,
    }
    if curve.flat:
        return axis.axhline(curve.y[0], **style)
    if len(curve.x) <= 12:
        style |= {"marker": _MARKERS[place % len(_MARKERS)], "markersize": 5.5}
    if curve.errors is None:
        return axis.plot(curve.x, curve.y, **style)[0]
    return axis.errorbar(curve.x, curve.y, yerr=curve.errors, capsize=2.5, **style)
