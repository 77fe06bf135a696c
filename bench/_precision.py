"""Sections of `projection.py` that measure codes and directions, not time."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt

from _partitions import DATA, mean_and_error, partition, standard_error
from _timing import report
from _tiny import sized
from bitkin import ProjectionHash, theory
from bitkin.hashers.projection import registry
from bitkin.hashers.projection.projections import (
    PCA,
    Learned,
    Nystrom,
    Projection,
    RandomProjection,
)
from bitkin.hashers.projection.rotations import UnifDiag
from bitkin.hashers.projection.training import TrainingVectors
from bitkin.io import open_vectors
from bitkin.randomness import Draws

BITS: tuple[int, ...] = sized((32, 64, 128), (8,))
BOUND_BITS = sized(64, 8)
SAMPLES, FEATURES = 0.05, 0.3
ROTATIONS: dict[str, Any] = {
    **{name: name for name in registry.ROTATIONS},
    "unifdiag, random start": UnifDiag(start="random"),
    "none": None,
}
Scores = dict[tuple[str, int, str], list[float]]


def precision(n_seeds: int) -> None:
    """Print Nystrom against PCA, both with ITQ: ratios of the same partition, then their mean."""
    projections: dict[str, Projection] = {
        "pca": PCA(),
        "nystrom": Nystrom(SAMPLES, FEATURES),
        "nystrom_norms": Nystrom(SAMPLES, FEATURES, sampling="norms"),
        "nystrom_raw": Nystrom(SAMPLES, FEATURES, orthonormalize=False),
        "random": RandomProjection(),
    }
    scores = measured(projections, {"itq": "itq"}, n_seeds)
    for name in DATA:
        for n_bits in BITS:
            found = {label: scores[name, n_bits, f"{label} × itq"] for label in projections}
            to_pca = [n / p for n, p in zip(found["nystrom"], found["pca"], strict=True)]
            to_uniform = [
                n / u for n, u in zip(found["nystrom_norms"], found["nystrom"], strict=True)
            ]
            report(
                "mean average precision with ITQ",
                data=name,
                n_bits=n_bits,
                partitions=n_seeds,
                **{label: mean_and_error(values) for label, values in found.items()},
                norms_to_uniform=mean_and_error(to_uniform),
                wanted_at_most=1.03,
                norms_met=bool(np.mean(to_uniform) <= 1.03),
                ratio=float(np.mean(to_pca)),
                ratio_error=standard_error(to_pca),
                wanted=0.97,
            )


def grid(n_seeds: int) -> None:
    """Print every projection with every rotation, as the rows of a Markdown table."""
    projections = {
        "pca": PCA(),
        "nystrom": Nystrom(SAMPLES, FEATURES),
        "random": RandomProjection(),
    }
    scores = measured(projections, ROTATIONS, n_seeds)
    print(
        "| projection | rotation |"
        + "".join(f" {name}, {n_bits} |" for name in DATA for n_bits in BITS)
    )
    for first in projections:
        for second in ROTATIONS:
            cells = [
                scores[name, n_bits, f"{first} × {second}"] for name in DATA for n_bits in BITS
            ]
            shown = " | ".join(
                f"{np.mean(values):.3f} ± {standard_error(values):.3f}" for values in cells
            )
            print(f"| {first} | {second} | {shown} |", flush=True)


class Remembered(Projection):
    """Learns for the first rotation it meets, and gives the others the same directions."""

    def __init__(self, projection: Projection) -> None:
        self.projection = projection
        self._learned: Learned | None = None

    def learn(self, vectors: TrainingVectors, n_bits: int, draws: Draws) -> Learned:
        """Return what the projection learned when it was first asked: rows, bits and seed must not
        change.
        """
        if self._learned is None:
            self._learned = self.projection.learn(vectors, n_bits, draws)
        return self._learned


def measured(projections: dict[str, Projection], rotations: dict[str, Any], n_seeds: int) -> Scores:
    """Return mean average precision by data set, bits and method, one number a partition; print
    each as it comes.
    """
    scores: Scores = defaultdict(list)
    for seed in range(n_seeds):
        for name in DATA:
            part = partition(name, seed)
            for n_bits in BITS:
                for first, projection in projections.items():
                    remembered = Remembered(projection)
                    for second, rotation in rotations.items():
                        hasher = ProjectionHash(
                            n_bits, projection=remembered, rotation=rotation, random_state=seed
                        )
                        scores[name, n_bits, f"{first} × {second}"].append(
                            part.precision_of(hasher)
                        )
            report(
                "one partition",
                data=name,
                seed=seed,
                rows=len(part.rows),
                queries=len(part.queries),
                queries_left_out=part.queries_left_out,
                **{
                    f"{key[2]}, {key[1]}": values[-1]
                    for key, values in scores.items()
                    if key[0] == name
                },
            )
    return scores


def bound() -> None:
    """Print Theorem 2 of the Nystrom paper beside what the directions of the very same sample
    lose.
    """
    for name in DATA:
        rows = partition(name, 0).rows
        best, default = learned(PCA(), rows), learned(Nystrom(SAMPLES, FEATURES), rows)
        apart = rows - default.mean
        whole = float(np.linalg.norm(apart))
        least = theory.projection_error(rows - best.mean, best.directions)
        error = theory.projection_error(apart, default.directions)
        for gamma in (1e-2, 1e-3, 1e-4, 1e-5):
            modified = learned(
                Nystrom(SAMPLES, FEATURES, truncate=gamma, orthonormalize=False), rows
            )
            limit = theory.nystrom_error_bound(
                apart, modified.row_numbers, modified.features, BOUND_BITS, truncate=gamma
            )
            report(
                f"error of {BOUND_BITS} directions as a share of ‖X‖",
                data=name,
                samples=len(modified.row_numbers),
                features=len(modified.features),
                pca=least / whole,
                nystrom=error / whole,
                gamma=f"{gamma:g}",
                modified_nystrom=theory.projection_error(apart, modified.directions) / whole,
                theorem_2=f"{limit / whole:.1e}",
                vacuous=limit > whole,
            )


def learned(projection: Projection, rows: npt.NDArray[np.float32]) -> Any:
    """Return directions and mean and, of a Nystrom, what it sampled: the same for every form of
    it.
    """
    vectors = TrainingVectors(open_vectors(rows), center=True, normalize=False, key=7)
    return projection.learn(vectors, BOUND_BITS, Draws(0, "projection"))
