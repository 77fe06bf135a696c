"""Rows on their way to a service: read a batch at a time, written as JSON, under ids that nobody
else has.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch, FloatRows
from bitkin.checks import shown
from bitkin.client.remote import CollectionInfo
from bitkin.codes import Codes
from bitkin.collection.metadata.documents import text_fault
from bitkin.errors import InvalidInputError
from bitkin.io.vectors.batch import (
    bytes_per_row,
    first_not_finite,
    not_finite,
    row_slice,
    stack,
)
from bitkin.io.vectors.opening import open_vectors
from bitkin.io.vectors.rows import lone_as_row
from bitkin.io.vectors.source import VectorSource
from bitkin.sets.sets import Sets
from bitkin.wire import pack_vectors

BATCH_BYTES = 4 << 20
"""About how large a request of rows is, before base64 makes a third more of it."""

_FIRST_IDS = 1 << 52
_NAMES_OF_RUN = 1 << 32


class IdRuns:
    """Makes ids that nobody else makes: runs of consecutive ones from a start by chance.

    Whole numbers start below 2**52 and stay below 2**53, so that every language holds them
    exactly. Strings have 32 characters, of which the first 24 are by chance. Whoever stores them
    must refuse those that are there, and ask for others then: chance alone is no promise.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process, self._next_id = 0, 0
        self._prefix, self._n_names = "", 0

    def take(self, n: int, *, strings: bool) -> npt.NDArray[Any]:
        """Return the next `n` ids, in ascending order."""
        with self._lock:
            # a forked process must not continue what its parent continues too
            if self._process != os.getpid() or self._n_names + n > _NAMES_OF_RUN:
                self._start_again()
            if strings:
                first, self._n_names = self._n_names, self._n_names + n
                names = np.empty(n, dtype=object)
                names[:] = [f"{self._prefix}{number:08x}" for number in range(first, first + n)]
                return names
            first, self._next_id = self._next_id, self._next_id + n
            return np.arange(first, first + n, dtype=np.int64)

    def start_again(self) -> None:
        """Begin another run: somebody has ids of this one."""
        with self._lock:
            self._start_again()

    def _start_again(self) -> None:
        self._process = os.getpid()
        self._next_id = secrets.randbelow(_FIRST_IDS)
        self._prefix, self._n_names = secrets.token_hex(12), 0


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """Some rows to add: vectors, or codes or texts in their place."""

    n_rows: int
    vectors: Batch | None = None
    codes: Codes | None = None
    corrections: FloatRows | None = None
    texts: Sequence[str] | None = None
    text_key: str | None = None
    """Under which texts are metadata too."""
    ids: npt.NDArray[Any] | None = None
    """None where they are made here."""
    metadata: list[str] | None = None
    """JSON of every row's."""
    place: str = ""
    """Where they stood, for messages about one of them."""

    def part(self, first: int, stop: int) -> RowBatch:
        """Return some of the rows."""
        rows = slice(first, stop)
        return replace(
            self,
            n_rows=stop - first,
            vectors=None if self.vectors is None else row_slice(self.vectors, first, stop),
            codes=None if self.codes is None else self.codes[rows],
            corrections=None if self.corrections is None else self.corrections[rows],
            texts=None if self.texts is None else self.texts[rows],
            ids=None if self.ids is None else self.ids[rows],
            metadata=None if self.metadata is None else self.metadata[rows],
        )

    def as_json(self, ids: npt.NDArray[Any]) -> str:
        """Return the rows under some ids as the body of a request."""
        members = []
        if self.vectors is not None:
            members.append(f'"vectors": {json.dumps(pack_vectors(self.vectors))}')
        if self.codes is not None:
            members.append(f'"codes": {json.dumps(code_texts(self.codes))}')
        if self.corrections is not None:
            members.append(f'"corrections": {json.dumps(self.corrections.tolist())}')
        if self.texts is not None:
            members.append(f'"texts": {json.dumps(list(self.texts))}')
            members.append(f'"text_key": {json.dumps(self.text_key)}')
        members.append(f'"ids": {json.dumps(ids.tolist())}')
        if self.metadata is not None:
            members.append(f'"metadata": [{", ".join(self.metadata)}]')
        return "{" + ", ".join(members) + "}"


def code_texts(codes: Codes) -> list[str | None]:
    """Return every code in hexadecimal, plane after plane; None where there was nothing to hash."""
    rows = np.ascontiguousarray(codes.to_bytes())
    return [
        None if empty else row.tobytes().hex()
        for row, empty in zip(rows, codes.empty_rows().tolist(), strict=True)
    ]


def check_texts(texts: Any, name: str = "texts") -> list[str]:
    """Return texts as a list; a lone one is a row."""
    listed = [texts] if isinstance(texts, str) else texts
    if isinstance(listed, np.ndarray):
        listed = listed.tolist()
    if not isinstance(listed, (list, tuple)):
        raise InvalidInputError(f"{name} must be a list of texts, got {shown(texts)}.")
    for place, text in enumerate(listed):
        if not isinstance(text, str):
            raise InvalidInputError(f"{name} must be texts, got {shown(text)} at position {place}.")
        if fault := text_fault(text):
            raise InvalidInputError(f"{name} must be without {fault}, at position {place}.")
    return list(map(str, listed))


def open_rows(vectors: Any, name: str) -> VectorSource:
    """Open vectors to read them a batch at a time, whatever holds them; a lone one is a row."""
    if isinstance(vectors, (list, tuple)) and len(vectors) == 0:
        raise InvalidInputError(
            f"{name} must be rows of numbers, got none. No rows at all are np.empty((0, d))."
        )
    if isinstance(vectors, Sets) or _is_list_of_sets(vectors):
        raise InvalidInputError(
            f"{name} must be a matrix, got sets, which a service does not take. Make codes of them "
            "and give those: client.hasher.encode(sets)."
        )
    return open_vectors(lone_as_row(vectors), name=name)


def _is_list_of_sets(vectors: Any) -> bool:
    return isinstance(vectors, (list, tuple)) and isinstance(vectors[0], (set, frozenset))


def require_n_features(source: VectorSource, about: CollectionInfo) -> None:
    """Raise unless vectors have the length of those of the collection."""
    wanted, given = about.n_features, source.shape[1]
    if wanted is not None and given != wanted:
        raise InvalidInputError(
            f"{source.name} has {given} features, but the collection is expecting {wanted} "
            "features. Give it vectors of the kind its hasher was fitted on."
        )


def float_batches(source: VectorSource, most_rows: int) -> Iterator[tuple[int, Batch]]:
    """Yield `(first_row, batch)` as vectors are sent: as float32, of about `BATCH_BYTES` and at
    most so many rows, joined where they come a few at a time.
    """
    first, held = 0, _HeldRows(most_rows)
    for batch in _float_rows(source):
        at = 0
        while at < batch.shape[0]:
            at = held.take(batch, at)
            if held.is_full:
                yield first, held.give()
                first += held.n_given
    if held.n_rows:
        yield first, held.give()


class _HeldRows:
    """Rows on their way into one request."""

    def __init__(self, most_rows: int) -> None:
        self._most_rows = most_rows
        self._parts: list[Batch] = []
        self._bytes = 0.0
        self.n_rows = self.n_given = 0
        self.is_full = False

    def take(self, batch: Batch, at: int) -> int:
        """Take as many rows of a batch from `at` on as fit, one at least where there are none;
        return where the rest begins.
        """
        each = max(1.0, bytes_per_row(batch))
        room = min(self._most_rows - self.n_rows, int((BATCH_BYTES - self._bytes) / each))
        room = max(room, 0 if self._parts else 1)
        stop = min(int(batch.shape[0]), at + room)
        if stop > at:
            self._parts.append(row_slice(batch, at, stop))
            self.n_rows += stop - at
            self._bytes += (stop - at) * each
        self.is_full = stop < batch.shape[0] or self.n_rows == self._most_rows
        return stop

    def give(self) -> Batch:
        """Return what is held, and hold nothing."""
        rows = stack(self._parts)
        self._parts, self._bytes = [], 0.0
        self.n_rows, self.n_given, self.is_full = 0, self.n_rows, False
        return rows


def _float_rows(source: VectorSource) -> Iterator[Batch]:
    """Yield batches as float32; raise for numbers that it does not hold."""
    for first, batch in source.batches():
        with np.errstate(over="ignore"):
            rows = batch.astype(np.float32, copy=False)
        found = first_not_finite(rows)
        if found is not None:
            row, column, value = found
            raise not_finite(value, f"{source.name} as float32", f"row {first + row}", column)
        yield rows
