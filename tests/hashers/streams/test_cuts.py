"""However a stream is cut into calls, models and codes are the same to the last bit."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import bitkin
from bitkin import ProjectionHash
from bitkin.io import open_vectors
from tests.hashers.streams.data import COMBINATIONS, by_row, everything, fed, live, turning

X = turning(400)
each_combination = pytest.mark.parametrize("hasher", [clone(h) for h in COMBINATIONS], ids=repr)


@each_combination
@settings(max_examples=12)
@given(
    cuts=st.lists(st.integers(0, 400), max_size=6),
    ways=st.lists(st.integers(0, 3), min_size=1, max_size=4),
)
def test_any_cut_into_any_calls(hasher: ProjectionHash, cuts: list[int], ways: list[int]) -> None:
    whole = clone(hasher)
    expected = by_row(fed(whole, X, [], [2]))
    parts = clone(hasher)
    codes = by_row(fed(parts, X, cuts, ways))
    assert everything(parts) == everything(whole)
    assert set(codes) <= set(expected)
    if 0 not in ways:
        assert codes == expected


# Of frequent directions, fit takes in the chunk that is not full, and chunks begin anew behind it.
by_vectors = [
    clone(h)
    for h in COMBINATIONS
    if not isinstance(h.projection, bitkin.projections.FrequentDirections)
]


@pytest.mark.parametrize("hasher", by_vectors, ids=repr)
def test_fit_and_then_going_on_is_one_stream(hasher: ProjectionHash) -> None:
    fitted, fed_on = clone(hasher).fit(X[:250]), clone(hasher).partial_fit(X[:250])
    assert np.array_equal(fitted.components_, fed_on.components_)
    assert fitted.fingerprint_ == fed_on.fingerprint_
    fitted.partial_fit(open_vectors(X[250:], batch_rows=17))
    fed_on.partial_fit(X[250:])
    assert np.array_equal(fitted.components_, fed_on.components_)


@each_combination
@pytest.mark.parametrize("n", [1, 3, 8, 30, 129, 250])
def test_a_stream_goes_on_to_the_last_bit(hasher: ProjectionHash, n: int, tmp_path: Path) -> None:
    one = clone(hasher).partial_fit(X[:n])
    one.save(tmp_path / "state")
    others = [
        bitkin.load(tmp_path / "state"),
        bitkin.load(tmp_path / "state", mmap=True),
        pickle.loads(pickle.dumps(one)),
        copy.deepcopy(one),
    ]
    model = one.fingerprint_
    expected = by_row(list(one.sketch_stream(X[n:])))
    for other in others:
        assert other.fingerprint_ == model
        assert other.n_seen_ == n
        assert (other.refresh, other.epochs) == (one.refresh, one.epochs)
        assert by_row(list(other.sketch_stream(X[n:]))) == expected
        assert everything(other) == everything(one)


def test_clones_start_afresh() -> None:
    hasher = live(epochs=50).partial_fit(X)
    again = clone(hasher)
    assert not hasattr(again, "spec_")
    assert everything(again.partial_fit(X)) == everything(hasher)
    assert everything(hasher.fit(X[:50])) == everything(clone(hasher).fit(X[:50]))


def _rest(hasher: ProjectionHash, queue: Any) -> None:
    queue.put(by_row(list(hasher.sketch_stream(X[200:]))))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_stream_goes_on_in_another_process(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot start processes by {method}")
    hasher = live(epochs=30).partial_fit(X[:200])
    context: Any = multiprocessing.get_context(method)
    queue = context.Queue()
    with warnings.catch_warnings():
        # forking beside threads is what is tested
        warnings.simplefilter("ignore", DeprecationWarning)
        process = context.Process(target=_rest, args=(hasher, queue))
        process.start()
    assert queue.get(timeout=120) == by_row(list(hasher.sketch_stream(X[200:])))
    process.join(timeout=60)
    assert process.exitcode == 0


def test_a_pickle_stays_small_however_long_the_stream() -> None:
    rows = np.random.default_rng(0).standard_normal((500, 960)).astype(np.float32)
    hasher = live(32, epochs=100)
    sizes = []
    for _ in range(4):
        list(hasher.sketch_stream(rows))
        hasher.transform(rows[:5])
        sizes.append(len(pickle.dumps(hasher)))
    assert max(sizes) < 400_000
    assert max(sizes) - min(sizes) < 200
