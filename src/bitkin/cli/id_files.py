"""Files of ids: an .npy array, or text with one a line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

WHAT = "an .npy file of whole numbers, or text with one a line"


def read_ids(path: Path) -> npt.NDArray[np.int64]:
    """Return the ids in a file: an array where it ends in .npy, else text."""
    import numpy as np

    from bitkin.checks import id_array
    from bitkin.cli.npy_files import map_npy
    from bitkin.errors import FileAccessError, InvalidInputError

    if path.suffix == ".npy":
        ids = map_npy(path)
        if ids.ndim != 1:
            raise InvalidInputError(
                f"{path} must hold one id a row, an array of shape (n,), got shape {ids.shape}."
            )
        return id_array(np.array(ids), str(path))
    try:
        lines = _lines(path)
    except OSError as error:
        raise FileAccessError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise InvalidInputError(f"{path} must be {WHAT}: {error}") from error
    return id_array(lines, str(path))


def _lines(path: Path) -> list[int]:
    """Return the number in every line; blank lines are passed over. Raises ValueError."""
    ids = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            text = line.strip()
            if not text:
                continue
            if not (text.isascii() and text.isdigit()):
                shown = text if len(text) <= 20 else f"{text[:20]}…"
                raise ValueError(f"line {number} is {shown!r}.")
            ids.append(int(text))
    return ids
