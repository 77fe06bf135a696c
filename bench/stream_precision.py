"""The streaming paper's comparison: mean average precision as a stream advances, method by method.

    python bench/stream_precision.py [--sections curves refresh variance] [--seeds 5] [--rows 59000]
    [--plot curves.png]

Every seed is one partition and one order of the stream (see `_partitions`). "re-encoded": all rows
and the queries are coded by the model as it is at that point. "emitted": the codes that left while
the model moved, against queries coded by the last model; "frozen": the same with an epoch that
began after 2,000 vectors. Ratios to IsoHash and to offline PCA + ITQ are of the same seed.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from _partitions import DATA, Partition, mean_and_error, partition, standard_error
from _timing import report
from _tiny import sized
from bitkin import Codes, ProjectionHash
from bitkin.hashers.projection.projections import OPAST, FrequentDirections

BITS: tuple[int, ...] = sized((8, 16, 32, 64), (8,))
POINTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
FREEZE_AFTER = sized(2000, 300)
N_CHUNKS = 200
PAPER_SKETCH = 50
NEVER_FORGETS = OPAST(forgetting=1.0)  # the paper's
Scores = dict[tuple[str, int, str], list[float]]


def methods(n_bits: int, n_rows: int) -> dict[str, dict[str, Any]]:
    """Return what to compare, by the slots of a ProjectionHash."""
    chunk = n_rows // N_CHUNKS
    compared: dict[str, dict[str, Any]] = {
        "unifdiag": {"projection": NEVER_FORGETS, "rotation": "unifdiag", "refresh": 1},
        "isohash": {"projection": NEVER_FORGETS, "rotation": "isohash", "refresh": 100},
        "random": {"projection": NEVER_FORGETS, "rotation": "random"},
        "none": {"projection": NEVER_FORGETS, "rotation": None},
        "osh, l = 4c": {
            "projection": FrequentDirections(4 * n_bits, chunk_rows=chunk),
            "rotation": "random",
        },
    }
    if n_bits <= PAPER_SKETCH:
        compared["osh, l = 50"] = {
            "projection": FrequentDirections(PAPER_SKETCH, chunk_rows=chunk),
            "rotation": "random",
        }
    return compared


def streamed(
    part: Partition, n_bits: int, slots: dict[str, Any], seed: int
) -> tuple[list[float], float, float, float]:
    """Return precision at every point re-encoded, emitted and frozen, and the microseconds a vector
    takes.
    """
    hasher = ProjectionHash(n_bits, epochs=None, random_state=seed, **slots)
    n, taken, curve, emitted = len(part.rows), 0.0, [], []
    first = 0
    for point in POINTS:
        stop = round(point * n)
        start = time.perf_counter()
        emitted += list(hasher.sketch_stream(part.rows[first:stop]))
        taken += time.perf_counter() - start
        first = stop
        curve.append(part.precision(hasher.encode(part.rows), hasher.encode(part.queries)))
    moving = part.precision(
        Codes.concatenate(emitted), hasher.encode(part.queries).with_fingerprint(None)
    )
    return curve, moving, frozen_precision(part, n_bits, slots, seed), 1e6 * taken / n


def frozen_precision(part: Partition, n_bits: int, slots: dict[str, Any], seed: int) -> float:
    """Return the precision of codes emitted by an epoch that begins after 2,000 vectors."""
    hasher = ProjectionHash(n_bits, epochs="request", random_state=seed, **slots).partial_fit(
        part.rows[:FREEZE_AFTER]
    )
    epoch = hasher.new_epoch()
    codes = [
        epoch.encode(part.rows[:FREEZE_AFTER]),
        *hasher.sketch_stream(part.rows[FREEZE_AFTER:]),
    ]
    return part.precision(Codes.concatenate(codes), epoch.encode(part.queries))


def curves(n_seeds: int, n_rows: int, picture: Path | None) -> None:
    """Print the comparison at every point of the stream and at its end, and draw it."""
    found: dict[tuple[str, int, str], list[list[float]]] = defaultdict(list)
    ends: Scores = defaultdict(list)
    for name in DATA:
        for seed in range(n_seeds):
            part = partition(name, seed, n_rows)
            for n_bits in BITS:
                itq = part.precision_of(ProjectionHash(n_bits, rotation="itq", random_state=seed))
                ends[name, n_bits, "offline pca + itq"].append(itq)
                for label, slots in methods(n_bits, len(part.rows)).items():
                    curve, moving, frozen, microseconds = streamed(part, n_bits, slots, seed)
                    found[name, n_bits, label].append(curve)
                    ends[name, n_bits, label].append(curve[-1])
                    ends[name, n_bits, f"{label}, emitted"].append(moving)
                    ends[name, n_bits, f"{label}, frozen"].append(frozen)
                    ends[name, n_bits, f"{label}, µs"].append(microseconds)
        for n_bits in BITS:
            tell(name, n_bits, n_seeds, ends, found, len(part.rows))
    if picture is not None:
        draw(found, ends, picture)


def tell(name: str, n_bits: int, n_seeds: int, ends: Scores, found: Any, n_rows: int) -> None:
    """Print one data set at one number of bits."""
    labels = [label for data, bits, label in found if (data, bits) == (name, n_bits)]
    common = {"data": name, "n_bits": n_bits, "rows": n_rows, "orders": n_seeds}
    for label in labels:
        report(
            "mean average precision",
            method=label,
            **common,
            at={
                f"{point:.4g}": mean_and_error(list(np.array(found[name, n_bits, label])[:, i]))
                for i, point in enumerate(POINTS)
            },
            emitted=mean_and_error(ends[name, n_bits, f"{label}, emitted"]),
            frozen=mean_and_error(ends[name, n_bits, f"{label}, frozen"]),
            microseconds_a_vector=float(np.median(ends[name, n_bits, f"{label}, µs"])),
        )
    ours, itq = ends[name, n_bits, "unifdiag"], ends[name, n_bits, "offline pca + itq"]
    report("mean average precision", method="offline pca + itq", **common, end=mean_and_error(itq))
    for rival in [label for label in labels if label != "unifdiag"] + ["offline pca + itq"]:
        ratios = [a / b for a, b in zip(ours, ends[name, n_bits, rival], strict=True)]
        wanted = {"random": 1.0, "isohash": 0.98}.get(rival) if n_bits >= 32 else None
        report(
            f"unifdiag over {rival}",
            **common,
            ratio=float(np.mean(ratios)),
            ratio_error=standard_error(ratios),
            wanted=wanted,
        )


def draw(found: Any, ends: Scores, picture: Path) -> None:
    """Draw precision against vectors seen, one panel for each data set and number of bits."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(DATA), len(BITS), figsize=(14, 6), squeeze=False, sharex=True)
    for row, name in enumerate(DATA):
        for column, n_bits in enumerate(BITS):
            axis = axes[row][column]
            for data, bits, label in found:
                if (data, bits) == (name, n_bits):
                    means = np.mean(found[data, bits, label], axis=0)
                    axis.plot(
                        POINTS,
                        means,
                        marker=".",
                        label=label,
                        linewidth=2.5 if label == "unifdiag" else 1.2,
                    )
            axis.axhline(
                np.mean(ends[name, n_bits, "offline pca + itq"]),
                color="gray",
                ls=":",
                label="offline PCA + ITQ",
            )
            axis.set_xscale("log", base=2)
            axis.set_title(f"{name}, {n_bits} bits", fontsize=9)
            if row == len(DATA) - 1:
                axis.set_xlabel("share of the stream seen")
            if column == 0:
                axis.set_ylabel("mean average precision")
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="lower center", ncols=7, fontsize=8)
    figure.savefig(picture, dpi=110)


def refresh(n_seeds: int, n_rows: int) -> None:
    """Print how precision and speed depend on the number of vectors between two rotations."""
    for name in DATA:
        scores: dict[tuple[str, int], list[float]] = defaultdict(list)
        every = (1, 10, 100, 1000, 10_000)
        for seed in range(n_seeds):
            part = partition(name, seed, n_rows)
            for step in every:
                slots = {"projection": NEVER_FORGETS, "rotation": "unifdiag", "refresh": step}
                curve, moving, frozen, microseconds = streamed(part, 32, slots, seed)
                for what, value in (
                    ("end", curve[-1]),
                    ("emitted", moving),
                    ("frozen", frozen),
                    ("µs", microseconds),
                ):
                    scores[what, step].append(value)
        for step in every:
            report(
                "refresh of the rotation, 32 bits",
                data=name,
                refresh=step,
                orders=n_seeds,
                re_encoded=mean_and_error(scores["end", step]),
                emitted=mean_and_error(scores["emitted", step]),
                frozen=mean_and_error(scores["frozen", step]),
                microseconds_a_vector=float(np.median(scores["µs", step])),
            )


def variance(n_seeds: int, n_rows: int) -> None:
    """Print the share of exact PCA's variance that one pass captures at 32 bits."""
    for name in DATA:
        shares = []
        for seed in range(n_seeds):
            rows = partition(name, seed, n_rows).rows
            best = captured(rows, ProjectionHash(32, rotation=None).fit(rows))
            slots: dict[str, Any] = {"projection": NEVER_FORGETS, "rotation": None}
            shares.append(
                captured(rows, ProjectionHash(32, random_state=seed, **slots).partial_fit(rows))
                / best
            )
        report(
            "variance captured, OPAST over PCA",
            data=name,
            n_bits=32,
            rows=len(rows),
            orders=n_seeds,
            least=min(shares),
            ratio=float(np.mean(shares)),
            wanted=0.99,
        )


def captured(rows: Any, hasher: ProjectionHash) -> float:
    """Return the variance of the projected rows."""
    return float(hasher.project(rows).astype(np.float64).var(axis=0).sum())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sections", nargs="+", default=["curves", "refresh", "variance"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=59_000)
    parser.add_argument("--plot", type=Path, default=None, help="where to draw the curves")
    arguments = parser.parse_args()
    if "curves" in arguments.sections:
        curves(arguments.seeds, arguments.rows, arguments.plot)
    if "refresh" in arguments.sections:
        refresh(arguments.seeds, arguments.rows)
    if "variance" in arguments.sections:
        variance(arguments.seeds, arguments.rows)
