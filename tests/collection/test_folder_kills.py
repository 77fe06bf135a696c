"""Few kills and few seconds beside a writer; soak/test_collection.py does more of both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bitkin.collection.folder import database, store
from tests.collection.killed import Killer, new_folder, read_and_write

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


@pytest.mark.parametrize("id_kind", ["int", "str"])
def test_a_killed_process_leaves_what_was_acknowledged_or_one_whole_call_more(
    tmp_path: Path, id_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_ROWS_BETWEEN_CHECKPOINTS", 4000)
    monkeypatch.setattr(database, "_LOG_PAGES", 100)
    killer = Killer(new_folder(tmp_path / "rows", id_kind), id_kind, seed=3)
    for _ in range(5):
        killer.kill_once()
    assert killer.n_inside > 0


def test_readers_beside_a_writer_see_whole_calls_and_all_that_were_acknowledged(
    tmp_path: Path,
) -> None:
    read_and_write(tmp_path / "rows", n_threads=3, n_processes=1, seconds=2.0)
