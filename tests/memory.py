"""How much memory something asks for, whether or not it ever touches it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any


def peak_of(work: Callable[[], Any]) -> int:
    """Return the most bytes that Python and NumPy held at a time for `work`, beyond those before
    it.
    """
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
