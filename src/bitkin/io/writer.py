"""Writing bitkin files: aside, synced, then renamed in place, so that a path holds the old file or
the new one. A file that is written for a long time is locked meanwhile.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from bitkin.errors import BitkinError, FileAccessError
from bitkin.io.layout import Header, TensorEntry, checksum, place_tensors

_fcntl: Any = None
# Windows has no such locks, and there an open file cannot be replaced anyway.
with contextlib.suppress(ImportError):
    _fcntl = importlib.import_module("fcntl")


FileToWrite = tuple[str | os.PathLike[str], Callable[[IO[bytes]], object]]  # where, and what


@dataclass(frozen=True, slots=True)
class TensorChunks:
    """A tensor that comes in pieces along its first axis, so that it never has to be in memory
    whole.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pieces: Callable[[], Iterator[npt.NDArray[Any]]]


def write_file(
    path: str | os.PathLike[str],
    class_name: str,
    parameters: Mapping[str, Any],
    fingerprint: str | None,
    tensors: Mapping[str, npt.NDArray[Any] | TensorChunks],
) -> None:
    """Write one object's file. Where anything fails, what was at `path` stays whole and nothing is
    left beside it.
    """
    entries = place_tensors((name, tensor.dtype, tensor.shape) for name, tensor in tensors.items())

    def write_to(file: IO[bytes]) -> None:
        header = Header(class_name, dict(parameters), fingerprint, tuple(entries))
        file.write(header.encode())  # its length is final, its checksums are not
        written = []
        for entry in entries:
            if entry.is_padding:
                file.write(bytes(entry.n_bytes))
                written.append(entry)
            else:
                written.append(replace(entry, crc=_write_tensor(file, entry, tensors[entry.name])))
        # Again with the checksums, which are of fixed width: the header keeps its length.
        file.seek(0)
        file.write(replace(header, entries=tuple(written)).encode())

    write_aside(path, write_to)


def write_aside(path: str | os.PathLike[str], write_to: Callable[[IO[bytes]], object]) -> None:
    """Let `write_to` fill a new file in the folder of `path`, sync it, and put it in place in one
    step.
    """
    with _failure_changes_nothing(path), _filled_aside(path, write_to) as (aside, target):
        aside.replace(target)
    sync_folder(target.parent)


def write_pair_aside(last: FileToWrite, first: FileToWrite) -> None:
    """Let two files that belong together be filled, `last` before `first`, sync them, and put both
    in place one right behind the other, `first` before `last`. Where only the first of these steps
    is possible, the error says so.
    """
    (last_path, write_last), (first_path, write_first) = last, first
    with (
        _failure_changes_nothing(last_path),
        _filled_aside(last_path, write_last) as (last_aside, last_target),
    ):
        with (
            _failure_changes_nothing(first_path),
            _filled_aside(first_path, write_first) as (first_aside, first_target),
        ):
            first_aside.replace(first_target)
        try:
            last_aside.replace(last_target)
        except OSError as error:
            there = last_target.exists()
            state = "is as it was before: they do not belong together" if there else "is not there"
            raise FileAccessError(
                f"{os.fspath(last_path)} cannot be written: {error.strerror or error}. "
                f"{os.fspath(first_path)} is the new one already, and {os.fspath(last_path)} "
                f"{state}. Write both again."
            ) from error
    for folder in {first_target.parent, last_target.parent}:
        sync_folder(folder)


@contextlib.contextmanager
def _failure_changes_nothing(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if isinstance(error, BitkinError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise FileAccessError(
            f"{os.fspath(path)} cannot be written: {reason}. What was there is unchanged."
        ) from error


@contextlib.contextmanager
def _filled_aside(
    path: str | os.PathLike[str], write_to: Callable[[IO[bytes]], object]
) -> Iterator[tuple[Path, Path]]:
    """Give the path of a file that is filled and synced, to be put in place, and that place; what
    is not put there is deleted.
    """
    target = regular_target(path)
    # in the same folder, so that putting it in place is a rename within one file system
    aside = target.with_name(f".{target.name[:64]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with aside.open("xb") as file:
            write_to(file)
            file.flush()
            # before the rename: after a power cut there is the old file or the whole new one
            os.fsync(file.fileno())
            keep_mode(target, file)
        yield aside, target
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def remove_leftovers(folder: Path, pattern: str) -> None:
    """Delete what killed processes left of writing files whose names fit `pattern`. Raises OSError.

    Only for whoever knows that no other process is writing them.
    """
    for path in folder.glob(f".{pattern}.*-????????.tmp"):
        path.unlink(missing_ok=True)


def _write_tensor(
    file: IO[bytes], entry: TensorEntry, tensor: npt.NDArray[Any] | TensorChunks
) -> int:
    crc, done = 0, 0
    for piece in tensor.pieces() if isinstance(tensor, TensorChunks) else (tensor,):
        data = np.ascontiguousarray(piece, dtype=entry.dtype).reshape(-1).view(np.uint8).data
        crc = checksum(data, crc)
        file.write(data)
        done += data.nbytes
    if done != entry.n_bytes:
        raise RuntimeError(
            f"{entry.name} came as {done} bytes where {entry.n_bytes} were announced"
        )
    return crc


def sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where folders can be synced; where not, the file is in
    place all the same.
    """
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def regular_target(path: str | os.PathLike[str]) -> Path:
    """Return where `path` really leads; only a regular file may be there, or nothing. Raises
    OSError.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a folder")
    if target.exists() and not target.is_file():
        raise OSError(f"{os.fspath(path)} is not a regular file")
    return target


def keep_mode(target: Path, file: IO[bytes]) -> None:
    """Give the new file the permissions of the one it replaces."""
    if hasattr(os, "fchmod"):
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))


def lock(file: IO[bytes], path: str | os.PathLike[str]) -> None:
    """Keep `file` to this process while it is open, where the system can; raise FileAccessError
    where another process has it.
    """
    if _fcntl is None:
        return
    try:
        _fcntl.flock(file, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileAccessError(
            f"{os.fspath(path)} is being written by another process. Wait for it to end."
        ) from None
