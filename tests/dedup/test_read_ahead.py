from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import bitkin
from bitkin.dedup.read_ahead import read_ahead


@pytest.mark.parametrize("n_threads", [1, 2])
def test_items_come_in_order(few_threads: None, n_threads: int) -> None:
    bitkin.set_threads(n_threads)
    for n in (0, 1, 7):
        assert list(read_ahead(iter(range(n)))) == list(range(n))
    assert not any(thread.name == "bitkin-reader" for thread in threading.enumerate())


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_error_comes_behind_the_items_before_it(few_threads: None, n_threads: int) -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise KeyboardInterrupt("stop")

    bitkin.set_threads(n_threads)
    seen: list[int] = []
    with pytest.raises(KeyboardInterrupt, match="stop"):
        seen.extend(read_ahead(items()))
    assert seen == [0, 1, 2]


def test_leaving_early_ends_the_thread_and_reads_little_ahead(few_threads: None) -> None:
    bitkin.set_threads(2)
    read: list[int] = []

    def items() -> Iterator[int]:
        for i in range(1000):
            read.append(i)
            yield i

    ahead = read_ahead(items())
    assert next(ahead) == 0
    ahead.close()  # type: ignore[attr-defined]
    assert len(read) < 10
    assert not any(thread.name == "bitkin-reader" for thread in threading.enumerate())
