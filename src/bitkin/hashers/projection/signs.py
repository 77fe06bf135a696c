"""Packing the signs of projections, right behind the matrix product and while it is still in cache.

NumPy does it: a kernel was no faster here, and a process that only encodes saves the 100 MB that
Numba takes.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.io.vectors.batch import first_not_finite

_PIECE = 1 << 16
"""Numbers packed at a time: 256 KB, read three times, that a core's own cache holds beside what
BLAS left there.
"""

_buffers = threading.local()


def pack_signs(
    product: npt.NDArray[np.float32], offset: npt.NDArray[np.float32], words: npt.NDArray[np.uint64]
) -> bool:
    """Write the bits product ≥ offset to the zeroed rows `words`, uint64 (n, words); return whether
    all are finite.
    """
    n, n_bits = product.shape
    step = max(1, _PIECE // n_bits)
    return all(
        _pack_piece(product[i : i + step], offset, words[i : i + step]) for i in range(0, n, step)
    )


def _pack_piece(
    product: npt.NDArray[np.float32], offset: npt.NDArray[np.float32], words: npt.NDArray[np.uint64]
) -> bool:
    bits = np.greater_equal(product, offset, out=buffer("bits", product.shape, np.bool_))
    planes = words.view(np.uint8)[:, : -(-product.shape[1] // 8)]
    if product.shape[1] % 8 == 0:  # rows end where bytes end: one run is quicker than one a row
        planes[:] = np.packbits(bits.reshape(-1)).reshape(len(bits), -1)
    else:
        planes[:] = np.packbits(bits, axis=1)
    return all_finite(product)


def all_finite(product: npt.NDArray[np.float32]) -> bool:
    """Whether all numbers are finite: the sum of their squares is, or none is found on a closer
    look.
    """
    return bool(np.isfinite(np.vdot(product, product))) or first_not_finite(product) is None


def buffer(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return this thread's array of that name, whatever is in it: fresh memory would cost more than
    packing does.
    """
    size = math.prod(shape)
    held: npt.NDArray[Any] | None = getattr(_buffers, name, None)
    if held is None or held.size < size:
        held = np.empty(size, dtype=dtype)
        setattr(_buffers, name, held)
    return held[:size].reshape(shape)
