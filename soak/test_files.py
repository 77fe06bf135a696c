"""Files under damage and under kills."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bitkin import FlatIndex
from tests.io.forgeries import forge, require_harmless
from tests.io.mutations import make_index, mutate, require_safe, same_index

ROOT = Path(__file__).parent.parent

SAVER = """
import sys
from tests.io.forgeries import forge, require_harmless
from tests.io.mutations import make_index
indexes = [make_index(seed) for seed in range(4)]
print("ready", flush=True)
while True:
    for index in indexes:
        index.save(sys.argv[1])
"""


@pytest.mark.parametrize("part", range(4))
def test_a_hundred_thousand_damaged_files(tmp_path: Path, share: float, part: int) -> None:
    index = make_index(part)
    index.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    rng = np.random.default_rng(part)
    count = int(25_000 * share)
    noticed = 0
    for _ in range(count):
        damaged = mutate(data, rng)
        for _ in range(int(rng.integers(0, 3))):
            damaged = mutate(damaged, rng) if damaged else damaged
        noticed += require_safe(tmp_path / "bad", index, damaged)
    assert noticed > 0.9 * count


def test_a_killed_save_leaves_the_old_file_or_the_new_one(tmp_path: Path, share: float) -> None:
    path = tmp_path / "index"
    indexes = [make_index(seed) for seed in range(4)]
    indexes[0].save(path)
    rng = np.random.default_rng(0)
    for _ in range(max(3, int(100 * share))):
        with subprocess.Popen(
            [sys.executable, "-c", SAVER, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as saver:
            assert saver.stdout is not None
            assert saver.stdout.readline() == "ready\n"
            time.sleep(rng.random() * 0.05)
            saver.send_signal(signal.SIGKILL)
        assert any(same_index(FlatIndex.load(path, mmap=False), index) for index in indexes)


def test_twenty_thousand_forgeries(tmp_path: Path, share: float) -> None:
    rng = np.random.default_rng(1)
    count = int(20_000 * share)
    forgeries = (data for data in (forge(rng) for _ in range(count)) if data is not None)
    assert 0 < sum(require_harmless(tmp_path / "file", data) for data in forgeries) < count
