"""ITQ: the rotation that brings projected rows nearest to their own signs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bitkin import interrupts, threads
from bitkin.checks import whole_number
from bitkin.hashers.projection.rotations.base import (
    FoundRotation,
    Projected,
    Rotation,
    draw_rotation,
)
from bitkin.hashers.projection.sign_model import buffer
from bitkin.randomness import Draws

_PIECES = 16  # fixed, so that sums do not depend on the number of threads
_LEAST_ROWS = 1024  # worth a thread
_BLOCK_NUMBERS = 1 << 18  # a product of 1 MB is still in cache when its signs are multiplied


class ITQ(Rotation):
    """Iterative quantization: rotate the rows so that they lie nearest to the corners of a cube.

    The method of "Iterative Quantization: A Procrustean Approach" (Gong et al., 2013), here on a
    sample of projected rows V: from a random rotation R, in turn B = sign(V·R) and the R that
    minimizes ‖B − V·R‖ (a Procrustes problem). The loss never increases; the search ends early once
    the codes stop changing.

    Parameters
    ----------
    n_iter : int, default 50
        At most so many iterations.
    max_rows : int, default 32768
        Of more rows, so many evenly spaced ones are used.

    Notes
    -----
    Time grows as `max_rows` · n_bits² · `n_iter`. Mean average precision at 64 bits, four seeds:
    Fashion-MNIST 0.402 from 8,192 rows, 0.404 from 16,384, 0.409 from 49,000; CIFAR-10 GIST 0.293
    from 2,048 rows as from 19,000. Codes of more than 128 bits were not measured; they may want
    more rows.

    Rows of very different lengths pull the rotation toward the long ones, and a random rotation can
    be far better: of Fashion-MNIST rows times U(0.2, 5), 0.90 of the true 10 nearest are in the
    best 100 at 256 bits after a random one, 0.67 after ITQ. Learning from rows made equally long
    does not help (0.66). `AutoRotation` compares the two on held-out rows.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((1000, 20)) * np.arange(1, 21)
    >>> bitkin.ProjectionHash(n_bits=8, rotation=bitkin.rotations.ITQ(n_iter=10)).fit(X).encode(X)
    Codes(1,000 rows, 8 × 1-bit, from ...)
    """

    n_matrices: ClassVar[int] = _PIECES + 8

    def __init__(self, n_iter: int = 50, max_rows: int = 32_768) -> None:
        self.n_iter = n_iter
        self.max_rows = max_rows

    def matrix(self, projected: Projected, n_bits: int, draws: Draws) -> npt.NDArray[np.float64]:
        """Return R, float64 (n_bits, n_bits)."""
        return self.find(projected, n_bits, draws).matrix

    def find(self, projected: Projected, n_bits: int, draws: Draws) -> FoundRotation:
        """Return R, and the loss after each iteration: the mean of ‖b − v·R‖² over rows v, b their
        codes before it.
        """
        self.require_parameters()
        self.require_memory(n_bits)
        rotation, losses = draw_rotation(n_bits, draws), []
        for better, loss in self.improve(projected.rows, rotation):
            rotation = better
            losses.append(loss)
        return FoundRotation(rotation, np.array(losses), self)

    def improve(
        self, rows: npt.NDArray[np.float32], rotation: npt.NDArray[np.float64]
    ) -> Iterator[tuple[npt.NDArray[np.float64], float]]:
        """Yield the rotation after each iteration from `rotation` on, and its loss on the rows;
        none where nothing can be improved.
        """
        n, n_bits = len(rows), len(rotation)
        if n > self.max_rows:  # some from beginning to end: neighbours in a file are often alike
            rows = rows[np.arange(self.max_rows) * n // self.max_rows]
        rows, scale = scale_into_range(rows)
        energy = float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))
        sums = rows.sum(axis=0, dtype=np.float64)
        closest = 0.0
        for _ in range(self.n_iter):
            interrupts.check()
            with threads.blas_in_one_thread():
                # B = 2H − 1 for the bits H, so VᵀB = 2VᵀH − (Σ v)·1ᵀ. With its SVD L S Wᵀ, the R
                # that minimizes ‖B − V·R‖² is L·Wᵀ, and tr(Rᵀ VᵀB) = ΣS is the most it can reach.
                left, strengths, right = np.linalg.svd(
                    2.0 * _rows_times_bits(rows, rotation) - sums[:, None]
                )
                rotation = left @ right
            # No more than before: the same codes came out, or all that still moves is rounding.
            if strengths.sum() <= closest:
                return
            closest = float(strengths.sum())
            # ‖B − V·R‖² = ‖B‖² + ‖V‖² − 2 tr(Rᵀ VᵀB), in the units of the rows
            loss = n_bits + (scale * scale * energy - 2.0 * scale * closest) / len(rows)
            yield rotation, loss

    def require_parameters(self) -> None:
        """Raise unless there is at least one iteration, of at least one row."""
        whole_number(self.n_iter, "n_iter", low=1)
        whole_number(self.max_rows, "max_rows", low=1)


def _rows_times_bits(
    rows: npt.NDArray[np.float32], rotation: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return rowsᵀ · H, where H has 1 where rows · rotation ≥ 0 and 0 elsewhere: added up in an
    order that is fixed.
    """
    n, width = rows.shape
    step = max(_LEAST_ROWS, -(-n // _PIECES))
    small = rotation.astype(np.float32)
    block = max(1, min(step, _BLOCK_NUMBERS // width))

    def piece(first: int) -> npt.NDArray[np.float64]:
        total = np.zeros((width, width))
        for start in range(first, min(first + step, n), block):
            part = rows[start : min(start + block, first + step)]
            rotated = np.matmul(part, small, out=buffer("rotated", part.shape, np.float32))
            bits = np.greater_equal(rotated, 0, out=buffer("bits", part.shape, np.bool_))
            np.copyto(rotated, bits)
            total += part.T @ rotated
        return total

    return sum(threads.run(piece, range(0, n, step)), np.zeros((width, width)))


def scale_into_range(rows: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], float]:
    """Return rows and what to multiply them by: divided by a power of two where float32 sums could
    leave its range.
    """
    exponent = int(np.frexp(np.abs(rows).max(initial=0.0))[1])
    if -40 < exponent < 40:
        return rows, 1.0
    exponent = max(exponent, -126)
    return rows * np.float32(2.0**-exponent), 2.0**exponent
