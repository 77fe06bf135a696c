"""OPAST as PAPERS and the paper have it: whole matrices in float64, one vector after another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.hashers.projection.projections import OPAST
from bitkin.hashers.projection.trackers import OPASTTracker, Tracker
from bitkin.kernels.hashing import streaming
from bitkin.randomness import Draws

Floats = npt.NDArray[Any]


def tracker_of(
    d: int, c: int, *, forgetting: float = 1.0, center: bool = True, seed: int = 0
) -> OPASTTracker:
    return OPAST(forgetting).tracker(d, c, center=center, draws=Draws(seed, "projection"))


def stream(n: int, d: int, seed: int = 0, *, rank: int | None = None) -> npt.NDArray[np.float32]:
    """Vectors whose standard deviations fall off geometrically, along random directions, about a
    mean of about 1.
    """
    rng = np.random.default_rng(seed)
    # a larger basis takes longer to draw than to follow
    rank = min(d, 64) if rank is None else rank
    basis = np.linalg.qr(rng.standard_normal((d, rank)))[0]
    rows = rng.standard_normal((n, rank)) * 0.8 ** np.arange(rank) @ basis.T
    shifted: npt.NDArray[np.float32] = (rows + rng.standard_normal(d)).astype(np.float32)
    return shifted


@dataclass
class Truth:
    W: Floats
    Z: Floats
    sigma: Floats  # times the weight
    mean: Floats
    weight: float
    scale: float
    beta: float
    center: bool
    z_inverse: Floats  # by its own law, from the first vector on

    def centred(self, x: Floats) -> Floats:
        weight = self.beta * self.weight + 1
        return self.scale * (x - self.mean) * (np.sqrt(1 - 1 / weight) if self.center else 1.0)

    def after(self, x: Floats) -> Truth:
        weight, u = self.beta * self.weight + 1, self.centred(x)
        W, Z, beta = self.W, self.Z, self.beta
        y = W.T @ u
        q = Z @ y / beta
        gamma = 1 / (1 + y @ q)
        p = gamma * (u - W @ y)
        tau = (1 / np.sqrt(1 + (p @ p) * (q @ q)) - 1) / (q @ q)
        moved = W + np.outer(tau * (W @ q) + (1 + tau * (q @ q)) * p, q)
        turn = moved.T @ W
        now = moved.T @ u
        return replace(
            self,
            W=moved,
            Z=Z / beta - gamma * np.outer(q, q),
            sigma=beta * turn @ self.sigma @ turn.T + np.outer(now, now),
            mean=self.mean + (x - self.mean) / weight if self.center else self.mean,
            weight=weight,
            z_inverse=beta * self.z_inverse + np.outer(y, y),
        )


def truth_of(tracker: OPASTTracker) -> Truth:
    """The state of a tracker, to go on from."""
    numbers, arrays = tracker.state()
    return Truth(
        W=arrays["directions"].astype(np.float64),
        Z=arrays["inverse"],
        sigma=arrays["moment"],
        mean=arrays["mean"],
        weight=arrays["numbers"][streaming.WEIGHT],
        scale=arrays["numbers"][streaming.SCALE],
        beta=float(numbers["forgetting"]),
        center=bool(numbers["center"]),
        z_inverse=np.linalg.inv(arrays["inverse"]),
    )


def deviation(directions: Floats) -> float:
    """How far columns are from orthonormal."""
    wide = directions.astype(np.float64)
    return float(np.abs(wide.T @ wide - np.eye(wide.shape[1])).max())


def captured(directions: Floats, rows: Floats) -> float:
    """Variance of rows along directions, as a share of what as many principal directions
    capture.
    """
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    scatter, wide = centred.T @ centred, directions.astype(np.float64)
    best = np.linalg.eigvalsh(scatter)[-wide.shape[1] :].sum()
    return float(np.trace(wide.T @ scatter @ wide) / best)


def same_state(a: Tracker, b: Tracker) -> bool:
    (numbers_a, arrays_a), (numbers_b, arrays_b) = a.state(), b.state()
    return numbers_a == numbers_b and all(
        np.array_equal(arrays_a[k], arrays_b[k]) for k in arrays_a | arrays_b
    )
