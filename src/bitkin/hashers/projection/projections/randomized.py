"""Principal directions of wide rows, from a few products with their scatter."""

from __future__ import annotations

import numpy as np

from bitkin import threads
from bitkin.arrays import Floats
from bitkin.hashers.projection.statistics.scatter_sketch import ScatterSketch
from bitkin.hashers.projection.statistics.spectra import orthonormal
from bitkin.hashers.projection.training import TrainingVectors
from bitkin.randomness import Draws

_PASSES = 3
_ROUNDING = 2.0**-44
"""Eigenvalues below this share of the largest are rounding, and are not divided by."""


def random_sketch(n_features: int, n_bits: int, draws: Draws) -> ScatterSketch:
    """Return a sketch without rows, with somewhat more random test directions than bits."""
    count = min(n_features, n_bits + max(16, n_bits // 4))
    return ScatterSketch(orthonormal(draws.normals((n_features, count))))


def sketch_of(vectors: TrainingVectors, sketch: ScatterSketch) -> ScatterSketch:
    """Return a sketch of all rows; where rows can be read again, with test directions that were
    improved twice.
    """
    for left in range(_PASSES if vectors.rereadable else 1, 0, -1):
        for _, batch in vectors.batches():
            sketch.update(batch)
        if left > 1:
            sketch = ScatterSketch(orthonormal(sketch.product(center=vectors.center)))
    return sketch


def sketched_directions(
    sketch: ScatterSketch, n_bits: int, *, center: bool
) -> tuple[Floats, Floats]:
    """Return variances and directions.

    The sketch is finished as a Nystrom approximation of the scatter, which is accurate after a
    single pass already ("Fixed-rank approximation of a positive-semidefinite matrix from streaming
    data", Tropp et al., 2017).
    """
    values, directions = _nystrom(sketch.product(center=center), sketch.test)
    return values[:n_bits] / sketch.n, directions[:, :n_bits]


def _nystrom(seen: Floats, test: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues, largest first, and eigenvectors of S ≈ Y (ΩᵀY)⁻¹ Yᵀ, for Y = `seen` and Ω
    = `test`.
    """
    with threads.blas_in_one_thread():
        inner = test.T @ seen
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        real = values > _ROUNDING * max(values[-1], 0.0)
        if not real.any():
            return np.zeros(test.shape[1]), test
        # half · halfᵀ is the approximation
        half = seen @ (vectors[:, real] / np.sqrt(values[real]))
        directions, roots, _ = np.linalg.svd(half, full_matrices=False)
    missing = test.shape[1] - len(roots)
    return np.pad(roots**2, (0, missing)), np.pad(directions, ((0, 0), (0, missing)))
