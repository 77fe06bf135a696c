"""The checkpoint: what a collection in a folder holds in memory, as of one version, in a file.

It is mapped when the collection is opened, once its checksums fit, and the log of the database
brings it up to date. The database is the truth: a checkpoint that is missing, damaged or of another
database is passed over, and everything is read from the database instead.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.collection.ids import StoredStringIds
from bitkin.collection.memory import CollectionSnapshot, KeptRows
from bitkin.collection.metadata.field_columns import FieldColumns
from bitkin.collection.metadata.slot_fields import SlotFields
from bitkin.collection.rows import Column, RowSlots
from bitkin.errors import BitkinError, CorruptFileError
from bitkin.hashers.lengths import Lengths
from bitkin.index.rows import files
from bitkin.io.reader import StoredFile, read_file
from bitkin.io.writer import TensorChunks, write_file

_CLASS = "CollectionCheckpoint"
FILE = "checkpoint.bitkin"


def write_checkpoint(path: Path, snapshot: CollectionSnapshot, database_id: str) -> None:
    """Write a snapshot, rows in order of row id."""
    coded, kept = snapshot.coded, snapshot.kept
    row_ids = coded.ids()
    tensors: dict[str, npt.NDArray[Any] | TensorChunks] = dict(files.tensors_of(coded))
    slots = kept.slots.lookup(row_ids)
    if kept.corrections is not None:
        tensors["corrections"] = kept.corrections.array[slots]
    if kept.fields is not None:
        arrays = kept.fields.columns.take(slots).arrays()
        tensors |= {f"fields.{name}": array for name, array in arrays.items()}
    if isinstance(snapshot.ids, StoredStringIds):
        texts = [name.encode() for name in snapshot.ids.from_row_ids(row_ids)]
        tensors["names"] = np.frombuffer(b"".join(texts), dtype=np.uint8)
        tensors["name_ends"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
    parameters = {
        **files.parameters_of(coded),
        "database": database_id,
        "version": snapshot.version,
        "lengths": list(snapshot.lengths),
    }
    write_file(path, _CLASS, parameters, coded.fingerprint, tensors)


def read_checkpoint(
    path: Path, empty: CollectionSnapshot, database_id: str
) -> CollectionSnapshot | None:
    """Return the snapshot of a checkpoint, mapped; None where there is none of this database that
    can be used.
    """
    if not path.exists():
        return None
    try:
        stored = read_file(path, mmap=True)
        stored.verify()
        if stored.class_name != _CLASS or stored.parameter("database") != database_id:
            return None
        return _snapshot_from(stored, empty)
    except (BitkinError, OSError, ValueError, TypeError, KeyError):
        return None  # the database has everything


def _snapshot_from(stored: StoredFile, empty: CollectionSnapshot) -> CollectionSnapshot:
    version, lengths = stored.parameter("version"), Lengths(*stored.parameter("lengths"))
    kept, ids = empty.kept, empty.ids
    corrections: npt.NDArray[Any] | None = None
    if kept.corrections is not None:
        corrections = np.asarray(stored.tensor("corrections", np.float32, (None, 2)))
    columns: FieldColumns | None = None
    if kept.fields is not None:
        columns = _fields_from(stored, kept.fields.columns)
    texts, ends = None, None
    if isinstance(ids, StoredStringIds):
        texts = stored.tensor("names", np.uint8, (None,))
        ends = stored.tensor("name_ends", np.int64, (None,))
    coded = files.rows_from(stored)
    if coded.fingerprint != empty.coded.fingerprint or coded.spec != empty.coded.spec:
        raise CorruptFileError("the checkpoint is of another hasher.")
    row_ids = coded.ids()
    n = len(row_ids)
    beside = [len(some) for some in (corrections, ends) if some is not None]
    beside += [] if columns is None else [columns.n]
    if any(length != n for length in beside):
        raise CorruptFileError("the checkpoint has more rows in one part than in another.")
    if texts is not None and ends is not None:
        ids = StoredStringIds(_names_from(texts, ends), row_ids.tolist(), coded.next_id)
    if kept.has_slots:
        kept = KeptRows(
            kept.vectors,
            None if corrections is None else Column(corrections, n),
            RowSlots().with_rows(row_ids, np.arange(n)),
            n,
            fields=None if columns is None else SlotFields(columns, Column(row_ids, n)),
        )
    return replace(empty, coded=coded, kept=kept, ids=ids, lengths=lengths, version=int(version))


def _fields_from(stored: StoredFile, like: FieldColumns) -> FieldColumns:
    arrays = {}
    for name, empty in like.arrays().items():
        arrays[name] = stored.tensor(f"fields.{name}", empty.dtype, (None,))
    return FieldColumns.from_arrays(like.fields, arrays)


def _names_from(texts: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> list[str]:
    data, names, first = texts.tobytes(), [], 0
    for end in ends.tolist():
        names.append(data[first:end].decode())
        first = end
    return names
