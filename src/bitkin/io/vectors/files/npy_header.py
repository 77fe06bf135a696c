"""The header of an .npy array: parsed here, so that nothing is allocated or unpickled on a file's
word.
"""

from __future__ import annotations

import ast
import math
import re
from typing import Any, NamedTuple

import numpy as np

from bitkin.errors import CorruptFileError, InvalidInputError

# NumPy writes 128 bytes for a plain array and refuses headers above 10,000.
MAX_HEADER = 10_000
PREFIX_BYTES = MAX_HEADER + 12

_DESCR = re.compile(r"[<>|=]?[biufcSU]\d{1,6}")


class NpyHeader(NamedTuple):
    """Where the numbers of an .npy array are and what they are."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def n_bytes(self) -> int:
        """Size of the numbers, exact however large."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(prefix: bytes, size: int, name: str) -> NpyHeader:
    """Parse the header at the start of `prefix`; the array must take exactly `size` bytes, header
    included.
    """
    header = parse_npy_header(prefix, name)
    if header.offset + header.n_bytes != size:
        raise CorruptFileError(
            f"{name} must have {header.offset + header.n_bytes} bytes for {header.dtype} of shape "
            f"{header.shape}, got {size}."
        )
    return header


def parse_npy_header(prefix: bytes, name: str) -> NpyHeader:
    """Parse the header at the start of `prefix`, whatever comes after it."""
    # Magic (6 bytes), version (2), length of the header (2 bytes in version 1, else 4), then a
    # Python dict as text with `descr`, `fortran_order` and `shape`.
    if len(prefix) < 12 or prefix[:6] != b"\x93NUMPY":
        raise CorruptFileError(f"{name} is not an .npy array: its first bytes are {prefix[:6]!r}.")
    major = prefix[6]
    if major not in (1, 2, 3):
        raise CorruptFileError(f"{name} has .npy version {major}, expected 1 to 3.")
    begin = 10 if major == 1 else 12
    offset = begin + int.from_bytes(prefix[8:begin], "little")
    if offset > min(len(prefix), PREFIX_BYTES):
        raise CorruptFileError(
            f"{name} must have a whole header of at most {MAX_HEADER} bytes, got {offset - begin}."
        )
    return _fields(prefix[begin:offset], offset, name)


def _fields(text: bytes, offset: int, name: str) -> NpyHeader:
    try:
        # literals only: nothing in it can run
        fields = ast.literal_eval(text.decode("utf-8").strip())
        shape, fortran_order, descr = fields["shape"], fields["fortran_order"], fields["descr"]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        raise CorruptFileError(f"{name} has an unreadable .npy header: {text[:60]!r}.") from None
    # type() is int, for True is an int to isinstance
    whole = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if not whole or not isinstance(fortran_order, bool):
        raise CorruptFileError(
            f"{name} must have a shape of whole numbers in its .npy header, got {str(shape)[:60]}."
        )
    if isinstance(descr, str) and descr.lstrip("|<>=").startswith("O"):
        raise InvalidInputError(
            f"{name} holds Python objects as a pickle, which bitkin never loads. Save numbers."
        )
    if not isinstance(descr, str) or not _DESCR.fullmatch(descr):
        raise InvalidInputError(f"{name} must hold plain numbers, got type {str(descr)[:60]}.")
    try:
        return NpyHeader(shape, fortran_order, np.dtype(descr), offset)
    except TypeError:
        raise CorruptFileError(
            f"{name} has an unknown type in its .npy header: {descr!r}."
        ) from None
