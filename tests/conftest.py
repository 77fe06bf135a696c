from __future__ import annotations

import gc
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from bitkin import threads
from bitkin.index import flat, scan_parts

# A busy machine is not a failure.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# Where tests are run in the background, shells let them ignore Ctrl-C, and so would the processes
# that they start and send it to: they would wait for ever.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Look for no garbage while tests are collected, nor later among what was: all of it stays,
    and looking through it takes half a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture
def always_cut(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let even a small scan be cut into parts; returns the numbers of parts, as they come."""
    counts: list[int] = []
    cut = scan_parts.cut_scan

    def counted(*arguments: Any) -> list[Any]:
        parts = cut(*arguments)
        counts.append(len(parts))
        return parts

    monkeypatch.setattr(scan_parts, "_WORDS_PER_PART", 1)
    monkeypatch.setattr(flat, "cut_scan", counted)
    return counts


@pytest.fixture
def few_threads() -> Iterator[None]:
    """Let a test set the number of threads, and put everything back after it."""
    before = threads._n_threads
    with threadpool_limits():
        yield
    with threads._lock:
        threads._n_threads = before
        threads._drop_pool()
