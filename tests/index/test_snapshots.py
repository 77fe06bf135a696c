from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.index.multi import lookup as multi_lookup
from bitkin.index.multi import record as multi_record
from bitkin.index.rows import growth
from bitkin.kernels.blocks import BLOCK
from tests.index.snapshots import KINDS, stress


@pytest.fixture
def tables_built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a block of rows have tables, used at any price; returns the numbers of rows in those
    built, as they come.
    """
    built: list[int] = []
    tabled_segment = growth._tabled

    def counted(segment: Any, build: Any, few: int) -> Any:
        after = tabled_segment(segment, build, BLOCK)
        if after.tables is not None and after.tables is not segment.tables:
            built.append(after.tables.n)
        return after

    monkeypatch.setattr(growth, "_tabled", counted)
    monkeypatch.setattr(multi_lookup, "_SHARES_OF_SCAN", np.full(3, np.inf))
    monkeypatch.setattr(multi_record, "_PAYS_BELOW", np.inf)
    return built


@pytest.mark.parametrize("name", KINDS)
def test_eight_threads_searching_beside_a_writer_always_see_a_whole_snapshot(
    name: str, few_threads: None, always_cut: list[int], tables_built: list[int]
) -> None:
    bitkin.set_threads(2)
    assert stress(n_answers=1000, name=name) >= 1000
    if name == "FlatIndex":
        assert max(always_cut) == 2
    else:
        assert max(tables_built) > BLOCK
