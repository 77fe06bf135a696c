"""A report as one HTML page that needs nothing else: no script, no font, no request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from bitkin.evaluate.reporting.content import ReportedCheck, ReportPage, recall_of
from bitkin.evaluate.reporting.limits import MOST_BYTES, STEPS, PageLimits
from bitkin.evaluate.reporting.plots.all import draw_plots
from bitkin.evaluate.reporting.plots.svg import ReportPlot
from bitkin.evaluate.reporting.queries import render_queries
from bitkin.evaluate.reporting.shown import interval_of
from bitkin.evaluate.reporting.style import PAGE_STYLE
from bitkin.evaluate.reporting.tables import (
    ReportTable,
    failure_table,
    finding_table,
    frontier_tables,
    measured_table,
)
from bitkin.evaluate.reporting.text import MISSING, escape, fact, number

# Nothing may be loaded or run, whatever somebody's text manages to smuggle in.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render_html(page: ReportPage) -> str:
    """Return the page, with as much of everything as stays below 3 MB."""
    for limits in STEPS:
        text = _render(page, limits)
        if len(text.encode("utf-8")) < MOST_BYTES:
            break
    return text


def _render(page: ReportPage, limits: PageLimits) -> str:
    title = escape(page.title)
    plots = draw_plots(page, limits.points)
    sections = [
        _facts(page, limits),
        _choice(page, limits),
        _measured(page, limits, plots),
        _data(page, limits, plots),
        _section("The bits of the best code", _plots(plots, "entropy", "correlation")),
        _hard_queries(page, limits),
        _everything(page, limits),
        _failures(page, limits),
        _reproduce(page, limits),
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="generator" content="bitkin">',
            f"<title>{title}</title>",
            f"<style>{PAGE_STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            f"<h1>{title}</h1>",
            *(section for section in sections if section),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _facts(page: ReportPage, limits: PageLimits) -> str:
    if not page.facts:
        return ""
    pairs = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(fact(value))}</dd></div>"
        for name, value in islice(page.facts.items(), limits.facts)
    )
    return f'<dl class="facts">{pairs}</dl>'


def _choice(page: ReportPage, limits: PageLimits) -> str:
    choice = page.choice
    if choice is None:
        return ""
    figures = ""
    if choice.chosen is not None and choice.chosen.error is None:
        m = choice.chosen
        recall, (low, high), search_us = choice.checked or ReportedCheck(
            recall_of(m), interval_of(m), m.search_us
        )
        sure = f"{low:.3f} to {high:.3f}" if low == low else MISSING
        pairs = [
            ("recall", number(recall)),
            ("95 % interval", sure),
            ("bytes per vector", number(m.bytes_per_vector)),
            ("µs per query", number(search_us, 2)),
        ]
        tiles = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in pairs)
        figures = f'<dl class="figures">{tiles}</dl>'
    headline = f'<p class="headline">{escape(choice.headline, limits.text)}</p>'
    content = headline + figures + _paragraphs(choice.reasons, limits)
    return _section("Recommendation", content, "choice")


def _measured(page: ReportPage, limits: PageLimits, plots: Mapping[str, ReportPlot]) -> str:
    if not page.measured:
        return ""
    drawn = _plots(plots, "recall", "oversample")
    tables = "".join(_table(table) for table in frontier_tables(page, limits))
    return _section("Recall against size", drawn + tables)


def _data(page: ReportPage, limits: PageLimits, plots: Mapping[str, ReportPlot]) -> str:
    found = _table(finding_table(page, limits)) if page.findings else ""
    return _section("The data", found + _plots(plots, "spectrum", "cumulative"))


def _hard_queries(page: ReportPage, limits: PageLimits) -> str:
    lead = "<p>Those of which most is lost. A ✓ marks what is both true and found.</p>"
    queries = render_queries(page, limits)
    return _section("The hardest queries", lead + queries) if queries else ""


def _everything(page: ReportPage, limits: PageLimits) -> str:
    if not page.measured:
        return ""
    return _section("All measurements", _table(measured_table(page, limits), "tall"))


def _failures(page: ReportPage, limits: PageLimits) -> str:
    return _section("Failures", _table(failure_table(page, limits))) if page.failures else ""


def _reproduce(page: ReportPage, limits: PageLimits) -> str:
    parts = _section("How it was measured", _paragraphs(page.notes, limits))
    if page.command:
        command = f"<pre><code>{escape(page.command, limits.text)}</code></pre>"
        parts += _section("The same report again", command)
    return parts


def _section(heading: str, content: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f"<section{named}><h2>{heading}</h2>{content}</section>" if content else ""


def _paragraphs(texts: Sequence[str], limits: PageLimits) -> str:
    return "".join(f"<p>{escape(text, limits.text)}</p>" for text in texts[: limits.paragraphs])


def _plots(plots: Mapping[str, ReportPlot], *names: str) -> str:
    """Return those of the plots that there are, side by side where the screen is wide."""
    drawn = "".join(_figure(plots[name]) for name in names if name in plots)
    return f'<div class="plots">{drawn}</div>' if drawn else ""


def _figure(plot: ReportPlot) -> str:
    """Return a plot in a region that scrolls by itself, and what it says below."""
    title, description = escape(plot.title), escape(plot.description, 2_000)
    return (
        f'<figure><div class="scroll" role="region" tabindex="0" aria-label="Plot: {title}">'
        f"{plot.to_svg()}</div><figcaption><b>{title}.</b> {description}</figcaption></figure>"
    )


def _table(table: ReportTable, kind: str = "") -> str:
    """Return a table within a region that scrolls by itself where the screen is narrow."""

    def class_of(column: int) -> str:
        return "" if column in table.words else ' class="number"'

    headers = "".join(
        f'<th scope="col"{class_of(j)}>{escape(name)}</th>' for j, name in enumerate(table.headers)
    )
    rows = []
    for i, cells in enumerate(table.rows):
        mark = table.marks[i] if table.marks else ""
        badge = f' <span class="badge">{table.badge(i)}</span>' if table.badge(i) else ""
        written = f"<td>{escape(cells[0], len(cells[0]))}{badge}</td>" + "".join(
            f"<td{class_of(j)}>{escape(cell, len(cell))}</td>"
            for j, cell in enumerate(cells[1:], start=1)
        )
        rows.append(f'<tr class="{mark}">{written}</tr>' if mark else f"<tr>{written}</tr>")
    name = escape(table.caption)
    caption = table.caption + (f"; {table.left_out:,} more are left out" if table.left_out else "")
    return (
        f'<p class="caption">{escape(caption)}</p>'
        f'<div class="scroll {kind}" role="region" tabindex="0" aria-label="Table: {name}">'
        f'<table aria-label="{name}"><thead><tr>{headers}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        + "".join(f'<p class="caption">* {escape(note)}</p>' for note in table.notes)
    )
