"""Principal directions: the orthonormal directions along which rows vary most."""

from __future__ import annotations

import numpy as np

from bitkin.checks import one_of
from bitkin.hashers.projections.base import Learned, Projection
from bitkin.hashers.projections.limits import require_features, require_memory, require_rows, require_visible
from bitkin.hashers.projections.randomized import randomized_directions
from bitkin.hashers.projections.spectra import leading_directions, leading_eigenvectors, settled
from bitkin.hashers.statistics.centred_rows import CentredRows
from bitkin.hashers.statistics.moments import Moments
from bitkin.hashers.statistics.products import Floats, column_sums
from bitkin.hashers.training import TrainingVectors, rounded_mean
from bitkin.io.vectors.batch import Batch, stack
from bitkin.randomness import Draws

MOST_SPARSE_FEATURES = 4096
"""Up to this many, CSR rows are reduced to their moments; beyond, the rows themselves are the smaller thing."""


class PCA(Projection):
    """The `n_bits` orthonormal directions of largest variance, largest first.

    Parameters
    ----------
    solver : {"exact", "randomized"}, default "exact"
        "exact": eigenvectors of the covariance (n_features² numbers) or, where rows are fewer than features, of their
        inner products (n_rows² numbers). "randomized": from the covariance seen through n_bits + 25 % random
        directions, never n_features² numbers.

    Notes
    -----
    One pass over the rows, of an iterator too: batch by batch, in float64. "randomized" reads rows three times; an
    iterator it can read but once, for slightly worse directions.

    CSR rows are centred implicitly and never become dense as a whole. Of more than 4,096 features, "exact" keeps the
    CSR rows in memory, and finds eigenvectors by Lanczos where rows are more than 2,048 as well.

    A model is the same to the last bit for any batches and any number of threads. Dense rows and their CSR copy give
    the same one nearly always: directions are rounded to a grid of 2⁻²⁰ of a typical entry, which hides what is left
    of rounding unless eigenvalues are nearly equal.

    More bits than features or rows, or more than directions along which rows vary by at least 2⁻²⁰ of their length,
    is an error: signs along any further direction would be noise.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((1000, 20)) * np.arange(20, 0, -1)
    >>> hasher = bitkin.ProjectionHash(n_bits=2, projection=bitkin.projections.PCA(), rotation=None).fit(X)
    >>> np.abs(hasher.components_).argmax(axis=0)
    array([0, 1])
    """

    def __init__(self, solver: str = "exact") -> None:
        self.solver = solver

    def learn(self, vectors: TrainingVectors, n_bits: int, draws: Draws) -> Learned:
        """Return principal directions and the mean of all rows."""
        self.require_parameters()
        require_features(vectors.n_features, n_bits, "PCA")
        if vectors.n_rows is not None:
            require_rows(vectors.n_rows, n_bits, center=vectors.center)
        if self.solver == "randomized":
            values, directions, mean, size = randomized_directions(vectors, n_bits, draws)
        else:
            values, directions, mean, size = _exact_directions(vectors, n_bits, draws)
        require_visible(values, size, n_bits)
        return Learned(settled(directions), rounded_mean(mean) if vectors.center else None)

    def require_parameters(self) -> None:
        """Raise unless every parameter can be used."""
        one_of(self.solver, "solver", ("exact", "randomized"))


def _exact_directions(vectors: TrainingVectors, n_bits: int, draws: Draws) -> tuple[Floats, Floats, Floats, float]:
    """Return variances, directions, mean and the mean of ‖x‖²."""
    held, moments = _held_or_moments(vectors)
    if moments is not None:
        mean, n = moments.mean, moments.n
        require_rows(n, n_bits, center=vectors.center)
        scatter = moments.scatter(center=vectors.center)
        del moments  # half of the memory
        size = float(np.trace(scatter)) / n + (float(mean @ mean) if vectors.center else 0.0)
        values, directions = leading_eigenvectors(scatter, n_bits)
        return values / n, directions, mean, size
    n = held.shape[0]
    require_rows(n, n_bits, center=vectors.center)
    mean = column_sums(held) / n
    rows = CentredRows(held, mean if vectors.center else np.zeros_like(mean))
    values, directions = leading_directions(rows, n_bits, draws)
    return values / n, directions, mean, rows.mean_square()


def _held_or_moments(vectors: TrainingVectors) -> tuple[Batch, Moments | None]:
    """Read all rows: keep them where they are fewer than features or sparse and wide, else keep their moments.

    How many rows an iterator has shows at its end, so as many as features are kept at first: half of what moments take.
    """
    d = vectors.n_features
    keep_all = vectors.sparse and d > MOST_SPARSE_FEATURES
    if not keep_all:
        require_memory(min(d, vectors.n_rows or d))
    held: list[Batch] = []
    n, moments = 0, None
    if not keep_all and vectors.n_rows is not None and vectors.n_rows >= d:
        moments = Moments(d)
    for _, batch in vectors.batches():
        n += batch.shape[0]
        if moments is None and not keep_all and n >= d:
            moments = Moments(d)
            while held:
                moments.update(held.pop(0))
        if moments is None:
            held.append(batch.copy())
        else:
            moments.update(batch)
    return (None if moments is not None else stack(held)), moments
