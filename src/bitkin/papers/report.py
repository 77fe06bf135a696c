"""What an experiment found: tables, figures and claims, as plain values.

Everything in a report is equal from run to run, except for what is in `timings`: times depend on
the machine and are kept apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["holds", "in part", "not here"]
DECIMALS = 4  # of every result: what is beyond depends on how a machine adds


@dataclass(frozen=True, slots=True)
class MeanOfRuns:
    """The mean of some runs and its standard error, which a single run does not have."""

    mean: float
    error: float | None
    n_runs: int

    @classmethod
    def from_values(cls, values: Sequence[float]) -> MeanOfRuns:
        """Return the mean of at least one value."""
        n, mean = len(values), math.fsum(values) / len(values)
        if n == 1:
            return cls(mean, None, 1)
        variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
        return cls(mean, math.sqrt(variance / n), n)

    def __str__(self) -> str:
        shown = show_number(self.mean)
        if self.error is None:
            return shown
        if "e" in shown:
            return f"{shown} ± {show_number(self.error)}"
        return f"{shown} ± {self.error:,.{len(shown.partition('.')[2])}f}"

    def __format__(self, spec: str) -> str:
        return format(self.mean, spec) if spec else str(self)


Cell = str | int | float | MeanOfRuns | None


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table with a name, by which its file is called, and a caption that says what is in it."""

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {self.name} must have {len(self.columns)} cells: {row}")


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a panel; `errors` are drawn as bars where there are any."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    errors: tuple[float, ...] | None = None
    flat: bool = False
    """Whether it is one height across the whole panel, such as a result without codes."""

    @classmethod
    def of_means(cls, label: str, x: Sequence[float], means: Sequence[MeanOfRuns]) -> Curve:
        """Return the line through means, with their standard errors."""
        errors = tuple(one.error or 0.0 for one in means)
        return cls(label, tuple(x), tuple(one.mean for one in means), errors)


@dataclass(frozen=True, slots=True)
class Panel:
    """Axes with curves."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = False
    bars: tuple[tuple[str, float], ...] = ()
    """Lengths by name, instead of curves: from left to right along x."""


@dataclass(frozen=True, slots=True)
class ResultFigure:
    """Panels side by side, of a name by which the file is called."""

    name: str
    caption: str
    panels: tuple[Panel, ...]
    n_columns: int = 2


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says, what came out here, and why."""

    name: str
    """A few words, for the list at the end of a run."""
    claim: str
    paper: str
    """The paper's own figure, or where it says so."""
    ours: str
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class PaperReport:
    """All that an experiment found."""

    paper: str
    settings: dict[str, Any]
    tables: tuple[ResultTable, ...]
    figures: tuple[ResultFigure, ...]
    claims: tuple[Claim, ...]
    timings: tuple[ResultTable, ...] = ()
    timing_figures: tuple[ResultFigure, ...] = ()
    timing_claims: tuple[Claim, ...] = ()
    """Claims about time: they may differ from run to run."""
    notes: tuple[str, ...] = field(default=())

    @property
    def all_claims(self) -> tuple[Claim, ...]:
        """Claims about results and claims about time."""
        return self.claims + self.timing_claims


def grade(*, holds: bool, in_part: bool = False) -> Verdict:
    """Return the verdict on a claim that holds, or that holds in part."""
    return "holds" if holds else "in part" if in_part else "not here"


def show_number(value: float) -> str:
    """Write a number as tables have it: four decimals at most, large numbers without."""
    if not math.isfinite(value):
        return "–"
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{3 if abs(value) < 10 else 1}f}"


def show_cell(cell: Cell) -> str:
    """Write a cell as tables have it."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return show_number(cell)
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
