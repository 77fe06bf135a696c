"""Slow truths in plain NumPy that tests compare with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import Codes, ProjectionHash
from bitkin.projections import RandomProjection

Floats = npt.NDArray[np.float64]


def random_codes(
    rng: np.random.Generator,
    n: int,
    n_symbols: int,
    bits: int = 1,
    *,
    empty: bool = False,
    near: bool = False,
) -> Codes:
    """Random codes; `near` draws few distinct rows so that distances tie a lot."""
    high = 2**bits if not near else 2
    symbols = rng.integers(0, high, (n, n_symbols), dtype=np.uint64)
    if near and n:
        symbols = symbols[rng.integers(0, max(1, n // 8), n)]
    flags = rng.random(n) < 0.1 if empty else None
    return Codes.from_symbols(symbols, bits, empty=flags)


def symbol_distances(a: Codes, b: Codes) -> npt.NDArray[np.int32]:
    """Compare symbol by symbol."""
    out: npt.NDArray[np.int32] = (a.symbols()[:, None, :] != b.symbols()[None, :, :]).sum(
        axis=2, dtype=np.int32
    )
    out[a.empty_rows()] = a.spec.n_symbols
    out[:, b.empty_rows()] = a.spec.n_symbols
    return out


def nearest(
    codes: Codes, ids: npt.NDArray[np.int64], queries: Codes, k: int, allow: Any = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Sort all rows by (distance, id) and cut."""
    usable = ~codes.empty_rows()
    if allow is not None:
        usable &= np.isin(ids, allow)
    codes, ids = codes[usable], ids[usable]
    distances = symbol_distances(queries, codes)
    out_ids = np.full((len(queries), k), -1, dtype=np.int64)
    out_distances = np.full((len(queries), k), queries.spec.n_symbols + 1, dtype=np.int32)
    for q in np.flatnonzero(~queries.empty_rows()):
        order = np.lexsort((ids, distances[q]))[:k]
        out_ids[q, : len(order)], out_distances[q, : len(order)] = ids[order], distances[q][order]
    return out_ids, out_distances


def exact_distances(queries: npt.ArrayLike, rows: npt.ArrayLike, metric: str) -> Floats:
    """Measure every query against every row in float64: (n_queries, n_rows).

    l2 is not squared, cosine is 1 − cosine and 1 from a vector of zeros, ip is negated. Every pair
    is computed by itself, so that equal rows have equal distances to the last bit.
    """
    Q = np.asarray(queries, dtype=np.float64)[:, None, :]
    X = np.asarray(rows, dtype=np.float64)[None, :, :]
    if metric == "l2":
        return np.asarray(np.sqrt(np.square(X - Q).sum(axis=2)))
    products = (X * Q).sum(axis=2)
    if metric == "ip":
        return np.asarray(-products)
    lengths = np.sqrt(np.square(X).sum(axis=2) * np.square(Q).sum(axis=2))
    return np.asarray(1 - _divided(products, lengths))


def estimates(
    hasher: ProjectionHash, queries: npt.ArrayLike, rows: npt.ArrayLike, metric: str
) -> Floats:
    """Estimate every distance by the formula of `bitkin.rescoring.estimate`, in float64, squared
    for l2: (n_queries, n_rows).

    Only signs are taken from the hasher as it computes them, since a code holds nothing else.
    """
    X, Q = np.asarray(rows, dtype=np.float64), np.asarray(queries, dtype=np.float64)
    P = hasher.components_.astype(np.float64)
    mean = np.zeros(len(P)) if hasher.mean_ is None else hasher.mean_
    signs = np.where(hasher.project(rows) >= 0, 1.0, -1.0)
    lengths = np.sqrt(np.square(X).sum(axis=1))
    # x = r · u, and u is what was hashed
    r = lengths if hasher.normalize else np.ones(len(X))
    u = _divided(X, r[:, None])
    y = _times(u - mean, P)
    squares = np.square(u - mean).sum(axis=1)
    above = squares if _is_random(hasher) else np.square(y).sum(axis=1)
    ones, twos = np.abs(y).sum(axis=1), np.sqrt(np.square(y).sum(axis=1))
    f = r * _divided(above, np.sqrt(ones * twos))  # ‖y‖² or ‖u − μ‖², over √(‖y‖₁‖y‖)
    asked = np.sqrt(np.square(Q).sum(axis=1))

    def inner(v: Floats) -> Floats:
        """About ⟨x − rμ, v⟩ = f · g · ⟨s, z⟩ for z = Pᵀv and g = √(‖z‖ / ‖z‖₁)."""
        z = _times(v, P)
        g = np.sqrt(_divided(np.sqrt(np.square(z).sum(axis=1)), np.abs(z).sum(axis=1)))
        return np.asarray(f * g[:, None] * (signs[None] * z[:, None]).sum(axis=2))

    if metric == "l2" and not hasher.normalize:
        return np.asarray(squares + np.square(Q - mean).sum(axis=1)[:, None] - 2 * inner(Q - mean))
    along = _times(Q, mean[:, None])
    if metric == "l2":  # ‖x‖² + ‖q‖² − 2 (r ⟨μ, q⟩ + ⟨x − rμ, q⟩)
        return np.asarray(r**2 + asked[:, None] ** 2 - 2 * (r * along + inner(Q)))
    share = _divided(along, np.square(mean).sum())  # a = ⟨q, μ⟩ / ‖μ‖²
    products = share * (r * _times(u, mean[:, None])[:, 0]) + inner(Q - share * mean)
    if metric == "ip":
        return np.asarray(-products)
    return np.asarray(1 - _divided(products, asked[:, None] * lengths))


def _is_random(hasher: ProjectionHash) -> bool:
    """Whether directions were drawn; a snapshot remembers it in the slot of its projection."""
    drawn = getattr(hasher.projection, "random", hasher.projection == "random")
    return bool(drawn) or isinstance(hasher.projection, RandomProjection)


def _times(rows: Floats, matrix: Floats) -> Floats:
    """Multiply row by row: a product by BLAS may round equal rows differently."""
    return np.array([(row[:, None] * matrix).sum(axis=0) for row in rows]).reshape(
        len(rows), matrix.shape[1]
    )


def _divided(above: Floats, below: Any) -> Floats:
    """Divide; by nothing is 0."""
    below = np.broadcast_to(below, above.shape)
    return np.asarray(np.divide(above, below, out=np.zeros(above.shape), where=below != 0))
