"""A stream under kills."""

from __future__ import annotations

import random
import signal
import subprocess
from pathlib import Path

import numpy as np

from tests.cli.streams import announced, run_killed, start_stream, stream_in


def test_a_stream_killed_at_fifty_random_moments_ends_in_the_same_bytes(
    tmp_path: Path, share: float
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    n_kills = max(3, int(50 * share))
    X = (np.random.default_rng(5).standard_normal((100_003, 13)) * np.linspace(3, 1, 13)).astype(
        np.float32
    )
    X[::9973] = np.nan
    data = X.tobytes()
    options: list[object] = ["--bits", 7, "--epochs", 7001, "--save-every", 499, "--dim", 13]
    whole, apart = tmp_path / "whole", tmp_path / "apart"
    whole.mkdir()
    apart.mkdir()
    finish(start_stream(*options, "-o", whole / "codes", "--state", whole / "state"), data)
    arguments = [*options, "-o", apart / "codes", "--state", apart / "state"]
    run_killed(
        data, apart / "codes", len(X), arguments, [signal.SIGKILL] * n_kills, random.Random(seed)
    )
    process = start_stream(*arguments)
    finish(process, data[announced(process)[0] :])
    assert stream_in(apart) == stream_in(whole)


def finish(process: subprocess.Popen[bytes], data: bytes) -> None:
    """Feed all of it and wait for the end."""
    said = process.communicate(data)[1].decode()
    assert process.returncode == 0, said
