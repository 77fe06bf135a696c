"""Vectors on their way into a collection: read, checked and encoded whole before anything
changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bitkin.arrays import Batch
from bitkin.codes import Codes
from bitkin.collection.encoder import Encoder
from bitkin.errors import InvalidInputError
from bitkin.rescoring.estimate import Corrections

Accept = Callable[[Batch, str, int], Batch]


class Incoming(NamedTuple):
    """What is to be kept of n rows."""

    codes: Codes
    vectors: list[Batch] | None
    corrections: Corrections | None


def read(vectors: Any, encoder: Encoder, accept: Accept | None) -> Incoming:
    """Encode vectors in one pass; `accept` turns a batch into what is kept of it, None keeps
    nothing.
    """
    if not encoder.takes(vectors):
        if accept is not None:
            raise InvalidInputError(
                "vectors must be a matrix, got sets, of which no vectors can be kept. Create the "
                "collection with "
                "vectors=None, or give a CSR matrix."
            )
        return Incoming(encoder.hasher.encode(vectors), None, None)
    source = encoder.source(vectors, "vectors")
    codes, kept, corrections = [], [], [np.empty((0, 2), dtype=np.float32)]
    for first, batch in source.batches():
        some, numbers = encoder.rows(batch, source.name, first)
        codes.append(some)
        if numbers is not None:
            corrections.append(numbers)
        if accept is not None:
            kept.append(accept(batch, source.name, first))
    return Incoming(
        _joined(codes, encoder),
        None if accept is None else kept,
        None if encoder.scorer is None else np.concatenate(corrections),
    )


def _joined(parts: list[Codes], encoder: Encoder) -> Codes:
    if parts:
        return Codes.concatenate(parts)
    spec = encoder.hasher.spec_
    nothing = np.empty((0, spec.n_symbols), dtype=np.uint8)
    return Codes.from_symbols(
        nothing, spec.bits_per_symbol, fingerprint=encoder.hasher.fingerprint_
    )
