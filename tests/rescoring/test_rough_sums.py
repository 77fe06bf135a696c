"""The exact stage measures in float32 first: rows that float32 puts in a wrong order, or cannot
measure at all, still come in their true order.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin.rescoring.exact import VectorsInPlace, nearest_by_vectors

Rows = npt.NDArray[np.float32]
LONGEST = 2.0**64  # a vector of this length has a square of 2¹²⁸, next to the largest float32


def nearest_in_place(rows: Rows, queries: Rows, metric: str, k: int) -> bitkin.Neighbors:
    """The exact stage over all rows, where they stand."""
    everyone = np.tile(np.arange(len(rows)), (len(queries), 1))
    return nearest_by_vectors(
        everyone,
        everyone,
        lambda wanted: pytest.fail("rows stand where they are measured"),
        queries,
        metric,
        k,
        in_place=VectorsInPlace(rows, everyone.ravel()),
    )


def shuffled_copies(n: int, d: int, step: float) -> tuple[Rows, npt.NDArray[np.int64]]:
    """Rows of the same numbers in other orders, and one more number, which goes up by `step` from
    row to row; with the rank of each row, largest first.

    From a query of ones they are all as far but for that number, which float32 loses in the sum.
    """
    rng = np.random.default_rng(0)
    numbers, rank = rng.standard_normal(d).astype(np.float32), rng.permutation(n)
    rows = np.empty((n, d + 1), dtype=np.float32)
    for row in rows:
        row[:d] = rng.permutation(numbers)
    rows[:, d] = (n - rank) * np.float32(step)
    return rows, rank


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_rows_that_float32_cannot_tell_apart_come_in_their_order(metric: str) -> None:
    rows, rank = shuffled_copies(n=64, d=512, step=1e-9)
    found = nearest_in_place(rows, np.ones((1, 513), dtype=np.float32), metric, 8)
    assert rank[found.ids[0]].tolist() == list(range(8))


def test_a_square_that_overflows_float32_alone_is_not_the_largest() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        directions = rng.standard_normal((2, 40))
        lengths = LONGEST * (1.0 + 1e-7 * rng.standard_normal(2))
        rows = directions / np.linalg.norm(directions, axis=1)[:, None] * lengths[:, None]
        rows = rows.astype(np.float32)
        squares = [sum(Fraction(float(x)) ** 2 for x in row) for row in rows]
        found = nearest_in_place(rows, np.zeros((1, 40), dtype=np.float32), "l2", 1)
        assert found.ids[0, 0] == squares.index(min(squares))
