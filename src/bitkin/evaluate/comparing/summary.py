"""A comparison as a few lines of text that fit a terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence

from bitkin.evaluate.reporting.page import ReportPage
from bitkin.evaluate.trials.measurement import Measurement

_MOST_ROWS = 12  # of ours, and of the others
_HEADERS = ("bytes", "recall", "95 %", "method", "bits", "last stage", "fit s", "encode µs",
            "search µs")  # fmt: skip
_TO_THE_LEFT = frozenset({"method", "last stage"})
_DISPENSABLE = ("95 %", "fit s", "encode µs", "search µs")  # where the terminal is narrow
_LEAST_METHOD = 12  # characters of a name


def summarize(page: ReportPage, width: int | None = None) -> str:
    """Return what was measured on, the best at each size, and what to know about the figures."""
    width = max(60, width or shutil.get_terminal_size().columns)
    parts = textwrap.wrap(_headline(page), width)
    own = _thinned(page.own_frontier)
    # beside ours, so that nobody takes them for the best there is
    others = _thinned([m for m in page.frontier if not m.ours])
    if own or others:
        lines = _table([_HEADERS, *map(_cells, [*own, *others])], width)
        parts += lines[: 1 + len(own)]
        if others:
            said = "and of other libraries, as far as ours are larger or find less:"
            parts += [said, *lines[1 + len(own) :]]
    else:
        parts.append("nothing could be measured")
    for note in dict.fromkeys(m.note for m in [*own, *others] if m.note):
        parts += textwrap.wrap(f"* {note}", width)
    if page.failures:
        first = page.failures[0]
        said = (
            f"{len(page.failures)} could not be measured, such as {first.method} at {first.n_bits} "
            f"bits: {first.error}"
        )
        parts += textwrap.wrap(said, width, max_lines=3, placeholder=" …")
    return "\n".join(parts)


def _headline(page: ReportPage) -> str:
    facts = page.facts
    return (
        f"{len(page.measured)} measured on {facts['sample rows']:,} of {facts['rows']:,} rows × "
        f"{facts['columns']:,}, {facts['queries']:,} queries, k = {facts['k']}, "
        f"{facts['metric']}; the best at each size, by recall on all rows:"
    )


def _thinned(frontier: Sequence[Measurement]) -> list[Measurement]:
    """Return at most so many of them, evenly spread, both ends included."""
    if len(frontier) <= _MOST_ROWS:
        return list(frontier)
    last = len(frontier) - 1
    return [frontier[round(i * last / (_MOST_ROWS - 1))] for i in range(_MOST_ROWS)]


def _cells(m: Measurement) -> tuple[str, ...]:
    low, high = m.interval
    stage = m.stage if m.vectors is None else f"{m.stage} {m.vectors}"
    return (
        f"{m.bytes_per_vector:,.0f}",
        f"{m.recall:.3f}",
        f"±{(high - low) / 2:.3f}",
        m.method + ("*" if m.note else ""),
        f"{m.n_bits:,}",
        stage,
        f"{m.fit_seconds:.2f}",
        f"{m.encode_us:.1f}",
        f"{m.search_us:.0f}",
    )


def _table(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return lines of columns, under their names; where they do not fit, some are left out."""
    columns = {cells[0]: list(cells) for cells in zip(*rows, strict=True)}
    for name in _DISPENSABLE:
        if _total(columns) > width:
            del columns[name]
    longest = max(map(len, columns["method"])) - max(0, _total(columns) - width)
    columns["method"] = [_cut(name, max(_LEAST_METHOD, longest)) for name in columns["method"]]
    for name, cells in columns.items():
        size = max(map(len, cells))
        left = name in _TO_THE_LEFT
        columns[name] = [cell.ljust(size) if left else cell.rjust(size) for cell in cells]
    return ["  ".join(cells).rstrip() for cells in zip(*columns.values(), strict=True)]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _total(columns: dict[str, list[str]]) -> int:
    return sum(max(map(len, cells)) for cells in columns.values()) + 2 * (len(columns) - 1)
