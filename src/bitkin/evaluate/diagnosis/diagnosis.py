"""A diagnosis: all findings of one set of vectors, and how they are shown."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bitkin.arrays import Floats
from bitkin.checks import shown, suggest
from bitkin.errors import InvalidInputError
from bitkin.evaluate.diagnosis.finding import LEVELS, Finding
from bitkin.evaluate.reporting.page import ReportPage, write_html, write_markdown

_NARROW, _WIDE = 80, 100
_MOST_SHARES = 1_000  # of a spectrum that are written


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What vectors look like to a hasher; made by `bitkin.diagnose`.

    `print` it for a table, the worst first.

    Attributes
    ----------
    findings : tuple of Finding
        Always the same ones in the same order, whatever their level.
    spectrum : float64 (m,)
        Shares of the variance per direction, largest first; of the sample, without rows far off.
    n_rows, n_features : int
        Shape of the vectors.
    metric : str
        By which rows will be searched.
    n_sampled : int
        Rows of the sample.
    """

    findings: tuple[Finding, ...]
    spectrum: Floats = field(repr=False)
    n_rows: int
    n_features: int
    metric: str = "l2"
    n_sampled: int = 0

    @property
    def warnings(self) -> list[Finding]:
        """Findings at the level "warning"."""
        return [found for found in self.findings if found.level == "warning"]

    @property
    def notices(self) -> list[Finding]:
        """Findings at the level "notice"."""
        return [found for found in self.findings if found.level == "notice"]

    def finding(self, name: str) -> Finding:
        """Return a finding by its name."""
        for found in self.findings:
            if found.name == name:
                return found
        names = [found.name for found in self.findings]
        hint = suggest(name, names) if isinstance(name, str) else ""
        raise InvalidInputError(
            f"name must be one of {', '.join(map(repr, names))}, got {shown(name)}.{hint}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, as JSON takes it; of the spectrum at most 1,000 shares."""
        return {
            "rows": self.n_rows,
            "features": self.n_features,
            "metric": self.metric,
            "sampled": self.n_sampled,
            "findings": [found.to_dict() for found in self.findings],
            "spectrum": [round(float(share), 8) for share in self.spectrum[:_MOST_SHARES]],
        }

    def to_html(self, path: str | os.PathLike[str], *, command: str | None = None) -> Path:
        """Write one HTML file, with the command that makes it again where given; return its
        path.
        """
        return write_html(self._page(command), path)

    def to_markdown(
        self, path: str | os.PathLike[str], *, command: str | None = None
    ) -> list[Path]:
        """Write Markdown; return the paths of all files."""
        return write_markdown(self._page(command), path)

    def __str__(self) -> str:
        width = min(_WIDE, max(_NARROW, shutil.get_terminal_size((_WIDE, 24)).columns))
        return "\n".join(self.lines(width))

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{sum(found.level == level for found in self.findings)} {level}"
            for level in reversed(LEVELS)
        )
        return f"<Diagnosis of {self.n_rows:,} × {self.n_features:,}: {counts}>"

    def lines(self, width: int = _WIDE) -> Iterator[str]:
        """Yield the lines of a table: figures of every finding, the worst first, and what follows
        from those that are not fine.
        """
        yield (
            f"{self.n_rows:,} rows × {self.n_features:,} columns, metric {self.metric}, "
            f"{self.n_sampled:,} rows sampled"
        )
        column = max(len(found.name) for found in self.findings)
        for level in reversed(LEVELS):
            for found in self.findings:
                if found.level == level:
                    start = f"{level:<7}  {found.name:<{column}}  "
                    yield from textwrap.wrap(
                        found.measured, width, initial_indent=start,
                        subsequent_indent=" " * len(start),
                    )  # fmt: skip
                    if level != "fine":
                        yield from _wrapped(found.sentence, width)
                        if found.setting:
                            yield from _wrapped(f"→ {found.setting}", width)

    def _page(self, command: str | None) -> ReportPage:
        return ReportPage(
            title="What the data looks like",
            facts={
                "rows": self.n_rows,
                "columns": self.n_features,
                "metric": self.metric,
                "rows sampled": self.n_sampled,
            },
            command=command,
            findings=self.findings,
            spectrum=self.spectrum,
            notes=(
                "Columns, lengths, zeros, copies and the order of the file are measured on all "
                f"rows, directions and neighbours on {self.n_sampled:,} rows drawn at random.",
            ),
        )


def _wrapped(text: str, width: int) -> list[str]:
    indent = " " * 9
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)
