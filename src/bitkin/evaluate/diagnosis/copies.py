"""How many rows are copies of others: counted over all rows, in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from bitkin.arrays import Floats, Words
from bitkin.hashers.projection.statistics.row_sample import row_hashes

_MOST_HASHES = 1 << 20  # 16 MB with their counts
_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
_COLUMN_KEY = 0x6269746B696E  # any number


def hash_rows(batch: Any) -> Words:
    """Return a 64-bit hash of every row: equal for equal rows, and for a sparse row and its dense
    copy.
    """
    if issparse(batch):
        columns = np.asarray(batch.indices, dtype=np.int64)
        parts = _mixed_bits(np.asarray(batch.data, dtype=np.float64))
        parts *= row_hashes(columns, _COLUMN_KEY) | np.uint64(1)
        # sums of rows are differences of running sums, all modulo 2⁶⁴
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(parts, dtype=np.uint64)])
        hashed = sums[batch.indptr[1:]] - sums[batch.indptr[:-1]]
    else:
        keys = row_hashes(np.arange(batch.shape[1]), _COLUMN_KEY) | np.uint64(1)
        hashed = _mixed_bits(np.asarray(batch, dtype=np.float64)) @ keys
    mixed: Words = _mix(np.asarray(hashed, dtype=np.uint64))
    return mixed


class CopyCounter:
    """Counts rows by their hashes: all of them while they are few, later a share of the hashes.

    A row is kept or not by its hash, so that all copies of a row are kept or none: shares stay
    right however many rows there are (distinct sampling).
    """

    def __init__(self, most: int = _MOST_HASHES) -> None:
        self._most = most
        self._highest = np.uint64(2**64 - 1)
        self._hashes = np.empty(0, dtype=np.uint64)
        self._counts = np.empty(0, dtype=np.int64)
        self._waiting: list[Words] = []
        self._n_waiting = 0

    def count(self, hashes: Words) -> None:
        """Take in more rows."""
        kept = hashes[hashes <= self._highest]
        self._waiting.append(kept)
        self._n_waiting += len(kept)
        if self._n_waiting > self._most:
            self._merge()

    @property
    def exact(self) -> bool:
        """Whether all rows were counted."""
        return bool(self._highest == np.uint64(2**64 - 1))

    def copied_share(self) -> float:
        """Return the share of rows that are equal to an earlier one."""
        self._merge()
        n_rows = int(self._counts.sum())
        return 1.0 - len(self._counts) / n_rows if n_rows else 0.0

    def most_copies(self) -> int:
        """Return how often the most frequent row comes, of those counted."""
        self._merge()
        return int(self._counts.max(initial=0))

    def _merge(self) -> None:
        hashes = np.concatenate([self._hashes, *self._waiting])
        ones = np.ones(self._n_waiting, dtype=np.int64)
        counts = np.concatenate([self._counts, ones])
        self._waiting, self._n_waiting = [], 0
        self._hashes, places = np.unique(hashes, return_inverse=True)
        self._counts = np.zeros(len(self._hashes), dtype=np.int64)
        np.add.at(self._counts, places.reshape(-1), counts)
        while len(self._hashes) > self._most:
            self._highest >>= np.uint64(1)
            n_kept = int(np.searchsorted(self._hashes, self._highest, side="right"))
            self._hashes, self._counts = self._hashes[:n_kept], self._counts[:n_kept]


def _mixed_bits(numbers: Floats) -> Words:
    """Return the bits of numbers, mixed; 0 for 0. Small whole numbers differ in their highest bits
    only, which a product modulo 2⁶⁴ would lose.
    """
    return _mix((numbers + 0.0).view(np.uint64))  # −0.0 + 0.0 is 0.0


def _mix(words: Words) -> Words:
    for _ in range(2):
        words = (words ^ (words >> _SHIFT)) * _FACTOR
    mixed: Words = words ^ (words >> _SHIFT)
    return mixed
