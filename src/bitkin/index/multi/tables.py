"""The tables of a MultiIndex: which symbols make a chunk, which keys are how far apart, and the
rows of a segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, comb, log2

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.code_spec import CodeSpec
from bitkin.index.rows.segment import Segment
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.multi_index import ChunkTables, fill_table_into

# of 8 or 12 bytes per row each; codes too long for that many chunks have symbols in none
MOST_TABLES = 16
_SHORT_FILTER = 48  # other bits of a code; of more, 32 would let too many rows pass
_KEYS_OF_ROWS = 64  # looking up a 64th as many keys as there are rows takes longer than a scan
_SPREAD = 0xBEA225F9EB34556D  # odd, its bits well mixed
_MOST_ROWS = 2**32 - 1
_ALL_ROWS = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True, eq=False, slots=True)
class MultiTables:
    """The first `n` rows of a segment, by the keys of all chunks."""

    n: int
    chunks: ChunkTables

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in self.chunks)


def build_tables(segment: Segment, spec: CodeSpec) -> MultiTables:
    """Put the rows of a segment into tables, all chunks side by side; removed and empty ones are
    left out.
    """
    n = min(segment.n, _MOST_ROWS)
    chunks = empty_tables(spec, n)
    tiles = read_only(segment.tiles)
    mask = read_only(_ALL_ROWS if segment.searchable is None else segment.searchable)

    def fill(j: int) -> None:
        buckets, filters = np.empty(n, dtype=np.uint32), np.empty(n, dtype=chunks.filters.dtype)
        fill_table_into(
            tiles,
            n,
            mask,
            spec.n_symbols,
            j,
            chunks,
            buckets,
            filters,
            np.empty(tiles.shape[3], dtype=np.uint64),
        )

    threads.run(fill, range(len(chunks.lengths)))
    return MultiTables(n, chunks)


def empty_tables(spec: CodeSpec, n: int) -> ChunkTables:
    """Choose chunks for `n` rows of a spec, about one key a row, and return tables without rows."""
    lengths = chunk_lengths(spec, n)
    firsts = np.cumsum(lengths) - lengths
    key_bits = lengths * spec.bits_per_symbol
    # about two buckets per row: half of them empty, and few rows to a bucket
    bucket_bits = min(int(key_bits.max()), ceil(log2(max(2, n))) + 1)
    # the others are hashed; a row is compared with the key itself in any case
    exact = key_bits <= bucket_bits
    filter_bits = 32 if spec.n_bits - int(key_bits.min()) <= _SHORT_FILTER else 64
    # one bit of as many symbols as fit; where all fit, further planes of them
    filter_symbols = np.minimum(filter_bits, spec.n_symbols - lengths)
    filter_planes = np.clip(filter_bits // np.maximum(1, filter_symbols), 1, spec.bits_per_symbol)
    flips, flip_starts = _flips_of(lengths, spec.bits_per_symbol, n // _KEYS_OF_ROWS)
    return ChunkTables(
        firsts=firsts,
        lengths=lengths,
        factors=np.array(
            [
                # bucket = (key · factor) >> shift. With factor 2^(64 − b) and shift 64 − b that is
                # the key itself; otherwise the top bits of a multiplicative hash.
                1 << (64 - int(bits)) if whole else _SPREAD
                for bits, whole in zip(key_bits, exact, strict=True)
            ],
            dtype=np.uint64,
        ),
        shifts=np.where(exact, 64 - key_bits, 64 - bucket_bits).astype(np.uint64),
        starts=np.zeros((len(lengths), 2**bucket_bits + 1), dtype=np.uint32),
        rows=np.zeros((len(lengths), n + 1), dtype=np.uint32),
        filters=np.zeros((len(lengths), n + 1), dtype=f"uint{filter_bits}"),
        filter_symbols=filter_symbols,
        filter_planes=filter_planes,
        flips=flips,
        flip_starts=flip_starts,
    )


def chunk_lengths(spec: CodeSpec, n: int) -> npt.NDArray[np.int64]:
    """Return the symbols of every chunk: of about log2(n) bits, so that keys are about as many as
    rows.
    """
    longest = max(1, round(log2(max(2, n)) / spec.bits_per_symbol))
    count = -(-spec.n_symbols // longest)
    # long codes: symbols beyond the last chunk are in no key, and only compared
    if count > MOST_TABLES:
        return np.full(MOST_TABLES, longest, dtype=np.int64)
    return np.diff(np.arange(count + 1, dtype=np.int64) * spec.n_symbols // count)


def _flips_of(
    lengths: npt.NDArray[np.int64], bits_per_symbol: int, most: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return the flips of all chunks after one another, and where those of every distance begin."""
    by_length = {
        length: flips(length, bits_per_symbol, most) for length in sorted({*lengths.tolist()})
    }
    depth = max(len(levels) for levels in by_length.values())
    flat: list[npt.NDArray[np.uint64]] = []
    starts, done = {}, 0
    for length, levels in by_length.items():
        sizes = [len(level) for level in levels] + [0] * (depth - len(levels))
        starts[length] = done + np.concatenate([[0], np.cumsum(sizes)])
        flat += levels
        done += sum(sizes)
    return np.concatenate(flat), np.array(
        [starts[length] for length in lengths.tolist()], dtype=np.int64
    )


def flips(length: int, bits_per_symbol: int, most: int) -> list[npt.NDArray[np.uint64]]:
    """Return for t = 0, 1, … what turns a key of `length` symbols into all those that differ in
    exactly t of them.

    Ends before a t that has more than `most` of them. Ascending, so that keys looked up after one
    another are near each other in memory.
    """
    others = (1 << bits_per_symbol) - 1
    depth = 0
    while depth < length and comb(length, depth + 1) * others ** (depth + 1) <= most:
        depth += 1
    return _flips_to(depth, length, bits_per_symbol)


@lru_cache(maxsize=32)
def _flips_to(depth: int, length: int, bits_per_symbol: int) -> list[npt.NDArray[np.uint64]]:
    others = (1 << bits_per_symbol) - 1
    levels = [np.zeros(1, dtype=np.uint64)] + [np.empty(0, dtype=np.uint64)] * depth
    if depth:
        values = np.arange(1, others + 1, dtype=np.uint64)
        for i in range(length):
            changes = np.zeros(others, dtype=np.uint64)
            for p in range(bits_per_symbol):
                changes |= (values >> np.uint64(p) & np.uint64(1)) << np.uint64(p * length + i)
            # Keys with t changed symbols among the first i + 1: those without
            # symbol i, and those with t − 1 others and symbol i. From the
            # largest t down, so that symbol i is changed once only.
            for t in range(depth, 0, -1):
                levels[t] = np.concatenate([levels[t], (levels[t - 1][:, None] | changes).ravel()])
    return [np.sort(level) for level in levels]
