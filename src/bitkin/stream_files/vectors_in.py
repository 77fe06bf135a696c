"""Vectors of a stream as they come: bytes of raw float32, an .npy stream or JSON lines, or arrays.

What has arrived is handed on at once; nothing waits for more than the rest of the vector that has
begun.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin.arguments import PYTHON, ArgumentSpelling
from bitkin.checks import require_unmasked
from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.files.npy_header import PREFIX_BYTES, NpyHeader, parse_npy_header
from bitkin.io.vectors.rows import number_dtype, row_shape
from bitkin.stream_files.json_vectors import JsonVectors

FORMATS = ("auto", "f32", "npy", "jsonl")
NPY = "npy "

_MAGIC = b"\x93NUMPY"
_READ_BYTES = 1 << 20
_TEXT = bytes(range(0x20, 0x7F)) + b"\t\r\n"
_SHOWN_BYTES = 40  # of input that is no vectors
_SURELY_TEXT_BYTES = 64  # so many bytes of float32 numbers are never all printable

ReadInto = Callable[[memoryview], int]


class StreamBlock(NamedTuple):
    """Some vectors, one after another in the stream."""

    rows: npt.NDArray[np.float32]
    """float32 (n, n_features), good until the next block is asked for; what float32 cannot hold is
    infinite.
    """
    ends: npt.NDArray[np.int64]
    """Bytes of input from the end of the previous block to the end of each vector, the header of an
    .npy included.
    """
    form: str
    """What the input is: "f32", "jsonl", or "npy " and the dtype."""


class StreamFormat(NamedTuple):
    """How the bytes of a stream hold vectors, as far as it is known."""

    form: str = "auto"
    """"f32", "npy", "jsonl" or "auto": .npy by its first bytes, JSON lines if text begins with [ or
    { and no `dim` is given, otherwise raw float32.
    """
    dim: int | None = None
    """Length of a vector, as given by the user."""
    field: str = "vector"
    """The field of a JSON object that holds the vector."""


def open_bytes(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file, or a named pipe, to read what has come."""
    try:
        return Path(path).open("rb", buffering=0)
    except OSError as error:
        raise FileAccessError(
            f"{os.fspath(path)} cannot be read: {error.strerror or error}."
        ) from error


def file_reader(file: Any, name: str) -> ReadInto:
    """Return a function that waits for a binary file, fills memory with what has come, and says how
    much; 0: the end.
    """
    # `readinto` of a buffered pipe would wait until all of the memory is full
    read_into = getattr(file, "readinto1", None) or getattr(file, "readinto", None)
    if read_into is None and not hasattr(file, "read"):
        raise InvalidInputError(f"file must be a path or a binary file, got {type(file).__name__}.")

    def read(room: memoryview) -> int:
        try:
            if read_into is not None:
                return read_into(room) or 0
            data = file.read(len(room))
        except OSError as error:
            raise FileAccessError(f"{name} cannot be read: {error.strerror or error}.") from error
        if not isinstance(data, bytes):
            raise InvalidInputError(f"{name} must be open in binary mode, as by open(path, 'rb').")
        room[: len(data)] = data
        return len(data)

    return read


class ByteStream:
    """Vectors in bytes.

    Parameters
    ----------
    read_into : function
        Fills memory with the next bytes and returns how many, 0 at the end.
    layout : StreamFormat
    width : int or None
        The length of vectors that a model has, if there is one.
    before : str, default ""
        The `form` of the blocks that this input continues. After an .npy array, bytes that are
        nothing else are not taken for raw float32 unless `layout` says so: they may be the rest of
        an array of any numbers.
    name : str, default "file"
        What errors call the input.
    spelling : ArgumentSpelling, default PYTHON
        How they name arguments.
    """

    def __init__(
        self,
        read_into: ReadInto,
        layout: StreamFormat,
        width: int | None,
        before: str = "",
        *,
        name: str = "file",
        spelling: ArgumentSpelling = PYTHON,
    ) -> None:
        if layout.dim is not None and width is not None and layout.dim != width:
            raise InvalidInputError(
                f"{spelling.name('dim')} must be {width}, the number of features of the model, got "
                f"{layout.dim}."
            )
        self._read_into = read_into
        self._layout = layout
        self._known = layout.dim if width is None else width
        self._before = before
        self._name = name
        self._spelling = spelling
        self._pending = bytearray()  # read, and not taken yet
        self._room = memoryview(bytearray(_READ_BYTES))

    def blocks(self) -> Iterator[StreamBlock]:
        """Yield the vectors, in blocks as they come."""
        form = self._layout.form
        if form == "auto":
            form = self._recognize()
            if form == "f32" and self._pending and self._before.startswith(NPY):
                raise InvalidInputError(
                    f"{self._name} has no header, and the stream so far was an .npy array of "
                    f"{np.dtype(self._before[len(NPY) :]).name} numbers. Feed the whole array "
                    "again; or give "
                    f"{self._spelling.given('format', 'f32')}, if raw float32 numbers come now."
                )
        if form == "npy":
            yield from self._npy_blocks()
        elif form == "jsonl":
            lines = JsonVectors(self._name, self._known, self._layout.field, self._spelling)
            for vectors, ends in lines.blocks(self._read, bytes(self._pending)):
                yield StreamBlock(_to_float32(vectors), ends, "jsonl")
        elif self._known is None:
            raise InvalidInputError(
                f"{self._spelling.name('dim')} is missing: raw float32 does not say how many "
                "numbers a vector has."
            )
        else:
            yield from self._fixed_blocks(np.dtype("<f4"), self._known)

    def _read(self) -> bytes:
        return bytes(self._room[: self._read_into(self._room)])

    def _recognize(self) -> str:
        """Read until the first bytes tell what comes; as few as that takes."""
        pending, may_be_text = self._pending, self._layout.dim is None
        while data := self._read():
            pending += data
            if pending.startswith(_MAGIC):
                return "npy"
            may_be_npy, is_blank = _MAGIC.startswith(pending), may_be_text and not pending.strip()
            if not (may_be_npy or is_blank):
                break
        begins_as_json = pending.lstrip().startswith((b"[", b"{"))
        is_text = bool(pending.strip()) and not pending.translate(None, _TEXT)
        # Without a length, fewer bytes will do: raw numbers could not be read anyway.
        surely_text = is_text and (len(pending) >= _SURELY_TEXT_BYTES or self._known is None)
        if surely_text and not begins_as_json:
            begin = bytes(pending.strip()[:_SHOWN_BYTES]).decode("ascii").splitlines()[0]
            raise InvalidInputError(
                f"{self._name} begins with the text {begin!r}, which is no vector. Vectors come as "
                "JSON lines (a list of numbers each), as an .npy array or as raw float32; if these "
                f"bytes are raw float32, give {self._spelling.name('dim')} and "
                f"{self._spelling.given('format', 'f32')}."
            )
        if surely_text and begins_as_json and not may_be_text:
            raise InvalidInputError(
                f"{self._name} looks like JSON lines, and {self._spelling.name('dim')} says that "
                f"it is raw float32. Give {self._spelling.given('format', 'jsonl')} or "
                f"{self._spelling.given('format', 'f32')}."
            )
        return "jsonl" if may_be_text and begins_as_json else "f32"

    def _npy_blocks(self) -> Iterator[StreamBlock]:
        header = self._npy_header()
        n_rows, d = row_shape(header.shape, self._name)
        number_dtype(header.dtype, self._name)
        if header.fortran_order and n_rows > 1 and d > 1:
            raise InvalidInputError(
                f"{self._name} is an .npy array in Fortran order, whose first vector ends near the "
                "end of the stream. Save np.ascontiguousarray(array) instead."
            )
        if self._known is not None and d != self._known:
            raise InvalidInputError(
                f"{self._name} must have vectors of {self._known} numbers, got an .npy array of "
                f"{d} columns."
            )
        yield from self._fixed_blocks(header.dtype, d, n_rows, header.offset)

    def _npy_header(self) -> NpyHeader:
        """Take the header off the front of the stream."""
        pending = self._pending
        while True:
            # the length of the header is in 2 bytes in version 1, in 4 later
            begin = 12 if pending[6:7] > b"\x01" else 10
            length = begin + int.from_bytes(pending[8:begin], "little")
            whole = len(pending) >= 12 and len(pending) >= min(length, PREFIX_BYTES)
            if whole or not _MAGIC.startswith(pending[:6]) or not (data := self._read()):
                break
            pending += data
        header = parse_npy_header(bytes(pending[:PREFIX_BYTES]), self._name)
        del pending[: header.offset]
        return header

    def _fixed_blocks(
        self, dtype: np.dtype[np.generic], d: int, n_rows: int | None = None, header_bytes: int = 0
    ) -> Iterator[StreamBlock]:
        """Yield rows of d numbers; where a header announced `n_rows`, there must be so many."""
        form = "f32" if n_rows is None else f"{NPY}{dtype.str}"
        row_bytes = d * dtype.itemsize
        begun = self._pending
        # whole rows, at least one
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
                yield StreamBlock(_to_float32(room[:used].view(dtype).reshape(n, d)), ends, form)
                done += n
                filled -= used
                # the vector that has begun moves to the front
                room[:filled] = room[used : used + filled].copy()
            if n_rows is not None and done == n_rows and filled:
                raise CorruptFileError(
                    f"{self._name} continues after the {n_rows:,} vectors that its .npy header "
                    "announces."
                )
            if not (got := self._read_into(room.data[filled:])):
                break
            filled += got
        if filled:
            raise CorruptFileError(
                f"{self._name} ends in the middle of a vector: {filled} of {row_bytes} bytes after "
                f"{done:,} vectors of {d} {dtype.name} numbers."
                + (" Those before it are coded." if done else "")
            )
        if n_rows is not None and done < n_rows:
            raise CorruptFileError(
                f"{self._name} ends after {done:,} of the {n_rows:,} vectors that its .npy header "
                "announces."
            )


def array_blocks(vectors: Any, name: str = "vectors") -> Iterator[StreamBlock]:
    """Yield vectors in memory as blocks of a stream, whose bytes count as raw float32.

    `vectors` is an array, a sparse matrix or a `VectorSource`, or an iterable of vectors and of
    batches, each of which is handed on before the next one is asked for.
    """
    if isinstance(vectors, VectorSource):
        for _, batch in vectors.batches():
            yield from _batch_blocks(batch, name)
    elif issparse(vectors) or hasattr(vectors, "__array__"):
        yield from _batch_blocks(vectors, name)
    elif isinstance(vectors, (str, bytes)) or not isinstance(vectors, Iterable):
        raise InvalidInputError(
            f"{name} must be an array, a sparse matrix, a VectorSource or an iterable of vectors "
            f"or batches, got {type(vectors).__name__}. Read a file by encode_file."
        )
    else:
        for batch in vectors:
            yield from _batch_blocks(batch, name)


def _batch_blocks(batch: Any, name: str) -> Iterator[StreamBlock]:
    """Yield one vector or one batch in blocks of about a megabyte."""
    rows = _batch_rows(batch, name)
    n_rows, d = rows.shape
    step = max(1, _READ_BYTES // (4 * d))
    for first in range(0, n_rows, step):
        part = rows[first : first + step]
        dense = _to_float32(part.toarray() if issparse(part) else part)
        yield StreamBlock(dense, 4 * d * np.arange(1, len(dense) + 1), "f32")


def _batch_rows(batch: Any, name: str) -> Any:
    """Return a vector or a batch as rows of numbers."""
    if issparse(batch):
        rows = batch.tocsr()
    else:
        require_unmasked(batch, name)
        try:
            rows = np.asarray(batch)
        except ValueError:
            raise InvalidInputError(
                f"{name} must hold numbers, all rows of one length, got something else."
            ) from None
        if rows.ndim == 1:
            rows = rows.reshape(1, -1)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InvalidInputError(
            f"{name} must be vectors (n_features,) or batches (n, n_features), got {rows.shape}."
        )
    number_dtype(rows.dtype, name)
    return rows


def _to_float32(rows: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(rows, dtype=np.float32)
