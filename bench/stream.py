"""How many vectors a second does a stream take: code, tracking and rotation, in one thread?

    python bench/stream.py [--vectors 20000] [--rounds 7]

Ours beside our own OSH at the paper's setting (a sketch of 50 rows, chunks of 300 as 60,000 vectors
in 200 chunks have, a random rotation, codes by the model of the last chunk) and beside a plain
NumPy loop of the same recurrences, which tracks only: it neither codes nor rotates. Every round
takes the same vectors in the same order; the loop, checked against ours, and OSH take fewer.
"""

from __future__ import annotations

import argparse
import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import bitkin
from _partitions import all_vectors
from _timing import interleaved, report
from _tiny import sized
from bitkin import ProjectionHash
from bitkin.hashers.projection.projections import FrequentDirections

D, C = 960, 32
WARM = sized(2000, 200)
PIECE = sized(1000, 50)
FEW = sized(3000, 60)
PAPER_SKETCH, PAPER_CHUNK = 50, 300
Rows = npt.NDArray[np.float32]


def started(rows: Rows, **slots: Any) -> ProjectionHash:
    """Return a hasher that has learned from the first vectors."""
    return ProjectionHash(
        C, **({"projection": "opast", "rotation": "unifdiag"} | slots)
    ).partial_fit(rows[:WARM])


def sketching(hasher: ProjectionHash, rows: Rows) -> Callable[[], None]:
    """Return a job that sketches all rows, from where the hasher stands, in pieces."""

    def job() -> None:
        stream = copy.deepcopy(hasher)
        for first in range(0, len(rows), PIECE):
            for _ in stream.sketch_stream(rows[first : first + PIECE]):
                pass

    return job


def one_by_one(hasher: ProjectionHash, rows: Rows) -> Callable[[], None]:
    """Return a job that sketches each vector by a call of its own."""

    def job() -> None:
        stream = copy.deepcopy(hasher)
        for row in rows:
            stream.sketch(row)

    return job


def numpy_loop(W: Rows, Z: npt.NDArray[np.float32], mean: Rows, seen: int, rows: Rows) -> Rows:
    """Return the directions after the same recurrences, as NumPy does them: float32, one vector
    after another.
    """
    W, Z, mean = W.copy(), Z.copy(), mean.copy()
    for t, x in enumerate(rows, start=seen + 1):
        u = np.float32(np.sqrt((t - 1) / t)) * (x - mean)
        mean += (x - mean) / np.float32(t)
        y = u @ W
        q = Z @ y
        gamma = 1 / (1 + y @ q)
        p = gamma * (u - W @ y)
        q_q, p_p = q @ q, p @ p
        tau = (1 / np.sqrt(1 + p_p * q_q) - 1) / q_q
        Z -= gamma * np.outer(q, q)
        W += np.outer(tau * (W @ q) + (1 + tau * q_q) * p, q)
    return W


def numpy_start(hasher: ProjectionHash) -> tuple[Rows, npt.NDArray[np.float32], Rows]:
    """Return directions, Z and mean of a live hasher, in the units of the stream."""
    _, arrays = hasher.stream_.tracker.state()
    scale = np.sqrt(
        hasher.stream_.tracker.total_variance / (arrays["numbers"][3] / arrays["numbers"][2])
    )
    return (
        arrays["directions"],
        (arrays["inverse"] / scale**2).astype(np.float32),
        arrays["mean"].astype(np.float32),
    )


def angle(a: Rows, b: Rows) -> float:
    """Return the sine of the largest angle between two spans."""
    left, right = np.linalg.qr(a.astype(np.float64))[0], np.linalg.qr(b.astype(np.float64))[0]
    return float(np.linalg.norm(left - right @ (right.T @ left), 2))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=int, default=18_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    bitkin.set_threads(1)
    rows = all_vectors("cifar10_gist960")[: WARM + options.vectors]
    first, rest, few = rows[:WARM], rows[WARM:], rows[WARM : WARM + FEW]
    ours, paper = started(rows), started(rows, refresh=1, epochs=None)
    osh = FrequentDirections(PAPER_SKETCH, chunk_rows=PAPER_CHUNK)
    rival = started(rows, projection=osh, rotation="random", epochs=None)
    W, Z, mean = numpy_start(ours)
    counts = {
        "ours": len(rest),
        "every": len(rest),
        "single": len(few),
        "osh": len(few),
        "numpy": len(few),
    }
    seconds = interleaved(
        {
            "ours": sketching(ours, rest),
            "every": sketching(paper, rest),
            "single": one_by_one(ours, few),
            "osh": sketching(rival, few),
            "numpy": lambda: numpy_loop(W, Z, mean, WARM, few),
        },
        rounds=options.rounds,
    )
    took = {name: 1e6 * seconds[name] / counts[name] for name in counts}
    moved = copy.deepcopy(ours).partial_fit(few)
    sizes = {
        "d": D,
        "n_bits": C,
        "vectors": len(rest),
        "first": len(first),
        "rounds": options.rounds,
    }
    report(
        "code, tracking, a rotation every 100 vectors",
        **sizes,
        microseconds=took["ours"],
        vectors_a_second=round(1e6 / took["ours"]),
        ratio=1e6 / took["ours"] / 45_000,
        wanted=1.0,
    )
    report(
        "code, tracking, a rotation at every vector, no epochs",
        **sizes,
        microseconds=took["every"],
        vectors_a_second=round(1e6 / took["every"]),
        ratio=1e6 / took["every"] / 15_000,
        wanted=1.0,
    )
    report("one call of sketch a vector", **sizes, microseconds=took["single"])
    report(
        "against our OSH, a sketch of 50 rows and chunks of 300",
        **sizes,
        osh_microseconds=took["osh"],
        ratio=took["osh"] / took["ours"],
        wanted=5.0,
    )
    report(
        "against a NumPy loop of the same recurrences, tracking only",
        **sizes,
        numpy_microseconds=took["numpy"],
        sine_between_spans=angle(
            numpy_loop(W, Z, mean, WARM, few), moved.stream_.tracker.directions
        ),
        ratio=took["numpy"] / took["ours"],
        wanted=2.5,
    )
    size = sized(4096, 64)
    product = np.ones((size, size), dtype=np.float32)
    flops = 2 * size**3 / interleaved({"sgemm": lambda: product @ product}, rounds=3)["sgemm"]
    report("share of the rate of sgemm", **sizes, share=8 * D * C / (took["ours"] * 1e-6) / flops)
    list(ours.sketch_stream(rest))
    state = len(pickle.dumps(ours))
    report(
        "state, the epoch's snapshot included",
        **sizes,
        bytes=state,
        wanted_at_most=400_000,
        met=state < 400_000,
    )


if __name__ == "__main__":
    main()
