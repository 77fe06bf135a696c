"""Section `wide` of `projection.py`: Nystrom against PCA on a file of 200,000 × 4,096, with peak
memory.

The directions alone are timed, by Nystrom and PCA in turn in one process. Memory is measured in
processes that do nothing else, once each. What the kernel maps of the file counts as memory of the
process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from _timing import report
from _tiny import sized
from bitkin import ProjectionHash, get_threads
from bitkin.hashers.projection.projections import PCA, Learned, Nystrom, Projection
from bitkin.hashers.projection.training import TrainingVectors
from bitkin.io import open_vectors
from bitkin.randomness import Draws

N_ROWS, N_FEATURES, N_BITS = sized((200_000, 4096, 256), (400, 64, 16))
N_AXES, ROUNDS = sized((512, 2), (32, 1))


def wide() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.npy"
        write_rows(path)
        found = {job: in_own_process(job, path) for job in JOBS}
    turns = found["in-turn"]
    report(
        "directions from a file",
        rows=N_ROWS,
        features=N_FEATURES,
        n_bits=N_BITS,
        file_gb=N_ROWS * N_FEATURES * 4 / 1e9,
        threads=get_threads(),
        nystrom_s=turns["nystrom"],
        pca_s=turns["pca"],
        nystrom_variance_to_pca=turns["variance"],
        ratio=float(np.median(turns["pca"]) / np.median(turns["nystrom"])),
        wanted=10.0,
        pca_peak_gb=turns["peak_gb"],
    )
    report(
        "peak memory of fitting a file",
        nystrom_gb=found["nystrom"]["peak_gb"],
        nystrom_with_itq_gb=found["nystrom-fit"]["peak_gb"],
        nystrom_with_itq_s=found["nystrom-fit"]["seconds"],
        wanted_at_most=1.0,
        met=max(found["nystrom"]["peak_gb"], found["nystrom-fit"]["peak_gb"]) <= 1.0,
    )


def write_rows(path: Path) -> None:
    """Write rows along some directions of falling strength, with noise everywhere."""
    rng = np.random.default_rng(0)
    axes = rng.standard_normal((N_AXES, N_FEATURES), dtype=np.float32)
    axes *= (np.arange(1, N_AXES + 1, dtype=np.float32) ** -0.5)[:, None]
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(N_ROWS, N_FEATURES))
    step = min(5000, N_ROWS)
    for first in range(0, N_ROWS, step):
        block = rng.standard_normal((step, N_AXES), dtype=np.float32) @ axes
        block += rng.standard_normal(block.shape, dtype=np.float32)
        rows[first : first + step] = block
    rows.flush()


def in_own_process(job: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, job, str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def directions(projection: Projection, path: Path) -> Learned:
    vectors = TrainingVectors(open_vectors(path), center=True, normalize=False, key=7)
    return projection.learn(vectors, N_BITS, Draws(0, "projection"))


def seconds_of(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return round(time.perf_counter() - start, 2), result


def in_turn(path: Path) -> dict[str, Any]:
    projections: dict[str, Projection] = {"nystrom": sample(), "pca": PCA()}
    seconds: dict[str, list[float]] = {name: [] for name in projections}
    variances = {}
    some: npt.NDArray[np.float32] = np.load(path, mmap_mode="r")[:10_000]
    for _ in range(ROUNDS):
        for name, projection in projections.items():
            taken, learned = seconds_of(partial(directions, projection, path))
            seconds[name].append(taken)
            variances[name] = float(np.square(learned.project(some)).sum(dtype=np.float64))
    return {**seconds, "variance": variances["nystrom"] / variances["pca"]}


def sample() -> Nystrom:
    return Nystrom(samples=0.05, features=0.3)


def fit(path: Path) -> dict[str, Any]:
    hasher = ProjectionHash(N_BITS, projection=sample())
    return {"seconds": seconds_of(lambda: hasher.fit(np.load(path, mmap_mode="r")))[0]}


JOBS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "in-turn": in_turn,
    "nystrom": lambda path: {"seconds": seconds_of(partial(directions, sample(), path))[0]},
    "nystrom-fit": fit,
}


def peak_gb() -> float:
    """Return the most memory this process ever held."""
    status = Path("/proc/self/status").read_text()
    return (
        next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        * 1024
        / 1e9
    )


if __name__ == "__main__":
    done = JOBS[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps({**done, "peak_gb": peak_gb()}))
