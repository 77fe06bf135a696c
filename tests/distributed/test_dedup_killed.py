"""A worker that is killed: what was lost with it is done again, and the answer is the same."""

from __future__ import annotations

import json
import logging
import os
import signal
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from bitkin.dedup import find_duplicates
from bitkin.distributed import dedup
from tests.dedup.texts import related_texts
from tests.distributed.clusters import ANY_PORT
from tests.distributed.test_dedup import cut, fields

TEXTS = related_texts(307, seed=5)


class _Killer:
    """Kills a worker's process once a share of the work is done."""

    def __init__(self, share: float, pid: int) -> None:
        self.share, self.pid = share, pid
        self.killed = False

    def __call__(self, done: int, total: int) -> None:
        if not self.killed and done >= self.share * total:
            os.kill(self.pid, signal.SIGKILL)
            self.killed = True


@pytest.mark.parametrize(("source", "shares"), [("files", (0.05, 0.6)), ("memory", (0.3,))])
def test_a_worker_killed_on_the_way_changes_nothing(
    tmp_path: Path, source: str, shares: tuple[float, ...]
) -> None:
    for number, part in enumerate(cut(TEXTS, 4)):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in part)
        (tmp_path / f"{number}.jsonl").write_text(lines)
    texts = tmp_path if source == "files" else TEXTS
    expected = fields(find_duplicates(TEXTS, 0.6))
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=ANY_PORT,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        # once while texts are hashed or just have been, once among the bands
        for share in shares:
            client.wait_for_workers(2, timeout=60)
            killer = _Killer(share, min(client.run(os.getpid).values()))
            found = dedup(texts, 0.6, client=client, progress=killer)
            assert killer.killed
            assert fields(found) == expected
