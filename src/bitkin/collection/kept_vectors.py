"""How vectors are kept for the exact stage: as they are, in half or a quarter of the space, or
sparse.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np

from bitkin.arrays import Batch, Ids
from bitkin.collection.dense_vectors import DenseVectors
from bitkin.collection.scaled_vectors import ScaledVectors
from bitkin.collection.sparse_vectors import SparseVectors

KINDS = ("float32", "float16", "int8", "csr")


class KeptVectors(Protocol):
    """Vectors by slot; never changed, like a `Column`, and only the newest may be grown."""

    @property
    def n_features(self) -> int:
        """Length of a vector."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what `gather` returns."""

    @property
    def sparse(self) -> bool:
        """Whether `gather` returns CSR."""

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""

    def accepted(self, batch: Batch, name: str, first: int) -> Batch:
        """Return a batch in the form that `with_rows` takes; raise where it cannot be kept so."""

    def with_rows(self, batch: Batch) -> Self:
        """Return these vectors and an accepted batch behind them."""

    def gather(self, slots: Ids) -> Batch:
        """Return the vectors in some slots, in that order."""

    def taken(self, slots: Ids) -> Self:
        """Return those in some slots alone, in that order and to the last bit, without room for
        more.
        """


def no_vectors(kind: str, n_features: int) -> KeptVectors:
    """Return vectors of a kind, of which there are none yet."""
    if kind == "csr":
        return SparseVectors.empty(n_features)
    if kind == "int8":
        return ScaledVectors.empty(n_features)
    return DenseVectors.empty(np.dtype(kind), n_features)
