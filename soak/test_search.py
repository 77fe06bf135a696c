"""Searches beside writers, and random sizes against the truth."""

from __future__ import annotations

import numpy as np
import pytest

from bitkin import FlatIndex, set_threads
from bitkin.collection import changes
from bitkin.index import scan_parts
from bitkin.index.rows import segment
from bitkin.kernels.blocks import BLOCK
from tests import truth
from tests.collection.stress import stress as stress_collection
from tests.index.snapshots import KINDS, stress
from tests.truth import random_codes


@pytest.fixture(autouse=True)
def always_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let even a small scan be cut into parts for the pool."""
    monkeypatch.setattr(scan_parts, "_WORDS_PER_PART", 1)
    monkeypatch.setattr(segment, "ROWS_PER_PIECE", BLOCK)


@pytest.mark.parametrize("name", KINDS)
def test_a_minute_of_searching_beside_a_writer(name: str, share: float) -> None:
    for seed, k in enumerate((1, 3, 5, 10, 50) * 2):
        assert stress(round(6000 * share), name, seed=seed, k=k) >= 6000 * share


@pytest.mark.parametrize("index", ["flat", "multi"])
@pytest.mark.parametrize("kind", ["int", "str"])
def test_a_minute_of_searching_a_collection_beside_its_writer(
    kind: str, index: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_FEW_DEAD_ROWS", 30)
    for seed in range(5):
        stress_collection(round(900 * share), round(50 * share), kind, index, seed=seed)


def test_random_shapes_against_the_truth(share: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(int(400 * share)):
        n, bits = int(rng.integers(0, 5000)), int(rng.integers(1, 6))
        n_symbols, k = (
            int(rng.choice([1, 5, 63, 64, 65, 130])),
            int(rng.choice([1, 2, 10, 100, 4000])),
        )
        rows = random_codes(
            rng, n, n_symbols, bits, empty=rng.random() < 0.5, near=rng.random() < 0.5
        )
        queries = random_codes(rng, int(rng.integers(1, 9)), n_symbols, bits)
        ids = rng.permutation(2 * n)[:n].astype(np.int64)
        index = FlatIndex(rows.spec)
        for part in np.array_split(np.arange(n), int(rng.integers(1, 9))):
            index.add(rows[part], ids[part])
        set_threads(int(rng.integers(1, 4)))
        allow = (
            rng.permutation(2 * n)[: int(rng.integers(0, 2 * n + 1))]
            if rng.random() < 0.5
            else None
        )
        found = index.search(queries, k, allow=allow)
        want_ids, want_distances = truth.nearest(rows, ids, queries, k, allow)
        assert np.array_equal(found.distances, want_distances)
        assert np.array_equal(found.ids, want_ids)
