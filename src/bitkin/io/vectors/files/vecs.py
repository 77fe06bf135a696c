"""Vectors in .fvecs, .bvecs and .ivecs files: every row is its dimension as int32, then its
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.stable import StableFile, Stamp
from bitkin.io.vectors.files.fixed_rows import FixedRows
from bitkin.io.vectors.rows import number_dtype

VECS_TYPES: dict[str, np.dtype[Any]] = {
    ".fvecs": np.dtype("<f4"),
    ".bvecs": np.dtype("u1"),
    ".ivecs": np.dtype("<i4"),
}


def open_vecs(path: Path, batch_rows: int | None = None) -> VecsRows:
    """Open a .fvecs, .bvecs or .ivecs file; its first row tells the dimension of all."""
    stored = VECS_TYPES[path.suffix.lower()]
    with StableFile(path) as file:
        stamp = file.stamp
        head = file.read(0, 4)
    if stamp.size == 0:
        raise InvalidInputError(f"{path} is empty: without a row its dimension is not known.")
    d = int.from_bytes(head, "little", signed=True)
    if len(head) < 4 or d < 1:
        raise CorruptFileError(
            f"{path} must start with a dimension of 1 or more as 4 bytes, got {head!r}."
        )
    # every row is its dimension as int32, then its numbers
    width = 4 + d * stored.itemsize
    if stamp.size % width:
        whole = max(1, stamp.size // width) * width
        raise CorruptFileError(
            f"{path} must have {whole} bytes, rows of {width} for dimension {d}, got {stamp.size}."
        )
    return VecsRows(path, stamp, (stamp.size // width, d), stored, batch_rows)


class VecsRows(FixedRows):
    """The rows of a .fvecs, .bvecs or .ivecs file."""

    def __init__(
        self,
        path: Path,
        stamp: Stamp,
        shape: tuple[int, int],
        stored: np.dtype[Any],
        batch_rows: int | None = None,
    ) -> None:
        width = 4 + shape[1] * stored.itemsize
        dtype = number_dtype(stored, str(path))
        super().__init__(path, stamp, shape, dtype, offset=0, width=width, batch_rows=batch_rows)
        self._stored = stored

    def _blank(self, n: int) -> npt.NDArray[Any]:
        return np.empty((n, self._width), dtype=np.uint8)

    def _vectors(self, read: npt.NDArray[Any], number_of: Callable[[int], int]) -> npt.NDArray[Any]:
        # each row repeats the dimension, so a shifted or damaged file shows here
        dimensions = read[:, :4].copy().view("<i4")[:, 0]
        if (dimensions != self.shape[1]).any():
            at = int(np.argmax(dimensions != self.shape[1]))
            got = f"{dimensions[at]} in row {number_of(at)}"
            raise CorruptFileError(
                f"{self.name} must have dimension {self.shape[1]} in every row, got {got}."
            )
        return np.ascontiguousarray(read[:, 4:]).view(self._stored)
