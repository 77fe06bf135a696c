from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numba.core.caching import NullCache

from bitkin.kernels import _shared
from bitkin.kernels._kernel import JIT_DISABLED, count_compilations, entry_of, kernel
from bitkin.kernels.search import scan


@kernel
def _twice(x):  # type: ignore[no-untyped-def]
    return x + x


@kernel
def four_times(x):  # type: ignore[no-untyped-def]
    return _twice(_twice(x))


@kernel
def _power(x, n):  # type: ignore[no-untyped-def]
    result = 1
    for _ in range(n):
        result *= x
    return result


@kernel
def cube_and_powers_of_two(x, n):  # type: ignore[no-untyped-def]
    return _power(x, 3), _power(2, 3), _power(2, n)


@pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")
def test_a_helper_is_compiled_once_for_constants_and_variables() -> None:
    caller: Any = cube_and_powers_of_two
    caller._cache = NullCache()  # from the disk it would come without its helper
    assert caller(3, 4) == (27, 8, 16)
    helper: Any = _power
    assert len(helper.overloads) == 1


def test_a_helper_that_a_kernel_has_compiled_may_be_called_from_python() -> None:
    assert four_times(3) == 12  # compiles the helper, which has no entry for Python
    assert _twice(3) == 6
    assert _shared.popcount(np.uint64(0xF0F0)) == 8
    lanes = np.full(512, 7, dtype=np.int32)
    zeros = np.zeros((1, 1, 512), dtype=np.uint64)
    query = np.full((1, 1), 5, dtype=np.uint64)
    scan._distances_into(zeros, query, (0,), (0,), lanes)
    assert (lanes == 2).all()


@pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")
def test_functions_of_others_that_have_no_module_are_compiled_beside_ours() -> None:
    def one() -> int:
        return 1

    one.__module__ = None  # type: ignore[assignment]  # as of code that was made by exec
    with count_compilations() as compiled:
        jitted: Any = numba.njit(one)
        assert jitted() == 1
        assert compiled() == 0


def test_the_entry_of_a_kernel_does_what_the_kernel_does() -> None:
    entry = entry_of(four_times, 3)
    assert entry(5) == four_times(5) == 20
    assert entry_of(four_times, 0.5)(0.25) == 1.0
