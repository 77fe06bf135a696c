from __future__ import annotations

import bitkin
from tests.index.snapshots import stress


def test_eight_threads_searching_beside_a_writer_always_see_a_whole_snapshot(
    few_threads: None, always_cut: list[int]
) -> None:
    bitkin.set_threads(2)
    assert stress(seconds=2.0) > 100
    assert max(always_cut) == 2
