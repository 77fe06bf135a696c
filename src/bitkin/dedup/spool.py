"""Sets on disk: written one batch after another, then mapped, so that memory holds what is being
compared.
"""

from __future__ import annotations

import tempfile

import numpy as np
import numpy.typing as npt

from bitkin.closing import Closes
from bitkin.errors import FileAccessError
from bitkin.sets.sets import Sets


class SetSpool(Closes):
    """Sets with every member once, ascending, in a temporary file that is gone with the object.

    Memory holds 8 bytes per set. The file is in the folder that `tempfile` chooses (TMPDIR), with 8
    bytes per member.
    """

    def __init__(self) -> None:
        try:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as this
        except OSError as error:
            raise FileAccessError(
                f"no temporary file can be made: {error.strerror or error}. Set TMPDIR to a folder "
                "that can be written."
            ) from error
        self._sizes: list[npt.NDArray[np.int64]] = []
        self.n_bytes = 0

    def append(self, sets: Sets) -> None:
        """Add sets that `Sets.unique` returned."""
        try:
            self._file.write(np.ascontiguousarray(sets.members).data)
        except OSError as error:
            raise FileAccessError(
                f"the temporary file in {tempfile.gettempdir()} cannot be written: "
                f"{error.strerror or error}. Set TMPDIR to a folder with more space."
            ) from error
        self._sizes.append(sets.sizes())
        self.n_bytes += sets.members.nbytes

    def sets(self) -> Sets:
        """Return all sets, their members mapped from the file; they are valid until `close`."""
        try:
            self._file.flush()
        except OSError as error:
            raise FileAccessError(
                f"the temporary file cannot be written: {error.strerror or error}."
            ) from error
        sizes = np.concatenate([np.empty(0, dtype=np.int64), *self._sizes])
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        members = np.empty(0, dtype=np.uint64)
        if self.n_bytes:  # nothing cannot be mapped
            members = np.asarray(np.memmap(self._file, dtype=np.uint64, mode="r"))
        return Sets.from_parts(members, offsets, distinct=True)

    def close(self) -> None:
        """Delete the file."""
        self._file.close()
