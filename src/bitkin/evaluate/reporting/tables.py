"""The tables of a report, the same in HTML and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bitkin.evaluate.reporting.content import ReportPage
from bitkin.evaluate.reporting.limits import FULL, PageLimits
from bitkin.evaluate.reporting.shown import ShownMeasurement, show_measurements
from bitkin.evaluate.reporting.text import MISSING, clean, number

_MEASURED = ("method", "bits", "last stage", "vectors kept", "bytes per vector", "recall",
             "95 % interval", "oversample", "fit, s", "encode, µs", "search, µs")  # fmt: skip
_WORDS = frozenset({0, 2, 3})  # the others are numbers, which stand to the right
_NAME = 120  # characters of a method
_MOST_NOTES = 8


@dataclass(frozen=True)
class ReportTable:
    """Cells as text, not escaped yet."""

    caption: str
    headers: tuple[str, ...]
    rows: list[tuple[str, ...]]
    words: frozenset[int]
    """Columns that hold words and stand to the left."""
    marks: tuple[str, ...] = ()
    """Per row: "chosen", "runner-up", "frontier" or nothing."""
    left_out: int = 0
    """Further rows that are not shown."""
    notes: tuple[str, ...] = ()
    """What to know about rows that have a star."""

    def badge(self, row: int) -> str:
        """Return what stands beside the first cell of a row, or nothing."""
        mark = self.marks[row] if self.marks else ""
        return mark if mark in ("chosen", "runner-up") else ""


def frontier_tables(page: ReportPage, limits: PageLimits = FULL) -> list[ReportTable]:
    """Return the measurements that no other one beats in both size and recall, smallest first; and
    the same among bitkin's own, where baselines beat some of these.
    """
    tables = [_frontier_table(page, limits)]
    own = {id(m) for m in page.own_frontier}
    if own and not own <= {id(m) for m in page.frontier}:
        shown = [s for s in show_measurements(page) if id(s.measurement) in own]
        shown.sort(key=lambda s: (s.bytes_per_vector, s.recall))
        tables.append(
            _measured_table(shown, limits, "The same among bitkin's own, without other libraries")
        )
    return tables


def _frontier_table(page: ReportPage, limits: PageLimits) -> ReportTable:
    shown = [s for s in show_measurements(page) if s.mark]
    shown.sort(key=lambda s: (s.bytes_per_vector, s.recall))
    return _measured_table(
        shown, limits, "The best at each size: no other one is both smaller and better"
    )


def measured_table(page: ReportPage, limits: PageLimits = FULL) -> ReportTable:
    """Return all measurements, the highest recall first."""
    return _measured_table(
        show_measurements(page), limits, "All measurements, the highest recall first"
    )


def failure_table(page: ReportPage, limits: PageLimits = FULL) -> ReportTable:
    """Return what could not be measured, and why."""
    shown = page.failures[: limits.failures]
    return ReportTable(
        "What could not be measured, and why",
        ("method", "bits", "last stage", "reason"),
        [
            (clean(m.method, _NAME), str(m.n_bits), clean(m.stage, 20), clean(m.error, limits.cell))
            for m in shown
        ],
        frozenset({0, 2, 3}),
        left_out=len(page.failures) - len(shown),
    )


def finding_table(page: ReportPage, limits: PageLimits = FULL) -> ReportTable:
    """Return what `diagnose` found, the worst first."""
    order = {"warning": 0, "notice": 1, "fine": 2}
    findings = sorted(page.findings or (), key=lambda f: order.get(f.level, 3))
    shown = findings[: limits.findings]
    most = limits.cell
    return ReportTable(
        "What the data looks like to a code, the worst first",
        ("level", "what", "measured", "what it means", "setting"),
        [
            (
                clean(f.level, 20),
                clean(f.name, _NAME),
                clean(f.measured, most),
                clean(f.sentence, most),
                clean(f.setting, most) if f.setting else MISSING,
            )
            for f in shown
        ],
        frozenset(range(5)),
        tuple(f.level if f.level in order else "" for f in shown),
        len(findings) - len(shown),
    )


def _measured_table(
    measured: Sequence[ShownMeasurement], limits: PageLimits, caption: str
) -> ReportTable:
    shown = measured[: limits.rows]
    cells = [_measured_cells(s) for s in shown]
    # a recommendation times no search but the one it recommends
    columns = len(_MEASURED) - (bool(cells) and all(row[-1] == MISSING for row in cells))
    return ReportTable(
        caption,
        _MEASURED[:columns],
        [row[:columns] for row in cells],
        _WORDS,
        tuple(s.mark for s in shown),
        len(measured) - len(shown),
        tuple(dict.fromkeys(clean(s.measurement.note) for s in shown if s.measurement.note))[
            :_MOST_NOTES
        ],
    )


def _measured_cells(s: ShownMeasurement) -> tuple[str, ...]:
    m = s.measurement
    low, high = s.interval
    return (
        clean(m.method, _NAME) + ("*" if m.note else ""),
        f"{m.n_bits:,}",
        clean(m.stage, 20),
        clean(m.vectors, 40) if m.vectors else MISSING,
        number(m.bytes_per_vector),
        f"{s.recall:.3f}",
        f"{low:.3f} to {high:.3f}" if low == low else MISSING,
        str(m.oversample),
        number(round(m.fit_seconds, 3), 2),
        number(m.encode_us, 2),
        number(m.search_us, 2),
    )
