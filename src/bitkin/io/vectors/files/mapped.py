"""Memory maps of whole files, read by plain reads: the pages of a map that were read count as
memory of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.io.stable import stamp_of
from bitkin.io.vectors.files.fixed_rows import FixedRows
from bitkin.io.vectors.rows import number_dtype, row_shape


class MappedRows(FixedRows):
    """The rows of a read-only `numpy.memmap`, from the file behind it."""

    def __init__(self, array: np.memmap[Any, Any]) -> None:
        path = Path(str(array.filename))
        self._stored = array.dtype
        super().__init__(
            path,
            stamp_of(path),
            row_shape(array.shape, str(path)),
            number_dtype(array.dtype, str(path)),
            offset=array.offset,
            width=array.shape[1] * array.itemsize,
        )

    def _blank(self, n: int) -> npt.NDArray[Any]:
        return np.empty((n, self.shape[1]), dtype=self._stored)

    def _vectors(self, read: npt.NDArray[Any], number_of: Callable[[int], int]) -> npt.NDArray[Any]:
        return read


def is_whole_map(array: Any) -> bool:
    """Whether `array` is a read-only map of all rows in a file that is still there; a part of a map
    is not.
    """
    return (
        isinstance(array, np.memmap)
        and array.ndim == 2
        and array.mode == "r"
        and array.filename is not None
        and isinstance(getattr(array, "base", None), mmap)  # a part has the whole map as its base
        and array.flags.c_contiguous
        and array.dtype.kind in "iuf"
        and Path(str(array.filename)).is_file()
        and _same_rows(array)
    )


def _same_rows(array: np.memmap[Any, Any]) -> bool:
    """Return whether the file of that name still holds what was mapped: another file may have
    replaced it.
    """
    # 64 rows spread over the file are compared, byte by byte.
    some = np.linspace(0, len(array) - 1, min(len(array), 64)).astype(np.int64)
    try:
        now = np.memmap(
            str(array.filename), dtype=array.dtype, mode="r", offset=array.offset, shape=array.shape
        )
    except (OSError, ValueError):
        return False
    return bool((now[some].view(np.uint8) == array[some].view(np.uint8)).all())
