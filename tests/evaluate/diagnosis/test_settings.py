"""What a finding suggests helps: recall with and without it, on rows with that problem."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import bitkin
from bitkin.errors import BitkinError
from tests.evaluate.diagnosis.planted import (
    as_bits,
    as_sets,
    bags,
    clustered,
    far_from_zero,
    groups_of,
    in_two_directions,
    sorted_by_group,
    topics,
    with_a_large_column,
    with_collapsed_columns,
    with_copies,
    with_one_long_row,
    with_uneven_lengths,
)

_QUERIES = 100


def recall(
    X: Any, hasher: Any, metric: str = "l2", *, learn: Any = None, truth: Any = None,
    stage: str = "codes",
) -> float:  # fmt: skip
    """Share of the true ten (of `truth`, else X) in the best 30 of a stage."""
    true = X if truth is None else truth
    ids = bitkin.evaluate.nearest(true[_QUERIES:], true[:_QUERIES], 10, metric).ids
    rows, queries = X[_QUERIES:], X[:_QUERIES]
    with warnings.catch_warnings():  # of settings that are bad on purpose
        warnings.simplefilter("ignore", UserWarning)
        hasher.fit(rows if learn is None else learn)
    if stage == "codes":
        index = bitkin.FlatIndex(hasher.spec_)
        index.add(hasher.encode(rows))
        found = index.search(hasher.encode(queries), 30).ids
    else:
        collection = bitkin.Collection.create(
            None, hasher, vectors=None, metric=metric, stage=stage, index="flat"
        )
        collection.add(rows)
        found = collection.search(queries, 30).ids
    return float(bitkin.evaluate.recall(found, ids))


def code(n_bits: int = 24, **settings: Any) -> Any:
    settings.setdefault("rotation", "random")
    return bitkin.ProjectionHash(n_bits, **settings)


def test_few_rows_are_better_coded_by_random_directions() -> None:
    X = clustered()
    learned = recall(X, code(30), learn=X[-12:], stage="estimate")
    drawn = recall(X, code(30, projection="random"), learn=X[-12:], stage="estimate")
    assert drawn > learned + 0.05


def test_in_few_directions_the_estimate_after_a_rotation_finds_what_codes_miss() -> None:
    X = in_two_directions(clustered())
    assert recall(X, code(), stage="estimate") > 2 * recall(X, code())
    unrotated = recall(X, code(24, rotation=None), stage="estimate")
    assert recall(X, code(24), stage="estimate") > unrotated + 0.05


def test_far_from_zero_a_centred_code_works_and_no_other() -> None:
    X = far_from_zero(clustered())
    assert recall(X, code()) > 10 * recall(X, code(center=False))
    # by cosine nothing is left in float32: a mean that is subtracted first helps
    first = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    raw = recall(X, code(normalize=True), "cosine", stage="estimate")
    assert recall(first, code(normalize=True), "cosine", stage="estimate") > raw


def test_columns_that_collapsed_do_not_win_where_the_mean_is_subtracted() -> None:
    X = with_collapsed_columns(clustered())
    X[:, 5:13] = 3.0
    kept = recall(X, bitkin.WTAHash(64, center=True))
    assert kept > recall(X, bitkin.WTAHash(64, center=False)) + 0.1


def test_a_column_in_another_unit_is_scaled() -> None:
    X = with_a_large_column(clustered())
    scaled = X / X.std(axis=0)
    assert recall(scaled, code(), truth=scaled) > 2 * recall(X, code(), truth=scaled)
    kept = recall(X, bitkin.WTAHash(64, center=True, scale=True), truth=scaled, stage="estimate")
    lost = recall(X, bitkin.WTAHash(64, center=True, scale=False), truth=scaled, stage="estimate")
    assert kept > lost + 0.1


def test_rows_of_uneven_length_are_ranked_by_the_estimate_or_normalized() -> None:
    X = with_uneven_lengths(clustered() + 0.5)
    assert recall(X, code(), stage="estimate") > recall(X, code()) + 0.1
    assert recall(X, code(normalize=True), "cosine") > recall(X, code(), "cosine") + 0.1
    with pytest.raises(BitkinError, match="rows of like length"):
        recall(X, code(), "cosine", stage="estimate")


def test_a_long_row_costs_a_bit_until_it_is_left_out() -> None:
    X = clustered()
    long = X.copy()
    long[1000:1008] *= 1000
    without = np.delete(long, np.s_[1000:1008], axis=0)
    assert recall(long, code(12), learn=without) > recall(long, code(12)) + 0.05
    one = with_one_long_row(X)
    assert recall(one, code(normalize=True), "cosine", stage="estimate") > 0.5


def test_sparse_rows_need_large_windows() -> None:
    X = bags()
    small, large = bitkin.WTAHash(48), bitkin.WTAHash(48, window="auto")
    assert recall(X, large) > recall(X, small) + 0.1
    assert large.encode(X[:50].toarray()) == large.encode(X[:50])


def test_fewer_hashes_with_larger_windows_are_as_good_and_take_fewer_bytes() -> None:
    X = topics(2000, 1000)
    found = bitkin.diagnose(X)
    assert found.finding("empty windows").setting == 'WTAHash(64, window="auto")'
    assert found.finding("sparsity").setting is None
    default, suggested = bitkin.WTAHash(), bitkin.WTAHash(64, window="auto")
    assert recall(X, suggested) > recall(X, default)
    assert suggested.spec_.n_bytes <= default.spec_.n_bytes / 2
    assert recall(X, suggested) > recall(X, bitkin.WTAHash(64)) + 0.1
    # which is why sparsity alone suggests none of them
    assert recall(X, bitkin.ProjectionHash(256)) > recall(X, suggested)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_projections_do_not_mind_zeros_where_columns_are_few(metric: str) -> None:
    X = topics(2000, 64)
    by_cosine = metric == "cosine"
    setting = "ProjectionHash(64, normalize=True)" if by_cosine else "ProjectionHash(64)"
    assert bitkin.diagnose(X, metric=metric).finding("empty windows").setting == setting
    assert bitkin.diagnose(X, metric=metric).finding("sparsity").setting is None
    suggested = bitkin.ProjectionHash(64, normalize=by_cosine)
    assert recall(X, suggested, metric) > recall(X, bitkin.WTAHash(), metric) + 0.05


def test_bits_are_kept_by_sign_hash() -> None:
    X = as_bits(clustered())
    assert recall(X, bitkin.SignHash()) > recall(X, code(32)) + 0.1


def test_sets_are_told_apart_by_min_hash() -> None:
    X = scipy.sparse.csr_array(as_sets(clustered()))
    X = scipy.sparse.vstack([X[:1000], _changed(X[:1000])], format="csr")
    assert recall(X, bitkin.MinHash(32), "jaccard") > recall(X, code(256), "jaccard")


def test_copies_fill_results_until_they_are_removed() -> None:
    X = with_copies(clustered(n=1500))
    found = bitkin.dedup.find_duplicate_vectors(X, 0.99)
    rest = X[found.kept]
    assert bitkin.diagnose(rest).finding("duplicates").level == "fine"
    assert len(rest) < 0.8 * len(X)


def test_a_code_learned_from_the_first_part_of_a_sorted_file_is_bad() -> None:
    rng = np.random.default_rng(0)
    # groups that lie in directions of their own
    spans = rng.standard_normal((30, 4, 32)) * 2
    X = clustered() + np.einsum("ij,ijk->ik", rng.standard_normal((3000, 4)), spans[groups_of()])
    in_order = sorted_by_group(X)
    first = recall(X, code(16), learn=in_order[:200], stage="estimate")
    shuffled = recall(X, code(16), learn=X[:200], stage="estimate")
    every = recall(X, code(16), learn=in_order, stage="estimate")
    assert shuffled > first + 0.05
    assert every > first + 0.05


def _changed(X: Any) -> Any:
    """Sets with a third of their members exchanged."""
    rng = np.random.default_rng(5)
    dense = X.toarray()
    dense[(dense > 0) & (rng.random(dense.shape) < 0.3)] = 0
    dense[rng.random(dense.shape) < 0.01] = 1
    return scipy.sparse.csr_array(dense)
