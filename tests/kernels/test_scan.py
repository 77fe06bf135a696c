"""The scan's two ways to take in candidates do the same with each."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from bitkin.kernels.search import scan


def keeping(kernel: Any) -> str:
    """The lines from the check of a candidate to the end, without comments and indentation."""
    source = inspect.getsource(getattr(kernel, "py_func", kernel))
    lines = [line for line in source.splitlines() if not line.lstrip().startswith("#")]
    first = next(i for i, line in enumerate(lines) if "if distance >= limit" in line)
    last = next(i for i, line in enumerate(lines) if "best.progress[q, 0]" in line)
    loop = textwrap.dedent("\n".join(lines[first:last]))
    return loop + textwrap.dedent("\n".join(lines[last:]))


def test_a_candidate_is_kept_alike_whether_it_was_marked_or_not() -> None:
    assert "histogram[distance] += 1" in keeping(scan._offer_block)
    assert keeping(scan._offer_block) == keeping(scan._offer_marked)
