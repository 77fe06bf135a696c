from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.choices import WARMUP_TASKS
from bitkin.errors import InvalidInputError
from bitkin.warming import _rows_like, warm_searches


def test_every_task_runs_and_what_is_compiled_is_not_compiled_again() -> None:
    told: list[bitkin.WarmUp] = []
    done = bitkin.warmup(bits=64, report=told.append)
    assert told == done
    assert tuple(task.task for task in done) == WARMUP_TASKS
    assert [task.kernels for task in bitkin.warmup(bits=64)] == [0] * len(done)


def loaded_kernels() -> set[tuple[str, Any]]:
    """Return the kernels that were compiled or read from the cache, with the types that they are
    for.
    """
    modules = [module for name, module in sys.modules.items() if name.startswith("bitkin.kernels.")]
    return {
        (f"{module.__name__}.{name}", types)
        for module in modules
        for name, value in vars(module).items()
        for types in getattr(value, "signatures", ())
    }


def test_nothing_is_left_to_compile_for_searches_in_cells_by_the_lane_and_by_losses() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.standard_normal((20, 40)), 40, axis=0) + rng.standard_normal((800, 40))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    hashers: list[Any] = [bitkin.ProjectionHash(40, random_state=0), bitkin.WTAHash()]
    for hasher in hashers:
        hasher.fit(rows)
    bitkin.warmup(["collection", "cells", "wta"], bits=40)
    ready = loaded_kernels()
    for hasher, in_cells in itertools.product(hashers, (True, False)):
        index = bitkin.CellIndex(hasher.spec_, 30, probes=2) if in_cells else "flat"
        collection = bitkin.Collection.create(None, hasher, index=index)
        collection.add(rows)
        for queries in (rows[:1], rows[:7]):
            collection.search(queries, 5)
            collection.search(queries, 5, first="codes")
            collection.search(queries, 5, allow=np.arange(500))
    assert loaded_kernels() == ready


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize("vectors", ["float32", "float16", "int8", "csr", None])
@pytest.mark.parametrize("index", ["flat", "cells"])
def test_searches_of_any_collection_are_warmed_up_and_it_stays_as_it_is(
    metric: str, vectors: str | None, index: str
) -> None:
    X = np.random.default_rng(0).standard_normal((70, 9)).astype(np.float32)
    hasher = bitkin.ProjectionHash(64, projection="random", rotation=None).fit(X)
    collection = bitkin.Collection.create(None, hasher, metric=metric, vectors=vectors, index=index)
    before = collection.stats()
    warm_searches(collection)
    assert collection.stats() == before
    assert collection.hasher.fingerprint_ == hasher.fingerprint_


@pytest.mark.parametrize("n_features", [1, 15, 16, 17, 1_000_000])
def test_a_little_memory_is_enough_to_warm_up_however_wide_rows_are(n_features: int) -> None:
    dense = _rows_like(n_features, sparse=False)
    assert dense.shape == (min(1100, max(8, 2**22 // n_features)), n_features)
    sparse = _rows_like(n_features, sparse=True)
    assert sparse.shape == (1100, n_features)
    assert sparse.has_canonical_format
    few = sparse[:40].toarray()
    np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(few, axis=1), 1, rtol=1e-5)


def test_a_hasher_of_sets_needs_no_rows_to_warm_up() -> None:
    hasher = bitkin.MinHash(64, bits_per_symbol=1).fit()
    warm_searches(bitkin.Collection.create(None, hasher, vectors=None))


def test_bad_tasks_and_lengths_are_named() -> None:
    with pytest.raises(InvalidInputError, match=r"tasks must be one of 'search', .* got 'serch'"):
        bitkin.warmup(["search", "serch"])
    with pytest.raises(InvalidInputError, match="bits must hold at least one length"):
        bitkin.warmup("search", bits=[])
    with pytest.raises(InvalidInputError, match=r"bits must be .* got 0"):
        bitkin.warmup("search", bits=[64, 0])
