"""What a stream has taken, by checksums: enough to recognize an input that begins again.

A checksum is the CRC-32 of vectors as float32. It continues over pieces, so it does not depend on
how the stream was cut, nor on the format that it came in.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import whole_number
from bitkin.io.layout import checksum
from bitkin.stream_files.vectors_in import StreamBlock

# An input whose first vectors are these is taken for one that begins again. One vector may well
# come twice, so many in the same order hardly ever.
_HEAD_VECTORS = 16
# That many of them must differ: a sensor that stands still sends the same vector again and again.
_DIFFERENT_VECTORS = 8
_UNKNOWN = -1


@dataclass(slots=True)
class TakenVectors:
    """Checksums of vectors that came one after another: of each of the first few, and of all."""

    n_vectors: int = 0
    checksum: int = 0
    head: list[int] = field(default_factory=list)

    @classmethod
    def from_record(cls, record: Any) -> TakenVectors:
        """Return what `asdict` made a record of; raise TypeError or ValueError for another one."""
        if not isinstance(record, dict) or set(record) != {f.name for f in fields(cls)}:
            raise TypeError("vectors taken are a number, a checksum and a list")
        n_vectors = whole_number(record["n_vectors"], "n_vectors", low=0)
        head = [whole_number(crc, "head", low=0, high=2**32 - 1) for crc in record["head"]]
        if len(head) != min(n_vectors, _HEAD_VECTORS):
            raise ValueError("each of the first vectors has a checksum")
        crc = whole_number(record["checksum"], "checksum", low=0, high=2**32 - 1)
        return cls(n_vectors, crc, head)

    @classmethod
    def unknown(cls, n_vectors: int) -> TakenVectors:
        """Return so many vectors, any of which may be these."""
        return cls(n_vectors, _UNKNOWN)

    @property
    def is_telling(self) -> bool:
        """Whether other vectors that are the same are hardly new ones: these are many, and
        differ.
        """
        return len(self.head) == _HEAD_VECTORS and len(set(self.head)) >= _DIFFERENT_VECTORS

    def add(self, rows: npt.NDArray[np.float32]) -> None:
        """Note rows, which come next."""
        self.head += [checksum(row) for row in rows[: max(0, _HEAD_VECTORS - len(self.head))]]
        self.checksum = checksum(rows, self.checksum)
        self.n_vectors += len(rows)

    def begins(self, other: TakenVectors) -> bool:
        """Tell whether these vectors may be the first of others."""
        if other.checksum == _UNKNOWN:
            return self.n_vectors <= other.n_vectors
        if self.n_vectors < other.n_vectors:
            return self.head == other.head[: len(self.head)]
        return self.n_vectors == other.n_vectors and self.checksum == other.checksum


@dataclass(slots=True)
class TakenInputs:
    """What a stream took: all of it and, where it continued with another input, the last of
    those.
    """

    stream: TakenVectors | None = field(default_factory=TakenVectors)
    """All of it; None where an earlier bitkin began it, which did not note this."""
    last: TakenVectors | None = None
    """What the last run that continued it was fed; None where that is all of it."""
    source: str = ""
    """The file that the last input began with, as the state sees it; "" if it was no file."""

    @classmethod
    def from_record(cls, record: Any) -> TakenInputs:
        """Return what `asdict` made a record of; raise TypeError or ValueError for another one."""
        if not isinstance(record, dict) or set(record) != {f.name for f in fields(cls)}:
            raise TypeError("inputs taken are a stream, the last of it and where that is from")
        stream, last = (
            None if record[name] is None else TakenVectors.from_record(record[name])
            for name in ("stream", "last")
        )
        if not isinstance(record["source"], str):
            raise TypeError("a source is text")
        if stream is not None and last is not None and last.n_vectors > stream.n_vectors:
            raise ValueError("the last input is a part of the stream")
        return cls(stream, last, record["source"])

    def to_record(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)

    def add(self, rows: npt.NDArray[np.float32]) -> None:
        """Note rows, which come next."""
        for taken in (self.stream, self.last):
            if taken is not None:
                taken.add(rows)

    def begin_last(self, source: str) -> None:
        """Note that another input continues the stream."""
        is_first = self.stream is not None and self.stream.n_vectors == 0
        self.last = None if is_first else TakenVectors()
        self.source = source

    def begin_again(self, taken: TakenVectors, source: str) -> None:
        """Note that an input repeats the last one, or else the whole stream."""
        if taken is not self.last:
            self.stream, self.last = taken, None
        self.source = source


class Repetition:
    """Tells whether an input begins a stream again, or what it was fed last, and passes over what
    was taken of it already.

    Vectors are held back only as long as they are the first of something that was taken.

    Parameters
    ----------
    taken : list of TakenVectors
        What the input may repeat.
    """

    def __init__(self, taken: list[TakenVectors]) -> None:
        self._may_repeat = [each for each in taken if each.n_vectors]
        self._seen = TakenVectors()
        self._held: list[StreamBlock] = []
        self._n_before_held = 0
        self._bytes_before_held = 0
        self.repeated: TakenVectors | None = None
        """What the input repeats, as soon as all of that has come again."""
        self.n_bytes = 0
        """Of the input, up to the end of what is repeated."""
        self.is_decided = not self._may_repeat
        self.is_changed = False
        """Whether it began as what was taken, and continued otherwise."""

    @property
    def n_seen(self) -> int:
        """Vectors that were looked at."""
        return self._seen.n_vectors

    @property
    def n_expected(self) -> int:
        """Vectors that must come again before any is new."""
        return max((each.n_vectors for each in self._may_repeat), default=0)

    def look_at(self, block: StreamBlock) -> Iterator[StreamBlock]:
        """Take the next vectors, and yield those that are known to be new, if it is decided."""
        if self._held and self._seen.n_vectors >= _HEAD_VECTORS:
            self._drop_held()  # vectors of earlier blocks are not new, whatever comes
        self._held.append(block._replace(rows=block.rows.copy()))
        at = 0
        while at < len(block.rows) and not self.is_decided:
            stop = at + 1
            if self._seen.n_vectors >= _HEAD_VECTORS:
                to_next_end = min(each.n_vectors for each in self._may_repeat) - self.n_seen
                stop = min(len(block.rows), at + to_next_end)
            self._seen.add(block.rows[at:stop])
            at = stop
            self._decide()
        if self.is_decided and not self.is_changed:
            yield from self._new_vectors()

    def _decide(self) -> None:
        """Drop what the vectors do not repeat; decide where nothing is left or all has come."""
        left = [each for each in self._may_repeat if self._seen.begins(each)]
        for each in left:
            if self._seen.n_vectors == each.n_vectors:
                self.repeated = self._seen if each.checksum == _UNKNOWN else each
        left = [each for each in left if self._seen.n_vectors < each.n_vectors]
        # The first few vectors may be those of a short input and of the whole stream too: what
        # follows tells. Of many it is not worth waiting for.
        if left and (self.repeated is None or self.n_seen < _HEAD_VECTORS):
            self._may_repeat = left
            return
        self.is_decided = True
        self.is_changed = self.repeated is None and self.n_seen > _HEAD_VECTORS

    def _drop_held(self) -> None:
        self._n_before_held += sum(len(block.rows) for block in self._held)
        self._bytes_before_held += sum(int(block.ends[-1]) for block in self._held)
        self._held = []

    def _new_vectors(self) -> Iterator[StreamBlock]:
        """Yield what is held, without what is repeated."""
        skip = 0 if self.repeated is None else self.repeated.n_vectors - self._n_before_held
        self.n_bytes = self._bytes_before_held
        for block in self._held:
            n_old = min(skip, len(block.rows))
            old_bytes = int(block.ends[n_old - 1]) if n_old else 0
            skip -= n_old
            self.n_bytes += old_bytes
            if n_old < len(block.rows):
                yield block._replace(rows=block.rows[n_old:], ends=block.ends[n_old:] - old_bytes)
        self._held = []


def source_of(file: Any) -> str | None:
    """Return the path of a regular file that is read from its start, or what else tells it from
    others; None for all else.
    """
    try:
        number = file.fileno()
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode) or not about.st_nlink or os.lseek(number, 0, 1):
            return None
    except (AttributeError, OSError, ValueError):
        return None
    try:
        return str(Path(f"/dev/fd/{number}").readlink())
    except OSError:  # not every system names what is open
        return f"inode {about.st_dev}:{about.st_ino}"
