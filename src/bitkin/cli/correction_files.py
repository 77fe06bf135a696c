"""Corrections in .npy files: two numbers a vector, in the order of the vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from bitkin.index.estimate import Corrections, Scorer
    from bitkin.io.vectors import VectorSource


def write_corrections(path: Path, scorer: Scorer, source: VectorSource, progress: Callable[[int], None]) -> None:
    """Write the corrections of all rows, a batch at a time: aside first, then in place at once."""
    import numpy as np

    from bitkin.io.writer import write_aside

    def write_to(file: IO[bytes]) -> None:
        header = {"descr": "<f4", "fortran_order": False, "shape": (len(source), 2)}
        np.lib.format.write_array_header_1_0(file, header)
        for first, batch in source.batches():
            file.write(scorer.corrections(batch, source.name, first).astype("<f4").tobytes())
            progress(first + batch.shape[0])

    write_aside(path, write_to)


def read_corrections(path: Path) -> Corrections:
    """Map a file of corrections."""
    import numpy as np

    from bitkin.errors import FileAccessError, InvalidInputError

    wanted = f"{path} must be an .npy file of float32 (n, 2), as bitkin encode --corrections writes it"
    try:
        numbers = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise FileAccessError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, EOFError) as error:
        raise InvalidInputError(f"{wanted}: {error}") from error
    if not isinstance(numbers, np.ndarray):
        raise InvalidInputError(f"{wanted}, got an archive.")
    if numbers.dtype != np.float32 or numbers.ndim != 2 or numbers.shape[1] != 2:
        raise InvalidInputError(f"{wanted}, got {numbers.dtype} {numbers.shape}.")
    return numbers
