"""Vectors with nothing wrong, and with one thing wrong that was put there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

Rows = Any


def clustered(n: int = 3000, d: int = 32, seed: int = 0, groups: int = 30) -> Rows:
    """Rows around some centres, in random order, with directions of different weight."""
    rng = np.random.default_rng(seed)
    scales = np.arange(1, d + 1) ** -0.4
    centres = rng.standard_normal((groups, d))
    rows = centres[groups_of(n, groups)] + 0.7 * rng.standard_normal((n, d))
    return (rows * scales).astype(np.float32)


def groups_of(n: int = 3000, groups: int = 30) -> Rows:
    """Which centre each row of `clustered` is around."""
    return np.random.default_rng(99).integers(0, groups, n)


def with_uneven_lengths(X: Rows) -> Rows:
    return X * np.random.default_rng(1).uniform(0.2, 5, (len(X), 1)).astype(np.float32)


def with_one_long_row(X: Rows) -> Rows:
    X = X.copy()
    X[1234] *= 1000
    return X


def with_copies(X: Rows) -> Rows:
    rng = np.random.default_rng(2)
    X = X.copy()
    which = rng.permutation(len(X))
    n = 3 * len(X) // 10
    X[which[:n]] = X[rng.choice(which[n:], n)]
    return X


def with_near_copies(X: Rows) -> Rows:
    rng = np.random.default_rng(3)
    return with_copies(X) + 1e-4 * rng.standard_normal(X.shape).astype(np.float32)


def with_zeros(X: Rows) -> Rows:
    return np.where(np.random.default_rng(4).random(X.shape) < 0.95, 0, X)


def with_collapsed_columns(X: Rows) -> Rows:
    X = X.copy()
    X[:, 5:13] = 0.75
    return X


def with_nearly_collapsed_columns(X: Rows) -> Rows:
    X = with_collapsed_columns(X)
    X[:, 5:13] += 1e-6 * np.random.default_rng(5).standard_normal((len(X), 8))
    return X


def far_from_zero(X: Rows) -> Rows:
    spread = np.sqrt(X.var(axis=0).sum())
    return (X.astype(np.float64) + 1e4 * spread / np.sqrt(X.shape[1])).astype(np.float32)


def with_a_large_column(X: Rows) -> Rows:
    X = X.copy()
    X[:, 7] *= 40
    return X


def sorted_by_group(X: Rows) -> Rows:
    return X[np.argsort(groups_of(len(X)), kind="stable")]


def with_zero_rows(X: Rows) -> Rows:
    X = X.copy()
    X[::40] = 0
    return X


def as_bits(X: Rows) -> Rows:
    return (X > 0).astype(np.uint8)


def as_sets(X: Rows) -> Rows:
    rng = np.random.default_rng(7)
    members = rng.random((len(X), 400)) < 0.04
    return scipy.sparse.csr_array(members.astype(np.float32))


def bags(n: int = 1500, d: int = 1500, seed: int = 0) -> Rows:
    """Counts of words, as texts of some topics have them."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(d, 0.02), 30)
    of = rng.integers(0, 30, n)
    counts = np.stack([rng.multinomial(40, 0.85 * topics[t] + 0.15 / d) for t in of])
    return scipy.sparse.csr_array(counts.astype(np.float32))


def topics(n: int, d: int, seed: int = 0) -> Rows:
    """Positive numbers in one column of twenty, those of a topic."""
    rng = np.random.default_rng(seed)
    centres, used = rng.standard_normal((40, d)), rng.random((40, d)) < 0.12
    of = rng.integers(0, 40, n)
    mask = used[of] & (rng.random((n, d)) < 0.45)
    rows = np.where(mask, np.abs(centres[of] + 0.5 * rng.standard_normal((n, d))), 0)
    return scipy.sparse.csr_array(rows[rows.any(axis=1)].astype(np.float32))


def in_two_directions(X: Rows) -> Rows:
    rng = np.random.default_rng(8)
    return (rng.standard_normal((len(X), 1)) @ rng.standard_normal((1, X.shape[1]))).astype(
        np.float32
    ) + 0.05 * X


PLANTED: list[tuple[Callable[[Rows], Rows], str, str]] = [
    (with_uneven_lengths, "lengths", "warning"),
    (with_one_long_row, "outlying rows", "warning"),
    (with_copies, "duplicates", "warning"),
    (with_near_copies, "near duplicates", "warning"),
    (with_zeros, "sparsity", "warning"),
    (with_collapsed_columns, "collapsed columns", "warning"),
    (with_nearly_collapsed_columns, "collapsed columns", "warning"),
    (far_from_zero, "mean", "warning"),
    (with_a_large_column, "dominating columns", "warning"),
    (sorted_by_group, "order", "warning"),
    (with_zero_rows, "zero rows", "warning"),
    (in_two_directions, "dimension", "warning"),
    (as_bits, "values", "notice"),
    (as_sets, "values", "notice"),
]
