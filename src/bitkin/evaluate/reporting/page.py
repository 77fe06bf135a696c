"""Reports: what was measured and found, as one HTML file or as Markdown."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from bitkin.evaluate.reporting.content import (
    CodeStatistics,
    ReportChoice,
    ReportedCheck,
    ReportPage,
)
from bitkin.evaluate.reporting.html import render_html
from bitkin.evaluate.reporting.markdown import image_line, render_markdown
from bitkin.evaluate.reporting.plots.all import draw_plots
from bitkin.evaluate.reporting.queries import draw_sheet
from bitkin.evaluate.reporting.rows import HardQuery, ShownRow, show_rows
from bitkin.io.writer import write_aside

__all__ = [
    "CodeStatistics",
    "HardQuery",
    "ReportChoice",
    "ReportPage",
    "ReportedCheck",
    "ShownRow",
    "show_rows",
    "to_html",
    "to_markdown",
    "write_html",
    "write_markdown",
]


def to_html(page: ReportPage) -> str:
    """Return the report as one HTML page that loads nothing else.

    Examples
    --------
    >>> to_html(ReportPage("Codes & more")).splitlines()[0]
    '<!doctype html>'
    """
    return render_html(page)


def to_markdown(page: ReportPage) -> str:
    """Return the report as Markdown, without plots; `write_markdown` draws them beside the file.

    Examples
    --------
    >>> print(to_markdown(ReportPage("Codes", {"rows": 60_000}, "bitkin compare x.npy")))
    # Codes
    <BLANKLINE>
    - rows: 60,000
    <BLANKLINE>
    ## The same report again
    <BLANKLINE>
        bitkin compare x.npy
    <BLANKLINE>
    """
    return render_markdown(page)


def write_html(page: ReportPage, path: str | os.PathLike[str]) -> Path:
    """Write the report as one HTML file below 3 MB, and return its path."""
    return _write(to_html(page).encode("utf-8"), path)


def write_markdown(page: ReportPage, path: str | os.PathLike[str]) -> list[Path]:
    """Write the report as Markdown and its plots beside it, and return the paths of all files.

    The plots of "report.md" are "report-recall.svg", "report-oversample.svg", "report-spectrum.svg"
    and so on, on white; pictures of the hardest queries are in "report-queries.png".
    """
    target = Path(path)
    images: dict[str, str] = {}
    files: dict[Path, bytes] = {}
    for name, plot in draw_plots(page).items():
        beside = target.with_name(f"{target.stem}-{name}.svg")
        files[beside] = plot.to_file().encode("utf-8")
        images[name] = image_line(plot.title, plot.description, quote(beside.name))
    sheet = draw_sheet(page)
    if sheet is not None:
        beside = target.with_name(f"{target.stem}-queries.png")
        files[beside] = sheet
        said = "A line per query: the query, its true neighbours, and what was found."
        images["queries"] = image_line("The hardest queries", said, quote(beside.name))
    text = render_markdown(page, images)
    # the plots first: whoever sees the text can see what it links
    written = [_write(content, beside) for beside, content in files.items()]
    return [_write(text.encode("utf-8"), target), *written]


def _write(content: bytes, path: str | os.PathLike[str]) -> Path:
    write_aside(path, lambda file: file.write(content))
    return Path(path)
