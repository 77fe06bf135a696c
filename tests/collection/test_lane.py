"""The fast lane gives the answers of the funnel, to the last bit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin.collection.results import Hits
from bitkin.collection.searching.lane import Lane
from bitkin.errors import InvalidInputError

N_FEATURES = 20
RNG = np.random.default_rng(0)
SPREAD = np.exp(-np.arange(N_FEATURES) / 6)


def of_length(rows: Any) -> Any:
    """Rows of one length, which any metric and any hasher take."""
    return (5 * rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


HASHERS = {
    normalize: bitkin.ProjectionHash(n_bits=20, rotation="random", normalize=normalize).fit(
        of_length(RNG.standard_normal((300, N_FEATURES)) * SPREAD + 1)
    )
    for normalize in (False, True)
}


@contextmanager
def counted() -> Iterator[list[bool]]:
    """Whether the lane had an answer, for every query that came by it."""
    led: list[bool] = []
    best = Lane.best

    def noted(self: Lane, *args: Any) -> Any:
        found = best(self, *args)
        led.append(found is not None)
        return found

    with patch.object(Lane, "best", noted):
        yield led


def without_lane(collection: bitkin.Collection, query: Any, k: int, **asked: Any) -> Hits:
    with patch.object(Lane, "best", lambda *_: None):
        return collection.search(query, k, **asked)


def rows(rng: np.random.Generator, n: int, n_kinds: int) -> Any:
    """Rows of few kinds, so that many distances tie."""
    kinds = rng.standard_normal((n_kinds, N_FEATURES)) * SPREAD + 1
    return of_length(kinds[rng.integers(0, n_kinds, n)])


@given(st.data())
@settings(max_examples=80)
def test_the_lane_answers_as_the_funnel_does(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    metric = data.draw(st.sampled_from(["l2", "cosine", "ip"]))
    normalize = data.draw(st.booleans())
    kind = data.draw(st.sampled_from(["int", "str"]))
    kept = data.draw(st.sampled_from(["float32", "float16", "int8", "csr"]))
    collection = bitkin.Collection.create(
        None, HASHERS[normalize], metric=metric, ids=kind, vectors=kept
    )
    n = data.draw(st.sampled_from([1, 40, 700]))
    X = rows(rng, n, data.draw(st.sampled_from([3, 1000])))
    numbers = np.sort(rng.choice(n + data.draw(st.sampled_from([0, 3 * n])), n, replace=False))
    ids = numbers if kind == "int" else numbers.astype(str).tolist()
    collection.add(X, ids=ids)
    for change in data.draw(st.lists(st.sampled_from(["remove", "upsert", "compact", "add"]))):
        there = collection.ids
        if change == "compact":
            collection.compact()
        elif change == "add":
            new = np.arange(5) + 10**6 + int(rng.integers(10**6))
            names = new if kind == "int" else new.astype(str).tolist()
            collection.upsert(rows(rng, 5, 5), ids=names)
        elif len(there) > 3:
            some = rng.choice(there, max(1, len(there) // 5), replace=False)
            if change == "remove":
                collection.remove(some if kind == "int" else some.tolist())
            else:
                collection.upsert(rows(rng, len(some), 9), ids=list(some))
    k = data.draw(st.sampled_from([1, 10, 900]))
    asked: dict[str, Any] = {
        "first": data.draw(st.sampled_from(["estimate", "codes", None])),
        "oversample": data.draw(st.sampled_from([1, 3, 10])),
    }
    # a query of zeros has no direction, of which a search by cosine warns
    sizes = [1.0, 1e-30, 1e30] if metric == "cosine" else [1.0, 0.0, 1e-30, 1e30]
    query = rows(rng, 1, 1) * data.draw(st.sampled_from(sizes))
    query = query.astype(data.draw(st.sampled_from([np.float32, np.float64])))
    with counted() as led:
        found = collection.search(query, k, **asked)
    if asked["first"] == "estimate" and led:
        few = len(collection) < k * asked["oversample"]
        covered = not (few or (normalize and metric == "l2") or query.dtype == np.float64)
        assert led == [covered] or not 1e-3 < np.abs(query).max() < 1e3
    truth = without_lane(collection, query, k, **asked)
    assert found.ids.tolist() == truth.ids.tolist()
    assert np.array_equal(found.distances, truth.distances)


def filled(n: int = 600) -> tuple[bitkin.Collection, Any]:
    X = rows(np.random.default_rng(1), n, n)
    collection = bitkin.Collection.create(None, HASHERS[False])
    collection.add(X)
    return collection, X


def test_a_default_search_of_a_lone_query_goes_through_the_lane() -> None:
    collection, X = filled(3000)
    with counted() as led:
        assert collection.search(X[7], k=3).ids[0, 0] == 7
        assert collection.search(X[:1], k=3).ids[0, 0] == 0
    assert led == [True, True]


def test_what_the_lane_does_not_cover_goes_through_the_funnel() -> None:
    collection, X = filled(3000)
    with counted() as led:
        collection.search(X[:2], k=3)
        collection.search(X[:1], k=3, stage="estimate")
        collection.search(X[:1], k=3, first="codes")
        collection.search(X[:1], k=3, allow=[1, 2, 3])
        collection.explain(X[:1], k=3)
    assert led == []
    with pytest.raises(InvalidInputError, match="queries"):
        collection.search(np.full((1, N_FEATURES), np.nan, dtype=np.float32), k=3)


def test_a_query_of_zeros_is_told_of_as_by_the_funnel() -> None:
    collection = bitkin.Collection.create(None, HASHERS[True], metric="cosine")
    collection.add(rows(np.random.default_rng(1), 600, 600))
    zeros = np.zeros((1, N_FEATURES), dtype=np.float32)
    with counted() as led, pytest.warns(UserWarning, match="zero"):
        collection.search(zeros, k=3, first="estimate")
    assert led == [True]
    with pytest.warns(UserWarning, match="zero"):
        without_lane(collection, zeros, 3, first="estimate")


def test_answers_are_not_overwritten_by_the_next_query() -> None:
    collection, X = filled()
    first = collection.search(X[:1], k=3, first="estimate")
    ids, distances = first.ids.copy(), first.distances.copy()
    for query in X[1:20]:
        collection.search(query, k=3, first="estimate")
    assert np.array_equal(first.ids, ids)
    assert np.array_equal(first.distances, distances)


def test_threads_beside_a_writer_see_one_snapshot_each() -> None:
    # Row i is (i, 1000 · version, 0, …), so that distances tell whether a search mixed versions.
    n, n_threads = 400, 8
    collection = bitkin.Collection.create(None, HASHERS[False])

    def version(number: int) -> Any:
        X = np.zeros((n, N_FEATURES), dtype=np.float32)
        X[:, 0], X[:, 1] = np.arange(n), 1000 * number
        return X

    collection.add(version(0))
    done = threading.Event()
    wrong: list[Any] = []

    def search(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not done.is_set():
            at = int(rng.integers(0, n))
            query = np.zeros((1, N_FEATURES), dtype=np.float32)
            query[0, 0] = at
            found = collection.search(query, k=5, first="estimate", oversample=20)
            # squared distance = (row − at)² + (1000 · version)²: one version for all five rows
            versions = np.sqrt(np.maximum(found.distances**2 - (found.ids - at) ** 2, 0)) / 1000
            whole = np.rint(versions)
            if np.ptp(whole) != 0 or not np.allclose(versions, whole, atol=1e-3):
                wrong.append((at, found))

    with counted() as led:
        workers = [threading.Thread(target=search, args=(i,)) for i in range(n_threads)]
        for worker in workers:
            worker.start()
        for number in range(1, 15):
            collection.upsert(version(number), ids=np.arange(n))
        done.set()
        for worker in workers:
            worker.join()
    assert not wrong
    assert any(led)
