"""Rows in JSON lines: one object a line, with an id, a vector, a code or a text, and metadata."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from bitkin.arrays import Batch
from bitkin.checks import shown
from bitkin.codes import Codes
from bitkin.collection.transfer.arriving import (
    TEXTS_AT_ONCE,
    ArrivingRows,
    RecordFile,
    RecordKeys,
    RowFileOptions,
    RowTarget,
    read_text,
)
from bitkin.errors import InvalidInputError
from bitkin.io.json_lines import JsonLines, in_words, parse_record
from bitkin.io.line_files import MAX_LINE

_KB = 1000
_MOST_NUMBERS = 1 << 22  # of the vectors of a batch
_PLAIN = {int, float}


class NumberedLines:
    """The lines of a stream, which is read once and has no end that is known before."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self.name = name
        self.total: int | None = None
        self.done = 0
        self.ended_at_once = False
        """Never said of a stream: one without a line comes of a command that failed."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        number = 0
        while data := self._stream.readline(MAX_LINE):
            number += 1
            self.done += len(data) // _KB
            data = data.removeprefix(codecs.BOM_UTF8) if number == 1 else data
            if data.strip():
                yield number, data


class _AllLines(JsonLines):
    keeps_blank_lines = True


class FileLines:
    """The lines of a file, plain or packed as .gz."""

    def __init__(self, path: Any) -> None:
        self._file = _AllLines([path])
        self.name = str(path)
        self.total: int | None = self._file.n_bytes // _KB
        self.done = 0
        self.ended_at_once = False
        """Whether there was no line, not even a blank one."""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        self.ended_at_once = True
        for _, number, data in self._file.numbered_lines(self._progress):
            self.ended_at_once = False
            content = data.removeprefix(codecs.BOM_UTF8) if number == 1 else data
            if content.strip():
                yield number, content

    def _progress(self, n_bytes: int) -> None:
        self.done = n_bytes // _KB


class JsonRowFile(RecordFile):
    """Rows in JSON lines, of a file or of a stream."""

    unit = "kB"

    def __init__(
        self, lines: NumberedLines | FileLines, options: RowFileOptions, target: RowTarget
    ) -> None:
        super().__init__()
        self._lines = lines
        self._options = options
        self._target = target
        self.name = lines.name
        self.total = lines.total

    def read(self) -> Iterator[ArrivingRows]:
        """Yield all rows in order."""
        gathered: _Gathered | None = None
        found = False
        for number, data in self._lines:
            found = True
            try:
                record = parse_record(data, keys_once=True)
                if gathered is None:
                    gathered = self._kind_of(record)
                gathered.take(record, number)
            except InvalidInputError as flaw:
                raise InvalidInputError(f"{self.name}, line {number}: {flaw}") from None
            if gathered.is_full(self._options.batch_rows):
                self.done = self._lines.done
                yield gathered.as_rows(self.name)
        if gathered is not None and gathered.numbers:
            yield gathered.as_rows(self.name)
        self.done = self._lines.done
        # a file without a byte is what an export without rows is
        if not found and not self._lines.ended_at_once:
            raise InvalidInputError(
                f"{self.name}: no rows. Every line must hold one JSON object, such as "
                '{"id": 7, "vector": [0.5, 1.5], "year": 2020}.'
            )

    def _kind_of(self, record: dict[str, Any]) -> _Gathered:
        """Return what gathers rows such as the first one."""
        options, target = self._options, self._target
        if options.text_key is not None:
            return _GatheredTexts(options)
        key = options.vector_key or "vector"
        if key in record:
            return _GatheredVectors(options.id_key, key, target.n_features)
        if options.vector_key is None and "code" in record:
            return _GatheredCodes(options.id_key, target)
        raise InvalidInputError(
            f"no {key!r} for the vector. It has {', '.join(map(shown, list(record)[:8]))}. Name "
            "the key of vectors (vector= or --vector), or of texts to embed (text= or --text)."
        )


class _Gathered:
    """Rows of one batch, taken from records one by one."""

    def __init__(self, id_key: str | None, *taken: str) -> None:
        self._keys = RecordKeys(id_key, *taken)
        self.numbers: list[int] = []
        """Of lines."""
        self._ids: list[Any] = []
        self._metadata: list[dict[str, Any]] = []

    def take(self, record: dict[str, Any], number: int) -> None:
        """Add one record, whole or not at all."""
        name, metadata = self._keys.take(record)
        self._take_content(record)
        self._ids.append(name)
        self._metadata.append(metadata)
        self.numbers.append(number)

    def is_full(self, batch_rows: int) -> bool:
        """Whether a batch is complete."""
        return len(self.numbers) >= batch_rows

    def as_rows(self, name: str) -> ArrivingRows:
        """Return the rows so far, and begin another batch."""
        vectors, codes, corrections = self._content()
        ids, metadata, numbers = self._ids, self._metadata, self.numbers
        self._ids, self._metadata, self.numbers = [], [], []
        first, last = numbers[0], numbers[-1]
        lines = f"line {first:,}" if first == last else f"lines {first:,} to {last:,}"
        return ArrivingRows(
            None if ids[0] is None else ids,
            vectors,
            codes,
            corrections,
            metadata if any(metadata) else None,
            len(numbers),
            f"{name}, {lines} (row 0 is line {first:,})",
        )

    def _take_content(self, record: dict[str, Any]) -> None:
        raise NotImplementedError

    def _content(self) -> tuple[Batch | None, Codes | None, Any]:
        raise NotImplementedError


class _GatheredVectors(_Gathered):
    def __init__(self, id_key: str | None, key: str, n_features: int | None) -> None:
        super().__init__(id_key, key)
        self._key = key
        self._width = n_features
        self._rows: list[Any] = []
        self._held = 0
        self._sparse: bool | None = None

    def is_full(self, batch_rows: int) -> bool:
        return super().is_full(batch_rows) or self._held >= _MOST_NUMBERS

    def _take_content(self, record: dict[str, Any]) -> None:
        if self._key not in record:
            raise InvalidInputError(f"no {self._key!r} for the vector.")
        value = record[self._key]
        sparse = isinstance(value, dict)
        if self._sparse not in (None, sparse):
            raise InvalidInputError(
                f"{self._key!r} must be as in the rows before: all lists of numbers, or all "
                "objects of indices and values."
            )
        self._sparse = sparse
        row = self._read_sparse(value) if sparse else self._read_dense(value)
        self._rows.append(row)
        self._held += len(row[1]) if sparse else len(row)

    def _read_dense(self, value: Any) -> npt.NDArray[np.float64]:
        if not isinstance(value, list):
            raise InvalidInputError(
                f"{self._key!r} must be a list of numbers, got {in_words(value)}."
            )
        if self._width is None:
            self._width = len(value)
        if len(value) != self._width or not value:
            raise InvalidInputError(
                f"{self._key!r} must have {self._width or 'some'} numbers, got {len(value)}."
            )
        return _floats(value, self._key)

    def _read_sparse(self, value: dict[str, Any]) -> tuple[npt.NDArray[np.int64], Any]:
        width = self._width
        indices, values = value.get("indices"), value.get("values")
        if not (isinstance(indices, list) and isinstance(values, list)) or len(value) != 2:
            raise InvalidInputError(
                f"{self._key!r} must be a list of numbers, or an object of the lists indices and "
                f"values, got {shown(value)}."
            )
        if width is None or set(map(type, indices)) - {int}:
            raise InvalidInputError(f"{self._key!r} must have whole numbers as indices.")
        if len(indices) != len(values) or len(set(indices)) != len(indices):
            raise InvalidInputError(
                f"{self._key!r} must have as many values as indices, all of these different, got "
                f"{len(indices)} and {len(values)}."
            )
        if indices and not 0 <= min(indices) <= max(indices) < width:
            raise InvalidInputError(f"{self._key!r} must have indices from 0 to {width - 1}.")
        return np.array(indices, dtype=np.int64), _floats(values, self._key)

    def _content(self) -> tuple[Batch | None, Codes | None, Any]:
        rows, self._rows, self._held = self._rows, [], 0
        if not self._sparse:
            return _as_float32(np.stack(rows)), None, None
        ends = np.cumsum([0, *(len(values) for _, values in rows)])
        columns = np.concatenate([indices for indices, _ in rows])
        values = _as_float32(np.concatenate([values for _, values in rows]))
        made = csr_array((values, columns, ends), shape=(len(rows), self._width))
        made.sort_indices()
        return made, None, None


class _GatheredCodes(_Gathered):
    def __init__(self, id_key: str | None, target: RowTarget) -> None:
        super().__init__(id_key, "code", "corrections")
        if target.spec is None:
            raise InvalidInputError("it has a code and no vector, from which no collection starts.")
        self._spec = target.spec
        self._codes: list[bytes | None] = []
        self._corrections: list[Any] = []

    def _take_content(self, record: dict[str, Any]) -> None:
        text = record.get("code", "")
        try:
            code = None if text is None else bytes.fromhex(text)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"'code' must be hexadecimal text, got {in_words(text)}."
            ) from None
        if code is not None and len(code) != self._spec.n_bytes:
            raise InvalidInputError(
                f"'code' must have {self._spec.n_bytes} bytes, as codes of this collection, got "
                f"{len(code)}."
            )
        both = record.get("corrections")
        if both is not None:
            if not isinstance(both, list) or len(both) != 2:
                raise InvalidInputError(f"'corrections' must be two numbers, got {shown(both)}.")
            both = _floats(both, "corrections")
        if self._codes and (both is None) != (self._corrections[0] is None):
            raise InvalidInputError("'corrections' must be in all rows, or in none.")
        self._codes.append(code)
        self._corrections.append(both)

    def _content(self) -> tuple[Batch | None, Codes | None, Any]:
        rows, self._codes = self._codes, []
        corrections, self._corrections = self._corrections, []
        made = codes_from_bytes(rows, self._spec)
        both = None if corrections[0] is None else np.stack(corrections).astype(np.float32)
        return None, made, both


class _GatheredTexts(_Gathered):
    def __init__(self, options: RowFileOptions) -> None:
        super().__init__(options.id_key)  # the text stays in the metadata, to be shown
        if options.text_key is None or options.embed is None:
            raise InvalidInputError("text must come with embed, which makes vectors of texts.")
        self._key, self._embed = options.text_key, options.embed
        self._texts: list[str] = []

    def is_full(self, batch_rows: int) -> bool:
        return super().is_full(min(batch_rows, TEXTS_AT_ONCE))

    def _take_content(self, record: dict[str, Any]) -> None:
        text = read_text(record, self._key)
        if isinstance(record.get("vector"), list):
            raise InvalidInputError(
                f"it has a 'vector' beside the text in {self._key!r}. Leave text out to take "
                "vectors as they are."
            )
        self._texts.append(text)

    def _content(self) -> tuple[Batch | None, Codes | None, Any]:
        texts, self._texts = self._texts, []
        return embed_texts(self._embed, texts), None, None


def embed_texts(embed: Any, texts: list[str]) -> npt.NDArray[np.float32]:
    """Return a vector per text; raise where what makes them returns anything else."""
    made = np.asarray(embed(texts))
    if made.ndim != 2 or len(made) != len(texts) or made.dtype.kind not in "fiu":
        raise InvalidInputError(
            f"embed must return one vector per text, got {made.dtype} of shape {made.shape} for "
            f"{len(texts)} texts."
        )
    return np.ascontiguousarray(made, dtype=np.float32)


def codes_from_bytes(rows: list[bytes | None], spec: Any) -> Codes:
    """Return codes of rows of bytes; None stands for a row with nothing to hash."""
    empty = np.array([row is None for row in rows], dtype=bool)
    data = b"".join(bytes(spec.n_bytes) if row is None else row for row in rows)
    packed = np.frombuffer(data, dtype=np.uint8).reshape(len(rows), spec.n_bytes)
    return Codes.from_bytes(packed, spec, empty=empty if empty.any() else None)


def _floats(values: list[Any], key: str) -> npt.NDArray[np.float64]:
    if not set(map(type, values)) <= _PLAIN:
        bad = next(one for one in values if type(one) not in _PLAIN)
        raise InvalidInputError(f"{key!r} must hold numbers only, got {in_words(bad)}.")
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:
        numbers = np.array([np.inf])
    if not np.isfinite(numbers).all():
        raise InvalidInputError(f"{key!r} must hold finite numbers, got NaN or Infinity.")
    return numbers


def _as_float32(numbers: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Return numbers in float32; as they are where that does not hold them, to be refused."""
    with np.errstate(over="ignore"):
        small = numbers.astype(np.float32)
    return small if np.isfinite(small).all() else numbers
