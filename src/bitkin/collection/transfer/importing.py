"""Reading rows of a file into a collection, a batch at a time, each of them one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from bitkin.checks import named_path
from bitkin.collection.transfer.arriving import (
    ArrivingRows,
    RecordFile,
    RowFileOptions,
    RowTarget,
)
from bitkin.collection.transfer.export import JSON_SUFFIXES, suffix_of
from bitkin.collection.transfer.json_rows import FileLines, JsonRowFile
from bitkin.collection.transfer.parquet_rows import ParquetRowFile
from bitkin.collection.transfer.vector_rows import FAISS_SUFFIXES, FaissRowFile, VectorRowFile
from bitkin.errors import (
    CodeMismatchError,
    CorruptFileError,
    DuplicateIdError,
    FileAccessError,
    FileTooLargeError,
    InvalidInputError,
)

Put = Callable[[ArrivingRows], npt.NDArray[Any]]
# What reading and adding a batch may raise, each of which takes one message.
_FLAWS = (
    InvalidInputError,
    CodeMismatchError,
    CorruptFileError,
    DuplicateIdError,
    FileAccessError,
    FileTooLargeError,
)


def open_row_file(path: Any, options: RowFileOptions, target: RowTarget) -> RecordFile:
    """Return a reader of a file by its suffix."""
    file = named_path(path)
    suffix = suffix_of(file)
    if suffix in JSON_SUFFIXES:
        _refuse(options, ("ids", "metadata"), "JSON lines, which have them inside")
        return JsonRowFile(FileLines(file), options, target)
    if suffix in FAISS_SUFFIXES:
        _refuse(
            options, ("id_key", "vector_key", "text_key", "ids", "metadata"), "an index of FAISS"
        )
        return FaissRowFile(file, options)
    if suffix == ".parquet" and options.ids is None and options.metadata is None:
        return ParquetRowFile(file, options, target)
    _refuse(options, ("vector_key", "text_key"), "files of vectors alone")
    rows = VectorRowFile(file, options, target)
    if rows.beside is None:
        _refuse(options, ("id_key",), "files of vectors alone")
    return rows


def add_rows(put: Put, rows: RecordFile, *, upsert: bool, progress: Callable[[int], None]) -> int:
    """Put all rows of a file, and return how many; an error says how many were put before."""
    n_done = 0
    first_id = last_id = None
    has_ids = True
    place = ""
    try:
        batches = rows.batches()
        while True:
            place = ""
            batch = next(batches, None)
            if batch is None:
                return n_done
            place = f"{batch.place}: "
            has_ids = batch.ids is not None
            ids = put(batch)
            n_done += batch.n_rows
            if not has_ids and len(ids):
                first_id = ids[0] if first_id is None else first_id
                last_id = ids[-1]
            progress(n_done)
    except _FLAWS as flaw:
        raise type(flaw)(f"{place}{flaw}{_left_by(n_done, upsert, first_id, last_id)}") from flaw


def _left_by(n_done: int, upsert: bool, first_id: Any, last_id: Any) -> str:
    """Say what there is of a file that was not added to its end."""
    if not n_done:
        return " Nothing was added."
    if first_id is not None:
        return (
            f" The {n_done:,} rows before were added, as ids {first_id} to {last_id}: remove them "
            "before you add the file again."
        )
    again = "run it again" if upsert else "run it again with upsert, which replaces them"
    return f" The {n_done:,} rows before were added: {again}."


def _refuse(options: RowFileOptions, names: tuple[str, ...], what: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            word = name.removesuffix("_key")
            raise InvalidInputError(f"{word} means nothing for {what}: leave it out.")
