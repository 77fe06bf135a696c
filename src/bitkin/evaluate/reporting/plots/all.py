"""All plots of a page, in the order in which they are shown."""

from __future__ import annotations

from bitkin.evaluate.reporting.content import ReportPage
from bitkin.evaluate.reporting.plots.bits import draw_correlation, draw_entropy
from bitkin.evaluate.reporting.plots.oversample import draw_oversample
from bitkin.evaluate.reporting.plots.pareto import draw_pareto
from bitkin.evaluate.reporting.plots.spectrum import draw_cumulative, draw_spectrum
from bitkin.evaluate.reporting.plots.svg import ReportPlot
from bitkin.evaluate.reporting.shown import show_measurements

_MOST_POINTS = 1_000


def draw_plots(page: ReportPage, most_points: int = _MOST_POINTS) -> dict[str, ReportPlot]:
    """Return the plots for which the page has data, by name: "recall", "oversample", "spectrum",
    "cumulative", "entropy" and "correlation".
    """
    shown = show_measurements(page)
    drawn = [draw_pareto(shown, most_points), draw_oversample(shown)]
    if page.spectrum is not None:
        drawn += [draw_spectrum(page.spectrum), draw_cumulative(page.spectrum)]
    if page.code is not None:
        drawn += [draw_entropy(page.code), draw_correlation(page.code)]
    return {plot.name: plot for plot in drawn if plot is not None}
