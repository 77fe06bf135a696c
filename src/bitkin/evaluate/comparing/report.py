"""Report: what `bitkin.compare` measured, to be asked, printed and written."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bitkin.arrays import Floats
from bitkin.checks import is_number, shown
from bitkin.errors import InvalidInputError, MissingExtraError
from bitkin.evaluate.comparing.summary import summarize
from bitkin.evaluate.reporting.page import (
    CodeStatistics,
    HardQuery,
    ReportPage,
    write_html,
    write_markdown,
)
from bitkin.evaluate.trials.measurement import OVERSAMPLES, Measurement


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What was measured of many ways to store and search vectors.

    Made by `bitkin.compare`; printed, it is a table of the best at each size.

    Attributes
    ----------
    measurements : list of Measurement
        Every method at every number of bits and last stage, baselines among them; what failed has
        an `error` and no figures.
    facts : dict
        What was measured on: rows, sample, queries, k, metric, seed, seconds, machine, versions.
    notes : tuple of str
        How it was measured, and what the figures say.
    command : str or None
        Makes the same report again.
    spectrum : float64 (n,) or None
        Shares of the variance of the sample along its principal directions, largest first.
    code : CodeStatistics or None
        How well the bits of the best code are used.
    hard_queries : tuple of HardQuery
        The queries of which the best code loses most.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((500, 16)).astype(np.float32)
    >>> report = bitkin.compare(X, methods=["pca × itq"], bits=8, baselines=False)
    >>> best = report.best(recall=0.9)
    >>> best.stage, best.vectors, best.recall > 0.9
    ('exact', 'int8', True)
    >>> len(report.failures)
    0
    """

    measurements: list[Measurement]
    facts: Mapping[str, Any]
    notes: Sequence[str] = ()
    command: str | None = None
    spectrum: Floats | None = None
    code: CodeStatistics | None = None
    hard_queries: Sequence[HardQuery] = ()

    @cached_property
    def page(self) -> ReportPage:
        """All of it as `evaluate.reporting` writes it."""
        return ReportPage(
            title="Codes compared",
            facts=self.facts,
            command=self.command,
            measurements=self.measurements,
            spectrum=self.spectrum,
            code=self.code,
            hard_queries=self.hard_queries,
            notes=self.notes,
        )

    @property
    def frontier(self) -> list[Measurement]:
        """Those that no other one beats: smallest first, each of higher recall than all before."""
        return self.page.frontier

    @property
    def failures(self) -> list[Measurement]:
        """What could not be measured; `error` says why."""
        return self.page.failures

    def best(self, recall: float = 0.95, *, baselines: bool = False) -> Measurement | None:
        """Return the one of fewest bytes per vector that reaches a recall, at the smallest
        oversample that does; None where none reaches it.

        Of equal size the quickest to search is taken. What other libraries make counts with
        `baselines` alone.
        """
        if not is_number(recall) or not 0.0 < recall <= 1.0:
            raise InvalidInputError(f"recall must be above 0 and up to 1, got {shown(recall)}.")
        reached = [
            found
            for one in self.measurements
            if one.error is None and (one.ours or baselines)
            if (found := one.cheapest_at(recall)) is not None
        ]
        return min(reached, key=lambda m: (m.bytes_per_vector, m.search_us), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON has them."""
        return {
            "facts": {name: _plain(value) for name, value in self.facts.items()},
            "measurements": [measured.to_dict() for measured in self.measurements],
            "frontier": [measured.name for measured in self.frontier],
            "notes": list(self.notes),
            "command": self.command,
        }

    def to_frame(self) -> Any:
        """Return a data frame of pandas, a row per measurement."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise MissingExtraError(
                "to_frame needs pandas, which is not installed: pip install pandas. to_dict goes "
                "without."
            ) from None
        rows = []
        for measured in self.measurements:
            row = measured.to_dict()
            curve, (low, high) = row.pop("curve"), row.pop("interval")
            row |= {"recall_low": low, "recall_high": high}
            row |= {f"recall_at_{oversample}": curve[str(oversample)] for oversample in OVERSAMPLES}
            rows.append(row)
        return pandas.DataFrame(rows)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one HTML file that needs nothing else, and return its path."""
        return write_html(self.page, path)

    def to_markdown(self, path: str | os.PathLike[str]) -> Path:
        """Write a Markdown file, and return its path."""
        write_markdown(self.page, path)
        return Path(path)

    def __str__(self) -> str:
        return summarize(self.page)

    def __repr__(self) -> str:
        return str(self)


def _plain(value: Any) -> Any:
    """Return a fact as JSON has it."""
    return value.item() if isinstance(value, np.generic) else value
