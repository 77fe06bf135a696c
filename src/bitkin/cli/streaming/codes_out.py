"""Codes as they are made: to a file that can be cut back, or to stdout, which cannot."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from bitkin.cli.streaming.signals import StopRequests

if TYPE_CHECKING:
    from bitkin.codes import Codes

CODE_FORMATS = ("raw", "jsonl")


class CodesOut(Protocol):
    """Where codes go: a `GrowingFile`, or `StandardOut`."""

    @property
    def length(self) -> int:
        """Bytes written."""

    def require_length(self, length: int) -> None:
        """Raise CorruptFileError where fewer bytes are known to be there."""

    def cut(self, length: int) -> None:
        """Go on after so many bytes."""

    def append(self, data: bytes) -> None:
        """Hand bytes on at once."""

    def sync(self) -> None:
        """Make sure that what was written survives a power cut, where that can be made sure."""

    def close(self) -> None:
        """Let go."""


class StandardOut:
    """Stdout, unbuffered; a request to stop ends the wait for a reader that does not read."""

    def __init__(self, stop: StopRequests) -> None:
        self._stop = stop
        self.length = 0

    def require_length(self, length: int) -> None:
        """Do nothing: what became of bytes that left is not known."""

    def cut(self, length: int) -> None:
        """Count from here on: what left cannot be cut."""
        self.length = length

    def append(self, data: bytes) -> None:
        """Write all of it, or raise `Stopped`."""
        rest = memoryview(data)
        while rest:
            with self._stop.interrupting():
                rest = rest[os.write(1, rest) :]
        self.length += len(data)

    def sync(self) -> None:
        """Do nothing: what is in a pipe is its reader's."""

    def close(self) -> None:
        """Do nothing: stdout is not ours to close."""


def formatter(form: str) -> Callable[[Codes, int], bytes]:
    """Return how codes become bytes: a function of codes and the number of their first row."""
    return _raw if form == "raw" else _json_lines


def _raw(codes: Codes, first_row: int) -> bytes:
    """Return `to_bytes` of each row after another; an empty row is zeros."""
    return codes.to_bytes().tobytes()


def _json_lines(codes: Codes, first_row: int) -> bytes:
    """Return an object a row; an empty row has neither code nor epoch."""
    text, size = codes.to_bytes().tobytes().hex(), 2 * codes.spec.n_bytes
    epoch = "null" if codes.fingerprint is None else f'"{codes.fingerprint}"'
    empty = codes.empty_rows()
    lines = [
        f'{{"row": {first_row + i}, "code": null, "epoch": null}}\n'
        if empty[i]
        else f'{{"row": {first_row + i}, "code": "{text[i * size : (i + 1) * size]}", "epoch": '
        f"{epoch}}}\n"
        for i in range(len(codes))
    ]
    return "".join(lines).encode()
