"""Rows in files of vectors, with ids and metadata in files beside them, and in FAISS's binary
indexes.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bitkin.codes import Codes
from bitkin.collection.transfer.arriving import (
    ArrivingRows,
    RecordFile,
    RowFileOptions,
    RowTarget,
)
from bitkin.collection.transfer.beside import find_beside, read_metadata
from bitkin.collection.transfer.json_rows import FileLines
from bitkin.errors import CorruptFileError, InvalidInputError, MissingExtraError
from bitkin.input_files import read_ids
from bitkin.io.stable import stamp_of, unreadable_is_access_error

FAISS_SUFFIXES = (".faiss", ".faissindex")


class VectorRowFile(RecordFile):
    """A file of vectors of any format that `open_vectors` reads. What `Collection.export` wrote
    beside an .npy file is read with it, unless ids or metadata are in a file that was named.
    """

    def __init__(self, path: Path, options: RowFileOptions, target: RowTarget) -> None:
        super().__init__()
        self.name = str(path)
        self._source = options.vector_files.open([path], _Columns(target.n_features))
        self.total = len(self._source)
        self._options = options
        self.beside = options.metadata  # JSON lines with the ids and metadata
        if options.ids is None and options.metadata is None:
            self.beside = find_beside(path, self.total)
        self._ids: Any = None
        if options.ids is not None:
            self._ids = read_row_ids(options.ids, strings=target.string_ids)
            if len(self._ids) != self.total:
                raise InvalidInputError(
                    f"{options.ids} must hold an id for each of {self.total:,} vectors, got "
                    f"{len(self._ids):,}."
                )

    def read(self) -> Iterator[ArrivingRows]:
        """Yield all rows in order."""
        beside = self.beside
        records = None
        if beside is not None:
            records = read_metadata(FileLines(beside), str(beside), self._options.id_key)
        rows = min(self._options.batch_rows, 4 * self._source.batch_rows)
        for first, batch in self._source.batches(rows):
            n_rows = batch.shape[0]
            ids = None if self._ids is None else self._ids[first : first + n_rows]
            metadata = None
            if records is not None:
                some = list(itertools.islice(records, n_rows))
                if len(some) < n_rows:
                    raise _other_length(beside, first + len(some), self.total)
                metadata = [one for _, one in some] if any(one for _, one in some) else None
                if ids is None and some[0][0] is not None:
                    ids = [name for name, _ in some]
            self.done = first + n_rows
            place = f"{self.name}, rows {first:,} to {self.done - 1:,} (row 0 is row {first:,})"
            yield ArrivingRows(ids, batch, None, None, metadata, n_rows, place)
        if records is not None and next(records, None) is not None:
            raise _other_length(beside, None, self.total)


class FaissRowFile(RecordFile):
    """A binary index of FAISS: codes and, where it has them, ids. It is read whole, as FAISS
    does.
    """

    def __init__(self, path: Path, options: RowFileOptions) -> None:
        super().__init__()
        self.name = str(path)
        stamp_of(path)  # a missing file is named before FAISS is loaded
        try:
            faiss = importlib.import_module("faiss")
        except ImportError:
            raise MissingExtraError(
                f"Reading {path} needs faiss, which is not installed: pip install 'bitkin[faiss]'"
            ) from None
        from bitkin.interop import from_faiss

        try:
            found = from_faiss(faiss.read_index_binary(str(path)))
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise CorruptFileError(
                f"{path} cannot be read as a binary index of FAISS: {reason}."
            ) from error
        if isinstance(found, Codes):
            self._codes, self._ids = found, None
        else:
            self._ids = found.ids
            self._codes = found.codes(self._ids)
        self.total = len(self._codes)
        self._batch_rows = options.batch_rows

    def read(self) -> Iterator[ArrivingRows]:
        """Yield all rows, by ascending id."""
        for first in range(0, len(self._codes), self._batch_rows):
            some = slice(first, first + self._batch_rows)
            codes = self._codes[some]
            ids = None if self._ids is None else self._ids[some]
            self.done = first + len(codes)
            place = f"{self.name}, rows {first:,} to {self.done - 1:,} (row 0 is row {first:,})"
            yield ArrivingRows(ids, None, codes, None, None, len(codes), place)


class _Columns:
    """What says how many columns svmlight text has."""

    def __init__(self, n_features: int | None) -> None:
        self.n_features_in_ = n_features


def read_row_ids(path: Path, *, strings: bool) -> Any:
    """Return the ids in a file: whole numbers, as `read_ids` takes them, or a string per line."""
    if not strings:
        return read_ids(path)
    try:
        with unreadable_is_access_error(path):
            lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{path} is not text in UTF-8: {error}.") from error
    if lines[-1] == "":
        lines.pop()
    names = [line.removesuffix("\r") for line in lines]
    if "" in names:
        raise InvalidInputError(
            f"{path}, line {names.index('') + 1}: no id. Every line must hold one."
        )
    return np.array(names, dtype=object)


def _other_length(path: Path | None, n_lines: int | None, n_rows: int | None) -> InvalidInputError:
    got = "more" if n_lines is None else f"{n_lines:,}"
    return InvalidInputError(f"{path} must have a line for each of {n_rows:,} vectors, got {got}.")
