"""Codes and corrections in one pass: interrupted anywhere, both files come out as in peace."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.errors import InvalidInputError
from bitkin.hashers import encoding
from bitkin.hashers.encoding import encode_to_file
from bitkin.io.partial import PartialFile
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.rescoring.correction_files import encode_with_corrections_to_files
from bitkin.rescoring.corrections import scorer_for

N, D, BATCH = 65, 17, 7
X = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
HASHER = bitkin.ProjectionHash(13).fit(X)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Seven rows a batch and a checkpoint after each."""
    monkeypatch.setattr(encoding, "_BATCH_BYTES", BATCH * D * 4)
    monkeypatch.setattr(encoding, "_SECONDS_BETWEEN_CHECKPOINTS", -1.0)
    monkeypatch.chdir(tmp_path)


def encode(source: VectorSource | None = None, metric: str = "l2", **options: Any) -> int:
    source = open_vectors(X) if source is None else source
    scorer = scorer_for(HASHER, metric)
    return encode_with_corrections_to_files(HASHER, scorer, source, "codes", "kept", **options)


def require_right(metric: str = "l2") -> None:
    HASHER.encode(X).save("codes alone")
    bitkin.save_corrections("kept alone", HASHER, X, metric)
    for name in ("codes", "kept"):
        assert Path(name).read_bytes() == Path(f"{name} alone").read_bytes()
        Path(f"{name} alone").unlink()
    assert {path.name for path in Path().iterdir()} == {"codes", "kept"}


class StopHereError(Exception):
    """Raised from the progress callback."""


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_one_pass_writes_what_two_would(metric: str) -> None:
    done: list[int] = []
    assert encode(metric=metric, progress=done.append) == 0
    assert done == [*range(BATCH, N, BATCH), N]
    require_right(metric)


@pytest.mark.parametrize("n_batches", [1, 2, 5, 10])
@pytest.mark.parametrize("error", [StopHereError, KeyboardInterrupt])
def test_interrupted_at_any_batch_it_continues_and_reads_no_row_twice(
    n_batches: int, error: type[BaseException]
) -> None:
    read: list[int] = []

    def stop(rows: int) -> None:
        read.append(rows)
        if len(read) == n_batches:
            raise error

    with pytest.raises(error):
        encode(progress=stop)
    assert not Path("codes").exists()
    assert not Path("kept").exists()
    # without a Ctrl-C the last batch is not known to be on disk
    done = min(N, BATCH * (n_batches - (error is StopHereError)))
    assert encode(progress=read.append) == done
    assert read[n_batches:] == [*range(done + BATCH, N, BATCH), *([N] if done < N else [])]
    require_right()


@pytest.mark.parametrize("n_checkpoints", [1, 2, 3, 4, 5, 19])
def test_killed_between_the_checkpoints_of_the_two_files(
    monkeypatch: pytest.MonkeyPatch, n_checkpoints: int
) -> None:
    """Then one of them is a batch ahead."""
    made = 0
    checkpoint = PartialFile.checkpoint

    def checkpoint_until(partial: PartialFile) -> None:
        nonlocal made
        if made == n_checkpoints:
            raise StopHereError
        made += 1
        checkpoint(partial)

    with monkeypatch.context() as patch:
        patch.setattr(PartialFile, "checkpoint", checkpoint_until)
        with pytest.raises(StopHereError):
            encode()
    assert encode() == BATCH * (n_checkpoints // 2)
    require_right()


def test_corrections_may_join_codes_that_were_begun_alone() -> None:
    def stop(rows: int) -> None:
        if rows >= 30:
            raise StopHereError

    with pytest.raises(StopHereError):
        encode_to_file(HASHER, open_vectors(X), "codes", progress=stop)
    assert encode() == 0
    require_right()


def test_corrections_of_another_metric_are_not_continued() -> None:
    def stop(rows: int) -> None:
        if rows >= 30:
            raise StopHereError

    with pytest.raises(StopHereError):
        encode(progress=stop)
    with pytest.raises(InvalidInputError, match=r"\.kept\.partial is the beginning of other work"):
        encode(metric="ip")
    assert encode(metric="ip", fresh=True) == 0
    require_right("ip")


def test_the_source_is_read_once() -> None:
    class Counted(type(open_vectors(X))):  # type: ignore[misc]
        n_passes = 0

        def batches(self, *arguments: Any, **options: Any) -> Any:
            type(self).n_passes += 1
            return super().batches(*arguments, **options)

    source = open_vectors(X)
    source.__class__ = Counted
    encode(source)
    assert Counted.n_passes == 1
    require_right()


def test_ctrl_c_between_the_two_files_waits_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = PartialFile.finish

    def finish_and_interrupt(partial: PartialFile) -> None:
        finish(partial)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(PartialFile, "finish", finish_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            encode()
    finally:
        signal.signal(signal.SIGINT, before)
    require_right()


def test_killed_between_the_two_files_the_second_keeps_its_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encoding, "_SECONDS_BETWEEN_CHECKPOINTS", 1e9)
    finish = PartialFile.finish
    finished: list[PartialFile] = []

    def fail_at_second(partial: PartialFile) -> None:
        if finished:
            raise StopHereError
        finish(partial)
        finished.append(partial)

    monkeypatch.setattr(PartialFile, "finish", fail_at_second)
    with pytest.raises(StopHereError):
        encode()
    assert len(list(Path().glob(".*.partial.json"))) == 1
    monkeypatch.setattr(PartialFile, "finish", finish)
    encode()
    require_right()
