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
    from bitkin.errors import FileAccessError, InvalidInputError

    try:
        ids = np.load(path, allow_pickle=False) if path.suffix == ".npy" else _lines(path)
        return id_array(ids, str(path))
    except OSError as error:
        raise FileAccessError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, EOFError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{path} must be {WHAT}: {error}") from error


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
