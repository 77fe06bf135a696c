"""Lower bounds by dense matrix products in float32.

The part of the error that depends on the row is one more column of the product and ½‖a‖² another,
so a lower bound costs no more than a score.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Floats
from bitkin.evaluate.exact.bounds import BoundBlock, BoundQueries, Bounds, norms_at_least_shortest
from bitkin.evaluate.exact.pairing import Pairing, own_scales
from bitkin.evaluate.exact.rows import ComparedRows

_PREPARED_VALUES = 2**22  # at a time, of rows and of queries
_VALUES_PER_PIECE = 2**16  # of them by one thread
_ROW_BLOCK = 2048
_QUERY_BLOCK = 1024
_CENTRE_ROWS = 63  # rows the centre is taken from
_FLOAT32_COLUMNS = 2**20  # with more, the bound for float32 is too wide to leave any row out


class DenseBounds(Bounds):
    """Bounds from dense blocks of both sides, whether they are stored dense or not."""

    def __init__(self, pairing: Pairing) -> None:
        n_columns = pairing.rows.n_columns
        self._dtype: Any = np.float32 if n_columns <= _FLOAT32_COLUMNS else np.float64
        super().__init__(pairing, 2.0**-24 if n_columns <= _FLOAT32_COLUMNS else 2.0**-53)
        self._n_prepared = max(16, _PREPARED_VALUES // (n_columns + 2))
        self.query_block = min(_QUERY_BLOCK, self._n_prepared)
        self._centre = self._find_centre() if self.squared else None

    def queries(self, start: int, stop: int) -> BoundQueries:
        """Prepare the queries `start` to `stop`: columns −b, −c·‖b‖ and 1."""
        table = np.empty((stop - start, self.pairing.rows.n_columns + 2), dtype=self._dtype)
        b = table[:, :-2]
        self._prepare(self.pairing.queries, start, self.pairing.query_scale, b)
        ready = self.with_errors(table, _squares(b.astype(np.float64)))
        np.negative(b, out=b)
        # (−b, −c·‖b‖, 1) · (a, ‖a‖, s) = −a·b − c·‖a‖·‖b‖ + s: a lower bound in one product.
        table[:, -2] = -self.error * ready.norms
        table[:, -1] = 1.0
        return ready

    def blocks(self, queries: BoundQueries) -> Iterator[BoundBlock]:
        """Go through all rows: bounds of `queries` against one block of them after another."""
        rows = self.pairing.rows
        n_queries = len(queries.norms)
        table = np.empty(
            (min(self._n_prepared, rows.n_rows), rows.n_columns + 2), dtype=self._dtype
        )
        room = np.empty(n_queries * min(_ROW_BLOCK, len(table)), dtype=self._dtype)
        for start in range(0, rows.n_rows, len(table)):
            ready = table[: rows.n_rows - start]
            norms = self._fill(ready, start)
            for first in range(0, len(ready), _ROW_BLOCK):
                part = ready[first : first + _ROW_BLOCK]
                low = room[: n_queries * len(part)].reshape(n_queries, len(part))
                np.matmul(queries.table, part.T, out=low)
                yield BoundBlock(start + first, low, norms[first : first + _ROW_BLOCK])

    def _fill(self, table: npt.NDArray[Any], start: int) -> Floats:
        """Write the rows from `start` on to `table`: columns a, ‖a‖ and the row's share of the
        score; return ‖a‖.
        """
        norms = np.empty(len(table), dtype=np.float64)
        step = max(1, _VALUES_PER_PIECE // table.shape[1])

        def fill(first: int) -> None:
            part = table[first : first + step]
            a = part[:, :-2]
            self._prepare(self.pairing.rows, start + first, self.pairing.row_scale, a)
            squares = _squares(a)
            # s, the row's share of the bound: (½ − c)·‖a‖² for l2, nothing for the others.
            part[:, -2] = norms[first : first + step] = norms_at_least_shortest(squares)
            part[:, -1] = (0.5 - self.error) * squares if self.squared else 0.0

        threads.run(fill, range(0, len(table), step))
        return norms

    def _prepare(
        self, source: ComparedRows, start: int, scale: float, out: npt.NDArray[Any]
    ) -> None:
        """Write rows of `source` to `out`: scaled and centred, or normalized."""
        block = source.block(start, start + len(out))
        if self.pairing.metric == "cosine":
            _normalize_into(block, out)
        elif self._centre is None:
            # A typed factor: a plain one would leave float16 rows float16.
            factor = np.float32(scale) if 2.0**-126 <= scale <= 2.0**126 else np.float64(scale)
            np.multiply(block, factor, out=out, casting="same_kind")
        elif scale == 1.0:
            # The centre fits float32, so rows in float32 need no float64 on the way.
            np.subtract(block, self._centre, out=out, casting="same_kind")
        else:
            np.subtract(
                block.astype(np.float64) * scale, self._centre, out=out, casting="same_kind"
            )

    def _find_centre(self) -> npt.NDArray[np.float32]:
        """Return a point amid the rows: any would do, but bounds widen with the distance from it.

        The median of a few rows serves as well as the mean of all, and a row of 1e30 cannot drag it
        away.
        """
        rows = self.pairing.rows
        n_sample = min(_CENTRE_ROWS, self._n_prepared)
        some = np.unique(np.linspace(0, rows.n_rows - 1, n_sample).astype(np.int64))
        return np.median(rows.take(some) * self.pairing.row_scale, axis=0).astype(np.float32)


def _normalize_into(block: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    """Write the rows of `block` to `out`, each divided by its norm; zeros stay."""
    with np.errstate(over="ignore"):
        np.copyto(out, block, casting="same_kind")
        squares = _squares(out)
    if squares.min() > 2.0**-60 and squares.max() < 2.0**60:
        out /= np.sqrt(squares)[:, None]
        return
    # Some row is zero, or so long or short that its squares leave the range of float32.
    unit = block.astype(np.float64)
    unit *= own_scales(unit)[:, None]
    norms = np.sqrt(_squares(unit))
    np.divide(unit, np.where(norms > 0.0, norms, 1.0)[:, None], out=out, casting="same_kind")


def _squares(a: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the sum of squares of every row."""
    squares: npt.NDArray[Any] = np.vecdot(a, a)
    return squares
