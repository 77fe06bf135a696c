"""Vectors kept as the numbers that are not zero, float32, and their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_array, issparse

from bitkin.arrays import Batch, Ids
from bitkin.collection.column import Column
from bitkin.hashers.projection.training import prepared
from bitkin.io.vectors.batch import plain_batch


@dataclass(frozen=True, eq=False, slots=True)
class SparseVectors:
    """Slot s holds `numbers[ends[s] : ends[s + 1]]`, in `columns` of the same places."""

    n_features: int
    numbers: Column
    columns: Column
    ends: Column
    dtype = np.dtype(np.float32)
    sparse = True

    @classmethod
    def empty(cls, n_features: int) -> Self:
        """Return no vectors yet."""
        ends = Column.empty(np.int64).with_rows(np.zeros(1, dtype=np.int64))
        return cls(n_features, Column.empty(np.float32), Column.empty(np.int32), ends)

    @property
    def nbytes(self) -> int:
        """Bytes held, room for more rows included."""
        return sum(column.array.nbytes for column in (self.numbers, self.columns, self.ends))

    def accepted(self, batch: Batch, name: str, first: int) -> Batch:
        """Return a batch as CSR rows of float32; numbers beyond that are refused."""
        small = prepared(batch, False, name, first)
        return plain_batch(small if issparse(small) else csr_array(small), self.dtype)

    def with_rows(self, batch: Batch) -> SparseVectors:
        """Return these vectors and an accepted batch behind them."""
        ends = self.ends.rows[-1] + batch.indptr[1:].astype(np.int64)
        return SparseVectors(
            self.n_features,
            self.numbers.with_rows(batch.data),
            self.columns.with_rows(batch.indices),
            self.ends.with_rows(ends),
        )

    def gather(self, slots: Ids) -> Batch:
        """Return the vectors in some slots, in that order."""
        begins = self.ends.array[slots]
        counts = self.ends.array[slots + 1] - begins
        ends = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(begins - ends[:-1], counts) + np.arange(ends[-1])
        parts = (self.numbers.array[places], self.columns.array[places], ends)
        return plain_batch(csr_array(parts, shape=(len(slots), self.n_features)), self.dtype)

    def taken(self, slots: Ids) -> SparseVectors:
        """Return those in some slots alone."""
        rows = self.gather(slots)
        columns = (rows.data, rows.indices, rows.indptr.astype(np.int64))
        return SparseVectors(self.n_features, *(Column(column, len(column)) for column in columns))
