"""Pairs of a vector and a class as explicit hashed vectors, for tests and study: a classifier never
builds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError
from bitkin.io.vectors.batch import plain_batch
from bitkin.io.vectors.rows import as_rows
from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import MOST_BUCKETS, place_features_into
from bitkin.learn.heshing.tree import node_seeds
from bitkin.learn.taxonomy.growing import ROOT
from bitkin.learn.taxonomy.taxonomy import Taxonomy
from bitkin.randomness import resolve_seed


def hierarchical_features(
    X: Any,
    labels: Any,
    taxonomy: Taxonomy,
    n_buckets: int,
    random_state: int | None = 0,
    *,
    root: bool = True,
) -> csr_array:
    """Return Ψ(x, y) of every row with its class: float64 CSR of `n_buckets` columns per level,
    the root's first.

    Ψ is 1/√T times the hashed vectors Φ(x, u) of the nodes u on the path of y, side by side (the
    paper's Eq. 1). Where two rows share a node, they share its hash. `labels` are one per row, or
    one string or number for all rows; `n_buckets` is the paper's m. `root=False` leaves the root's
    columns out: they are the same whatever the class, and `HeshingClassifier.weights_` has none for
    them.

    Examples
    --------
    >>> import bitkin
    >>> tree = bitkin.Taxonomy.from_labels(["plant.lily", "plant.rose", "animal.cat"])
    >>> X = [[0.6, 0.8]] * 3
    >>> features = bitkin.hierarchical_features(X, tree.classes, tree, n_buckets=2**16)
    >>> features.shape
    (3, 196608)
    >>> (features @ features.T).toarray().round(2)  # three levels in common, two, one
    array([[1.  , 0.67, 0.33],
           [0.67, 1.  , 0.33],
           [0.33, 0.33, 1.  ]])
    """
    rows = _finite_rows(X, "X")
    numbers = _find_class_numbers(labels, rows.shape[0], taxonomy)
    n_buckets = whole_number(n_buckets, "n_buckets", low=1, high=MOST_BUCKETS)
    seed = resolve_seed(random_state)
    paths = taxonomy.class_paths[numbers]
    if root:
        paths = np.concatenate([np.full((len(paths), 1), ROOT, dtype=np.int32), paths], axis=1)
    n_levels = paths.shape[1]
    row_of_entry = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    columns = np.empty((n_levels, rows.nnz), dtype=np.int64)
    values = np.empty((n_levels, rows.nnz), dtype=np.float64)
    # Entry x_j of a row goes, on every level, to bucket h_u(j) of that level's columns with the
    # sign ξ_u(j) of the node u there. Entries are taken node by node: each has its own hash.
    for level in range(n_levels):
        node_of_entry = paths[row_of_entry, level]
        by_node = np.argsort(node_of_entry, kind="stable")
        nodes, starts = np.unique(node_of_entry[by_node], return_index=True)
        # Of no entries at all np.split makes one part, hence strict=False.
        for node_seed, entries in zip(
            node_seeds(nodes, seed), np.split(by_node, starts[1:]), strict=False
        ):
            buckets, signs = _place_features(rows.indices[entries], node_seed, n_buckets)
            columns[level, entries] = buckets + level * n_buckets
            values[level, entries] = signs * rows.data[entries]
    values /= np.sqrt(taxonomy.n_levels)
    places = (np.tile(row_of_entry, n_levels), columns.ravel())
    return csr_array((values.ravel(), places), shape=(rows.shape[0], n_levels * n_buckets))


def hashed_node_weights(
    weights: Any, taxonomy: Taxonomy, n_buckets: int, random_state: int | None = 0
) -> npt.NDArray[np.float64]:
    """Return Theorem 3's w_h: a hierarchical classifier's weights, one vector per node, hashed
    into one table per level.

    Its products with Ψ are nearly the scores 1/√T · Σ ⟨w_u, x⟩ over the path of a class, the nearer
    the more buckets. Row u of `weights`, (n_nodes, d), belongs to node u of `taxonomy`; the root
    has none, since it tells no classes apart. The table is float64 (n_levels − 1, n_buckets), laid
    out as `HeshingClassifier.weights_`.
    """
    rows = _finite_rows(weights, "weights")
    if rows.shape[0] != taxonomy.n_nodes:
        raise InvalidInputError(
            f"weights must have a row for each of the {taxonomy.n_nodes} nodes below the root, got "
            f"{rows.shape[0]}."
        )
    n_buckets = whole_number(n_buckets, "n_buckets", low=1, high=MOST_BUCKETS)
    seed = resolve_seed(random_state)
    table = np.zeros((taxonomy.n_levels - 1, n_buckets), dtype=np.float64)
    seeds = node_seeds(np.arange(taxonomy.n_nodes), seed)
    for node, level in enumerate(taxonomy.node_levels):
        # w_h of a level is Σ over its nodes u of Φ(w_u, u), for ⟨Φ(w, u), Φ(x, u)⟩ ≈ ⟨w, x⟩.
        entries = slice(rows.indptr[node], rows.indptr[node + 1])
        buckets, signs = _place_features(rows.indices[entries], seeds[node], n_buckets)
        np.add.at(table[level - 1], buckets, signs * rows.data[entries])
    return table


def _place_features(
    features: npt.NDArray[Any], node_seed: np.uint32, n_buckets: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    """Return the bucket and the sign that the node of this seed gives to each feature."""
    buckets, signs = np.empty(len(features), dtype=np.int64), np.empty(len(features), dtype=np.int8)
    place_features_into(read_only(features.astype(np.uint32)), node_seed, n_buckets, buckets, signs)
    return buckets, signs


def _finite_rows(value: Any, name: str) -> csr_array:
    """Return finite rows as a canonical CSR array of float64."""
    rows = plain_batch(csr_array(as_rows(value, name)), np.dtype(np.float64))
    if not np.isfinite(rows.data).all():
        raise InvalidInputError(
            f"{name} must be finite, got NaN or infinity. Drop or replace such entries first."
        )
    return rows


def _find_class_numbers(labels: Any, n: int, taxonomy: Taxonomy) -> npt.NDArray[np.int64]:
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        labels = [labels] * n
    numbers = taxonomy.index_of(labels)
    if len(numbers) != n:
        raise InvalidInputError(f"labels must be one a row of X, {n} in all, got {len(numbers)}.")
    return numbers
