"""Encoding a file larger than the memory it may take, and under kills."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin import ProjectionHash
from bitkin.hashers.encoding import encode_to_file
from bitkin.io.vectors import open_vectors

ROOT = Path(__file__).parent.parent
MOST_BYTES = 300_000_000


def make_large(path: Path, n: int, d: int, blocks: dict[int, npt.NDArray[np.float32]]) -> None:
    """Write an (n, d) array of zeros that takes no room on the disk, but for some blocks of
    rows.
    """
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (n, d)}
        )
        start = file.tell()
        for first, rows in blocks.items():
            file.seek(start + first * d * 4)
            file.write(rows.tobytes())
        file.truncate(start + n * d * 4)


def peak_bytes(process: subprocess.Popen[str]) -> int:
    """Watch a process to its end, and return the most memory it had: its own, not what its parent
    had at the fork.
    """
    peak = 0
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        peak = max(peak, 1024 * int(found.group(1)) if found else 0)
        time.sleep(0.02)
    return peak


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_three_gigabytes_are_encoded_in_300_megabytes(tmp_path: Path, share: float) -> None:
    n, d = max(100_000, int(1_000_000 * share)), 768
    rng = np.random.default_rng(0)
    firsts = [0, n // 3 + 7, n - 1003]
    blocks = {first: rng.standard_normal((1003, d), dtype=np.float32) for first in firsts}
    make_large(tmp_path / "large.npy", n, d, blocks)
    hasher = ProjectionHash(256, projection="random", rotation=None).fit(blocks[0])
    hasher.save(tmp_path / "model")
    command = [
        sys.executable,
        "-m",
        "bitkin",
        "encode",
        "model",
        "large.npy",
        "-o",
        "codes",
        "--json",
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        peak = peak_bytes(process)
        assert process.stderr is not None
        assert (process.wait(), process.stderr.read()) == (0, "")
    print(f"{4 * n * d / 1e9:.1f} GB encoded in {peak / 1e6:.0f} MB")
    assert peak < MOST_BYTES
    codes = bitkin.load(tmp_path / "codes")
    assert len(codes) == n
    zero = hasher.encode(np.zeros((1, d), dtype=np.float32)).words
    expected = np.repeat(zero, n, axis=0)
    for first, rows in blocks.items():
        expected[first : first + len(rows)] = hasher.encode(rows).words
    assert np.array_equal(codes.words, expected)


def test_a_run_killed_again_and_again_ends_with_the_codes_of_one_that_was_not(
    tmp_path: Path, share: float
) -> None:
    n_kills = max(3, int(50 * share))
    n = 7 * 100 * n_kills + 3  # half a second of batches for every kill
    X = np.random.default_rng(0).standard_normal((n, 17)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    hasher = ProjectionHash(67, projection="random", rotation=None).fit(X)
    hasher.save(tmp_path / "model")
    random_moments = random.Random(0)
    command = [sys.executable, "-m", "tests.hashers.slow_encoder"]
    command += [*(str(tmp_path / name) for name in ("model", "x.npy", "codes")), "0.005"]
    for _ in range(n_kills):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as encoder:
            assert encoder.stdout is not None
            assert encoder.stdout.readline() == "ready\n"
            time.sleep(0.4 * random_moments.random())
            encoder.send_signal(signal.SIGKILL)
        assert encoder.returncode == -signal.SIGKILL
        assert not (tmp_path / "codes").exists()
    with pytest.MonkeyPatch.context() as patch:
        # the same work as in the killed runs
        patch.setattr("bitkin.hashers.encoding._BATCH_BYTES", 7 * 17 * 4)
        begun = encode_to_file(hasher, open_vectors(tmp_path / "x.npy"), tmp_path / "codes")
        encode_to_file(hasher, open_vectors(tmp_path / "x.npy"), tmp_path / "whole")
    print(f"{n_kills} kills, the last run began at row {begun:,} of {n:,}")
    assert 0 < begun < n
    assert (tmp_path / "codes").read_bytes() == (tmp_path / "whole").read_bytes()
