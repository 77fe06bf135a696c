"""Principal directions: the orthonormal directions along which rows vary most."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from bitkin import threads
from bitkin.arrays import Batch, Floats
from bitkin.checks import one_of
from bitkin.hashers.projection.projections.base import (
    Learned,
    Projection,
    count_visible,
)
from bitkin.hashers.projection.statistics.centred_rows import CentredRows
from bitkin.hashers.projection.statistics.moments import RowMoments
from bitkin.hashers.projection.statistics.scatter_sketch import ScatterSketch
from bitkin.hashers.projection.statistics.spectra import (
    leading_directions,
    leading_eigenvectors,
    orthonormalize,
    round_covariance,
    round_to_grid,
)
from bitkin.hashers.projection.statistics.sums import column_sums
from bitkin.hashers.projection.training import TrainingVectors, round_mean
from bitkin.io.vectors.batch import stack
from bitkin.memory import require_memory
from bitkin.randomness import Draws

MOST_SPARSE_FEATURES = 4096
"""Up to this many, CSR rows are reduced to their moments; beyond, the rows themselves are the
smaller thing.
"""

_PASSES = 3  # of the randomized solver, where rows can be read again
_ROUNDING = 2.0**-44  # eigenvalues below this share of the largest are rounding: not divided by
_INSTEAD = "Use PCA(solver='randomized') or projection='nystrom'."


class PCA(Projection):
    """The `n_bits` orthonormal directions of largest variance, largest first.

    Parameters
    ----------
    solver : {"exact", "randomized"}, default "exact"
        "exact": eigenvectors of the covariance (n_features² numbers) or, where rows are fewer than
        features, of their inner products (n_rows² numbers). "randomized": from the covariance seen
        through n_bits + 25 % random directions, never n_features² numbers.

    Notes
    -----
    One pass over the rows, of an iterator too: batch by batch, in float64. "randomized" reads rows
    three times; an iterator it can read but once, for slightly worse directions.

    CSR rows are centred implicitly and never become dense as a whole. Of more than 4,096 features,
    "exact" keeps the CSR rows in memory, and finds eigenvectors by Lanczos where rows are more than
    2,048 as well.

    `statistics` can be fed on several machines and merged; `from_statistics` makes of them what
    `learn` would. "exact" also hands on the covariance of all projected rows, so that UnifDiag and
    IsoHash need no sample.

    A model is the same to the last bit for any batches and any number of threads. Dense rows and
    their CSR copy give the same one nearly always: directions are rounded to a grid of 2⁻²⁰ of a
    typical entry, which hides what is left of rounding unless eigenvalues are nearly equal.

    There are no more directions than features, or rows, or than rows vary along by at least 2⁻²⁰ of
    their length: signs along any further one would be noise. The hasher makes its other bits from
    these, see `ProjectionHash`.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((1000, 20)) * np.arange(20, 0, -1)
    >>> pca = bitkin.projections.PCA()
    >>> hasher = bitkin.ProjectionHash(n_bits=2, projection=pca, rotation=None).fit(X)
    >>> np.abs(hasher.components_).argmax(axis=0)
    array([0, 1])
    """

    def __init__(self, solver: str = "exact") -> None:
        self.solver = solver

    @property
    def knows_covariance(self) -> bool:
        """Whether the solver is "exact": a sketch does not tell it."""
        return self.solver == "exact"

    def learn(self, vectors: TrainingVectors, n_bits: int, draws: Draws) -> Learned:
        """Return principal directions and the mean of all rows."""
        self.require_parameters()
        if self.solver == "randomized":
            sketch = sketch_all_rows(vectors, random_sketch(vectors.n_features, n_bits, draws))
            return self.from_statistics(sketch, n_bits, center=vectors.center)
        held, moments = _held_or_moments(vectors)
        if moments is not None:
            return self.from_statistics(moments, n_bits, center=vectors.center)
        return _from_rows(held, n_bits, vectors.center, draws)

    def statistics(self, n_features: int, n_bits: int, draws: Draws) -> RowMoments | ScatterSketch:
        """Return what to update with rows, here or on several machines, and to merge; "randomized"
        draws for it.
        """
        self.require_parameters()
        if self.solver == "randomized":
            return random_sketch(n_features, n_bits, draws)
        require_memory(24 * n_features**2, f"PCA of {n_features:,} features", _INSTEAD)
        return RowMoments(n_features)

    def from_statistics(
        self, statistics: RowMoments | ScatterSketch, n_bits: int, *, center: bool
    ) -> Learned:
        """Return principal directions and the mean of the rows that `statistics` have seen."""
        mean, n = statistics.mean, statistics.n
        if isinstance(statistics, ScatterSketch):
            values, directions = sketched_directions(statistics, n_bits, center=center)
            return _round_visible(values, directions, statistics.mean_square, n, mean, center)
        scatter = statistics.scatter(center=center)
        # E‖x‖² = E‖x − m‖² + ‖m‖², and the first is tr(S)/n
        mean_square = float(np.trace(scatter)) / n + (
            float(np.square(mean).sum()) if center else 0.0
        )
        values, directions = leading_eigenvectors(scatter, min(n_bits, len(scatter)))
        return _round_visible(
            values / n, directions, mean_square, n, mean, center, statistics.projected
        )

    def require_parameters(self) -> None:
        """Raise unless every parameter can be used."""
        one_of(self.solver, "solver", ("exact", "randomized"))


def _from_rows(held: Batch, n_bits: int, center: bool, draws: Draws) -> Learned:
    """Return what `PCA.from_statistics` does, from rows that are fewer than their moments."""
    n, d = held.shape
    # With fewer rows than features the n × n inner products A Aᵀ are solved instead of AᵀA.
    mean = column_sums(held) / n
    rows = CentredRows(held, mean if center else np.zeros(d))
    values, directions = leading_directions(rows, n_bits, draws)
    return _round_visible(
        values / n,
        directions,
        rows.mean_square(),
        n,
        mean,
        center,
        lambda D, about: CentredRows(held, about).projected(D),
    )


def _round_visible(
    variances: Floats,
    directions: Floats,
    mean_square: float,
    n_rows: int,
    mean: Floats,
    center: bool,
    projected: Callable[[Floats, Floats], Floats] | None = None,
) -> Learned:
    """Return the directions along which rows vary, and the mean, as they will be used, with the
    covariance that all rows have along those.
    """
    visible = count_visible(variances, mean_square, n_rows)
    directions = round_to_grid(directions[:, :visible])
    # The covariance is that along the rounded directions
    # about the rounded mean: those the codes use.
    about = round_mean(mean) if center else np.zeros_like(mean)
    covariance = None if projected is None else round_covariance(projected(directions, about))
    return Learned(directions, about if center else None, covariance)


def _held_or_moments(vectors: TrainingVectors) -> tuple[Batch, RowMoments | None]:
    """Read all rows: keep them where they are fewer than features or sparse and wide, else keep
    their moments.

    How many rows an iterator has shows at its end, so as many as features are kept at first: half
    of what moments take.
    """
    d = vectors.n_features
    keep_all = vectors.sparse and d > MOST_SPARSE_FEATURES
    if not keep_all:
        side = min(d, vectors.n_rows or d)
        # the sums, the matrix made of them, and what the solver needs
        require_memory(24 * side * side, f"PCA of {side:,} features", _INSTEAD)
    held: list[Batch] = []
    n, n_bytes, moments = 0, 0, None
    if not keep_all and vectors.n_rows is not None and vectors.n_rows >= d:
        return None, vectors.statistics(partial(RowMoments, d))
    for _, batch in vectors.batches():
        n += batch.shape[0]
        # as many rows as features: from here on d² moments are the smaller thing
        if moments is None and not keep_all and n >= d:
            moments = RowMoments(d)
            while held:
                moments.update(held.pop(0))
        if moments is not None:
            moments.update(batch)
            continue
        n_bytes += batch.data.nbytes + (batch.indices.nbytes if keep_all else 0)
        # joined once all are there
        require_memory(2 * n_bytes, f"PCA of so many rows of {d:,} features", _INSTEAD)
        held.append(batch.copy())
    return (None if moments is not None else stack(held)), moments


def random_sketch(n_features: int, n_bits: int, draws: Draws) -> ScatterSketch:
    """Return a sketch without rows, with somewhat more random test directions than bits."""
    # Oversampling: the error of a random sketch falls quickly with a few directions beyond n_bits.
    count = min(n_features, n_bits + max(16, n_bits // 4))
    return ScatterSketch(orthonormalize(draws.normals((n_features, count))))


def sketch_all_rows(vectors: TrainingVectors, sketch: ScatterSketch) -> ScatterSketch:
    """Return a sketch of all rows; where rows can be read again, with test directions that were
    improved twice.
    """
    for left in range(_PASSES if vectors.rereadable else 1, 0, -1):
        sketch = vectors.statistics(partial(ScatterSketch, sketch.test))
        if left > 1:
            # Ω ← orth(S Ω), a power step: directions of small variance fade by λ/λ_max in each.
            sketch = ScatterSketch(orthonormalize(sketch.product(center=vectors.center)))
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
        # ΩᵀY = ΩᵀSΩ is symmetric but for rounding. With its eigenpairs E, Λ
        # the approximation is (Y E Λ^−½)(Y E Λ^−½)ᵀ; the left singular
        # vectors of that half are the eigenvectors wanted.
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
