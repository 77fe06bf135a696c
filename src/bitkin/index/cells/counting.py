"""How many rows a search in cells looks at, for those who want it explained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bitkin.arrays import Ids
from bitkin.index.cells.search import SegmentRows
from bitkin.index.rows import bitmap


def count_in_cells(segments: Sequence[SegmentRows], cells: Sequence[Ids]) -> Ids:
    """Return how many rows every query can find in its cells and in none: int64 (q,).

    `cells` are int64 (q, probes) for each segment.
    """
    counts = np.zeros(len(cells[0]) if cells else 0, dtype=np.int64)
    for rows, chosen in zip(segments, cells, strict=True):
        tables = rows.tables
        there = bitmap.unpack(rows.mask if len(rows.mask) else None, 0, rows.n)
        known, by_row = tables.cells_of_rows()
        inside = by_row[known & there[: tables.n]]
        counts += np.bincount(inside, minlength=len(tables.arrays.bounds))[chosen].sum(axis=1)
        counts += int(there[tables.n :].sum())
    return counts
