"""SIGUSR1 begins an epoch of `bitkin stream`."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from subprocess import Popen

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from tests.cli.conftest import Run
from tests.cli.streams import start_stream, stdin_of

X: npt.NDArray[np.float32] = np.random.default_rng(7).standard_normal((500, 13)).astype("f4")


def feed_until_coded(
    process: Popen[bytes], rows: npt.NDArray[np.float32], out: Path, size: int
) -> None:
    assert process.stdin is not None
    process.stdin.write(rows.tobytes())
    while not out.exists() or out.stat().st_size < size:
        assert process.poll() is None
        time.sleep(0.005)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this platform has no SIGUSR1")
def test_a_requested_epoch_begins_at_the_next_vector_and_outlives_a_kill(
    tmp_path: Path, run: Run
) -> None:
    out, state = tmp_path / "codes", tmp_path / "state"
    arguments = ["--dim", 13, "--bits", 7, "-o", out, "--state", state]
    process = start_stream(*arguments)
    feed_until_coded(process, X[:300], out, 300)
    process.send_signal(signal.SIGUSR1)
    feed_until_coded(process, X[300:350], out, 350)
    process.kill()
    said = process.communicate()[1].decode()
    assert "a new epoch begins at vector 300." in said
    assert int(run("stream", "--state", state, "--position", "vectors").out) == 300, (
        "saved when it began, not after"
    )
    with stdin_of(X[300:].tobytes()):
        assert run("stream", *arguments).code == 0
    hasher = bitkin.ProjectionHash(7, projection="opast", rotation="auto")
    codes = [*hasher.sketch_stream(X[:300])]
    hasher.new_epoch()
    codes += hasher.sketch_stream(X[300:])
    assert out.read_bytes() == b"".join(part.to_bytes().tobytes() for part in codes)
    starts = [
        line
        for line in (tmp_path / "codes.epochs/rows.jsonl").read_text().splitlines()
        if "model" in line
    ]
    assert '"row": 300' in starts[-1]
    assert hasher.epoch_.fingerprint_ in starts[-1]


def test_a_request_that_cannot_be_met_is_answered(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("bitkin.cli.streaming.signals.EpochRequests.take", lambda self: True)
    options = ["--dim", 13, "--bits", 7, "--state", tmp_path / "state", "--save-every", 2]
    with stdin_of(X[:5].tobytes()):
        done = run("stream", *options, "-o", tmp_path / "codes")
    assert done.code == 0
    assert "no epoch begins: no vector has come yet." in done.err
    assert "no epoch begins, since nothing was learned since the last one, at vector 2." in done.err
    with stdin_of(X[:5].tobytes()):
        done = run("stream", *options, "-o", tmp_path / "others", "--epochs", "none", "--fresh")
    assert "no epoch begins: the run has --epochs none." in done.err


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this platform has no SIGUSR1")
def test_the_signal_is_given_back_afterwards() -> None:
    from bitkin.cli.streaming.signals import EpochRequests

    before = signal.getsignal(signal.SIGUSR1)
    with EpochRequests() as epoch:
        assert not epoch.take()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert [epoch.take(), epoch.take()] == [True, False]
    assert signal.getsignal(signal.SIGUSR1) == before
