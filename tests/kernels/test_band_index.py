from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bitkin import Codes, FlatIndex
from bitkin.index.bands.layout import BandLayout
from bitkin.index.bands.tables import band_tables
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.band_index import keys_into, row_distances_into
from bitkin.kernels.search.scan import block_widths
from tests.index.band_digest import digest
from tests.truth import random_codes, symbol_distances

ROOT = Path(__file__).parent.parent.parent
SHAPES = [(1, 1, 1), (70, 1, 9), (200, 1, 64), (40, 3, 20), (130, 2, 33), (9, 8, 64), (3, 32, 40)]


def keys_of(codes: Codes, r: int, bands: int) -> list[list[int]]:
    """The bits of every band as a number, plane after plane from the lowest bits, first symbols
    first.
    """
    bits = codes.spec.bits_per_symbol
    return [
        [
            int("".join(str(s >> p & 1) for p in range(bits) for s in row[b * r : b * r + r]), 2)
            for b in range(bands)
        ]
        for row in codes.symbols().astype(object).tolist()
    ]


@pytest.mark.parametrize(("n_symbols", "bits", "band_bits"), SHAPES)
def test_a_key_is_the_bits_of_the_symbols_of_a_band(
    n_symbols: int, bits: int, band_bits: int
) -> None:
    codes = random_codes(np.random.default_rng(n_symbols), 20, n_symbols, bits)
    layout = BandLayout(codes.spec, band_bits)
    keys = np.empty((len(codes), layout.bands), dtype=np.uint64)
    keys_into(read_only(codes.words), layout.r, keys)
    assert keys.tolist() == keys_of(codes, layout.r, layout.bands)


@pytest.mark.parametrize(("n_symbols", "bits", "band_bits"), SHAPES)
def test_tables_list_every_row_once_in_the_slot_of_its_key(
    n_symbols: int, bits: int, band_bits: int
) -> None:
    codes = random_codes(np.random.default_rng(n_symbols), 300, n_symbols, bits)
    index = FlatIndex(codes.spec)
    index.add(codes)
    layout = BandLayout(codes.spec, band_bits)
    arrays = band_tables(index.snapshot.segments[0], layout).arrays
    keys = np.empty((len(codes), layout.bands), dtype=np.uint64)
    keys_into(read_only(codes.words), layout.r, keys)
    for band in range(layout.bands):
        starts, rows = arrays.starts[band].astype(np.int64), arrays.rows[band]
        assert sorted(rows.tolist()) == list(range(300))
        assert (starts[0], starts[-1]) == (0, 300)
        slots = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        assert len(
            {(int(key), slot) for key, slot in zip(keys[rows, band], slots.tolist(), strict=True)}
        ) == len(set(keys[:, band].tolist()))
        for slot in range(len(starts) - 1):
            inside = rows[starts[slot] : starts[slot + 1]].tolist()
            assert inside == sorted(inside)


@pytest.mark.parametrize(("n_symbols", "bits"), [(1, 1), (70, 1), (40, 3), (130, 8)])
def test_distances_of_rows_are_the_symbols_that_differ(n_symbols: int, bits: int) -> None:
    codes = random_codes(np.random.default_rng(1), 30, n_symbols, bits)
    out = np.empty(30, dtype=np.int32)
    words = read_only(codes.words)
    row_distances_into(words, words[4], *block_widths(*words.shape[1:]), out)
    assert out.tolist() == symbol_distances(codes[4:5], codes)[0].tolist()


def test_answers_are_the_same_without_a_compiler() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.index.band_digest"],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == digest()
