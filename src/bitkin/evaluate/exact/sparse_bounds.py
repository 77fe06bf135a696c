"""Lower bounds by sparse products in float64: for bags of words, whose dense products would add up
zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin.arrays import Floats, Ids
from bitkin.evaluate.exact.bounds import BoundBlock, BoundQueries, Bounds, norms_at_least_shortest
from bitkin.evaluate.exact.pairing import Pairing

# One multiplication of a sparse product takes as long as about so many of a dense one.
_SPARSE_COST = 256
_ROW_BLOCK = 2048


def sparse_is_quicker(pairing: Pairing) -> bool:
    """Tell whether both sides are so sparse that a sparse product beats a dense one."""
    if not pairing.both_sparse:
        return False
    rows, queries = pairing.rows, pairing.queries
    columns, counts = np.unique(queries.matrix.indices, return_counts=True)
    in_rows = np.bincount(_places(rows.matrix.indices, columns), minlength=columns.size + 1)[1:]
    # Multiplications: Σ over columns of (queries with it) · (rows with it), or all pairs · columns.
    sparse_products = float(counts @ in_rows)
    dense_products = float(rows.n_rows) * queries.n_rows * rows.n_columns
    return _SPARSE_COST * sparse_products < dense_products


class SparseBounds(Bounds):
    """Bounds where both sides are CSR; nothing is centred.

    Products see only the columns that some query of the block has, so their number may be anything.
    """

    query_block = 512

    def __init__(self, pairing: Pairing) -> None:
        super().__init__(pairing, 2.0**-53)

    def queries(self, start: int, stop: int) -> BoundQueries:
        """Prepare the queries `start` to `stop`."""
        csr, squares = self._prepare(self.pairing.take_queries(np.arange(start, stop)))
        columns = np.unique(csr.indices)
        return self.with_errors((columns, only_columns(csr, columns)), squares)

    def blocks(self, queries: BoundQueries) -> Iterator[BoundBlock]:
        """Go through all rows: bounds of `queries` against one block of them after another."""
        columns, table = queries.table
        for start in range(0, self.pairing.rows.n_rows, _ROW_BLOCK):
            stop = min(start + _ROW_BLOCK, self.pairing.rows.n_rows)
            csr, squares = self._prepare(self.pairing.take_rows(np.arange(start, stop)))
            # −a·b − c·‖a‖·‖b‖, and (½ − c)·‖a‖² more for l2: the lower bound of `bounds`.
            norms = norms_at_least_shortest(squares)
            low = (table @ only_columns(csr, columns).T).toarray()
            np.negative(low, out=low)
            low -= self.error * queries.norms[:, None] * norms
            if self.squared:
                low += (0.5 - self.error) * squares
            yield BoundBlock(start, low, norms)

    def _prepare(self, csr: Any) -> tuple[Any, Floats]:
        """Return scaled rows, normalized under cosine, and their squared norms."""
        row_of: Ids = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
        squares: Floats = np.bincount(row_of, weights=csr.data**2, minlength=csr.shape[0]).astype(
            np.float64
        )
        if self.pairing.metric == "cosine":
            # A row with a value has a norm: `take` left its largest value between ½ and 1.
            csr.data /= np.sqrt(squares)[row_of]
            squares = (squares > 0.0).astype(np.float64)
        return csr, squares


def _places(indices: npt.NDArray[Any], columns: npt.NDArray[Any]) -> Ids:
    """Return 1 + the place of every index in the sorted `columns`, 0 for one that is not there."""
    if columns.size == 0:
        return np.zeros(indices.size, dtype=np.int64)
    places = np.minimum(np.searchsorted(columns, indices), columns.size - 1)
    return np.where(columns[places] == indices, places + 1, 0)


def only_columns(csr: Any, columns: npt.NDArray[Any]) -> Any:
    """Return `csr` with none but the sorted `columns`, numbered from 0."""
    places = _places(csr.indices, columns)
    kept = places > 0
    offsets = np.concatenate([[0], np.cumsum(kept)])[csr.indptr]
    return scipy.sparse.csr_array(
        (csr.data[kept], places[kept] - 1, offsets), shape=(csr.shape[0], columns.size)
    )
