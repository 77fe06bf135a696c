"""Strings to 64-bit members: the bytes that the hashing loops of `bitkin.kernels.hashing.shingles`
work on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

_SPARE_BYTES = 24  # the loops read whole words, a few beyond the end
_SPARE = "\0" * (_SPARE_BYTES + 8)  # of bytes, which are cut to whole words


class Bytes:
    """Bytes in a buffer that loops may read beyond the end; `words` is the same memory, eight bytes
    at a time.
    """

    def __init__(self, n_bytes: int) -> None:
        self.buffer: npt.NDArray[np.uint8] = np.zeros(
            8 * -(-n_bytes // 8) + _SPARE_BYTES, dtype=np.uint8
        )
        self.n_bytes = n_bytes

    @classmethod
    def copy_of(cls, data: bytes) -> Bytes:
        """Return a copy of `data`."""
        copy = cls(len(data))
        copy.buffer[: len(data)] = np.frombuffer(data, dtype=np.uint8)
        return copy

    @property
    def text(self) -> npt.NDArray[np.uint8]:
        """The bytes one by one, those beyond the end included; read-only."""
        view = self.buffer.view()
        view.flags.writeable = False
        return view

    @property
    def words(self) -> npt.NDArray[np.uint64]:
        """The bytes as little-endian numbers, read-only."""
        words = self.buffer.view("<u8").astype(np.uint64, copy=False).view()
        words.flags.writeable = False
        return words


def utf8(text: str) -> bytes:
    """Return the bytes that stand for `text`; lone surrogates, which JSON can smuggle in, get bytes
    of their own.
    """
    return str.encode(text, "utf-8", "surrogatepass")


def hash_strings(sets_of_strings: Iterable[Any], n_strings: int) -> npt.NDArray[np.uint64]:
    """Return one stable hash per string: uint64 (n_strings,). Raises TypeError where something is
    no string.

    All strings are joined by zero bytes and encoded at once: joining in Python takes most of the
    time, and nothing is copied after it.
    """
    from bitkin.kernels.hashing.shingles import hash_joined_into, hash_strings_into

    out = np.empty(n_strings, dtype=np.uint64)
    if n_strings == 0:
        return out
    sets_of_strings = [strings for strings in sets_of_strings if strings]
    joined = utf8("\0".join([*map("\0".join, sets_of_strings), _SPARE]))
    # the zero byte before the spare ones ends the last string
    words = np.frombuffer(joined, dtype="<u8", count=len(joined) // 8)
    words = np.require(words.astype(np.uint64, copy=False), requirements="A")
    if hash_joined_into(words, len(joined) - len(_SPARE), out) != n_strings:
        # some string holds a zero byte itself
        lengths = [len(utf8(string)) for strings in sets_of_strings for string in strings]
        ends = np.cumsum(np.array(lengths, dtype=np.int64) + 1) - 1
        hash_strings_into(words, ends, out)
    return out
