"""Reading a model in one thread while another learns."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import ProjectionHash
from tests.hashers.streams.data import everything, live, turning


def while_learning(hasher: ProjectionHash, X: Any, read: Callable[[], object]) -> None:
    """Read over and over, in this thread, while another feeds all rows; at least three times."""

    def learn() -> None:
        for first in range(0, len(X), 500):
            hasher.partial_fit(X[first : first + 500])

    with ThreadPoolExecutor(1) as pool:
        learned = pool.submit(learn)
        for _ in range(3):
            read()
        while not learned.done():
            read()
        learned.result()


def test_a_snapshot_taken_while_the_model_learns_is_a_model_between_two_batches() -> None:
    X = turning(10_000, d=300)
    alone = live(16, rotation=None).partial_fit(X[:500])
    known = {alone.fingerprint_}
    for first in range(0, len(X), 500):
        known.add(alone.partial_fit(X[first : first + 500]).fingerprint_)
    hasher = live(16, rotation=None).partial_fit(X[:500])
    seen: set[str] = set()

    def read() -> None:
        seen.add(hasher.snapshot().fingerprint_)
        seen.add(pickle.loads(pickle.dumps(hasher)).fingerprint_)
        hasher.drift(hasher.epoch_)

    while_learning(hasher, X, read)
    assert seen <= known
    assert everything(hasher) == everything(alone)


def test_reading_does_not_change_what_the_next_epochs_are() -> None:
    X = turning(10_000, d=100)
    alone, hasher = (live(16, epochs=100).fit(X[:1000]) for _ in range(2))
    for first in range(0, len(X), 500):
        alone.partial_fit(X[first : first + 500])
    while_learning(hasher, X, hasher.snapshot)
    assert hasher.epoch_.fingerprint_ == alone.epoch_.fingerprint_
    assert everything(hasher) == everything(alone)


def test_a_file_written_while_the_model_learns_can_be_read(tmp_path: Path) -> None:
    X = turning(8_000, d=100)
    hasher = live(16).partial_fit(X[:500])

    def read() -> None:
        hasher.save(tmp_path / "state")
        bitkin.load(tmp_path / "state")

    while_learning(hasher, X, read)


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_forked_child_can_read_what_was_locked_when_it_was_born() -> None:
    hasher = live().partial_fit(turning(300))
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    with hasher.stream_.lock:
        child = context.Process(target=lambda: queue.put(hasher.fingerprint_))
        thread = threading.Thread(target=child.start)  # the child has no thread that holds the lock
        thread.start()
        thread.join()
    child.join(30)
    assert child.exitcode == 0
    assert queue.get() == hasher.fingerprint_


def test_an_array_of_a_pickle_is_not_that_of_the_model() -> None:
    hasher = live().partial_fit(turning(300))
    state = hasher.stream_.__getstate__()
    before = state["rotation_matrix"].copy()
    hasher.partial_fit(turning(300))
    assert np.array_equal(state["rotation_matrix"], before)
    assert state["tracker"].n_seen == 300
