"""A random rotation: spreads variance over the bits on average, whatever the data."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bitkin.hashers.projection.rotations.base import Projected, draw_rotation
from bitkin.hashers.projection.rotations.covariance import CovarianceRotation, unit_covariance
from bitkin.randomness import Draws


class RandomRotation(CovarianceRotation):
    """A rotation drawn evenly from all of them; no data needed.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> bitkin.ProjectionHash(n_bits=4, rotation=bitkin.rotations.RandomRotation()).fit(X).encode(X)
    Codes(100 rows, 4 × 1-bit, from ...)
    """

    needs_rows: ClassVar[bool] = False

    def matrix(self, projected: Projected, n_bits: int, draws: Draws) -> npt.NDArray[np.float64]:
        """Return a rotation that depends on `draws` alone."""
        self.require_memory(n_bits)
        return draw_rotation(n_bits, draws)

    def rotation_of(
        self, covariance: npt.ArrayLike, draws: Draws | None = None
    ) -> npt.NDArray[np.float64]:
        """Return a rotation of the size of `covariance`."""
        return draw_rotation(len(unit_covariance(covariance)), draws or Draws(0, "rotation"))
