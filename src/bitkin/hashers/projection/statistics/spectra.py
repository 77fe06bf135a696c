"""Leading eigenvectors: of a matrix, of rows, and made the same whatever rounding does to the last
bit.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, eigsh

from bitkin import threads
from bitkin.arrays import Floats
from bitkin.hashers.projection.statistics.centred_rows import CentredRows
from bitkin.memory import require_memory
from bitkin.randomness import Draws

DENSE_SIDE = 2048
"""Up to this many rows or features a CSR matrix is solved by a dense matrix of that size, beyond it
by Lanczos.
"""

_GRID_BITS = 20


def leading_eigenvectors(matrix: Floats, k: int) -> tuple[Floats, Floats]:
    """Return the `k` largest eigenvalues, largest first, and their vectors as columns. `matrix` is
    used up.
    """
    size = len(matrix)
    with threads.blas_in_one_thread():
        # the transpose is the same symmetric matrix, in the column order that LAPACK works in
        values, vectors = scipy.linalg.eigh(
            matrix.T, subset_by_index=(size - k, size - 1), overwrite_a=True, check_finite=False
        )
    return values[::-1].copy(), fix_signs(vectors[:, ::-1])


def leading_directions(rows: CentredRows, k: int, draws: Draws) -> tuple[Floats, Floats]:
    """Return the `k` largest eigenvalues of AᵀA and orthonormal directions (d, k), found on the
    smaller side.
    """
    n, d = rows.shape
    if d <= n:
        return _eigenpairs(rows, k, draws, of_features=True)
    # With AAᵀ u = λ u, AᵀA has the eigenvector Aᵀ u, of the same λ.
    values, left = _eigenpairs(rows, k, draws, of_features=False)
    return values, orthonormalize(rows.transposed_times(left))


def leading_combinations(rows: CentredRows, k: int, draws: Draws) -> tuple[Floats, Floats]:
    """Return the `k` largest eigenvalues of AAᵀ and, for those above zero, unit combinations of
    rows (n, ≤ k).
    """
    n, d = rows.shape
    if n <= d:
        values, left = _eigenpairs(rows, k, draws, of_features=False)
        return values, left[:, values > 0]
    values, right = _eigenpairs(rows, k, draws, of_features=True)
    # With AᵀA v = λ v the unit eigenvector of AAᵀ is A v / √λ.
    real = values > 0
    return values, rows.times(right[:, real] / np.sqrt(values[real]))


def orthonormalize(directions: Floats) -> Floats:
    """Return an orthonormal basis whose first columns span what the first columns of `directions`
    span.
    """
    # Columns of very different lengths lose digits in a QR decomposition: make them unit first.
    lengths = np.linalg.norm(directions, axis=0)
    with threads.blas_in_one_thread():
        basis: Floats = np.linalg.qr(directions / np.where(lengths > 0, lengths, 1.0))[0]
    return basis


def fix_signs(vectors: Floats) -> Floats:
    """Return every column with the sign that makes its largest entry positive: eigenvectors come
    with either.
    """
    largest = np.abs(vectors).argmax(axis=0)
    flip = np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    with_signs: Floats = vectors * flip
    return with_signs


def round_to_grid(directions: Floats) -> Floats:
    """Return unit directions with canonical signs, on a grid of 2⁻²⁰ of a typical entry.

    Sparse and dense rows, or merged statistics, add up in different orders. What that changes in
    the last bits of an eigenvector the grid hides nearly always; otherwise a rotation such as ITQ
    would turn it into different codes.
    """
    # A unit vector of d entries has entries of about 1/√d: 2^(20 + log2(d)/2) steps per unit.
    steps = 2.0 ** (_GRID_BITS + int(np.ceil(np.log2(len(directions)) / 2)))
    on_grid: Floats = np.rint(fix_signs(directions) * steps) / steps
    return on_grid


def round_covariance(covariance: Floats) -> Floats:
    """Return a covariance on a grid of about 2⁻²⁶ of √(σᵢᵢ·σⱼⱼ): see `round_to_grid`."""
    # powers of two near σᵢ = √σᵢᵢ, from the exponent of σᵢᵢ
    scale = np.exp2(np.ceil(np.frexp(covariance.diagonal())[1] / 2))
    steps = 2.0**-26 * np.outer(scale, scale)
    on_grid: Floats = np.rint(covariance / steps) * steps
    return on_grid


def _eigenpairs(
    rows: CentredRows, k: int, draws: Draws, *, of_features: bool
) -> tuple[Floats, Floats]:
    size = rows.shape[1] if of_features else rows.shape[0]
    k = min(k, size)
    if not (rows.sparse and size > DENSE_SIDE and 4 * k < size):
        # the matrix, the sums it is made of, and what the solver needs
        require_memory(
            24 * size * size,
            f"A matrix of inner products of {size:,} {'features' if of_features else 'rows'}",
            "Use PCA(solver='randomized'), or Nystrom with fewer samples or features.",
        )
        return leading_eigenvectors(rows.scatter() if of_features else rows.gram(), k)

    if not rows.lengths_squared().any():
        return np.zeros(k), np.eye(size, k)
    # once, and not in every product
    wide = CentredRows(rows.rows.astype(np.float64), rows.centre, rows.weights)

    def product(vector: Floats) -> Floats:
        column = vector.reshape(-1, 1)
        if of_features:
            return wide.transposed_times(wide.times(column)).ravel()
        return wide.times(wide.transposed_times(column)).ravel()

    # Lanczos needs only products with AᵀA or A Aᵀ, so neither is ever formed.
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    with threads.blas_in_one_thread():
        values, vectors = eigsh(operator, k, which="LA", v0=draws.normals(size))
    order = np.argsort(-values, kind="stable")
    return values[order], fix_signs(vectors[:, order])
