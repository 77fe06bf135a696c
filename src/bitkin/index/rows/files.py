"""The rows of an index in a file: codes in blocks, ids in order, and which rows can be found.

Files of several indexes hold rows so, under the tensors `blocks`, `ids` and `searchable`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Words
from bitkin.checks import is_ascending
from bitkin.code_spec import CodeSpec, unused_bits
from bitkin.codes import spec_from_file
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.index.rows import bitmap
from bitkin.index.rows.ids import MAX_ID
from bitkin.index.rows.segment import Segment, merged_tiles
from bitkin.index.rows.snapshot import Snapshot
from bitkin.io.layout import damaged
from bitkin.io.reader import StoredFile, read_file
from bitkin.io.writer import TensorChunks
from bitkin.kernels.blocks import BLOCK, tile_rows

_TILES_AT_ONCE = 4096  # looked through for bits that may not be set


def parameters_of(rows: Snapshot) -> dict[str, int]:
    """Return what a file says of rows beside their tensors."""
    spec = rows.spec
    return {
        "n_symbols": spec.n_symbols,
        "bits_per_symbol": spec.bits_per_symbol,
        "next_id": rows.next_id,
    }


def tensors_of(rows: Snapshot) -> dict[str, npt.NDArray[Any] | TensorChunks]:
    """Return the tensors of rows, in order of id, to be written in this order; codes are put in
    order on the way.
    """
    ids, spec = rows.ids(), rows.spec
    n_blocks = bitmap.n_blocks(len(ids))
    searchable = np.ones(len(ids), dtype=bool)

    def tiles() -> Iterator[Words]:
        done = 0
        for piece, flags in merged_tiles(rows.segments, ids, spec):
            searchable[done : done + len(flags)] = flags
            done += len(flags)
            yield piece

    def marks() -> Iterator[Words]:
        yield bitmap.pack(searchable)

    return {
        "blocks": TensorChunks(np.dtype(np.uint64), _shape_of_tiles(n_blocks, spec), tiles),
        "ids": ids,
        "searchable": TensorChunks(np.dtype(np.uint64), (8 * n_blocks,), marks),
    }


def read_index(path: str | os.PathLike[str], class_name: str, mmap: bool) -> StoredFile:
    """Open a file that must hold an index of this class."""
    stored = read_file(path, mmap=mmap)
    if stored.class_name != class_name:
        raise InvalidInputError(
            f"{stored.name} holds {stored.class_name}, not {class_name}. Use bitkin.load."
        )
    return stored


def rows_from(stored: StoredFile) -> Snapshot:
    """Return the rows of a file, which has no tensors beside theirs that were not read before.

    Of a mapped one, everything is verified but the codes.
    """
    spec = spec_from_file(stored)
    ids = stored.tensor("ids", np.int64, (None,))
    n_blocks = bitmap.n_blocks(len(ids))
    tiles = _tiles_from(stored, n_blocks, spec)
    marks = stored.tensor("searchable", np.uint64, (8 * n_blocks,))
    stored.require_no_more_tensors()
    next_id = stored.parameter("next_id")
    if stored.mapped:
        stored.verify("ids", "searchable")
    largest = int(ids[-1]) if len(ids) else -1
    if type(next_id) is not int or not largest < next_id <= MAX_ID + 1:
        raise damaged(stored.name, f"has an impossible next id, {next_id}")
    searchable = marks if not bitmap.unpack(marks, 0, len(ids)).all() else None
    source = stored if stored.mapped else None
    segment = Segment(tiles, ids, len(ids), len(ids), searchable=searchable, source=source)
    _require_sound(segment, spec, stored.name, codes_too=not stored.mapped)
    return Snapshot(spec, stored.fingerprint, (segment,) if len(ids) else (), next_id)


def verify_rows(rows: Snapshot) -> None:
    """Check everything that can be checked, mapped files included; raise CorruptFileError on the
    first flaw.
    """
    for segment in rows.segments:
        name = "the index in memory" if segment.source is None else segment.source.name
        if segment.source is not None:
            segment.source.verify()
        _require_sound(segment, rows.spec, name, codes_too=True)
    ids = rows.ids()
    if not is_ascending(ids, strictly=True):
        raise CorruptFileError("the index holds an id twice. Build it again from its codes.")


def _tiles_from(stored: StoredFile, n_blocks: int, spec: CodeSpec) -> Words:
    """Return the codes of a file; those of wide codes lay in tiles of 512 rows once."""
    shape = _shape_of_tiles(n_blocks, spec)
    if shape[3] != BLOCK and stored.shape_of("blocks") == (n_blocks, *shape[1:3], BLOCK):
        raise InvalidInputError(
            f"{stored.name} has codes of {spec.n_bits} bits in the layout of an earlier bitkin, "
            "which is no longer read. Build the index again from its codes or vectors."
        )
    return stored.tensor("blocks", np.uint64, shape)


def _shape_of_tiles(n_blocks: int, spec: CodeSpec) -> tuple[int, int, int, int]:
    n_planes, n_words = spec.bits_per_symbol, spec.plane_words
    rows = tile_rows(n_planes, n_words)
    return n_blocks * (BLOCK // rows), n_planes, n_words, rows


def _require_sound(segment: Segment, spec: CodeSpec, name: str, *, codes_too: bool) -> None:
    """Raise unless ids ascend from 0 up and, when asked, no code has bits beyond its symbols."""
    ids = segment.row_ids
    if len(ids) and (ids[0] < 0 or not is_ascending(ids, strictly=True)):
        raise damaged(name, "has ids that are not in order")
    beyond = unused_bits(spec)
    if codes_too and beyond:
        n_rows = segment.tiles.shape[3]
        for first in range(0, -(-segment.n // n_rows), _TILES_AT_ONCE):
            if (segment.tiles[first : first + _TILES_AT_ONCE, :, -1, :] & beyond).any():
                raise damaged(name, "has codes with bits set where none may be")
