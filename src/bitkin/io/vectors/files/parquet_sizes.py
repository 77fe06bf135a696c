"""How many numbers a .parquet file announces, by its own headers, read before pyarrow allocates on
their word.

A number that repeats takes no room in a page, so a file of a kilobyte may hold a list of a billion
zeros. Headers are Thrift structures in the compact protocol; what cannot be parsed here is left for
pyarrow to refuse.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bitkin.errors import CorruptFileError
from bitkin.io.stable import StableFile

# Which fields of a structure are wanted, by number; the value is what is wanted of a structure
# within.
_Wanted = dict[int, Any]
# Numbers of fields by parquet.thrift. A column chunk's metadata (3): path (3), values (5), packed
# bytes (7), first data page (9), dictionary page (11).
_CHUNK: _Wanted = {3: {3: None, 5: None, 7: None, 9: None, 11: None}}
# FileMetaData: row groups (4), each with its column chunks (1).
_FOOTER: _Wanted = {4: {1: _CHUNK}}
# PageHeader: bytes unpacked (2) and packed (3), and the headers of a data page (5), a dictionary
# page (7) and a data page of version 2 (8), each with its number of values (1).
_PAGE: _Wanted = {2: None, 3: None, 5: {1: None}, 7: {1: None}, 8: {1: None}}

_SMALL_HEADER, _LARGE_HEADER = 1 << 8, 1 << 16
_DEEPEST = 16
_LENGTH = -1  # no field has this number


class Announced(NamedTuple):
    """What the pages of one column announce."""

    n_values: int
    """Numbers of all pages."""
    largest_page: int
    """Bytes of the largest page once it is unpacked."""


def announced_by(file: StableFile, column: str) -> Announced:
    """Return what the pages of a top-level column announce, each page counted once."""
    file_bytes = file.stamp.size
    # a file ends in the footer, four bytes of its length, and "PAR1"
    length = int.from_bytes(file.read(max(0, file_bytes - 8), 4), "little")
    footer = _parse(file.read(max(0, file_bytes - 8 - length), length), _FOOTER)
    n_values, largest, walked = 0, 0, 0
    for group in _structures(footer, 4):
        for chunk in _structures(group, 1):
            meta = _structure(chunk, 3)
            path = meta.get(3)
            if not isinstance(path, list) or path[:1] != [column.encode()]:
                continue
            start, size = _extent(meta)
            walked += max(0, size)
            # Chunks may claim the same bytes over and over: without
            # this, walking a small file could take hours.
            if walked > file_bytes:
                raise CorruptFileError(
                    f"{file.path}, column {column!r} has pages of {walked:,} bytes in a file of "
                    f"{file_bytes:,} bytes."
                )
            found = _walk(file, start, start + size)
            # the larger of two announcements, since pyarrow may allocate by either
            n_values += max(found.n_values, _count(meta, 5))
            largest = max(largest, found.largest_page)
    return Announced(n_values, largest)


def _extent(meta: dict[int, Any]) -> tuple[int, int]:
    """Return where the pages of a chunk begin and their bytes; its dictionary comes first, where
    there is one.
    """
    start, dictionary = _count(meta, 9), _count(meta, 11)
    return dictionary if 0 < dictionary < start else start, _count(meta, 7)


def _walk(file: StableFile, at: int, stop: int) -> Announced:
    n_values, largest = 0, 0
    while 0 <= at < stop:
        # most headers are short; only one with statistics needs the larger read
        page = _parse(file.read(at, _SMALL_HEADER), _PAGE) or _parse(
            file.read(at, _LARGE_HEADER), _PAGE
        )
        if page is None:
            break
        # of pages of either version
        n_values += sum(_count(_structure(page, kind), 1) for kind in (5, 8))
        # a dictionary has values too
        largest = max(largest, _count(page, 2), 4 * _count(_structure(page, 7), 1))
        at += page[_LENGTH] + _count(page, 3)
    return Announced(n_values, largest)


def _parse(data: bytes, wanted: _Wanted) -> dict[int, Any] | None:
    """Return the wanted fields of a structure, and under `_LENGTH` its bytes; None where it cannot
    be parsed.
    """
    reader = _Compact(data)
    try:
        fields = reader.structure(wanted)
    except (IndexError, ValueError):
        return None
    return {**fields, _LENGTH: reader.at}


def _structures(fields: dict[int, Any] | None, number: int) -> list[dict[int, Any]]:
    """Return the structures that a field lists; none where it holds anything else."""
    value = None if fields is None else fields.get(number)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _structure(fields: dict[int, Any], number: int) -> dict[int, Any]:
    """Return the structure in a field; an empty one where it holds anything else."""
    value = fields.get(number)
    return value if isinstance(value, dict) else {}


def _count(fields: dict[int, Any], number: int) -> int:
    """Return the number in a field; 0 where it holds anything else."""
    value = fields.get(number)
    return value if isinstance(value, int) and value > 0 else 0


class _Compact:
    """Parses one structure of Thrift's compact protocol; raises IndexError or ValueError where that
    cannot be.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def structure(self, wanted: _Wanted, depth: int = 0) -> dict[int, Any]:
        """Return the wanted fields by number; the others are passed over."""
        if depth > _DEEPEST:
            raise ValueError("structures within structures without end")
        fields: dict[int, Any] = {}
        number = 0
        # A field begins with one byte: its type in the low half, and in the
        # high half how far its number is above the one before; 0 there means
        # that the number follows. Type 0 ends the structure.
        while (head := self._byte()) & 15:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            value = self._value(head & 15, wanted.get(number), depth, in_structure=True)
            if number in wanted:
                fields[number] = value
        return fields

    def _value(self, kind: int, wanted: Any, depth: int, *, in_structure: bool = False) -> Any:
        if kind in (1, 2):  # a field's truth is in its head
            return kind == 1 if in_structure else self._byte() == 1
        if kind == 3:
            return self._byte()
        # integers of 16, 32 and 64 bits are all written alike
        if kind in (4, 5, 6):
            return self._zigzag()
        # a double or a UUID
        if kind in (7, 13):
            return self._bytes(8 if kind == 7 else 16)
        if kind == 8:
            return self._bytes(self._varint())
        # a list or a set
        if kind in (9, 10):
            return self._list(wanted, depth)
        if kind == 11:
            return self._map(depth)
        if kind == 12:
            return self.structure(wanted if isinstance(wanted, dict) else {}, depth + 1)
        raise ValueError(f"no type has the number {kind}")

    def _list(self, wanted: Any, depth: int) -> list[Any]:
        head = self._byte()
        # one byte of size and type; from 15 elements on the size follows
        size = self._varint() if head >> 4 == 15 else head >> 4
        if size > len(self.data) - self.at:  # every element takes a byte or more
            raise ValueError("a list longer than its structure")
        return [self._value(head & 15, wanted, depth + 1) for _ in range(size)]

    def _map(self, depth: int) -> None:
        size = self._varint()
        if size > len(self.data) - self.at:
            raise ValueError("a map longer than its structure")
        kinds = self._byte() if size else 0
        for _ in range(size):
            self._value(kinds >> 4, None, depth + 1)
            self._value(kinds & 15, None, depth + 1)

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise ValueError("bytes beyond the structure")
        self.at += size
        return self.data[self.at - size : self.at]

    def _varint(self) -> int:
        value = 0
        # seven bits per byte, the lowest first; the top bit says that more follow
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number of more than 64 bits")

    def _zigzag(self) -> int:
        value = self._varint()
        # 0, −1, 1, −2, … are written as 0, 1, 2, 3, …
        return (value >> 1) ^ -(value & 1)
