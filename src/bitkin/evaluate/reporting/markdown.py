"""A report as Markdown: the same tables and sentences, and links to the plots beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from bitkin.evaluate.reporting.content import ReportPage
from bitkin.evaluate.reporting.limits import FULL
from bitkin.evaluate.reporting.queries import describe_row, shown_queries
from bitkin.evaluate.reporting.rows import HardQuery, ShownRow
from bitkin.evaluate.reporting.tables import (
    ReportTable,
    failure_table,
    finding_table,
    frontier_tables,
    measured_table,
)
from bitkin.evaluate.reporting.text import clean, escape_markdown, fact, number

_MOST_TEXT = FULL.text
_MOST_ROW = 100  # characters of a text beside others


def render_markdown(page: ReportPage, images: Mapping[str, str] | None = None) -> str:
    """Return the page; `images` are lines that show plots, by the plots' names."""
    drawn = images or {}
    parts = [f"# {escape_markdown(page.title)}"]
    if page.facts:
        parts.append(
            "\n".join(
                f"- {escape_markdown(name)}: {escape_markdown(fact(value))}"
                for name, value in islice(page.facts.items(), FULL.facts)
            )
        )
    if page.choice is not None:
        parts += ["## Recommendation", f"**{escape_markdown(page.choice.headline, _MOST_TEXT)}**"]
        parts += _paragraphs(page.choice.reasons)
    if page.measured:
        parts += ["## Recall against size", *_images(drawn, "recall", "oversample")]
        parts += map(_table, frontier_tables(page))
    of_data = _images(drawn, "spectrum", "cumulative")
    if page.findings:
        of_data.insert(0, _table(finding_table(page)))
    parts += ["## The data", *of_data] if of_data else []
    of_bits = _images(drawn, "entropy", "correlation")
    parts += ["## The bits of the best code", *of_bits] if of_bits else []
    queries = [_query(hard) for hard in shown_queries(page)]
    if queries:
        parts += ["## The hardest queries", *_images(drawn, "queries"), *queries]
    if page.measured:
        parts += ["## All measurements", _table(measured_table(page))]
    if page.failures:
        parts += ["## Failures", _table(failure_table(page))]
    if page.notes:
        parts += ["## How it was measured", *_paragraphs(page.notes)]
    if page.command:
        parts += ["## The same report again", _code_block(page.command)]
    return "\n\n".join(parts) + "\n"


def image_line(title: str, description: str, address: str) -> str:
    """Return a line that shows a picture beside the file, and what it says."""
    shown = f"![{escape_markdown(title)}]({address})"
    return f"{shown}\n\n{escape_markdown(description, _MOST_TEXT)}" if description else shown


def _images(drawn: Mapping[str, str], *names: str) -> list[str]:
    return [drawn[name] for name in names if name in drawn]


def _paragraphs(texts: Sequence[str]) -> list[str]:
    return [escape_markdown(text, _MOST_TEXT) for text in texts[: FULL.paragraphs]]


def _query(hard: HardQuery) -> str:
    true = {row.row for row in hard.neighbors}
    got = {row.row for row in hard.found}
    asked = "" if hard.query.text is None else f": {escape_markdown(hard.query.text)}"
    lines = [
        f"### Query {hard.query.row:,}, recall {number(hard.recall)}{asked}",
        "",
        _line(("true neighbours", "what was found"), False),
        _line(("---", "---"), False),
    ]
    lines += [
        _line((_row(hard.neighbors, i, got), _row(hard.found, i, true)))
        for i in range(max(len(hard.neighbors), len(hard.found)))
    ]
    return "\n".join(lines)


def _row(rows: Sequence[ShownRow], i: int, hits: set[int]) -> str:
    if i >= len(rows):
        return ""
    row = rows[i]
    mark = "✓ " if row.row in hits else ""
    words = "" if row.text is None else f": {clean(row.text, _MOST_ROW)}"
    return f"{mark}{describe_row(row)}{words}"


def _table(table: ReportTable) -> str:
    lines = [
        escape_markdown(table.caption) + ":",
        "",
        _line(table.headers),
        _line(["---" if j in table.words else "---:" for j in range(len(table.headers))], False),
    ]
    for i, cells in enumerate(table.rows):
        badge = f" ({table.badge(i)})" if table.badge(i) else ""
        lines.append(_line((f"{cells[0]}{badge}", *cells[1:])))
    if table.left_out:
        lines += ["", f"{table.left_out:,} more are left out."]
    for note in table.notes:
        lines += ["", rf"\* {escape_markdown(note)}"]
    return "\n".join(lines)


def _line(cells: Sequence[str], escaped: bool = True) -> str:
    written = [escape_markdown(cell, _MOST_TEXT) for cell in cells] if escaped else cells
    return f"| {' | '.join(written)} |"


def _code_block(text: str) -> str:
    """Return text indented: no fence of its own can end the block."""
    return "\n".join(f"    {line}" for line in clean(text, _MOST_TEXT).split("\n"))
