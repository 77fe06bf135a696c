"""The checkpoint: what a collection in a folder holds in memory, as of one version, in a file.

It is mapped when the collection is opened, once its checksums fit, and the log of the database
brings it up to date. The database is the truth: a checkpoint that is missing, damaged or of another
database is passed over, and everything is read from the database instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.collection.epoch import CollectionEpoch
from bitkin.collection.ids import StoredStringIds
from bitkin.collection.metadata.field_columns import FieldColumns
from bitkin.collection.metadata.row_metadata import RowMetadata
from bitkin.collection.rows import Column, RowSlots
from bitkin.collection.snapshot import NOTHING_KEPT, CollectionSnapshot
from bitkin.errors import BitkinError, CorruptFileError
from bitkin.hashers.lengths import Lengths
from bitkin.index.rows import files
from bitkin.io.reader import StoredFile, read_file
from bitkin.io.writer import TensorChunks, write_file

_CLASS = "CollectionCheckpoint"
FILE = "checkpoint.bitkin"


def write_checkpoint(path: Path, snapshot: CollectionSnapshot, token: str) -> None:
    """Write a snapshot, rows in order of row id; `token` is what the database will name it by."""
    kept, row_ids = snapshot.kept, snapshot.row_ids()
    parts = [part for part in snapshot.parts if len(part)]
    tensors: dict[str, npt.NDArray[Any] | TensorChunks] = {}
    for part in parts:
        prefix = _prefix(part.epoch.number)
        tensors |= {prefix + name: one for name, one in files.tensors_of(part.coded).items()}
    if kept.corrections is not None:
        tensors["corrections"] = kept.corrections.array[kept.slots.lookup(row_ids)]
    if kept.metadata is not None:
        alone = kept.metadata.keep_only(row_ids, row_ids)
        arrays = alone.columns.arrays()
        tensors |= {f"fields.{name}": array for name, array in arrays.items()}
    if isinstance(snapshot.ids, StoredStringIds):
        texts = [name.encode() for name in snapshot.ids.from_row_ids(row_ids)]
        tensors["names"] = np.frombuffer(b"".join(texts), dtype=np.uint8)
        tensors["name_ends"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
    parameters = {
        "token": token,
        "version": snapshot.version,
        "lengths": list(snapshot.lengths),
        "epochs": [
            {
                "number": part.epoch.number,
                "fingerprint": part.epoch.fingerprint,
                **files.parameters_of(part.coded),
            }
            for part in parts
        ],
    }
    write_file(path, _CLASS, parameters, snapshot.epoch.fingerprint, tensors)


def read_checkpoint(
    path: Path,
    empty: CollectionSnapshot,
    token: str,
    epoch: Callable[[int], CollectionEpoch],
) -> CollectionSnapshot | None:
    """Return the snapshot of the checkpoint that a database names, mapped; None where there is none
    that can be used. `epoch` returns one by its number.
    """
    if not path.exists():
        return None
    try:
        stored = read_file(path, mmap=True)
        stored.verify()
        if stored.class_name != _CLASS or stored.parameter("token") != token:
            return None
        return _snapshot_from(stored, empty, epoch)
    except (BitkinError, OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # the database has everything


def _snapshot_from(
    stored: StoredFile, empty: CollectionSnapshot, epoch: Callable[[int], CollectionEpoch]
) -> CollectionSnapshot:
    version, lengths = stored.parameter("version"), Lengths(*stored.parameter("lengths"))
    now = replace(empty, lengths=lengths, version=int(version))
    older = []
    for parameters in stored.parameter("epochs"):
        of = epoch(parameters["number"])
        part = stored.part(_prefix(of.number), "FlatIndex", parameters)
        coded = files.rows_from(part)
        if coded.fingerprint != of.fingerprint or coded.spec != of.index.spec:
            raise CorruptFileError("the checkpoint is of another hasher.")
        now = replace(now, kept=now.kept.ready_for(of))
        if of.number == empty.epoch.number:
            now = replace(now, coded=coded)
        else:
            rows = CollectionSnapshot.of_epoch(of, empty.ids, NOTHING_KEPT)
            older.append(replace(rows, coded=coded))
    older.sort(key=lambda part: -part.epoch.number)
    now = replace(now, older=tuple(older))
    return _with_kept(stored, now)


def _with_kept(stored: StoredFile, now: CollectionSnapshot) -> CollectionSnapshot:
    """Return a snapshot with what a checkpoint has of its rows beside codes."""
    kept, ids, segments = now.kept, now.ids, now.coded.segments
    # as they are mapped, not copied, where there is one epoch: its rows are all alive
    one = len(segments) == 1 and not now.older
    row_ids = segments[0].row_ids if one else now.row_ids()
    n = len(row_ids)
    corrections, columns = kept.corrections, None
    beside = []
    if corrections is not None:
        numbers = np.asarray(stored.tensor("corrections", np.float32, (None, 2)))
        corrections = Column(numbers, len(numbers))
        beside.append(len(numbers))
    if kept.metadata is not None:
        columns = _fields_from(stored, kept.metadata.columns)
        beside.append(columns.n)
    if isinstance(ids, StoredStringIds):
        ends = stored.tensor("name_ends", np.int64, (None,))
        beside.append(len(ends))
        names = _names_from(stored.tensor("names", np.uint8, (None,)), ends)
        ids = StoredStringIds(names, row_ids.tolist(), now.next_id)
    if any(length != n for length in beside):
        raise CorruptFileError("the checkpoint has more rows in one part than in another.")
    if kept.has_slots:
        slots = RowSlots.in_order(row_ids)
        kept = replace(kept, corrections=corrections, slots=slots, n_slots=n)
    if columns is not None:
        kept = replace(kept, metadata=RowMetadata.from_columns(columns, row_ids))
    return replace(now, kept=kept, ids=ids)


def _prefix(number: int) -> str:
    return f"epoch{number}."


def _fields_from(stored: StoredFile, like: FieldColumns) -> FieldColumns:
    arrays = {
        name: stored.tensor(f"fields.{name}", empty.dtype, (None,))
        for name, empty in like.arrays().items()
    }
    return FieldColumns.from_arrays(like.fields, arrays)


def _names_from(texts: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> list[str]:
    data, names, first = texts.tobytes(), [], 0
    for end in ends.tolist():
        names.append(data[first:end].decode())
        first = end
    return names
