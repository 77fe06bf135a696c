"""How wrong a score made by matrix products can be, and so which rows may be left out unseen.

A pair gets a *score* that orders the rows of one query as the metric does: ½‖a‖² − a·b for l2 (half
the squared distance, less what depends on the query alone), −a·b for the others. a and b are the
row and the query after scaling and centring (l2) or normalizing (cosine), rounded to the type of
the product. With D columns, u the unit roundoff of that type (2⁻²⁴ in float32) and v = 2⁻⁵³, a
computed score differs from the one that belongs to the distance we report by at most

    c·(‖a‖² + ‖a‖·‖b‖) + c′·‖b‖² + t,  c = m·g / (1 − g),  g = (D + 32)(u + 4v),
    c′ = 8u + 4(D + 32)v,

in whatever order BLAS adds (Higham, *Accuracy and Stability of Numerical Algorithms*, section 3.1):
D + 2 terms of the product, as many of ‖a‖², the rounding of a and b, and the rounding of the
reported distance. m is 1.25, under cosine 2.25 since both norms divided by carry half a g each. The
squares are there for l2 only; t is for underflow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Floats
from bitkin.evaluate.exact.pairing import Pairing

_V = 2.0**-53
_SHORTEST = 2.0**-50  # norms count as at least this: float32 loses the squares of shorter rows


class BoundQueries(NamedTuple):
    """A block of queries, prepared for products."""

    table: Any
    """What the product needs of them."""
    norms: Floats
    """‖b‖, at least 2⁻⁵⁰."""
    squares: Floats
    """‖b‖²."""
    errors: Floats
    """The part of the error that depends on the query alone."""


class BoundBlock(NamedTuple):
    """Bounds of a block of queries against the rows `start`, `start + 1`, …; the next block
    overwrites them.
    """

    start: int
    low: npt.NDArray[Any]
    """(queries, rows): score − error, with the part of the error that depends on the query alone
    left out.
    """
    norms: Floats
    """(rows,): ‖a‖, at least 2⁻⁵⁰."""


class Bounds(ABC):
    """Lower bounds for every pair of `pairing`, a block at a time.

    `low − errors ≤ true score ≤ low + uncertainty(…) + errors` holds for every pair.
    """

    query_block: int
    """How many queries to prepare at a time."""

    def __init__(self, pairing: Pairing, unit_roundoff: float) -> None:
        n_terms = pairing.rows.n_columns + 32
        # c = m·g / (1 − g) and c′ of the module's formula.
        growth = n_terms * (unit_roundoff + 4 * _V)
        self.pairing = pairing
        self.squared = pairing.metric == "l2"
        self.error = (2.25 if pairing.metric == "cosine" else 1.25) * growth / (1.0 - growth)
        self._square_error = 8 * unit_roundoff + 4 * n_terms * _V if self.squared else 0.0
        # Inner products may multiply a value lost to underflow by one of 2**60.
        self._underflow = n_terms * (2.0**-64 if pairing.metric == "ip" else 2.0**-125)

    @abstractmethod
    def queries(self, start: int, stop: int) -> BoundQueries:
        """Prepare the queries `start` to `stop`."""

    @abstractmethod
    def blocks(self, queries: BoundQueries) -> Iterator[BoundBlock]:
        """Go through all rows: bounds of `queries` against one block of them after another."""

    def uncertainty(self, norms: Floats, query_norms: Floats) -> Floats:
        """Return how far a score can be above `low`, for rows and queries of these norms."""
        doubled: Floats = (
            2.0 * self.error * norms * (query_norms + norms if self.squared else query_norms)
        )
        return doubled

    def with_errors(self, table: Any, squares: Floats) -> BoundQueries:
        """Return prepared queries with this `table`, whose squared norms are `squares`."""
        norms = norms_at_least_shortest(squares)
        return BoundQueries(table, norms, squares, self._square_error * norms**2 + self._underflow)


def norms_at_least_shortest(squares: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the norms of rows with these squared norms, the shortest ones rounded up."""
    norms: npt.NDArray[Any] = np.maximum(np.sqrt(squares), _SHORTEST)
    return norms
