"""Do directions stay orthonormal in float32 while OPAST follows a very long stream?

Rows are drawn from a pool, in a fresh order each time round, so that making them does not outlast
learning from them. `python bench/orthonormality.py --vectors 10000000 --features 960 --bits 32`
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import numpy.typing as npt

import bitkin
from _timing import report
from _tiny import sized
from bitkin.randomness import Draws

POOL = sized(1 << 15, 500)
REPORTS = 10


def pool(n_features: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Rows whose variances fall off as 1 / k, about a mean that is not zero."""
    rows = rng.standard_normal((POOL, n_features), dtype=np.float32)
    rows /= np.sqrt(np.arange(1, n_features + 1, dtype=np.float32))
    return rows + 1


def deviation(directions: npt.NDArray[np.float32]) -> float:
    wide = directions.astype(np.float64)
    return float(np.abs(wide.T @ wide - np.eye(wide.shape[1])).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=sized(10_000_000, 2000))
    parser.add_argument("--features", type=int, default=960)
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--forgetting", type=float, nargs="*", default=[1.0, 0.999])
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = pool(options.features, rng)
    for forgetting in options.forgetting:
        opast = bitkin.projections.OPAST(forgetting)
        tracker = opast.tracker(
            options.features, options.bits, center=True, draws=Draws(0, "projection")
        )
        worst, spent, due = 0.0, 0.0, 0
        while tracker.n_seen < options.vectors:
            batch = rows[rng.permutation(POOL)[: options.vectors - tracker.n_seen]]
            begin = time.perf_counter()
            tracker.update(batch)
            spent += time.perf_counter() - begin
            worst = max(worst, deviation(tracker.directions))
            if tracker.n_seen < due and tracker.n_seen < options.vectors:
                continue
            due += options.vectors // REPORTS
            report(
                "how orthonormal are directions",
                features=options.features,
                bits=options.bits,
                forgetting=forgetting,
                vectors=tracker.n_seen,
                worst_deviation=f"{worst:.2e}",
                microseconds_a_vector=1e6 * spent / tracker.n_seen,
            )


if __name__ == "__main__":
    main()
