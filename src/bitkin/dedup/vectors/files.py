"""Files that come out of near-duplicate vectors: the rows to keep, and reports that count rows from
0, as arrays and ids do.
"""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np

from bitkin.dedup.files import write_dropped_members, write_measured_pairs
from bitkin.dedup.vectors.finding import DuplicateVectors
from bitkin.index.bands.bands import Rows
from bitkin.io.vectors import VectorSource
from bitkin.io.writer import write_aside


def write_kept_rows(path: str | os.PathLike[str], source: VectorSource, kept: Rows) -> None:
    """Write the rows to keep as an .npy file, in their own type, aside first."""

    def write_rows(file: IO[bytes]) -> None:
        header: Any = {
            "descr": np.lib.format.dtype_to_descr(source.dtype),
            "fortran_order": False,
            "shape": (len(kept), source.shape[1]),
        }
        np.lib.format.write_array_header_1_0(file, header)
        for first, batch in source.batches():
            begin, end = np.searchsorted(kept, (first, first + len(batch)))
            rows = np.ascontiguousarray(batch[kept[begin:end] - first], dtype=source.dtype)
            file.write(rows.data.cast("B") if rows.size else b"")

    write_aside(path, write_rows)


def write_dropped_rows(path: str | os.PathLike[str], found: DuplicateVectors) -> None:
    """Write one JSON line for every dropped row: what was kept for it, how near, and why they are
    together. Clusters and rows count from 0.
    """
    measures = found.measure, found.like, found.like_measure
    write_dropped_members(path, found, measures, found.metric, _describe_row)


def write_pairs_of_rows(path: str | os.PathLike[str], found: DuplicateVectors) -> None:
    """Write one JSON line for every pair of rows, counted from 0."""
    pairs = found.first, found.second, found.pair_measure
    write_measured_pairs(path, pairs, found.metric, _describe_row)


def _describe_row(row: int, prefix: str) -> dict[str, Any]:
    return {f"{prefix}row": row}
