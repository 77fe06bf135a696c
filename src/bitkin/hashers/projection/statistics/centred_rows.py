"""Rows in memory, dense or CSR, with their centre subtracted in every product and never in the rows
themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin import threads
from bitkin.arrays import Floats
from bitkin.hashers.projection.statistics.sums import (
    add_products,
    entry_sums,
    mirror,
    row_pieces,
)
from bitkin.io.vectors.batch import row_slice


class CentredRows:
    """A = D · (X − 1 · centreᵀ) as an operator, D a diagonal of weights; all products are in
    float64.

    No product depends on the number of threads, and a CSR matrix stays one.

    Parameters
    ----------
    rows : float32 array or CSR array (n, d)
        X.
    centre : float64 (d,)
        Zeros, for rows that are not centred.
    weights : float64 (n,), optional
        The diagonal of D; without, all are 1.
    """

    def __init__(self, rows: Any, centre: Floats, weights: Floats | None = None) -> None:
        self.rows = rows
        self.centre = centre
        self.weights = np.ones(rows.shape[0]) if weights is None else weights
        self.shape: tuple[int, int] = rows.shape
        self.sparse = bool(issparse(rows))

    def times(self, right: Floats) -> Floats:
        """Return A · right: float64 (n, k)."""
        out = centred_product(self.rows, self.centre, right)
        out *= self.weights[:, None]
        return out

    def transposed_times(self, left: Floats) -> Floats:
        """Return Aᵀ · left: float64 (d, k)."""
        weighted = self.weights[:, None] * left
        if self.sparse:
            # (X − 1·mᵀ)ᵀ L = Xᵀ L − m · (1ᵀ L)
            product: Floats = self.rows.T @ weighted
            product -= np.outer(self.centre, weighted.sum(axis=0))
            return product
        out = np.empty((self.shape[1], left.shape[1]))

        # Each piece computes some rows of the result whole, so
        # no sum depends on how many threads run.
        def piece(which: slice) -> None:
            np.matmul((self.rows[:, which] - self.centre[which]).T, weighted, out=out[which])

        with threads.blas_in_one_thread():
            threads.run(piece, row_pieces(self.shape[1], self.shape[0]))
        return out

    def gram(self) -> Floats:
        """Return A · Aᵀ: float64 (n, n), exactly symmetric."""
        n, d = self.shape
        total = np.zeros((n, n))
        if self.sparse:
            # in float32 the sums would lose digits that the next subtraction needs
            wide = self.rows.astype(np.float64)
            total += (wide @ wide.T).toarray()
            # (xᵢ − m)·(xⱼ − m) = xᵢ·xⱼ − xᵢ·m − xⱼ·m + m·m
            seen = wide @ self.centre
            total -= seen[:, None] + seen - np.square(self.centre).sum()
            total *= self.weights[:, None] * self.weights
        else:
            for which in row_pieces(d, n):
                add_products(
                    total, (self.weights[:, None] * (self.rows[:, which] - self.centre[which])).T
                )
        mirror(total)
        return total

    def scatter(self) -> Floats:
        """Return Aᵀ · A: float64 (d, d), exactly symmetric."""
        n, d = self.shape
        total = np.zeros((d, d))
        if self.sparse:
            wide = self.rows.astype(np.float64)
            squares = self.weights**2
            total += (wide.T @ (wide * squares[:, None]).tocsr()).toarray()
            # Σ w²(x − m)(x − m)ᵀ = Σ w² x xᵀ − s·mᵀ − m·sᵀ + Σ w² · m·mᵀ, where s = Σ w² x
            seen = wide.T @ squares
            total -= np.outer(seen, self.centre) + np.outer(self.centre, seen)
            total += squares.sum() * np.outer(self.centre, self.centre)
        else:
            for which in row_pieces(n, d):
                add_products(total, self.weights[which, None] * (self.rows[which] - self.centre))
        mirror(total)
        return total

    def projected(self, directions: Floats) -> Floats:
        """Return the mean of vᵀv over rows v of A · directions: float64 (k, k), exactly
        symmetric.
        """
        total = np.zeros((directions.shape[1], directions.shape[1]))
        for which in row_pieces(self.shape[0], max(directions.shape)):
            rows = row_slice(self.rows, which.start, which.stop)
            add_products(
                total, CentredRows(rows, self.centre, self.weights[which]).times(directions)
            )
        mirror(total)
        return total / max(1, self.shape[0])

    def mean_square(self) -> float:
        """Return the mean over the rows of ‖x‖², neither centred nor weighted."""
        numbers = self.rows.data if self.sparse else self.rows.reshape(-1)
        step = 1 << 20
        squares = sum(
            float(np.square(numbers[first : first + step], dtype=np.float64).sum())
            for first in range(0, numbers.size, step)
        )
        return squares / max(1, self.shape[0])

    def lengths_squared(self) -> Floats:
        """Return ‖row‖² of every row of A: float64 (n,)."""
        out = np.empty(self.shape[0])
        if self.sparse:
            own = entry_sums(
                self._entry_rows(), self.rows.data.astype(np.float64) ** 2, self.shape[0]
            )
            # ‖x − m‖² = ‖x‖² − 2 x·m + ‖m‖², which rounding may take below zero
            out[:] = own - 2.0 * (self.rows @ self.centre) + np.square(self.centre).sum()
            np.maximum(out, 0.0, out=out)
        else:
            for which in row_pieces(*self.shape):
                apart = self.rows[which] - self.centre
                out[which] = np.einsum("ij,ij->i", apart, apart)
        out *= self.weights**2
        return out

    def column_lengths_squared(self) -> Floats:
        """Return ‖column‖² of every column of A: float64 (d,)."""
        squares = self.weights**2
        if self.sparse:
            columns, numbers, entries = (
                self.rows.indices,
                self.rows.data,
                squares[self._entry_rows()],
            )
            # Σ w²(xⱼ − mⱼ)² over all rows: those that store nothing contribute mⱼ² each, so count
            # mⱼ² for every row and, where a number is stored, what it is off by.
            centred = (numbers - self.centre[columns]) ** 2 - self.centre[columns] ** 2
            total: Floats = (
                entry_sums(columns, entries * centred, self.shape[1])
                + squares.sum() * self.centre**2
            )
            # rounding may leave less than nothing of a column that is all centre
            return np.maximum(total, 0.0)
        out = np.zeros(self.shape[1])
        with threads.blas_in_one_thread():
            for which in row_pieces(*self.shape):
                out += squares[which] @ (self.rows[which] - self.centre) ** 2
        return out

    def largest_sums(self) -> tuple[float, float]:
        """Return the largest sums of |A| over a row and over a column: its induced norms ‖A‖∞ and
        ‖A‖₁.
        """
        weights = np.abs(self.weights)
        if self.sparse:
            columns, entry_rows = self.rows.indices, self._entry_rows()
            # |0 − m| for every number that is not stored, and the difference where one is
            more = np.abs(self.rows.data - self.centre[columns]) - np.abs(self.centre[columns])
            over_rows = weights * (
                entry_sums(entry_rows, more, self.shape[0]) + np.abs(self.centre).sum()
            )
            over_columns = entry_sums(columns, weights[entry_rows] * more, self.shape[1])
            over_columns += weights.sum() * np.abs(self.centre)
        else:
            over_rows, over_columns = np.empty(self.shape[0]), np.zeros(self.shape[1])
            for which in row_pieces(*self.shape):
                apart = np.abs(self.rows[which] - self.centre) * weights[which, None]
                over_rows[which] = apart.sum(axis=1)
                over_columns += apart.sum(axis=0)
        return float(over_rows.max()), float(over_columns.max())

    def _entry_rows(self) -> npt.NDArray[np.int64]:
        """Return the row of every stored number."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.rows.indptr))


def centred_product(rows: Any, centre: Floats, right: Floats) -> Floats:
    """Return (X − 1 · centreᵀ) · right for rows X, dense or CSR: float64 (n, k)."""
    out = np.empty((rows.shape[0], right.shape[1]))
    if issparse(rows):
        # X · right − centre · right: the rows themselves stay sparse
        out[:] = rows @ right
        with threads.blas_in_one_thread():
            out -= centre @ right
        return out

    def multiply(which: slice) -> None:
        np.matmul(rows[which] - centre, right, out=out[which])

    with threads.blas_in_one_thread():
        threads.run(multiply, row_pieces(*rows.shape))
    return out
