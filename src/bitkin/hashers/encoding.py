"""Encoding a source of any length to a file, or to several at once, batch by batch, so that it can
be interrupted and continued.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from bitkin import interrupts
from bitkin.code_spec import WORD
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.io.partial import PartialFile
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import BATCH_BYTES

RowTensors: TypeAlias = dict[str, npt.NDArray[Any]]

_BATCH_BYTES = 1 << 24
_MAX_BATCH_ROWS = 1 << 16
_SECONDS_BETWEEN_CHECKPOINTS = 2.0


def encode_to_file(
    hasher: Hasher,
    source: VectorSource,
    path: str | os.PathLike[str],
    *,
    identity: Mapping[str, Any] | None = None,
    fresh: bool = False,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write the codes of all rows to `path` in bounded memory, and return the row that this call
    began with.

    After an interruption the same call continues from the last checkpoint, and the file is the same
    as without the interruption. `identity` is what else must be the same for that, such as the
    sizes of the files. `progress` is called with the number of rows done.
    """
    hasher.require_features(source)

    def encode_rows(batch: Any, first: int) -> list[RowTensors]:
        return [code_tensors(hasher, hasher.encode_batch(batch, source.name, first))]

    return encode_to_row_files(
        [codes_file(hasher, path)],
        encode_rows,
        source,
        identity=identity,
        fresh=fresh,
        progress=progress,
    )


class RowFile(NamedTuple):
    """A file to write that has one entry per vector in every tensor."""

    path: str | os.PathLike[str]
    class_name: str
    parameters: dict[str, Any]
    fingerprint: str
    shapes: dict[str, tuple[np.dtype[Any], tuple[int, ...]]]
    """Type and shape of an entry, by tensor."""
    made_for: Mapping[str, Any] = MappingProxyType({})
    """What else must be the same for an interrupted run to continue it."""


def codes_file(hasher: Hasher, path: str | os.PathLike[str]) -> RowFile:
    """Return the file of a fitted hasher's codes."""
    spec = hasher.spec_
    shapes: dict[str, Any] = {"words": (WORD, (spec.bits_per_symbol, spec.plane_words))}
    if hasher.may_be_empty:
        shapes["empty"] = (np.dtype(np.bool_), ())
    parameters = {"n_symbols": spec.n_symbols, "bits_per_symbol": spec.bits_per_symbol}
    return RowFile(path, "Codes", parameters, hasher.fingerprint_, shapes)


def code_tensors(hasher: Hasher, codes: Codes) -> RowTensors:
    """Return what the file of a hasher's codes holds of these."""
    rows: RowTensors = {"words": codes.words}
    return rows | {"empty": codes.empty_rows()} if hasher.may_be_empty else rows


def encode_to_row_files(
    files: Sequence[RowFile],
    encode_rows: Callable[[Any, int], Sequence[RowTensors]],
    source: VectorSource,
    *,
    identity: Mapping[str, Any] | None = None,
    fresh: bool = False,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write what is made of all rows to several files in one pass, as `encode_to_file` does.

    `encode_rows` makes of a batch, and the number of its first row, the tensors of every file. Each
    file knows how far it is: what a killed run left of them may differ by a batch.
    """
    n_rows = source.shape[0]
    if n_rows is None:
        raise InvalidInputError(
            f"{source.name} must have a known number of rows to be encoded to a file."
        )
    batch_rows = _batch_rows(source)
    with ExitStack() as closing:
        partials = []
        for file in files:
            work = {
                "fingerprint": file.fingerprint,
                "shape": list(source.shape),
                "batch_rows": batch_rows,
                "identity": dict(identity or {}),
                **file.made_for,
            }
            partial = PartialFile(*file[:5], n_rows, work, fresh=fresh)
            partials.append(closing.enter_context(partial))
        begun = min(partial.rows_done for partial in partials)
        last = time.monotonic()
        try:
            for first, batch in source.batches(rows=batch_rows, start=begun):
                for partial, rows in zip(partials, encode_rows(batch, first), strict=True):
                    if partial.rows_done == first:  # else it has them already
                        partial.append(rows)
                if progress is not None:
                    progress(first + batch.shape[0])
                if time.monotonic() - last > _SECONDS_BETWEEN_CHECKPOINTS:
                    _checkpoint(partials)
                    last = time.monotonic()
        except KeyboardInterrupt:
            _checkpoint(partials)
            raise
        _finish(partials)
    return begun


def _batch_rows(source: VectorSource) -> int:
    """Return how many rows are encoded at a time."""
    # Rows of CSR differ in size: the source knows how many make a batch of BATCH_BYTES on average.
    if source.sparse:
        rows = source.batch_rows * _BATCH_BYTES // BATCH_BYTES
    else:
        rows = _BATCH_BYTES // (source.shape[1] * source.dtype.itemsize)
    return max(1, min(_MAX_BATCH_ROWS, rows))


def _checkpoint(partials: Sequence[PartialFile]) -> None:
    with interrupts.sealed:
        for partial in partials:
            partial.checkpoint()


def _finish(partials: Sequence[PartialFile]) -> None:
    """Put all files in place, or keep those that are not there yet to be continued."""
    with interrupts.sealed:
        if len(partials) > 1:
            _checkpoint(partials)
        for partial in partials:
            partial.finish()
