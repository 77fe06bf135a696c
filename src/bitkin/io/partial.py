"""A file that grows row by row and becomes whole at the end.

Until then it lies beside its target under another name, `.NAME.partial`, with a journal of how far
it is known to be right; its header is missing, so nothing takes it for whole. After an
interruption, the same work continues from the last checkpoint; other work under the same name is
refused.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from bitkin import interrupts
from bitkin.closing import Closes
from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.io.layout import Header, TensorEntry, checksum, place_tensors
from bitkin.io.regular import open_regular
from bitkin.io.writer import keep_mode, lock, regular_target, sync_folder, write_aside

RowShapes = Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]


class PartialFile(Closes):
    """The unfinished file of one object; every tensor has one entry per row.

    Parameters
    ----------
    path : path
        Where the whole file will be.
    class_name, parameters, fingerprint
        As for `write_file`.
    rows : {name: (dtype, shape of a row)}
        The tensors.
    n_rows : int
        How many rows the whole file has.
    work : dict
        What is being done, JSON values only: a partial file of other work is not continued.
    fresh : bool
        Start from nothing, whatever is there.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        class_name: str,
        parameters: Mapping[str, Any],
        fingerprint: str | None,
        rows: RowShapes,
        n_rows: int,
        work: Mapping[str, Any],
        *,
        fresh: bool = False,
    ) -> None:
        try:
            self._target = regular_target(path)
        except (OSError, ValueError) as error:
            raise FileAccessError(
                f"{os.fspath(path)} cannot be written: {error}. What was there is unchanged."
            ) from error
        self._data_path = self._target.with_name(f".{self._target.name}.partial")
        self._journal_path = self._target.with_name(f".{self._target.name}.partial.json")
        entries = place_tensors(
            (name, dtype, (n_rows, *shape)) for name, (dtype, shape) in rows.items()
        )
        self._header = Header(class_name, dict(parameters), fingerprint, tuple(entries))
        self._offset = len(self._header.encode())
        self._work = json.loads(json.dumps(work))
        self.n_rows = n_rows
        self.rows_done = 0
        self._crcs = dict.fromkeys(rows, 0)
        try:
            begun = self._data_path.exists()
            self._open_locked()
            if begun and not fresh:
                self._continue_from_journal()
            if not self.rows_done:
                # a journal that is there describes other rows than those to come
                self._journal_path.unlink(missing_ok=True)
                self._file.truncate(0)
        except FileAccessError:
            raise
        except OSError as error:
            raise self._cannot_write(error) from error

    def append(self, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write the next rows of every tensor; they count all together, or not at all."""
        count = {len(rows) for rows in tensors.values()}
        if len(count) != 1 or set(tensors) != set(self._crcs):
            raise RuntimeError("every tensor must get the same number of rows")
        crcs = dict(self._crcs)
        # a journal of a new checksum with the old number of rows would spoil the file
        with interrupts.sealed:
            try:
                for entry in self._header.entries:
                    if not entry.is_padding:
                        crcs[entry.name] = self._append_to(entry, tensors[entry.name])
            except OSError as error:
                raise self._cannot_write(error) from error
            self._crcs, self.rows_done = crcs, self.rows_done + count.pop()

    def checkpoint(self) -> None:
        """Make sure that all rows so far survive an interruption."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._cannot_write(error) from error
        # The journal comes after the data is on disk: it never tells of rows that are not there.
        state = {"work": self._work, "rows": self.rows_done, "crcs": self._crcs}
        write_aside(self._journal_path, lambda file: file.write(json.dumps(state).encode()))

    def finish(self) -> None:
        """Write the header, put the whole file in place, and remove the journal."""
        if self.rows_done != self.n_rows:
            raise RuntimeError(f"{self.rows_done} rows where {self.n_rows} were announced")
        entries = tuple(
            e if e.is_padding else replace(e, crc=self._crcs[e.name]) for e in self._header.entries
        )
        try:
            self._file.truncate(self._offset + self._header.data_bytes)
            self._file.seek(0)
            self._file.write(replace(self._header, entries=entries).encode())
            self._file.flush()
            os.fsync(self._file.fileno())
            keep_mode(self._target, self._file)
            self._data_path.replace(self._target)  # before the lock goes with the open file
            self._file.close()
            sync_folder(self._target.parent)
            self._journal_path.unlink(missing_ok=True)
        except OSError as error:
            raise self._cannot_write(error) from error

    def close(self) -> None:
        """Close the file. What was checkpointed can be continued; without a checkpoint nothing is
        left behind.
        """
        if not self._file.closed and not self._journal_path.exists():
            with contextlib.suppress(OSError):
                self._data_path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a full disk was reported when it was met
            self._file.close()

    def _append_to(self, entry: TensorEntry, rows: npt.NDArray[Any]) -> int:
        """Write the next rows of one tensor, and return the checksum of all so far."""
        data = np.ascontiguousarray(rows, dtype=entry.dtype).reshape(-1).view(np.uint8).data
        # each tensor has its place in the whole file from the start, so rows go straight there
        row_bytes = entry.n_bytes // self.n_rows if self.n_rows else 0
        self._file.seek(self._offset + entry.start + self.rows_done * row_bytes)
        self._file.write(data)
        # CRC-32 continues over pieces, so nothing has to be read again at the end
        return checksum(data, self._crcs[entry.name])

    def _open_locked(self) -> None:
        """Open the file so that no second process writes the same rows, where files can be
        locked.
        """
        while True:
            self._data_path.touch()
            self._file: IO[bytes] = self._data_path.open("r+b")
            try:
                lock(self._file, self._target)
                held, there = os.fstat(self._file.fileno()), self._data_path.stat()
                # the file we have locked is still the one at that path
                if (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino):
                    return
            except FileAccessError:
                self._file.close()
                raise
            except FileNotFoundError:
                pass
            # another process finished it between our opening and our locking: begin with a new one
            self._file.close()

    def _continue_from_journal(self) -> None:
        if not self._journal_path.exists():
            return
        try:
            with open_regular(self._journal_path) as journal:
                state = json.loads(journal.read())
            work, rows, crcs = state["work"], state["rows"], state["crcs"]
            sound = type(rows) is int and 0 <= rows <= self.n_rows and isinstance(crcs, dict)
            sound = sound and set(crcs) == set(self._crcs)
            sound = sound and all(type(crc) is int and 0 <= crc < 2**32 for crc in crcs.values())
            sound = sound and os.fstat(self._file.fileno()).st_size >= self._end_of(rows)
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # the journal is damaged: begin again
        if work != self._work:
            self._file.close()
            raise InvalidInputError(
                f"{self._data_path} is the beginning of other work. Delete it, or ask for a fresh "
                "start (fresh=True), to begin again."
            )
        if sound:
            self.rows_done, self._crcs = rows, crcs

    def _end_of(self, rows: int) -> int:
        """Return the size the file has at least once so many rows are written."""
        tensors = [entry for entry in self._header.entries if not entry.is_padding]
        return max(
            self._offset + e.start + (e.n_bytes // self.n_rows if self.n_rows else 0) * rows
            for e in tensors
        )

    def _cannot_write(self, error: OSError) -> FileAccessError:
        reason = error.strerror or str(error)
        return FileAccessError(
            f"{self._target} cannot be written: {reason}. What was there is unchanged; "
            "where rows were checkpointed, the same command goes on from there."
        )
