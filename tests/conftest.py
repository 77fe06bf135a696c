from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits

from bitkin import threads


@pytest.fixture
def few_threads() -> Iterator[None]:
    """Let a test set the number of threads, and put everything back after it."""
    before = threads._n_threads
    with threadpool_limits():
        yield
    with threads._lock:
        threads._n_threads = before
        threads._drop_pool()
