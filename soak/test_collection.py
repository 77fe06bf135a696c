"""A collection in a folder under kills, and with many readers beside a writer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bitkin.collection.folder import database, store
from tests.collection.killed import Killer, new_folder, read_and_write

_KILLS = 300
_SECONDS = 60.0
_INSIDE = 0.8  # of all kills must come within an operation


@pytest.mark.parametrize("id_kind", ["int", "str"])
def test_a_collection_killed_at_random_moments_keeps_what_was_acknowledged(
    tmp_path: Path, share: float, id_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that checkpoints of both kinds come within writes.
    monkeypatch.setattr(store, "_ROWS_BETWEEN_CHECKPOINTS", 4000)
    monkeypatch.setattr(database, "_LOG_PAGES", 100)
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    killer = Killer(new_folder(tmp_path / "rows", id_kind), id_kind, seed)
    n_kills, inside = max(15, round(_KILLS * share)) // 2 + 1, 0.0
    # of few kills, some more may miss than of many: then there are more of them
    while killer.n_kills < n_kills or (inside < _INSIDE and killer.n_kills < 2 * n_kills):
        killer.kill_once()
        inside = killer.n_inside / killer.n_kills
    print(
        f"{killer.n_kills} kills, {inside:.2f} of them inside an operation: {killer.by_kind}; "
        f"{killer.n_kept} operations were there though not acknowledged; {len(killer.rows)} rows"
    )
    assert inside >= _INSIDE


def test_threads_and_processes_that_read_beside_a_writer_see_whole_calls(
    tmp_path: Path, share: float
) -> None:
    for line in read_and_write(
        tmp_path / "rows", n_threads=8, n_processes=2, seconds=max(4.0, _SECONDS * share)
    ):
        print(line)
