"""Arrays in .npy files that options name, mapped: a header is believed only where the file's size
agrees.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt


def map_npy(path: Path) -> npt.NDArray[Any]:
    """Map an array of numbers, of any shape."""
    import numpy as np

    from bitkin.errors import FileAccessError
    from bitkin.io.regular import open_regular
    from bitkin.io.vectors.files.npy_header import PREFIX_BYTES, read_npy_header

    try:
        with open_regular(path) as file:
            prefix = file.read(PREFIX_BYTES)
            header = read_npy_header(prefix, os.fstat(file.fileno()).st_size, str(path))
        if header.n_bytes == 0:  # nothing cannot be mapped
            return np.empty(header.shape, dtype=header.dtype)
        order: Any = "F" if header.fortran_order else "C"
        return np.memmap(path, header.dtype, "r", header.offset, header.shape, order)
    except FileAccessError:
        raise
    except OSError as error:
        raise FileAccessError(f"{path} cannot be read: {error.strerror or error}.") from error
