"""Encoding to a file: interrupted anywhere and taken up again, it comes out as if nothing had
happened.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

import bitkin
from bitkin import Codes, ProjectionHash
from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError
from bitkin.hashers import encoding
from bitkin.hashers.encoding import encode_to_file
from bitkin.io.vectors import VectorSource, open_vectors

ROOT = Path(__file__).parent.parent.parent
N, D, BATCH = 205, 17, 7
N_BATCHES = -(-N // BATCH)


class StopHereError(Exception):
    """Raised from the progress callback."""


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven rows a batch and a checkpoint after each."""
    monkeypatch.setattr(encoding, "_BATCH_BYTES", BATCH * D * 4)
    monkeypatch.setattr(encoding, "_SECONDS_BETWEEN_CHECKPOINTS", -1.0)


@pytest.fixture
def X() -> npt.NDArray[np.float32]:  # noqa: N802
    return np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)


@pytest.fixture
def hasher(X: npt.NDArray[np.float32]) -> ProjectionHash:
    return ProjectionHash(67, projection="random", rotation=None).fit(X)


@pytest.fixture
def whole(tmp_path: Path, X: npt.NDArray[np.float32], hasher: ProjectionHash) -> bytes:
    """The bytes of a run that nothing interrupted."""
    assert encode_to_file(hasher, open_vectors(X), tmp_path / "whole") == 0
    return (tmp_path / "whole").read_bytes()


def interrupt_at(
    n_batches: int, hasher: ProjectionHash, source: VectorSource, path: Path, **options: Any
) -> None:
    """Encode until so many batches are written, and stop there."""
    seen = []

    def progress(rows: int) -> None:
        seen.append(rows)
        if len(seen) == n_batches:
            raise StopHereError

    with pytest.raises(StopHereError):
        encode_to_file(hasher, source, path, progress=progress, **options)


def under_way(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


@pytest.mark.parametrize("n", [0, 1, 6, 7, 8, 63, 64, 65])
def test_the_file_is_the_one_that_encode_and_save_would_write(
    tmp_path: Path, hasher: ProjectionHash, X: npt.NDArray[np.float32], n: int
) -> None:
    assert encode_to_file(hasher, open_vectors(X[:n]), tmp_path / "codes") == 0
    hasher.encode(X[:n]).save(tmp_path / "saved")
    assert (tmp_path / "codes").read_bytes() == (tmp_path / "saved").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"codes", "saved"}


def test_a_sparse_source_is_encoded_like_its_dense_copy(
    tmp_path: Path, hasher: ProjectionHash
) -> None:
    rows = np.random.default_rng(0).integers(0, 5, (N, D)).astype(np.float32)
    encode_to_file(hasher, open_vectors(csr_array(rows)), tmp_path / "codes")
    assert bitkin.load(tmp_path / "codes") == hasher.encode(rows)


def test_progress_is_told_every_batch(
    tmp_path: Path, hasher: ProjectionHash, X: npt.NDArray[np.float32]
) -> None:
    seen: list[int] = []
    encode_to_file(hasher, open_vectors(X), tmp_path / "codes", progress=seen.append)
    assert seen == [*range(BATCH, N, BATCH), N]


@pytest.mark.parametrize("n_batches", range(1, N_BATCHES + 1))
def test_interrupted_at_any_batch_and_taken_up_again(
    tmp_path: Path, hasher: ProjectionHash, X: npt.NDArray[np.float32], whole: bytes, n_batches: int
) -> None:
    path = tmp_path / "codes"
    interrupt_at(n_batches, hasher, open_vectors(X), path)
    assert not path.exists()
    # nothing is left where nothing can be taken up
    assert under_way(path).exists() == (n_batches > 1)
    for mmap in (False, True) if n_batches > 1 else ():
        with pytest.raises(CorruptFileError, match="is not a bitkin file"):
            bitkin.load(under_way(path), mmap=mmap)
    assert encode_to_file(hasher, open_vectors(X), path) == BATCH * (n_batches - 1)
    assert path.read_bytes() == whole
    assert {other.name for other in tmp_path.iterdir()} == {"codes", "whole"}


def test_interrupted_again_and_again(
    tmp_path: Path, hasher: ProjectionHash, X: npt.NDArray[np.float32], whole: bytes
) -> None:
    for _ in range(N_BATCHES - 1):
        interrupt_at(2, hasher, open_vectors(X), tmp_path / "codes")
    assert encode_to_file(hasher, open_vectors(X), tmp_path / "codes") == BATCH * (N_BATCHES - 1)
    assert (tmp_path / "codes").read_bytes() == whole


def test_interrupted_before_the_first_checkpoint_it_begins_again(
    tmp_path: Path,
    hasher: ProjectionHash,
    X: npt.NDArray[np.float32],
    whole: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encoding, "_SECONDS_BETWEEN_CHECKPOINTS", 1e9)
    interrupt_at(20, hasher, open_vectors(X), tmp_path / "codes")
    assert encode_to_file(hasher, open_vectors(X), tmp_path / "codes") == 0
    assert (tmp_path / "codes").read_bytes() == whole


def test_checkpoints_are_seconds_apart(
    tmp_path: Path,
    hasher: ProjectionHash,
    X: npt.NDArray[np.float32],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(np.arange(0.0, 1000.0, 0.5).tolist())
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(encoding, "_SECONDS_BETWEEN_CHECKPOINTS", 2.0)
    made: list[int] = []
    monkeypatch.setattr(
        "bitkin.io.partial.PartialFile.checkpoint", lambda partial: made.append(partial.rows_done)
    )
    encode_to_file(hasher, open_vectors(X), tmp_path / "codes")
    assert made == [min(N, rows) for rows in range(5 * BATCH, N + BATCH, 5 * BATCH)]


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_threads_do_not_change_a_byte(
    tmp_path: Path,
    hasher: ProjectionHash,
    X: npt.NDArray[np.float32],
    whole: bytes,
    n_threads: int,
    few_threads: None,
) -> None:
    bitkin.set_threads(n_threads)
    encode_to_file(hasher, open_vectors(X), tmp_path / "codes")
    assert (tmp_path / "codes").read_bytes() == whole


def test_other_vectors_another_model_or_other_files_are_not_taken_up(
    tmp_path: Path, hasher: ProjectionHash, X: npt.NDArray[np.float32], whole: bytes
) -> None:
    path = tmp_path / "codes"
    interrupt_at(9, hasher, open_vectors(X), path, identity={"size": 7})
    other = ProjectionHash(67, projection="random", rotation=None, random_state=1).fit(X)
    for a_hasher, rows, identity in (
        (hasher, X, {"size": 8}),
        (hasher, X, None),
        (hasher, X[:-1], {"size": 7}),
        (other, X, {"size": 7}),
    ):
        with pytest.raises(
            InvalidInputError, match=r"\.codes\.partial is the beginning of other work"
        ):
            encode_to_file(a_hasher, open_vectors(rows), path, identity=identity)
    assert encode_to_file(hasher, open_vectors(X), path, identity={"size": 7}) == 8 * BATCH
    assert path.read_bytes() == whole


def test_a_fresh_start_encodes_everything(
    tmp_path: Path, hasher: ProjectionHash, X: npt.NDArray[np.float32], whole: bytes
) -> None:
    path = tmp_path / "codes"
    for rows in (X, -X):
        interrupt_at(9, hasher, open_vectors(rows), path, fresh=True)
    assert encode_to_file(hasher, open_vectors(X), path, fresh=True) == 0
    assert path.read_bytes() == whole


def test_a_fresh_start_interrupted_at_once_is_not_mixed_with_the_run_before(
    tmp_path: Path, hasher: ProjectionHash, X: npt.NDArray[np.float32], whole: bytes
) -> None:
    path = tmp_path / "codes"
    interrupt_at(20, hasher, open_vectors(X), path, identity={"file": "a"})
    interrupt_at(1, hasher, open_vectors(-X), path, identity={"file": "b"}, fresh=True)
    assert encode_to_file(hasher, open_vectors(X), path, identity={"file": "a"}) == 0
    assert path.read_bytes() == whole


def test_a_journal_nobody_can_read_begins_again(
    tmp_path: Path, hasher: ProjectionHash, X: npt.NDArray[np.float32], whole: bytes
) -> None:
    path = tmp_path / "codes"
    interrupt_at(9, hasher, open_vectors(X), path)
    under_way(path).with_suffix(".partial.json").write_bytes(b'{"rows": 56, "wor')
    assert encode_to_file(hasher, open_vectors(X), path) == 0
    assert path.read_bytes() == whole


def test_a_full_disk_leaves_the_old_codes_and_the_run_can_go_on(
    tmp_path: Path,
    hasher: ProjectionHash,
    X: npt.NDArray[np.float32],
    whole: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "codes"
    hasher.encode(X[:3]).save(path)
    old = path.read_bytes()
    n_syncs = iter(range(1000))
    real_sync = os.fsync

    def fsync(file: int) -> None:
        if next(n_syncs) > 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        real_sync(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(
            FileAccessError, match=r"cannot be written: No space left on device. What was there is"
        ):
            encode_to_file(hasher, open_vectors(X), path)
    assert path.read_bytes() == old
    assert encode_to_file(hasher, open_vectors(X), path) > 0
    assert path.read_bytes() == whole


def test_a_nan_in_the_middle_leaves_no_codes(
    tmp_path: Path, hasher: ProjectionHash, X: npt.NDArray[np.float32]
) -> None:
    X[100, 3] = np.inf
    with pytest.raises(InvalidInputError, match="infinity at row 100, column 3, batch 14"):
        encode_to_file(hasher, open_vectors(X), tmp_path / "codes")
    assert not (tmp_path / "codes").exists()


def test_a_folder_is_no_output(
    tmp_path: Path, hasher: ProjectionHash, X: npt.NDArray[np.float32]
) -> None:
    with pytest.raises(FileAccessError, match=r"cannot be written: .* is a folder"):
        encode_to_file(hasher, open_vectors(X), tmp_path)


def test_a_source_without_a_known_length_is_refused(tmp_path: Path, hasher: ProjectionHash) -> None:
    source = open_vectors(iter([np.ones((3, D))]))
    with pytest.raises(InvalidInputError, match="must have a known number of rows"):
        encode_to_file(hasher, source, tmp_path / "codes")


@pytest.mark.parametrize("n", [0, 3])
def test_a_wrong_number_of_features_is_named(
    tmp_path: Path, hasher: ProjectionHash, n: int
) -> None:
    with pytest.raises(InvalidInputError, match=r"has 5 features, .* expecting 17 features"):
        encode_to_file(hasher, open_vectors(np.ones((n, 5))), tmp_path / "codes")
    assert list(tmp_path.iterdir()) == []


def test_a_hasher_must_be_fitted(tmp_path: Path, X: npt.NDArray[np.float32]) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        encode_to_file(
            ProjectionHash(67, projection="random", rotation=None),
            open_vectors(X),
            tmp_path / "codes",
        )


class SignsOfSome(ProjectionHash):
    """A hasher with nothing to say about rows whose first number is negative."""

    may_be_empty = True

    def _codes(self, batch: Any) -> Codes:
        codes = super()._codes(batch)
        return Codes(codes.words, codes.spec, empty=batch[:, 0] < 0)


def test_empty_rows_survive_an_interruption(tmp_path: Path, X: npt.NDArray[np.float32]) -> None:
    hasher = SignsOfSome(67, projection="random", rotation=None).fit(X)
    encode_to_file(hasher, open_vectors(X), tmp_path / "whole")
    interrupt_at(9, hasher, open_vectors(X), tmp_path / "codes")
    assert encode_to_file(hasher, open_vectors(X), tmp_path / "codes") == 8 * BATCH
    assert (tmp_path / "codes").read_bytes() == (tmp_path / "whole").read_bytes()
    codes = bitkin.load(tmp_path / "codes")
    assert np.array_equal(codes.empty_rows(), X[:, 0] < 0)
    assert codes == hasher.encode(X)


def test_wide_sparse_rows_do_not_come_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "_BATCH_BYTES", 1 << 25)
    places = (np.ones(1000, dtype=np.float32), (np.arange(1000), np.arange(1000) * 1000))
    X = csr_array(places, shape=(1000, 1_000_000))
    hasher = ProjectionHash(3, projection="random", rotation=None, center=False).fit(X)
    batches: list[int] = []
    encode_to_file(hasher, open_vectors(X), tmp_path / "codes", progress=batches.append)
    assert len(batches) < 20


@pytest.fixture
def killed_at_random(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Processes that encode and are killed at a random moment, one after another."""
    rng = random.Random(0)
    command = [sys.executable, "-m", "tests.hashers.slow_encoder"]
    command += [*(str(tmp_path / name) for name in ("model", "x.npy", "codes")), "0.001"]

    def processes() -> Iterator[subprocess.Popen[str]]:
        while True:
            with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                time.sleep(0.25 * rng.random())
                process.send_signal(signal.SIGKILL)
            yield process

    return processes()


def test_killed_at_random_moments_and_taken_up_again(
    tmp_path: Path, killed_at_random: Iterator[subprocess.Popen[str]]
) -> None:
    X = np.random.default_rng(0).standard_normal((7003, D)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    hasher = ProjectionHash(67, projection="random", rotation=None).fit(X)
    hasher.save(tmp_path / "model")
    for _ in range(4):
        assert next(killed_at_random).returncode == -signal.SIGKILL
        assert not (tmp_path / "codes").exists()
        with pytest.raises((CorruptFileError, FileAccessError)):
            bitkin.load(under_way(tmp_path / "codes"))
    assert 0 < encode_to_file(hasher, open_vectors(tmp_path / "x.npy"), tmp_path / "codes") < len(X)
    encode_to_file(hasher, open_vectors(tmp_path / "x.npy"), tmp_path / "whole")
    assert (tmp_path / "codes").read_bytes() == (tmp_path / "whole").read_bytes()
