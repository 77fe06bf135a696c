"""What every stage of a search took, and the table in which people read it."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

QUERIES_TO_WARM_UP = 32  # asked before the clock starts, so that it counts no compiling
ALL_ROWS = "estimate of all rows"  # what people call a scan by scores
_COLUMNS = ("stage", "µs per query", "rows in", "rows out")


@dataclass(slots=True)
class Timing:
    """What one stage has done, for all queries together."""

    seconds: float = 0.0
    rows_in: int = 0
    rows_out: int = 0


@dataclass(slots=True)
class Timings:
    """What every stage has done; "encode" is what makes codes of queries."""

    stages: dict[str, Timing] = field(default_factory=dict)

    def add(
        self, stage: str, since: float, rows_in: int, rows_out: int, until: float | None = None
    ) -> float:
        """Note that a stage ended `until` then, or now, and return the time."""
        now = time.perf_counter() if until is None else until
        timing = self.stages.setdefault(stage, Timing())
        timing.seconds += now - since
        timing.rows_in += rows_in
        timing.rows_out += rows_out
        return now


def describe_stages(
    index: str,
    n_queries: int,
    first: str,
    why: str,
    stages: Mapping[str, Timing],
    width: int = 80,
) -> str:
    """Return the first stage and why it was that one, and a table of what every stage did, per
    query; lines are no longer than `width`, if that is at least 60.
    """
    each = max(1, n_queries)
    rows = [
        (
            name,
            _short(1e6 * did.seconds / each),
            _short(did.rows_in / each),
            _short(did.rows_out / each),
        )
        for name, did in stages.items()
    ]
    table = [_COLUMNS, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(_COLUMNS))]
    lines = [
        *textwrap.wrap(f"first stage: {first} ({why})", width),
        f"{index}, {n_queries:,} quer{'y' if n_queries == 1 else 'ies'}; all numbers are per query",
    ]
    for name, *numbers in table:
        cells = [name.ljust(widths[0])]
        cells += [text.rjust(size) for text, size in zip(numbers, widths[1:], strict=True)]
        lines.append("   ".join(cells))
    return "\n".join(lines)


def _short(number: float) -> str:
    """Return a mean as people read it: whole where it is, or where a fraction hardly counts."""
    return f"{number:,.0f}" if number >= 100 or number == round(number) else f"{number:,.1f}"
