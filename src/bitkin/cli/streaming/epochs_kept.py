"""What codes in a file do not say: which model made which rows, and which rows are empty.

A folder with one model a file, `00000-FINGERPRINT.bitkin` and on, and `rows.jsonl`: a line `{"row", "model",
"fingerprint"}` for the first row of each epoch, and a line `{"row", "empty": true}` for each vector that was skipped.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bitkin.errors import CorruptFileError, FileAccessError
from bitkin.io.growing import GrowingFile, has_content
from bitkin.io.writer import remove_leftovers

if TYPE_CHECKING:
    from bitkin.codes import Codes
    from bitkin.hashers.projection_hash import ProjectionHash

_MODEL = re.compile(r"(\d{5,})-([0-9a-f]{32})\.bitkin")


class EpochsKept:
    """The folder, made where it is missing and cut back to what is known to be good.

    Parameters
    ----------
    folder : Path
    n_epochs : int, default 0
        Models that stay.
    rows_bytes : int, default 0
        Bytes of `rows.jsonl` that stay.
    """

    def __init__(self, folder: Path, n_epochs: int = 0, rows_bytes: int = 0) -> None:
        self._folder = folder
        self.n_epochs = n_epochs
        self._fingerprint: str | None = None
        try:
            folder.mkdir(exist_ok=True)
            self._rows = GrowingFile(rows_file(folder), rows_bytes)
            remove_leftovers(folder, "*.bitkin")
            models = {int(found[1]): found for path in folder.iterdir() if (found := _MODEL.fullmatch(path.name))}
            for number, found in models.items():
                if number >= n_epochs:
                    (folder / found[0]).unlink()
        except FileAccessError:
            raise
        except OSError as error:
            raise FileAccessError(f"{folder} cannot be written: {error.strerror or error}.") from error
        if n_epochs:
            if n_epochs - 1 not in models:
                self.close()
                raise CorruptFileError(f"{folder} lacks the model of epoch {n_epochs - 1}. Restore it, or begin anew.")
            self._fingerprint = models[n_epochs - 1][2]

    @property
    def rows_bytes(self) -> int:
        """Length of `rows.jsonl`."""
        return self._rows.length

    def note(self, first_row: int, codes: Codes, made_by: ProjectionHash | None) -> None:
        """Keep the model of these codes, if it is a new one, and which of them are empty; before they are written."""
        lines = []
        empty = codes.empty_rows()
        if made_by is not None and codes.fingerprint != self._fingerprint and not empty.all():
            # From the first row that it did code: which epoch an empty row falls in depends on how the stream was cut.
            name = f"{self.n_epochs:05d}-{codes.fingerprint}.bitkin"
            made_by.save(self._folder / name)
            row = first_row + int(np.argmin(empty))
            lines.append({"row": row, "model": name, "fingerprint": codes.fingerprint})
            self.n_epochs += 1
            self._fingerprint = codes.fingerprint
        lines += [{"row": first_row + int(row), "empty": True} for row in np.flatnonzero(empty)]
        lines.sort(key=lambda line: line["row"])  # type: ignore[arg-type, return-value]
        if lines:
            self._rows.append("".join(json.dumps(line) + "\n" for line in lines).encode())

    def sync(self) -> None:
        """Make sure that all of it survives a power cut."""
        self._rows.sync()

    def close(self) -> None:
        """Let go of the files."""
        self._rows.close()


def rows_file(folder: Path) -> Path:
    """Return where the rows of a folder are listed."""
    return folder / "rows.jsonl"


def is_begun(folder: Path) -> bool:
    """Tell whether the folder belongs to a stream that has begun."""
    return has_content(rows_file(folder))
