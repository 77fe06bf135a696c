"""Are learned codes as good from a sample as from all rows, and learned faster than by FAISS?

    python bench/projection.py                       all questions, about 20 minutes on two cores
    python bench/projection.py rotations             UnifDiag, IsoHash and ITQ at 256 bits
    python bench/projection.py fit                   against faiss.ITQTransform on Fashion-MNIST
    python bench/projection.py bound                 Theorem 2 of the paper beside the error
    python bench/projection.py precision --seeds 10  mean average precision, Nystrom against PCA,
    both with ITQ
    python bench/projection.py grid --seeds 5        every projection with every rotation
    python bench/projection.py wide                  Nystrom against PCA, 200,000 × 4,096

Times hold on a quiet machine only: run `rotations`, `fit` and `wide` alone, with nothing else on
the cores, e.g.

    python bench/projection.py rotations fit wide | tee figures.jsonl

`bound`, `precision` and `grid` do not measure time. `wide` needs 3.3 GB of disk and as much free
memory, so that the file it writes stays in the page cache. The protocol is that of
`_partitions.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_info

import bitkin
from _partitions import Partition, mean_and_error, partition, standard_error
from _precision import bound, grid, precision
from _timing import interleaved, report
from _tiny import sized
from _wide import wide
from bitkin import Codes, FlatIndex, ProjectionHash
from bitkin.evaluate import nearest, recall
from bitkin.hashers.projection.rotations import ITQ, FoundRotation, Projected
from bitkin.randomness import Draws

FIT_ROWS, FIT_BITS = sized(60_000, 300), 64


def fit(n_seeds: int) -> None:
    """Both sides learn PCA and ITQ from all rows; then again as each comes by default, from 32,768
    at most.
    """
    for rows_of_itq in (FIT_ROWS, None):
        compare_fits(max(3, n_seeds), rows_of_itq)


def compare_fits(n_seeds: int, max_rows: int | None) -> None:
    part = partition("fashion_mnist", 0, FIT_ROWS)
    faiss.omp_set_num_threads(bitkin.get_threads())
    seconds = interleaved(
        {
            "ours": lambda: our_fit(part.rows, 0, max_rows),
            "faiss": lambda: faiss_fit(part.rows, 0, max_rows),
        },
        rounds=5,
        pause=0.2,
    )
    question = "PCA + ITQ fit, " + ("the same rows" if max_rows else "each one's default")
    report(
        question,
        features=part.rows.shape[1],
        n_bits=FIT_BITS,
        threads=bitkin.get_threads(),
        faiss_blas_threads=[
            lib["num_threads"] for lib in threadpool_info() if "faiss" in lib["filepath"]
        ],
        **rows_learned_from(part.rows, max_rows),
        ours_s=seconds["ours"],
        faiss_s=seconds["faiss"],
        ratio=seconds["faiss"] / seconds["ours"],
        wanted=3.0 if max_rows else None,
    )
    scores: dict[str, list[tuple[float, float]]] = {"precision": [], "true 10 among 100": []}
    for seed in range(n_seeds):
        part = partition("fashion_mnist", seed, FIT_ROWS)
        truth = nearest(part.rows, part.queries, 10).ids
        ours, theirs = our_codes(part, seed, max_rows), faiss_codes(part, seed, max_rows)
        scores["precision"].append((part.precision(*ours), part.precision(*theirs)))
        scores["true 10 among 100"].append((true_in_100(ours, truth), true_in_100(theirs, truth)))
    for name, pairs in scores.items():
        ratios = [mine / theirs for mine, theirs in pairs]
        report(
            f"{question}: {name}",
            partitions=n_seeds,
            ours=mean_and_error([mine for mine, _ in pairs]),
            faiss=mean_and_error([theirs for _, theirs in pairs]),
            ratio=float(np.mean(ratios)),
            ratio_error=standard_error(ratios),
            wanted=1.0,
        )


def our_fit(rows: npt.NDArray[np.float32], seed: int, max_rows: int | None) -> ProjectionHash:
    rotation = ITQ(max_rows=max_rows) if max_rows else ITQ()
    return ProjectionHash(FIT_BITS, rotation=rotation, random_state=seed).fit(rows)


def faiss_fit(rows: npt.NDArray[np.float32], seed: int, max_rows: int | None) -> Any:
    n_features = rows.shape[1]
    transform = faiss.ITQTransform(n_features, FIT_BITS, True)
    transform.itq.seed = seed
    if max_rows:
        transform.max_train_per_dim = -(-max_rows // n_features)
    transform.train(rows)
    return transform


def rows_learned_from(rows: npt.NDArray[np.float32], max_rows: int | None) -> dict[str, Any]:
    """Return how many rows each side looked at: ours asked, FAISS's told by the mean it subtracts,
    which is theirs.
    """
    looked_at = []

    class Asked(ITQ):
        def find(self, projected: Projected, n_bits: int, draws: Draws) -> FoundRotation:
            looked_at.append(min(len(projected.rows), self.max_rows))
            return super().find(projected, n_bits, draws)

    ProjectionHash(FIT_BITS, rotation=Asked(max_rows=max_rows) if max_rows else Asked()).fit(rows)
    transform = faiss_fit(rows, 0, max_rows)
    mean = faiss.vector_to_array(transform.mean)
    of_all = bool(np.allclose(mean, rows.mean(axis=0, dtype=np.float64), rtol=1e-3, atol=1e-3))
    most = max(32_768, rows.shape[1] * transform.max_train_per_dim)  # as in ITQTransform::train
    faiss_rows = min(len(rows), most)
    if of_all != (faiss_rows == len(rows)):
        raise SystemExit(
            f"FAISS says it learns from {faiss_rows} of {len(rows)} rows; its mean says otherwise."
        )
    return {
        "ours_rows_pca": len(rows),
        "ours_rows_itq": looked_at[0],
        "faiss_rows_pca": faiss_rows,
        "faiss_rows_itq": faiss_rows,
    }


def our_codes(part: Partition, seed: int, max_rows: int | None) -> tuple[Codes, Codes]:
    hasher = our_fit(part.rows, seed, max_rows)
    return hasher.encode(part.rows), hasher.encode(part.queries)


def faiss_codes(part: Partition, seed: int, max_rows: int | None) -> tuple[Codes, Codes]:
    transform = faiss_fit(part.rows, seed, max_rows)
    bits = [
        np.packbits(transform.apply(vectors) >= 0, axis=1) for vectors in (part.rows, part.queries)
    ]
    return Codes.from_bytes(bits[0], FIT_BITS), Codes.from_bytes(bits[1], FIT_BITS)


def true_in_100(codes: tuple[Codes, Codes], truth: npt.NDArray[np.int64]) -> float:
    index = FlatIndex(codes[0].spec)
    index.add(codes[0])
    return recall(index.search(codes[1], 100).ids, truth)


def rotations() -> None:
    rng = np.random.default_rng(0)
    size = sized(256, 16)
    rows = (
        rng.standard_normal((sized(20_000, 600), size)) * np.arange(1, size + 1) ** -0.75
    ).astype(np.float32)
    projected = Projected(rows)
    covariance = projected.covariance
    unifdiag, isohash, itq = (
        bitkin.rotations.UnifDiag(),
        bitkin.rotations.IsoHash(),
        bitkin.rotations.ITQ(),
    )
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
        met=bool(times["unifdiag"] <= 5e-3),
        isohash_ms=1e3 * times["isohash"],
        itq_ms=1e3 * times["itq"],
    )


def main() -> None:
    sections: dict[str, Callable[[], None]] = {
        "rotations": rotations,
        "fit": lambda: fit(arguments.seeds or 5),
        "wide": wide,
        "bound": bound,
        "precision": lambda: precision(arguments.seeds or 10),
        "grid": lambda: grid(arguments.seeds or 5),
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections", nargs="*", choices=[*sections, []], help="which questions; all without"
    )
    parser.add_argument(
        "--seeds", type=int, help="partitions to average over; each section has its own default"
    )
    arguments = parser.parse_args()
    for name in arguments.sections or sections:
        sections[name]()


if __name__ == "__main__":
    main()
