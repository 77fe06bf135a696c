from __future__ import annotations

from tests.index.snapshots import stress


def test_eight_threads_searching_beside_a_writer_always_see_a_whole_snapshot() -> None:
    assert stress(seconds=2.0) > 100
