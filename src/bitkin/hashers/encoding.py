"""Encoding a source of any length to a file, batch by batch, so that it can be interrupted and
continued.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bitkin.code_spec import WORD
from bitkin.errors import InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.io.partial import PartialFile
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import BATCH_BYTES

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
    if source.shape[0] is None:
        raise InvalidInputError(
            f"{source.name} must have a known number of rows to be encoded to a file."
        )
    spec = hasher.spec_
    # Rows of CSR differ in size: the source knows how many make a batch of BATCH_BYTES on average.
    if source.sparse:
        batch_rows = max(1, min(_MAX_BATCH_ROWS, source.batch_rows * _BATCH_BYTES // BATCH_BYTES))
    else:
        batch_rows = max(
            1, min(_MAX_BATCH_ROWS, _BATCH_BYTES // (source.shape[1] * source.dtype.itemsize))
        )
    shapes: dict[str, Any] = {"words": (WORD, (spec.bits_per_symbol, spec.plane_words))}
    if hasher.may_be_empty:
        shapes["empty"] = (np.dtype(np.bool_), ())
    work = {
        "fingerprint": hasher.fingerprint_,
        "shape": list(source.shape),
        "batch_rows": batch_rows,
        "identity": dict(identity or {}),
    }
    parameters = {"n_symbols": spec.n_symbols, "bits_per_symbol": spec.bits_per_symbol}
    with PartialFile(
        path, "Codes", parameters, hasher.fingerprint_, shapes, source.shape[0], work, fresh=fresh
    ) as partial:
        begun = partial.rows_done
        last = time.monotonic()
        try:
            for first, batch in source.batches(rows=batch_rows, start=begun):
                codes = hasher.encode_batch(batch, source.name, first)
                rows = {"words": codes.words}
                partial.append(
                    rows | {"empty": codes.empty_rows()} if hasher.may_be_empty else rows
                )
                if progress is not None:
                    progress(partial.rows_done)
                if time.monotonic() - last > _SECONDS_BETWEEN_CHECKPOINTS:
                    partial.checkpoint()
                    last = time.monotonic()
        except KeyboardInterrupt:
            partial.checkpoint()
            raise
        partial.finish()
    return begun
