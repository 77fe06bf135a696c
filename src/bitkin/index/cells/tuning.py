"""Probes of a CellIndex for a recall that is wanted, measured on the codes themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import is_number, whole_number
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes, require_codes
from bitkin.errors import InvalidInputError
from bitkin.index.flat import FlatIndex
from bitkin.index.tuning import expectations, least_seconds, rows_and_queries, wilson_interval
from bitkin.notices import warn_caller
from bitkin.randomness import resolve_seed

if TYPE_CHECKING:
    from bitkin.index.cells.cell_index import CellIndex


@dataclass(frozen=True, slots=True, repr=False)
class CellTuning:
    """Settings for a `CellIndex`, and what to expect of them; `build()` makes the index, still
    without rows.

    Probes were chosen with one half of the queries, expectations measured with the other; where
    that half falls short of the recall, as many more probes are taken as it needs.
    """

    spec: CodeSpec
    n_cells: int | str
    """As it was asked for."""
    probes: int
    recall: float
    """Share of the true k nearest, by code distance, that are found."""
    interval: tuple[float, float]
    """Where the recall of more queries of the same kind is, 95 % sure, were every query found
    wholly or not at all.
    """
    candidates: float
    """Rows compared with a query, as a share of all rows."""
    microseconds: float
    """Time per query in a batch, all threads, here and now."""
    scan_microseconds: float
    """The same for `FlatIndex`: where this is less, a scan is the better index."""
    k: int
    n_rows: int
    """Rows that were searched in."""
    random_state: int

    def __repr__(self) -> str:
        return f"CellTuning(n_cells={self.n_cells!r}, probes={self.probes}: {expectations(self)})"

    def build(self) -> CellIndex:
        """Return an index with these settings and no rows."""
        from bitkin.index.cells.cell_index import CellIndex

        return CellIndex(
            self.spec, self.n_cells, probes=self.probes, random_state=self.random_state
        )


def tune_probes(
    codes: Codes,
    recall: float,
    k: int,
    queries: Codes | None,
    n_cells: int | str,
    random_state: int | None,
) -> CellTuning:
    """Measure numbers of probes and return the fewest that reach the recall; see
    `CellIndex.tune`.
    """
    from bitkin.index.cells.cell_index import CellIndex

    wanted = _checked_recall(recall)
    k = whole_number(k, "k", low=1)
    seed = resolve_seed(random_state)
    require_codes(codes, "codes")
    index = CellIndex(codes.spec, n_cells, random_state=seed)
    rows, asked = rows_and_queries(codes, queries, len(codes), seed, "cells")
    if k > len(rows):
        raise InvalidInputError(
            f"k must be at most {len(rows)}, the rows that are searched, got {k}."
        )
    index.add(rows)
    scan = FlatIndex(codes.spec)
    scan.add(rows)
    if index.n_cells == 0:
        warn_caller(
            f"{len(rows):,} rows are scanned: there are no cells yet, and nothing is missed."
        )
    half = len(asked) // 2
    first, second = asked[:half], asked[half:]
    probes = _fewest_probes(index, first, scan.search(first, k).ids, wanted)
    truth = scan.search(second, k).ids
    if _recall(index, second, truth, probes) < wanted:
        # half of the time the fewest probes that do for some queries are too few for all
        probes = max(probes, _fewest_probes(index, second, truth, wanted))
    found = _recall(index, second, truth, probes)
    seconds = least_seconds(lambda: index.search(second, k, probes=probes))
    scan_seconds = least_seconds(lambda: scan.search(second, k))
    return CellTuning(
        spec=codes.spec,
        n_cells=n_cells,
        probes=probes,
        recall=found,
        interval=wilson_interval(found, len(second)),
        candidates=float(index.count_candidates(second, probes=probes).mean()) / len(rows),
        microseconds=1e6 * seconds / len(second),
        scan_microseconds=1e6 * scan_seconds / len(second),
        k=k,
        n_rows=len(rows),
        random_state=seed,
    )


def _checked_recall(recall: Any) -> float:
    if not is_number(recall) or not 0.0 < recall <= 1.0:
        raise InvalidInputError(f"recall must be a number above 0 and up to 1, got {recall!r}.")
    return float(recall)


def _fewest_probes(
    index: CellIndex, queries: Codes, truth: npt.NDArray[np.int64], wanted: float
) -> int:
    """Return the fewest probes that reach the recall; with all cells nothing is missed."""
    high = 1
    while high < index.n_cells and _recall(index, queries, truth, high) < wanted:
        high *= 2
    low, high = high // 2, min(high, max(1, index.n_cells))
    while high - low > 1:  # `high` reaches the recall and `low` does not
        middle = (low + high) // 2
        if _recall(index, queries, truth, middle) < wanted:
            low = middle
        else:
            high = middle
    return high


def _recall(index: CellIndex, queries: Codes, truth: npt.NDArray[np.int64], probes: int) -> float:
    """Return the share of true ids that are among those found."""
    found = index.search(queries, truth.shape[1], probes=probes).ids
    shares = [np.isin(true, ids).mean() for true, ids in zip(truth, found, strict=True)]
    return float(np.mean(shares))
