"""How much of everything a page shows: less and less, until the file is small enough."""

from __future__ import annotations

from dataclasses import dataclass

MOST_BYTES = 3_000_000


@dataclass(frozen=True)
class PageLimits:
    """At most so many.

    Attributes
    ----------
    rows, failures, findings, facts, paragraphs, queries, neighbors : int
        Of each table, of paragraphs in a section, of hard queries, and of rows shown for one.
    text, cell : int
        Characters of a paragraph, and of a cell.
    points : int
        Of a plot.
    picture_bytes : int
        Of all pictures together.
    """

    rows: int = 1_000
    failures: int = 200
    findings: int = 100
    facts: int = 100
    paragraphs: int = 50
    queries: int = 8
    neighbors: int = 10
    text: int = 4_000
    cell: int = 1_000
    points: int = 1_000
    picture_bytes: int = 1_000_000


FULL = PageLimits()
STEPS = (
    FULL,
    PageLimits(600, 100, 60, 60, 30, 8, 10, 2_000, 300, 600, 700_000),
    PageLimits(150, 40, 30, 30, 12, 6, 8, 800, 120, 200, 400_000),
)
"""The last one is below `MOST_BYTES` whatever the page holds."""
