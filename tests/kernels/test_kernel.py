from __future__ import annotations

import numpy as np

from bitkin.kernels import _shared
from bitkin.kernels._kernel import kernel
from bitkin.kernels.search import scan


@kernel
def _twice(x):  # type: ignore[no-untyped-def]
    return x + x


@kernel
def four_times(x):  # type: ignore[no-untyped-def]
    return _twice(_twice(x))


def test_a_helper_that_a_kernel_has_compiled_may_be_called_from_python() -> None:
    assert four_times(3) == 12  # compiles the helper, which has no entry for Python
    assert _twice(3) == 6
    assert _shared.popcount(np.uint64(0xF0F0)) == 8
    lanes = np.full(512, 7, dtype=np.int32)
    zeros = np.zeros((1, 1, 512), dtype=np.uint64)
    query = np.full((1, 1), 5, dtype=np.uint64)
    scan._distances_into(zeros, query, (0,), (0,), lanes)
    assert (lanes == 2).all()
