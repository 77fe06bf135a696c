"""Rows on their way into a collection: batches read from a file, with where they stood in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bitkin.arrays import Batch, FloatRows
from bitkin.checks import shown
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.input_files import VectorFileOptions
from bitkin.io.json_lines import in_words

BATCH_ROWS = 10_000
TEXTS_AT_ONCE = 512  # that are embedded together: a transaction, and a step of a progress bar
Embedder = Callable[[list[str]], Any]


class RowTarget(NamedTuple):
    """What a collection takes, as far as readers of files must know."""

    spec: CodeSpec | None = None
    """Of its codes; None where it is still to be made."""
    n_features: int | None = None
    """Length of its vectors, where that is known."""
    string_ids: bool = False
    keeps_vectors: bool = True


class RowFileOptions(NamedTuple):
    """Which key or column of a file is what, and files beside it; None where it was not said."""

    id_key: str | None = None
    """"id" where there is such a key."""
    vector_key: str | None = None
    """"vector" of JSON lines, the only list column of a .parquet file."""
    text_key: str | None = None
    """Texts to make vectors of by `embed`."""
    embed: Embedder | None = None
    ids: Path | None = None
    """A file with the ids of a file of vectors."""
    metadata: Path | None = None
    """JSON lines with the metadata, and perhaps the ids, of a file of vectors."""
    vector_files: VectorFileOptions = VectorFileOptions()
    batch_rows: int = BATCH_ROWS


class ArrivingRows(NamedTuple):
    """Some rows of a file."""

    ids: Any
    """None where the file has none."""
    vectors: Batch | None
    codes: Codes | None
    """In the place of vectors."""
    corrections: FloatRows | None
    metadata: list[dict[str, Any]] | None
    n_rows: int
    place: str
    """Where they stood, for messages about one of them."""


class RecordFile(ABC):
    """A file of rows, read once."""

    name: str
    """What messages call it."""
    unit = "rows"
    """What `done` and `total` count."""
    total: int | None = None
    done = 0
    """How much of it the batches so far are."""

    def __init__(self) -> None:
        self._ahead: deque[ArrivingRows] = deque()
        self._reading: Iterator[ArrivingRows] | None = None

    @abstractmethod
    def read(self) -> Iterator[ArrivingRows]:
        """Yield all rows in order, and keep `done` up to date."""

    def batches(self) -> Iterator[ArrivingRows]:
        """Yield all rows in order, those first that were looked at ahead."""
        reading = self._begun()
        while self._ahead:
            yield self._ahead.popleft()
        yield from reading

    def look_ahead(
        self, n_rows: int, progress: Callable[[], object] = int
    ) -> Sequence[ArrivingRows]:
        """Return the first rows, at least so many if there are, and keep them for `batches`."""
        reading = self._begun()
        while sum(batch.n_rows for batch in self._ahead) < n_rows:
            batch = next(reading, None)
            if batch is None:
                break
            self._ahead.append(batch)
            progress()
        return tuple(self._ahead)

    def _begun(self) -> Iterator[ArrivingRows]:
        if self._reading is None:
            self._reading = self.read()
        return self._reading


class RecordKeys:
    """Takes the id and the metadata of every record, the same way from the first to the last."""

    def __init__(self, id_key: str | None, *taken: str) -> None:
        self._id_key = id_key
        self._asked = id_key is not None
        self._taken = taken
        self._begun = False

    def take(self, record: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the id of a record, None where there are none, and its metadata: what stands
        under "metadata" and all keys that are nothing else.
        """
        if not self._begun:
            self._begun = True
            if self._id_key is None and "id" in record:
                self._id_key = "id"
        name = None
        if self._id_key is not None:
            if record.get(self._id_key) is None:
                raise InvalidInputError(
                    f"no {self._id_key!r} for the id. It has {_listed(record)}."
                    + ("" if self._asked else " Rows before it had one: all must, or none.")
                )
            name = record[self._id_key]
            if isinstance(name, (bool, float, list, dict)):
                raise InvalidInputError(
                    f"{self._id_key!r} must be a whole number or a string, got {in_words(name)}."
                )
        elif record.get("id") is not None:
            raise InvalidInputError(
                "it has an 'id', and the rows before it had none: all must, or none."
            )
        rest = {
            key: value
            for key, value in record.items()
            if key != self._id_key and key not in self._taken
        }
        inner = rest.get("metadata")
        if isinstance(inner, dict):
            del rest["metadata"]
            twice = sorted(inner.keys() & rest.keys())
            if twice:
                raise InvalidInputError(
                    f"{twice[0]!r} stands beside 'metadata' and in it. Leave one out."
                )
            rest = {**inner, **rest}
        return name, rest


def read_text(record: dict[str, Any], key: str) -> str:
    """Return the text of a record."""
    text = record.get(key)
    if not isinstance(text, str):
        got = in_words(text) if key in record else f"no such key; it has {_listed(record)}"
        raise InvalidInputError(f"{key!r} must hold the text, got {got}.")
    return text


def _listed(record: dict[str, Any]) -> str:
    return ", ".join(shown(key) for key in list(record)[:8]) or "no keys"
