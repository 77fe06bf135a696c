"""Measurements as a report shows them: their figures worked out once, and what is special."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bitkin.arrays import Floats
from bitkin.errors import InvalidInputError
from bitkin.evaluate.reporting.content import ReportPage, recall_of, size_of
from bitkin.evaluate.reporting.text import number
from bitkin.evaluate.trials.measurement import Measurement


@dataclass(frozen=True, eq=False)
class ShownMeasurement:
    """A measurement with its place in the report.

    Attributes
    ----------
    measurement : Measurement
        What was measured.
    recall : float
        At its oversample.
    mark : str
        "chosen", "runner-up", "frontier" or nothing.
    """

    measurement: Measurement
    recall: float
    mark: str = ""

    @property
    def bytes_per_vector(self) -> float:
        """Its size."""
        return self.measurement.bytes_per_vector

    @property
    def interval(self) -> tuple[float, float]:
        """Of the recall; NaN where there are too few queries for one."""
        return interval_of(self.measurement)

    @property
    def family(self) -> str | None:
        """The first part of the method's name, such as "pca" of "pca × itq"; None for what is not
        ours.
        """
        m = self.measurement
        return m.method.split(" × ")[0].strip() if m.ours else None

    @property
    def short_name(self) -> str:
        """Method and bits."""
        return f"{self.measurement.method}, {self.measurement.n_bits:,} bits"

    @property
    def words(self) -> str:
        """All figures in a line."""
        return (
            f"{self.measurement.name}: recall {self.recall:.3f} with "
            f"{number(self.bytes_per_vector)} bytes per vector"
        )


def interval_of(measurement: Measurement) -> tuple[float, float]:
    """Return the interval of a recall, or NaN where there are too few queries for one."""
    try:
        return measurement.interval
    except InvalidInputError:
        return (math.nan, math.nan)


def show_measurements(page: ReportPage) -> list[ShownMeasurement]:
    """Return all measurements that have figures, highest recall first; what was chosen stands as
    it was chosen, at its own oversample, and is put in where it is not among them.
    """
    own = {} if page.choice is None else _special(page)
    frontier = {id(m) for m in page.frontier}
    shown = []
    for m in page.measured:
        mark = next((mark for mark, it in own.items() if is_same(m, it)), "")
        if not mark and id(m) in frontier:
            mark = "frontier"
        special = own.pop(mark, m)
        shown.append(ShownMeasurement(special, recall_of(special), mark))
    shown += [ShownMeasurement(it, recall_of(it), mark) for mark, it in own.items()]
    return sorted(shown, key=lambda s: (-s.recall, size_of(s.measurement)))


def is_same(a: Measurement, b: Measurement | None) -> bool:
    """Return whether two measurements are of the same configuration."""
    return b is not None and (a is b or a.name == b.name)


def mean_curve(measurement: Measurement) -> Floats:
    """Return the recall at each oversample, NaN where no query has one."""
    recalls = measurement.recalls
    known = ~np.isnan(recalls)
    sums, counts = np.where(known, recalls, 0.0).sum(axis=0), known.sum(axis=0)
    means: Floats = np.full(recalls.shape[1], np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def thin_out(shown: Sequence[ShownMeasurement], most: int) -> list[ShownMeasurement]:
    """Return at most so many, evenly over the list, with all that are special."""
    if len(shown) <= most:
        return list(shown)
    special = [s for s in shown if s.mark][:most]
    others = [s for s in shown if not s.mark]
    n = max(0, most - len(special))
    picked = np.linspace(0, len(others) - 1, n).astype(int)
    kept = {id(others[i]) for i in picked.tolist()} | {id(s) for s in special}
    return [s for s in shown if id(s) in kept]


def _special(page: ReportPage) -> dict[str, Measurement]:
    choice = page.choice
    if choice is None:
        return {}
    named = {"chosen": choice.chosen, "runner-up": choice.runner_up}
    return {
        mark: m
        for mark, m in named.items()
        if m is not None and m.error is None and math.isfinite(recall_of(m))
    }
