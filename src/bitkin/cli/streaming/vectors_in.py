"""Vectors from stdin as they come: raw float32, an .npy stream, or JSON lines.

What has arrived is handed on at once; nothing waits for more than the rest of the vector that has
begun.
"""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.cli.streaming.json_vectors import JsonVectors
from bitkin.cli.streaming.signals import StopRequests
from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError
from bitkin.io.vectors.files.npy_header import PREFIX_BYTES, NpyHeader, parse_npy_header
from bitkin.io.vectors.rows import number_dtype, row_shape

NAME = "stdin"
NPY = "npy "

_MAGIC = b"\x93NUMPY"
_READ_BYTES = 1 << 20
_TEXT = bytes(range(0x20, 0x7F)) + b"\t\r\n"
_SURELY_TEXT = 64  # so many bytes of float32 numbers are never all printable

ReadInto = Callable[[memoryview], int]


class Block(NamedTuple):
    """Some vectors, one after another in the stream."""

    rows: npt.NDArray[np.float32]
    """float32 (n, n_features), good until the next block is asked for; what float32 cannot hold is
    infinite.
    """
    ends: npt.NDArray[np.int64]
    """Bytes of input from the end of the block before to the end of each vector, the header of an
    .npy included.
    """
    form: str
    """What the input is: "f32", "jsonl", or "npy " and the dtype."""


def stdin_reader(stop: StopRequests) -> ReadInto:
    """Return a function that waits for stdin, fills memory with what has come, and says how much;
    0: the end.
    """
    try:
        raw = io.FileIO(0, closefd=False)
    except OSError as error:
        raise _unreadable(error) from error
    # Linux alone has it, and only for pipes
    with contextlib.suppress(ImportError, AttributeError, OSError):
        fcntl: Any = importlib.import_module("fcntl")
        fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, _READ_BYTES)  # a sixteenth as many reads

    def read_into(room: memoryview) -> int:
        try:
            with stop.interrupting():
                stop.raise_if_any()  # one that came before
                return raw.readinto(room) or 0
        except OSError as error:
            raise _unreadable(error) from error

    return read_into


def vectors_in(
    read_into: ReadInto, form: str, dim: int | None, width: int | None, field: str, before: str = ""
) -> Iterator[Block]:
    """Yield the vectors that `read_into` delivers, in blocks as they come.

    Parameters
    ----------
    read_into : function
        Fills memory with the next bytes and returns how many, 0 at the end.
    form : str
        "f32", "npy", "jsonl" or "auto": .npy by its first bytes, JSON lines if text begins with [
        or { and no `dim` is given, otherwise raw float32.
    dim : int or None
        Length of a vector, as given by the user.
    width : int or None
        The length that a model has, if there is one.
    field : str
        The field of a JSON object that holds the vector.
    before : str, default ""
        The `form` of the blocks that this input goes on after. After an .npy array, bytes that are
        nothing else are not taken for raw float32 unless `form` says so: they may be the rest of an
        array of any numbers.
    """
    if dim is not None and width is not None and dim != width:
        raise InvalidInputError(
            f"--dim must be {width}, the number of features of the model, got {dim}."
        )
    known = dim if width is None else width
    room = memoryview(bytearray(_READ_BYTES))

    def read() -> bytes:
        return bytes(room[: read_into(room)])

    pending = bytearray()
    if form == "auto":
        form = _recognized(read, pending, dim is None)
        if form == "f32" and pending and before.startswith(NPY):
            raise InvalidInputError(
                f"{NAME} has no header, and the stream so far was an .npy array of "
                f"{np.dtype(before[len(NPY) :]).name} "
                "numbers. Feed the whole array again with --from-start; or give --format f32, if "
                "raw float32 numbers "
                "come now."
            )
    if form == "npy":
        yield from _npy(read, read_into, pending, known)
    elif form == "jsonl":
        for vectors, ends in JsonVectors(NAME, known, field).blocks(read, bytes(pending)):
            yield Block(_float32(vectors), ends, "jsonl")
    elif known is None:
        raise InvalidInputError(
            "--dim is missing: raw float32 does not say how many numbers a vector has."
        )
    else:
        yield from _fixed(read_into, pending, np.dtype("<f4"), known)


def _recognized(read: Callable[[], bytes], pending: bytearray, may_be_text: bool) -> str:
    """Read until the first bytes tell what comes; as few as that takes."""
    while data := read():
        pending += data
        if pending.startswith(_MAGIC):
            return "npy"
        may_be_npy, is_blank = _MAGIC.startswith(pending), may_be_text and not pending.strip()
        if not (may_be_npy or is_blank):
            break
    begins_as_json = pending.lstrip().startswith((b"[", b"{"))
    if (
        begins_as_json
        and not may_be_text
        and len(pending) >= _SURELY_TEXT
        and not pending.translate(None, _TEXT)
    ):
        raise InvalidInputError(
            f"{NAME} looks like JSON lines, and --dim says that it is raw float32. Give --format "
            "jsonl or --format f32."
        )
    return "jsonl" if may_be_text and begins_as_json else "f32"


def _npy(
    read: Callable[[], bytes], read_into: ReadInto, pending: bytearray, known: int | None
) -> Iterator[Block]:
    header = _npy_header(read, pending)
    n_rows, d = row_shape(header.shape, NAME)
    number_dtype(header.dtype, NAME)
    if header.fortran_order and n_rows > 1 and d > 1:
        raise InvalidInputError(
            f"{NAME} is an .npy array in Fortran order, whose first vector ends near the end of "
            "the stream. "
            "Save np.ascontiguousarray(array) instead."
        )
    if known is not None and d != known:
        raise InvalidInputError(
            f"{NAME} must have vectors of {known} numbers, got an .npy array of {d} columns."
        )
    yield from _fixed(read_into, pending, header.dtype, d, n_rows, header.offset)


def _npy_header(read: Callable[[], bytes], pending: bytearray) -> NpyHeader:
    """Take the header off the front of the stream."""
    while True:
        begin = 12 if pending[6:7] > b"\x01" else 10
        length = begin + int.from_bytes(pending[8:begin], "little")
        whole = len(pending) >= 12 and len(pending) >= min(length, PREFIX_BYTES)
        if whole or not _MAGIC.startswith(pending[:6]) or not (data := read()):
            break
        pending += data
    header = parse_npy_header(bytes(pending[:PREFIX_BYTES]), NAME)
    del pending[: header.offset]
    return header


def _fixed(
    read_into: ReadInto,
    begun: bytearray,
    dtype: np.dtype[np.generic],
    d: int,
    n_rows: int | None = None,
    header_bytes: int = 0,
) -> Iterator[Block]:
    """Yield rows of d numbers; where a header announced `n_rows`, there must be so many."""
    form = "f32" if n_rows is None else f"{NPY}{dtype.str}"
    row_bytes = d * dtype.itemsize
    room = np.empty(row_bytes * -(-max(_READ_BYTES, len(begun)) // row_bytes), dtype=np.uint8)
    room[: len(begun)] = np.frombuffer(begun, dtype=np.uint8)
    filled, done = len(begun), 0
    while True:
        n = filled // row_bytes
        if n_rows is not None:
            n = min(n, n_rows - done)
        if n:
            used = n * row_bytes
            ends = row_bytes * np.arange(1, n + 1) + (0 if done else header_bytes)
            yield Block(_float32(room[:used].view(dtype).reshape(n, d)), ends, form)
            done += n
            filled -= used
            room[:filled] = room[used : used + filled].copy()
        if n_rows is not None and done == n_rows and filled:
            raise CorruptFileError(
                f"{NAME} goes on after the {n_rows:,} vectors that its .npy header announces."
            )
        if not (got := read_into(room.data[filled:])):
            break
        filled += got
    if filled:
        raise CorruptFileError(
            f"{NAME} ends in the middle of a vector: {filled} of {row_bytes} bytes after {done:,} "
            f"vectors of {d} "
            f"{dtype.name} numbers. Those before it are coded."
        )
    if n_rows is not None and done < n_rows:
        raise CorruptFileError(
            f"{NAME} ends after {done:,} of the {n_rows:,} vectors that its .npy header announces."
        )


def _float32(rows: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(rows, dtype=np.float32)


def _unreadable(error: OSError) -> FileAccessError:
    return FileAccessError(f"{NAME} cannot be read: {error.strerror or error}.")
