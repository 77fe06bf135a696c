"""The better of a random rotation and ITQ, as held-out rows have it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bitkin.hashers.projection.rotations.base import (
    FoundRotation,
    Projected,
    Rotation,
    draw_rotation,
)
from bitkin.hashers.projection.rotations.held_out import HeldOutRows
from bitkin.hashers.projection.rotations.itq import ITQ
from bitkin.hashers.projection.rotations.random import RandomRotation
from bitkin.randomness import Draws

_FEWEST_ROWS = 64  # fewer show nothing
_LAST_ITERATIONS = 10  # of ITQ, once it is chosen, from all rows
_FIRST_LOOK = 10  # iterations of ITQ after which it is seen whether it leads anywhere


class AutoRotation(Rotation):
    """A random rotation, or ITQ where that finds more of the true neighbours of held-out rows.

    Some of the rows are held out as queries: 1,024 of 8,192, up to 4,096 of more. ITQ learns from
    the others, starting from the random rotation. What counts is the share of the 10 nearest rows
    of a query, by the distance between rows before the projection, that are among the best 100 of
    up to 8,192 rows by their codes. Up to 512 queries are asked, and all where those leave open
    which of the two is better. Where that is ITQ, it learns for up to 10 more iterations from all
    rows: those found 0.001 to 0.005 more neighbours of other rows (five sets, 1,000 and 4,000
    rows).

    Parameters
    ----------
    n_iter : int, default 50
        At most so many iterations of ITQ.
    max_rows : int, default 32768
        Of more rows, ITQ learns from so many evenly spaced ones.

    Notes
    -----
    Which of the two is better depends on the data. ITQ finds up to 0.06 more on rows of equal
    length (cosine; 64 bits), and up to 0.45 less where lengths differ a lot, such as those of image
    patches. Where ITQ is clearly behind by more than 0.01 after 10 iterations, it is not continued:
    at 256 bits, fitting then takes less than half of the time that ITQ takes.

    With fewer than 64 rows there is nothing to compare by, and the rotation is random. Of fewer
    than 1,024, a quarter is too few queries to tell small differences, and ITQ is taken unless it
    is behind by more than a standard error. Of 300 and of 600 rows that chose right for six sets,
    as they are and normalized (ITQ is ahead by 0.05 on average), and for their copies times U(0.2,
    5) in 31 of 36 trials (behind by 0.03).

    The hasher says in `rotation_` what was chosen.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 20)) * rng.exponential(size=(1000, 1)) ** 3
    >>> hasher = bitkin.ProjectionHash(n_bits=8, rotation="auto").fit(X)
    >>> hasher.rotation_
    RandomRotation()
    """

    n_matrices: ClassVar[int] = ITQ.n_matrices

    def __init__(self, n_iter: int = 50, max_rows: int = 32_768) -> None:
        self.n_iter = n_iter
        self.max_rows = max_rows

    def matrix(self, projected: Projected, n_bits: int, draws: Draws) -> npt.NDArray[np.float64]:
        """Return R, float64 (n_bits, n_bits)."""
        return self.find(projected, n_bits, draws).matrix

    def find(self, projected: Projected, n_bits: int, draws: Draws) -> FoundRotation:
        """Return the better rotation, the losses of ITQ on the rows that are not held out, as far
        as it went, and which it is.
        """
        self.require_parameters()
        self.require_memory(n_bits)
        start, losses = draw_rotation(n_bits, draws), []
        if len(projected.rows) < _FEWEST_ROWS:
            return FoundRotation(start, np.empty(0), RandomRotation())
        held_out, itq, rotation = HeldOutRows(projected, start), self._itq(), start
        for rotation, loss in itq.improve(held_out.learning, start):
            losses.append(loss)
            # so far behind after the first iterations, it has never come back
            if len(losses) == _FIRST_LOOK and held_out.compare(rotation).hopeless:
                break
        else:
            if held_out.favours(rotation):
                for better, _ in self._itq(_LAST_ITERATIONS).improve(projected.rows, rotation):
                    rotation = better
                return FoundRotation(rotation, np.array(losses), itq)
        return FoundRotation(start, np.array(losses), RandomRotation())

    def require_parameters(self) -> None:
        """Raise unless ITQ can be done with them."""
        self._itq().require_parameters()

    def choice(self, name: str) -> Rotation:
        """Return what may be chosen, by its name: "itq" or "random"."""
        return self._itq() if name == "itq" else RandomRotation()

    def _itq(self, n_iter: int | None = None) -> ITQ:
        """Return ITQ of the iterations asked for, or of fewer."""
        return ITQ(self.n_iter if n_iter is None else min(n_iter, self.n_iter), self.max_rows)
