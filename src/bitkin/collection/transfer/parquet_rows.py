"""Rows in .parquet files: a column of ids, one of vectors or texts, and metadata in the others.
Needs pyarrow.

A file that `Collection.export` wrote says so in the metadata of its schema: then `metadata` is
JSON, and codes stand for themselves where there are no vectors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bitkin.arrays import Batch
from bitkin.checks import shown
from bitkin.codes import Codes
from bitkin.collection.metadata.documents import decode_metadata
from bitkin.collection.transfer.arriving import (
    TEXTS_AT_ONCE,
    ArrivingRows,
    RecordFile,
    RecordKeys,
    RowFileOptions,
    RowTarget,
    read_text,
)
from bitkin.collection.transfer.json_rows import codes_from_bytes, embed_texts
from bitkin.collection.transfer.parquet_columns import ABOUT
from bitkin.errors import CodeMismatchError, CorruptFileError, InvalidInputError
from bitkin.io.stable import Stamp
from bitkin.io.vectors.files.parquet import open_parquet, require_honest_lists
from bitkin.io.vectors.limits import load_extra

_MOST_NUMBERS = 1 << 22  # of the vectors of a batch
_OWN = ("vector", "code", "corrections")


class ParquetRowFile(RecordFile):
    """Rows of a .parquet file."""

    def __init__(self, path: Path, options: RowFileOptions, target: RowTarget) -> None:
        super().__init__()
        self.name = str(path)
        self._path, self._options, self._target = path, options, target
        with open_parquet(path) as (parquet, file):
            self._stamp: Stamp = file.stamp
            schema = parquet.schema_arrow
            self.total = parquet.metadata.num_rows
            self._about = _read_about(schema.metadata, self.name)
            self._column = self._choose_column(schema)
            self._require_types(schema)
            self._width = 1
            if self._column is not None:
                kind = schema.field(self._column).type
                lists = kind.field("values").type if _is_sparse(kind) else kind
                require_honest_lists(file, self._column, lists)
                self._width = max(1, getattr(lists, "list_size", target.n_features or 1))

    def read(self) -> Iterator[ArrivingRows]:
        """Yield all rows in order."""
        options = self._options
        keys = RecordKeys(options.id_key)
        n_rows = max(1, min(options.batch_rows, _MOST_NUMBERS // self._width))
        if options.text_key is not None:
            n_rows = min(n_rows, TEXTS_AT_ONCE)
        with open_parquet(self._path, self._stamp) as (parquet, file):
            for batch in parquet.iter_batches(n_rows):
                file.require_unchanged()
                if not batch.num_rows:
                    continue
                first, self.done = self.done, self.done + batch.num_rows
                yield self._as_rows(batch, keys, first)

    def _choose_column(self, schema: Any) -> str | None:
        """Return the column of vectors; None where there are codes or texts in their place."""
        options = self._options
        kinds = {field.name: field.type for field in schema}
        if options.text_key is not None:
            if options.text_key not in kinds:
                raise InvalidInputError(
                    f"{self.name} has no column {options.text_key!r} for the text. It has "
                    f"{', '.join(map(shown, kinds))}."
                )
            return None
        named: str | None = options.vector_key or options.vector_files.column
        lists: list[str] = [
            name for name, kind in kinds.items() if _is_list(kind) or _is_sparse(kind)
        ]
        if named is not None:
            if named not in lists:
                raise InvalidInputError(
                    f"{self.name} has no column {named!r} of vectors. It has "
                    f"{', '.join(map(shown, kinds))}."
                )
            return named
        if self._about is not None:
            return "vector" if "vector" in kinds else None  # `_require_types` looks at its type
        if len(lists) != 1:
            raise InvalidInputError(
                f"{self.name} must have one column of vectors, got {len(lists)}. Name one (vector= "
                f"or --vector); it has {', '.join(map(shown, kinds))}."
            )
        return lists[0]

    def _require_types(self, schema: Any) -> None:
        """Raise where a column that is read is of a type that holds no such thing."""
        kinds = {field.name: field.type for field in schema}
        wanted: dict[str, tuple[str, Callable[[Any], bool]]] = {}
        if self._about is not None:
            wanted["metadata"] = "text", _is_text
            if self._column is None and self._options.text_key is None:
                wanted["code"] = "bytes", _is_bytes
                wanted["corrections"] = "lists of two numbers", _is_number_list
        if self._column is not None:
            if _is_sparse(kinds[self._column]):
                wanted[self._column] = (
                    "lists of whole numbers as indices and lists of numbers as values",
                    _is_number_lists_of_sparse,
                )
            else:
                wanted[self._column] = "lists of numbers", _is_number_list
        for name, (what, fits) in wanted.items():
            if name in kinds and not fits(kinds[name]):
                raise InvalidInputError(
                    f"{self.name}, column {name!r} must have {what}, got {kinds[name]}."
                )

    def _as_rows(self, batch: Any, keys: RecordKeys, first: int) -> ArrivingRows:
        taken = [self._column] if self._about is None else [self._column, *_OWN]
        others = [name for name in batch.schema.names if name not in taken]
        records = batch.select(others).to_pylist()
        ids, metadata = [], []
        for row, record in enumerate(records):
            try:
                if self._about is not None and record.get("metadata") is not None:
                    record["metadata"] = decode_metadata(record["metadata"])
                name, rest = keys.take({k: v for k, v in record.items() if v is not None})
            except (InvalidInputError, CorruptFileError) as flaw:
                raise type(flaw)(f"{self.name}, row {first + row}: {flaw}") from None
            ids.append(name)
            metadata.append(rest)
        vectors: Batch | None = None
        codes: Codes | None = None
        corrections = None
        if self._options.text_key is not None:
            vectors = self._embed(metadata, first)
        elif self._column is not None:
            vectors = self._vectors(batch.column(self._column), first)
        else:
            codes, corrections = self._codes(batch, first)
        n_rows = batch.num_rows
        last = first + n_rows - 1
        return ArrivingRows(
            None if ids[0] is None else ids,
            vectors,
            codes,
            corrections,
            metadata if any(metadata) else None,
            n_rows,
            f"{self.name}, rows {first:,} to {last:,} (row 0 is row {first:,})",
        )

    def _embed(self, metadata: list[dict[str, Any]], first: int) -> Batch:
        key = self._options.text_key or ""
        texts = []
        for row, record in enumerate(metadata):
            try:
                texts.append(read_text(record, key))
            except InvalidInputError as flaw:
                raise InvalidInputError(f"{self.name}, row {first + row}: {flaw}") from None
        if self._options.embed is None:
            raise InvalidInputError("text must come with embed, which makes vectors of texts.")
        return embed_texts(self._options.embed, texts)

    def _vectors(self, column: Any, first: int) -> Batch:
        where = f"{self.name}, column {self._column!r}"
        if column.null_count:
            row = first + int(np.argmax(np.asarray(column.is_null())))
            raise InvalidInputError(f"{where} must have a vector in every row, got null in {row}.")
        if _is_sparse(column.type):
            return self._sparse(column, where, first)
        lengths = np.asarray(column.value_lengths())
        wanted = self._target.n_features or int(lengths[0])
        other = np.flatnonzero(lengths != wanted)
        if len(other):
            raise InvalidInputError(
                f"{where} must have vectors of {wanted} numbers, got {lengths[other[0]]} in row "
                f"{first + other[0]}."
            )
        return _numbers(column.flatten(), where).reshape(len(column), wanted)

    def _sparse(self, column: Any, where: str, first: int) -> Batch:
        width = self._target.n_features
        indices, values = (column.field(part) for part in ("indices", "values"))
        counts = np.asarray(indices.value_lengths())
        if indices.null_count or values.null_count:
            raise InvalidInputError(f"{where} must have indices and values in every row.")
        if not np.array_equal(counts, np.asarray(values.value_lengths())):
            raise InvalidInputError(f"{where} must have as many values as indices.")
        columns = _numbers(indices.flatten(), where).astype(np.int64)
        if width is None or (len(columns) and not 0 <= columns.min() <= columns.max() < width):
            raise InvalidInputError(
                f"{where} must have indices from 0 to {(width or 0) - 1}, as this collection has."
            )
        ends = np.concatenate([[0], np.cumsum(counts)])
        numbers = np.array(_numbers(values.flatten(), where))  # Arrow's cannot be sorted in place
        made = csr_array((numbers, columns, ends), shape=(len(column), width))
        made.sort_indices()
        own_row = np.repeat(np.arange(len(column)), counts)
        again = (np.diff(made.indices) == 0) & (np.diff(own_row) == 0)
        if again.any():
            at = int(np.argmax(again))
            raise InvalidInputError(
                f"{where} must have different indices in a row, got {made.indices[at]} twice in "
                f"row {first + own_row[at]}."
            )
        return made

    def _codes(self, batch: Any, first: int) -> tuple[Codes, Any]:
        spec, about = self._target.spec, self._about or {}
        if spec is None or "code" not in batch.schema.names:
            raise InvalidInputError(f"{self.name} has neither vectors nor codes.")
        own = (about.get("n_symbols"), about.get("bits_per_symbol"))
        if own != (spec.n_symbols, spec.bits_per_symbol):
            raise CodeMismatchError(
                f"{self.name} has codes of {own[0]} × {own[1]} bits, and this collection of {spec}."
            )
        rows = batch.column("code").to_pylist()
        if any(row is not None and len(row) != spec.n_bytes for row in rows):
            raise CorruptFileError(f"{self.name} has a code of other than {spec.n_bytes} bytes.")
        fingerprint = about.get("fingerprint")
        if not (fingerprint is None or isinstance(fingerprint, str)):
            raise CorruptFileError(
                f"{self.name} must name the hasher of its codes by a string, got "
                f"{shown(fingerprint)}."
            )
        codes = codes_from_bytes(rows, spec).with_fingerprint(fingerprint)
        corrections = None
        if "corrections" in batch.schema.names:
            column = batch.column("corrections")
            if column.null_count:
                raise CorruptFileError(f"{self.name} has a row without corrections.")
            other = np.flatnonzero(np.asarray(column.value_lengths()) != 2)
            if len(other):
                raise CorruptFileError(
                    f"{self.name}, column 'corrections' must have two numbers in every row, got "
                    f"others in row {first + other[0]}."
                )
            where = f"{self.name}, column 'corrections'"
            corrections = _numbers(column.flatten(), where).reshape(len(rows), 2)
        return codes, corrections


def _numbers(values: Any, where: str) -> Any:
    """Return an Arrow array of numbers as NumPy's."""
    if values.null_count:
        raise InvalidInputError(f"{where} must have numbers only, got null.")
    numbers = np.asarray(values.to_numpy(zero_copy_only=False))
    if numbers.dtype.kind not in "fiu":
        raise InvalidInputError(f"{where} must have numbers, got {values.type}.")
    return numbers


def _is_list(kind: Any) -> bool:
    return hasattr(kind, "value_type") and (
        "list" in str(kind).partition("<")[0] and str(kind.value_type) not in ("string", "struct")
    )


def _is_number_list(kind: Any, *, whole: bool = False) -> bool:
    types = load_extra("pyarrow", ".parquet").types
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    inner = kind.value_type
    return bool(types.is_integer(inner) or (not whole and types.is_floating(inner)))


def _is_number_lists_of_sparse(kind: Any) -> bool:
    indices, values = kind.field("indices").type, kind.field("values").type
    return _is_number_list(indices, whole=True) and _is_number_list(values)


def _is_text(kind: Any) -> bool:
    types = load_extra("pyarrow", ".parquet").types
    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind))


def _is_bytes(kind: Any) -> bool:
    types = load_extra("pyarrow", ".parquet").types
    fixed = types.is_fixed_size_binary(kind) and not types.is_decimal(kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or fixed)


def _is_sparse(kind: Any) -> bool:
    names = getattr(kind, "names", None)
    return str(kind).startswith("struct") and names == ["indices", "values"]


def _read_about(metadata: dict[bytes, bytes] | None, name: str) -> dict[str, Any] | None:
    """Return what a file of ours says of itself; None for another one."""
    text = (metadata or {}).get(ABOUT)
    if text is None:
        return None
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict):
        raise CorruptFileError(f"{name} says of itself what cannot be read.")
    return about
