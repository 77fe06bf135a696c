"""Vectors in JSON lines: a list of numbers per line, or an object that has it in one field."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arguments import PYTHON, ArgumentSpelling
from bitkin.errors import InvalidInputError

_MAX_LINE = 1 << 28  # bytes

Vectors = npt.NDArray[np.float64]
Ends = npt.NDArray[np.int64]


class JsonVectors:
    """Reads lines as they come.

    Blank lines hold no vector. All vectors have `width` numbers, or as many as the first.

    Parameters
    ----------
    name : str
        What errors call the stream.
    width : int or None
        Length of a vector, if it is known.
    field : str
        The field of an object that holds the vector.
    spelling : ArgumentSpelling, default PYTHON
        How messages name arguments.
    """

    def __init__(
        self, name: str, width: int | None, field: str, spelling: ArgumentSpelling = PYTHON
    ) -> None:
        self._name = name
        self._width = width
        self._field = field
        self._spelling = spelling
        self._n_lines = 0
        self._blank = 0  # bytes of blank lines since the last vector

    def blocks(self, read: Callable[[], bytes], begun: bytes) -> Iterator[tuple[Vectors, Ends]]:
        """Yield float64 (n, d), and the bytes from the end of the block before to the end of each
        vector's line.

        `begun` is what was read already. What comes before a flaw is yielded, then the flaw is
        raised.
        """
        rest, data = bytearray(), begun
        while True:
            cut = data.rfind(b"\n") + 1
            if cut:
                yield from self._parse_block(bytes(rest) + data[:cut])
                rest.clear()
            rest += data[cut:]
            if len(rest) > _MAX_LINE:
                raise InvalidInputError(
                    f"{self._name}, line {self._n_lines + 1} is longer than {_MAX_LINE:,} bytes."
                )
            if not (data := read()):
                break
        yield from self._parse_block(bytes(rest))  # a missing newline at the end is no flaw

    def _parse_block(self, text: bytes) -> Iterator[tuple[Vectors, Ends]]:
        vectors, ends, flaw = [], [], None
        at = self._blank
        for line in text.split(b"\n"):
            self._n_lines += 1
            at += len(line) + 1
            try:
                if line.strip():
                    vectors.append(self._parse_vector(line))
                    ends.append(at)
            except InvalidInputError as error:
                flaw = InvalidInputError(f"{self._name}, line {self._n_lines}: {error}")
                break
        self._n_lines -= text.endswith(b"\n") or not text  # after the last newline there is no line
        at -= 1  # nor a newline after it
        self._blank = at - (ends[-1] if ends else 0)
        if ends:
            ends[-1] = min(ends[-1], at)
            yield np.array(vectors, dtype=np.float64), np.array(ends, dtype=np.int64)
        if flaw is not None:
            raise flaw

    def _parse_vector(self, line: bytes) -> Vectors:
        value = _parse_json(line)
        if isinstance(value, dict):
            if self._field not in value:
                fields = ", ".join(map(repr, list(value)[:8])) or "no fields"
                raise InvalidInputError(
                    f"no field {self._field!r}. It has {fields}. Name the field by "
                    f"{self._spelling.name('field')}."
                )
            value = value[self._field]
        if not isinstance(value, list) or set(map(type, value)) != {float}:
            raise InvalidInputError(
                f"must be a list of numbers, or an object with one as {self._field!r}."
            )
        if self._width is None:
            self._width = len(value)
        if len(value) != self._width:
            raise InvalidInputError(f"must be a vector of {self._width} numbers, got {len(value)}.")
        return np.array(value, dtype=np.float64)


def _parse_json(line: bytes) -> Any:
    try:
        return json.loads(line, parse_int=float)  # whole numbers may have any length
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"not UTF-8 at byte {error.start}.") from None
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"not JSON: {error.msg} at column {error.colno}.") from None
    except RecursionError as error:  # thousands of brackets
        raise InvalidInputError(f"JSON that cannot be read: {error}.") from None
