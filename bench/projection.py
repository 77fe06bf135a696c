"""Are learned codes as good from a sample as from all rows, and learned faster than by FAISS?

    python bench/projection.py                 all questions
    python bench/projection.py precision       mean average precision, Nystrom against PCA, both with ITQ
    python bench/projection.py fit             PCA + ITQ against faiss.ITQTransform on Fashion-MNIST
    python bench/projection.py wide            Nystrom against PCA on a file of 200,000 × 4,096, with peak memory
    python bench/projection.py rotations       UnifDiag, IsoHash and ITQ at 256 bits

Ground truth is the papers': neighbours nearer than the mean distance to the 50th nearest; queries without any are left
out. Peers run interleaved with ours in one process; what measures memory runs in processes of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

import bitkin
from _data import data_file
from _timing import interleaved, report
from bitkin import Codes, FlatIndex, ProjectionHash
from bitkin.evaluate import mean_average_precision, nearest, radius_truth, recall
from bitkin.hashers.projections import PCA, Nystrom
from bitkin.hashers.rotations import Projected
from bitkin.hashers.training import TrainingVectors
from bitkin.io import open_vectors
from bitkin.io.vectors import VectorSource
from bitkin.randomness import Draws

N_QUERIES = 1000
WIDE_ROWS, WIDE_FEATURES, WIDE_BITS = 200_000, 4096, 256


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Rows, queries, and what is relevant to each query."""

    name: str
    rows: npt.NDArray[np.float32]
    queries: npt.NDArray[np.float32]
    relevant: Any

    def precision(self, codes: Codes, queries: Codes) -> float:
        """Mean average precision of the ranking by code distance."""
        return mean_average_precision(bitkin.distances(queries, codes), self.relevant)


def load(name: str) -> Data:
    with np.load(data_file(f"{name}.npz")) as file:
        parts = ("X_train", "X_test") if name == "fashion_mnist" else ("X", "Q")
        rows, queries = (file[part].reshape(len(file[part]), -1).astype(np.float32) for part in parts)
    queries = queries[:N_QUERIES]
    return Data(name, rows, queries, radius_truth(rows, queries, n_neighbors=50))


def precision(n_seeds: int) -> None:
    projections: dict[str, Any] = {
        "pca": PCA(),
        "nystrom": Nystrom(samples=0.05, features=0.3),
        "nystrom_norms": Nystrom(samples=0.05, features=0.3, sampling="norms"),
        "nystrom_raw": Nystrom(samples=0.05, features=0.3, orthonormalize=False),
        "random": "random",
    }
    for name in ("cifar10_gist960", "fashion_mnist"):
        data = load(name)
        for n_bits in (32, 64, 128):
            scores = {}
            for label, projection in projections.items():
                found = []
                for seed in range(n_seeds):
                    hasher = ProjectionHash(n_bits, projection=projection, random_state=seed).fit(data.rows)
                    found.append(data.precision(hasher.encode(data.rows), hasher.encode(data.queries)))
                scores[label] = float(np.mean(found))
                scores[f"{label}_spread"] = float(np.std(found))
            report(
                "mean average precision with ITQ",
                seeds=n_seeds,
                data=name,
                n_bits=n_bits,
                **scores,
                nystrom_to_pca=scores["nystrom"] / scores["pca"],
                standard_error=float(np.hypot(scores["nystrom_spread"], scores["pca_spread"]))
                / scores["pca"]
                / np.sqrt(n_seeds),
                wanted_at_least=0.97,
                norms_to_uniform=scores["nystrom_norms"] / scores["nystrom"],
                wanted_at_most=1.03,
            )


def fit() -> None:
    data = load("fashion_mnist")
    n_bits = 64
    faiss.omp_set_num_threads(bitkin.get_threads())
    truth = nearest(data.rows, data.queries, 10)

    def ours() -> ProjectionHash:
        return ProjectionHash(n_bits).fit(data.rows)

    def peer() -> Any:
        transform = faiss.ITQTransform(data.rows.shape[1], n_bits, True)
        transform.train(data.rows)
        return transform

    times = interleaved({"ours": ours, "faiss": peer}, rounds=3, pause=0.2)
    hasher, transform = ours(), peer()
    theirs = [
        Codes.from_bytes(np.packbits(transform.apply(part) >= 0, axis=1), n_bits) for part in (data.rows, data.queries)
    ]
    mine = [hasher.encode(data.rows), hasher.encode(data.queries)]

    def true_in_100(codes: list[Codes]) -> float:
        index = FlatIndex(codes[0].spec)
        index.add(codes[0])
        return recall(index.search(codes[1], 100).ids, truth.ids)

    report(
        "PCA + ITQ fit",
        rows=len(data.rows),
        features=data.rows.shape[1],
        n_bits=n_bits,
        threads=bitkin.get_threads(),
        ours_s=times["ours"],
        faiss_s=times["faiss"],
        ratio=times["faiss"] / times["ours"],
        wanted=3.0,
        ours_precision=data.precision(*mine),
        faiss_precision=data.precision(*theirs),
        ours_true_10_in_100=true_in_100(mine),
        faiss_true_10_in_100=true_in_100(theirs),
    )


def wide() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.npy"
        write_wide(path)
        found = {job: in_own_process(job, path) for job in ("nystrom", "nystrom-fit", "pca")}
    report(
        "directions from a file",
        rows=WIDE_ROWS,
        features=WIDE_FEATURES,
        n_bits=WIDE_BITS,
        file_gb=WIDE_ROWS * WIDE_FEATURES * 4 / 1e9,
        threads=bitkin.get_threads(),
        nystrom_s=found["nystrom"]["seconds"],
        nystrom_with_itq_s=found["nystrom-fit"]["seconds"],
        pca_s=found["pca"]["seconds"],
        ratio=found["pca"]["seconds"] / found["nystrom"]["seconds"],
        wanted=10.0,
        nystrom_peak_gb=found["nystrom"]["peak_gb"],
        nystrom_with_itq_peak_gb=found["nystrom-fit"]["peak_gb"],
        wanted_peak_gb_at_most=1.0,
        pca_peak_gb=found["pca"]["peak_gb"],
    )


def write_wide(path: Path) -> None:
    """Write rows along 512 directions of falling strength, with noise everywhere."""
    rng = np.random.default_rng(0)
    axes = rng.standard_normal((512, WIDE_FEATURES), dtype=np.float32)
    axes *= (np.arange(1, 513, dtype=np.float32) ** -0.5)[:, None]
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(WIDE_ROWS, WIDE_FEATURES))
    step = 5000
    for first in range(0, WIDE_ROWS, step):
        block = rng.standard_normal((step, 512), dtype=np.float32) @ axes
        block += rng.standard_normal(block.shape, dtype=np.float32)
        rows[first : first + step] = block
    rows.flush()


def in_own_process(job: str, path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--job", job, str(path)], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_job(job: str, path: str) -> None:
    """Find directions in this process, and print how long it took and the most memory it ever held."""
    nystrom = Nystrom(samples=0.05, features=0.3)

    def directions(projection: PCA | Nystrom, source: VectorSource) -> Any:
        vectors = TrainingVectors(source, center=True, normalize=False, key=7)
        return projection.learn(vectors, WIDE_BITS, Draws(0, "projection"))

    jobs: dict[str, Callable[[], Any]] = {
        "nystrom": lambda: directions(nystrom, open_vectors(path)),
        "nystrom-fit": lambda: ProjectionHash(WIDE_BITS, projection=nystrom).fit(np.load(path, mmap_mode="r")),
        "pca": lambda: directions(PCA(), open_vectors(path)),
    }
    seconds = []
    for _ in range(1 if job == "pca" else 3):
        start = time.perf_counter()
        jobs[job]()
        seconds.append(time.perf_counter() - start)
    status = Path("/proc/self/status").read_text()
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"seconds": float(np.median(seconds)), "peak_gb": peak_kb * 1024 / 1e9}))


def rotations() -> None:
    rng = np.random.default_rng(0)
    size = 256
    rows = (rng.standard_normal((20_000, size)) * np.arange(1, size + 1) ** -0.75).astype(np.float32)
    projected = Projected(rows)
    covariance = projected.covariance
    unifdiag, isohash, itq = bitkin.rotations.UnifDiag(), bitkin.rotations.IsoHash(), bitkin.rotations.ITQ()
    times = interleaved({"unifdiag": lambda: unifdiag.rotation_of(covariance)}, rounds=15)
    times |= interleaved(
        {
            "isohash": lambda: isohash.rotation_of(covariance),
            "itq": lambda: itq.matrix(projected, size, Draws(0, "rotation")),
        },
        rounds=3,
    )
    report(
        "a rotation of 256 bits",
        rows=len(rows),
        threads=bitkin.get_threads(),
        unifdiag_ms=1e3 * times["unifdiag"],
        wanted_at_most_ms=5.0,
        isohash_ms=1e3 * times["isohash"],
        itq_ms=1e3 * times["itq"],
    )


def main() -> None:
    sections: dict[str, Callable[[], None]] = {
        "rotations": rotations,
        "fit": fit,
        "wide": wide,
        "precision": lambda: precision(arguments.seeds),
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*sections, []], help="which questions; all without")
    parser.add_argument("--seeds", type=int, default=5, help="to average precision over; ITQ alone spreads it by 2 %%")
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        run_job(*arguments.job)
        return
    for name in arguments.sections or sections:
        sections[name]()


if __name__ == "__main__":
    main()
