from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from bitkin import Codes, CodeSpec, FlatIndex
from bitkin.index.multi import tables as multi_tables
from bitkin.index.multi.lookup import empty_heaps
from bitkin.index.multi.tables import build_tables, chunk_lengths, empty_tables, flips
from bitkin.index.rows.segment import Segment
from bitkin.kernels.blocks import BLOCK, read_only
from bitkin.kernels.search.multi_index import multi_work_for, nearest_by_tables_into
from tests import truth
from tests.truth import random_codes

SPECS = [
    (1, 1),
    (64, 1),
    (65, 1),
    (130, 1),
    (300, 1),
    (7, 3),
    (40, 2),
    (70, 5),
    (9, 8),
    (300, 8),
    (5, 20),
    (3, 32),
]


def segment_of(codes: Codes) -> Segment:
    index = FlatIndex(codes.spec)
    index.add(codes)
    return index.snapshot.segments[0]


def bits_of(symbols: npt.NDArray[np.uint64], bits_per_symbol: int) -> npt.NDArray[np.uint64]:
    """Write plane after plane of some symbols as one number a row."""
    digits = [
        (symbols[:, i] >> np.uint64(p)) & np.uint64(1)
        for p in range(bits_per_symbol)
        for i in range(symbols.shape[1])
    ]
    number = np.zeros(len(symbols), dtype=np.uint64)
    for digit in digits:
        number = (number << np.uint64(1)) | digit
    return number


@pytest.mark.parametrize(("length", "bits"), [(1, 1), (5, 1), (9, 1), (3, 2), (2, 3)])
def test_flips_are_all_keys_by_the_symbols_that_differ(length: int, bits: int) -> None:
    symbols = np.array(list(product(range(2**bits), repeat=length)), dtype=np.uint64)
    keys, differing = bits_of(symbols, bits), (symbols != 0).sum(axis=1)
    levels = flips(length, bits, 10**6)
    assert len(levels) == length + 1
    for t, level in enumerate(levels):
        assert level.tolist() == sorted(keys[differing == t].tolist())


def test_flips_end_before_there_are_too_many() -> None:
    assert [len(level) for level in flips(10, 1, 45)] == [1, 10, 45]
    assert [len(level) for level in flips(2, 32, 10**6)] == [1]


@pytest.mark.parametrize("n_symbols", [1, 2, 63, 64, 100, 128, 333, 2000])
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 32])
@pytest.mark.parametrize("n", [0, 600, 10**6, 10**9])
def test_chunks_are_disjoint_runs_of_symbols_with_keys_of_at_most_64_bits(
    n_symbols: int, bits: int, n: int
) -> None:
    lengths = chunk_lengths(CodeSpec(n_symbols, bits), n)
    assert 1 <= len(lengths) <= multi_tables.MOST_TABLES
    assert lengths.min() >= 1
    assert lengths.sum() <= n_symbols
    assert lengths.max() * bits <= 64


@pytest.mark.parametrize(("n_symbols", "bits"), SPECS)
def test_every_row_is_in_every_table_once_in_the_bucket_of_its_key(
    n_symbols: int, bits: int
) -> None:
    rng = np.random.default_rng(n_symbols)
    rows = random_codes(rng, 3 * BLOCK + 5, n_symbols, bits, empty=True)
    tables = build_tables(segment_of(rows), rows.spec)
    assert tables.n == 3 * BLOCK + 5
    chunks, symbols = tables.chunks, rows.symbols().astype(np.uint64)[: tables.n]
    usable = np.flatnonzero(~rows.empty_rows()[: tables.n])
    for j in range(len(chunks.lengths)):
        first, last = int(chunks.firsts[j]), int(chunks.firsts[j] + chunks.lengths[j])
        with np.errstate(over="ignore"):
            buckets = (bits_of(symbols[:, first:last], bits) * chunks.factors[j]) >> chunks.shifts[
                j
            ]
        order = usable[np.argsort(buckets[usable], kind="stable")]
        assert np.array_equal(chunks.rows[j, : len(order)], order)
        n_buckets = chunks.starts.shape[1] - 1
        assert np.array_equal(
            chunks.starts[j], np.searchsorted(buckets[order], np.arange(n_buckets + 1))
        )
        after = (last + np.arange(chunks.filter_symbols[j])) % n_symbols
        assert not set(after.tolist()) & set(range(first, last))
        filters = bits_of(symbols[:, after], int(chunks.filter_planes[j]))
        assert np.array_equal(chunks.filters[j, : len(order)], filters[order])


@pytest.mark.parametrize(("n_symbols", "bits"), SPECS)
@pytest.mark.parametrize("k", [1, 9])
def test_lookups_find_the_nearest_or_say_that_they_gave_up(
    n_symbols: int, bits: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multi_tables, "_KEYS_OF_ROWS", 0.001)
    rng = np.random.default_rng(n_symbols)
    rows = random_codes(rng, 2 * BLOCK, n_symbols, bits, empty=True, near=True)
    queries = Codes.concatenate(
        [rows[~rows.empty_rows()][:20], random_codes(rng, 10, n_symbols, bits)]
    )
    segment = segment_of(rows)
    chunks = build_tables(segment, rows.spec).chunks
    mask = read_only(np.empty(0, dtype=np.uint64))  # empty rows are in no table
    for budget in (np.inf, 30_000.0, 0.0):
        kept = empty_heaps(len(queries), k, n_symbols + 1)
        work = multi_work_for(bits, rows.spec.plane_words, len(chunks.lengths))
        nearest_by_tables_into(
            read_only(segment.tiles),
            read_only(segment.ids),
            mask,
            chunks,
            n_symbols,
            read_only(queries.words),
            n_symbols,
            np.array([10.0, 1.0, 10.0]),
            np.full(3, budget),
            work,
            *kept,
        )
        gave_up = kept.account[:, 3] != 0
        if np.isinf(budget):  # wide symbols have too many neighbouring values to look up
            assert gave_up.any() <= (bits >= 20)
        assert (budget == 0) <= bool(gave_up.all() and (kept.account[:, :3] == 0).all())
        order = np.lexsort((kept.ids, kept.distances), axis=1)
        ids, distances = (
            np.take_along_axis(found, order, axis=1) for found in (kept.ids, kept.distances)
        )
        want_ids, want_distances = truth.nearest(rows, np.arange(len(rows)), queries, k)
        assert np.array_equal(ids[~gave_up], want_ids[~gave_up])
        assert np.array_equal(distances[~gave_up], want_distances[~gave_up])


def test_tables_of_wide_symbols_share_buckets() -> None:
    chunks = empty_tables(CodeSpec(4, 32), 5 * BLOCK)
    assert chunks.starts.shape[1] == 2**13 + 1
    assert chunks.shifts.tolist() == [64 - 13] * 4
