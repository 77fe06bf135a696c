"""Files that come out of near-duplicate vectors: the rows to keep, and reports that count rows from
0, as arrays and ids do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from bitkin.dedup.files import write_records
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
    kept_instead = found.cluster_of[found.dropped]
    clusters = np.unique(kept_instead, return_inverse=True)[1]
    columns = (
        *(found.dropped, clusters, kept_instead),
        *(found.measure, found.like, found.like_measure),
    )

    def records() -> Iterator[dict[str, Any]]:
        for row in zip(*(column.tolist() for column in columns), strict=True):
            dropped, cluster, kept, measure, like, like_measure = row
            yield {
                "row": dropped,
                "cluster": cluster,
                "kept_row": kept,
                found.metric: measure,
                "like_row": like,
                f"like_{found.metric}": like_measure,
            }

    write_records(path, records(), None)


def write_pairs_of_rows(path: str | os.PathLike[str], found: DuplicateVectors) -> None:
    """Write one JSON line for every pair of rows, counted from 0."""

    def records() -> Iterator[dict[str, Any]]:
        for first, second, measure in zip(
            found.first.tolist(), found.second.tolist(), found.pair_measure.tolist(), strict=True
        ):
            yield {"row": first, "other_row": second, found.metric: measure}

    write_records(path, records(), None)
