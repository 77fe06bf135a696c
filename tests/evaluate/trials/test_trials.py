"""Trials: what a sample says of all rows is what a search of all rows finds."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import bitkin
from bitkin.errors import InvalidInputError
from bitkin.evaluate.trials.measurement import OVERSAMPLES
from bitkin.evaluate.trials.measuring import FittedMethod, kept_kinds, measure_method
from bitkin.evaluate.trials.methods import HASHERS, CodeMethod, choose_methods, list_methods
from bitkin.evaluate.trials.trial import draw_trial
from bitkin.hashers.base import Hasher


def clustered(n: int, seed: int = 0, d: int = 24) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n // 20, d))
    rows = centres[rng.integers(len(centres), size=n)] + 0.6 * rng.standard_normal((n, d))
    return rows.astype(np.float32)


def method(n_bits: int = 32) -> CodeMethod:
    return CodeMethod("pca × itq", n_bits, bitkin.ProjectionHash(n_bits, rotation="itq"))


X = clustered(3_000)


@pytest.mark.filterwarnings("ignore:.*bits")
@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_a_sample_predicts_the_recall_on_all_rows(metric: str) -> None:
    trial = draw_trial(X, k=5, metric=metric, n_queries=300, sample_rows=800)
    fitted = FittedMethod(trial, method())
    found = {stage: fitted.measure(stage) for stage in ("codes", "estimate")}
    kinds = kept_kinds(trial)
    found |= {f"exact {kept.name}": fitted.measure("exact", kept) for kept in kinds.values()}
    assert trial.query_ids is not None
    others = np.setdiff1d(np.arange(len(X)), trial.query_ids)
    queries = X[trial.query_ids]
    truth = others[bitkin.evaluate.nearest(X[others], queries, 5, metric).ids]
    for name, measured in found.items():
        stage, _, vectors = name.partition(" ")
        collection = bitkin.Collection.create(
            None, fitted.hasher, vectors=vectors or None, metric=metric
        )
        collection.add(X[others], ids=others)
        for oversample in (1, 2, 5, 10):
            k = 5 if vectors else 5 * oversample
            hits = collection.search(queries, k, stage=stage, oversample=oversample)
            real = bitkin.evaluate.recall(hits.ids, truth)
            assert abs(measured.recall_at(oversample) - real) < 0.06, (name, oversample, real)


def test_with_all_rows_in_the_sample_the_recall_is_exact_ties_included() -> None:
    trial = draw_trial(X[:600], k=5, n_queries=60, sample_rows=600)
    assert trial.query_ids is not None
    others = np.setdiff1d(np.arange(600), trial.query_ids)
    assert trial.rows.shape[0] == trial.n_rows == len(others) == 540
    fitted = FittedMethod(trial, method(16))
    truth = bitkin.evaluate.nearest(X[others], X[trial.query_ids], 5).ids
    collection = bitkin.Collection.create(None, fitted.hasher, vectors=None)
    collection.add(X[others])
    by_estimate = collection.search(X[trial.query_ids], 10, stage="estimate", first="estimate")
    real = bitkin.evaluate.recall(by_estimate.ids, truth)
    assert fitted.measure("estimate").recall_at(2) == pytest.approx(real, abs=1e-9)
    by_codes = collection.search(X[trial.query_ids], 10, stage="codes")
    assert fitted.measure("codes").recall_at(2) == pytest.approx(
        bitkin.evaluate.recall(by_codes.ids, truth), abs=1e-9
    )


def test_held_out_queries_are_in_no_sample_and_are_never_near() -> None:
    rows = clustered(200)
    trial = draw_trial(rows, k=3, n_queries=1000, sample_rows=50, random_state=3)
    assert trial.query_ids is not None
    assert len(trial.query_ids) == 40  # a fifth of the rows
    held_out = {row.tobytes() for row in rows[trial.query_ids]}
    assert not held_out & {row.tobytes() for row in np.asarray(trial.rows)}
    assert not held_out & {row.tobytes() for row in np.asarray(trial.near_rows)}
    truth = bitkin.evaluate.nearest(
        np.delete(rows, trial.query_ids, axis=0), rows[trial.query_ids], 3
    )
    np.testing.assert_allclose(trial.near_distances[:, :3], truth.distances)
    smaller = trial.with_sample(20).with_queries(slice(0, 7))
    assert smaller.rows.shape[0] == 20
    assert len(smaller.queries) == len(smaller.near) == 7
    assert smaller.near_in_sample.max() < 20
    inside = smaller.near_in_sample >= 0
    np.testing.assert_array_equal(
        smaller.rows[smaller.near_in_sample[inside]], smaller.near_rows[inside]
    )


@pytest.mark.filterwarnings("ignore:.*bits")
def test_some_queries_have_the_ranks_that_they_have_among_all() -> None:
    trial = draw_trial(X[:600], k=4, n_queries=60, sample_rows=600)
    fitted = FittedMethod(trial, method(16))
    few = fitted.on(trial.with_queries(slice(20, 45)))
    assert few.hasher is fitted.hasher
    assert few.trial.near_rows.shape[0] < trial.near_rows.shape[0]
    for stage in ("codes", "estimate"):
        recalls = fitted.measure(stage).recalls[20:45]
        np.testing.assert_array_equal(few.measure(stage).recalls, recalls)


def test_your_own_queries_are_asked_and_nothing_is_held_out() -> None:
    queries = clustered(30, seed=9)
    trial = draw_trial(X[:300], k=3, queries=queries, n_queries=20, sample_rows=300)
    assert trial.query_ids is None
    assert trial.n_rows == trial.rows.shape[0] == 300
    assert len(trial.queries) == 20


def test_sparse_rows_have_methods_of_their_own() -> None:
    rng = np.random.default_rng(0)
    rows = scipy.sparse.random_array((400, 200), density=0.05, rng=rng, format="csr")
    trial = draw_trial(rows, k=3, metric="cosine", n_queries=40, sample_rows=200)
    kinds = kept_kinds(trial)
    assert list(kinds) == ["csr"]
    for name in ("wta, window auto", "minhash, 8-bit"):
        (one,) = choose_methods([name], 128, trial)
        results = measure_method(trial, one, ("codes", "exact"), kinds)
        assert [result.error for result in results] == [None, None]
        assert results[1].recall_at(100) > 0.9  # nearly all rows are measured
        assert results[1].bytes_per_vector > results[0].bytes_per_vector


def test_what_fails_is_a_measurement_that_says_why() -> None:
    trial = draw_trial(X[:100], k=3, n_queries=10, sample_rows=50)
    broken = CodeMethod("opast", 32, bitkin.ProjectionHash(10_000, projection="opast"))
    (result,) = measure_method(trial, broken, ("codes",), {})
    assert result.error is not None
    assert "n_bits" in result.error
    assert np.isnan(result.recall)
    assert result.to_dict()["recall"] is None


def test_every_exported_hasher_takes_part() -> None:
    exported = [getattr(bitkin, name) for name in bitkin.__all__]
    hashers = {kind for kind in exported if isinstance(kind, type) and issubclass(kind, Hasher)}
    assert hashers == set(HASHERS)
    for sparse in (False, True):
        names = [one.name for one in list_methods(64, sparse=sparse)]
        assert len(set(names)) == len(names)
    for kind in HASHERS:
        assert kind.variants(64, sparse=False) or kind.variants(64, sparse=True)


def test_recall_grows_with_the_shortlist_and_measurements_are_plain_values() -> None:
    trial = draw_trial(X[:500], k=5, n_queries=50, sample_rows=200)
    measured = FittedMethod(trial, method(16)).measure("codes")
    assert (np.diff(measured.curve) >= 0).all()
    low, high = measured.interval
    assert low <= measured.recall <= high
    plain = measured.to_dict()
    assert plain["curve"].keys() == {str(one) for one in OVERSAMPLES}
    assert measured.name == "pca × itq, 16 bits, codes"
    assert min(measured.fit_seconds, measured.encode_us, measured.search_us) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be"),
        ({"metric": "hamming"}, "metric must be"),
        ({"queries": np.zeros((3, 5))}, "queries must have the 24 columns of X, got 5"),
        ({"queries": np.zeros((0, 24))}, "queries must have at least one row"),
        ({"n_queries": 0}, "n_queries must be"),
        ({"sample_rows": 0}, "sample_rows must be"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        draw_trial(X[:100], **arguments)  # type: ignore[arg-type]


def test_rows_that_cannot_be_drawn_from_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least 5 rows"):
        draw_trial(X[:4])
    with pytest.raises(InvalidInputError, match="iterator"):
        draw_trial(iter([X[:100]]))
    trial = draw_trial(X[:100])
    with pytest.raises(InvalidInputError, match="got 'itk'"):
        choose_methods(["itk"], 32, trial)


def test_a_query_with_nothing_to_hash_finds_nothing() -> None:
    rows = scipy.sparse.random_array((300, 40), density=0.2, rng=np.random.default_rng(0)).tocsr()
    queries = scipy.sparse.csr_array((6, 40))
    trial = draw_trial(rows, k=3, queries=queries, sample_rows=100)
    (wta,) = choose_methods(["wta"], 64, trial)
    fitted = FittedMethod(trial, wta)
    assert np.isinf(fitted.ranks("codes").near).all()
    assert fitted.measure("codes").recall_at(100) == 0.0


def test_a_kind_that_cannot_hold_the_vectors_is_left_out() -> None:
    trial = draw_trial(X[:100] * 1e6, k=3, n_queries=10, sample_rows=50)
    assert list(kept_kinds(trial)) == ["float32", "int8"]


def test_equal_rows_come_in_their_order_as_in_a_collection() -> None:
    rows = np.repeat(clustered(40, d=8), 15, axis=0)
    trial = draw_trial(rows, k=5, n_queries=60, sample_rows=1000)
    assert trial.query_ids is not None
    others = np.setdiff1d(np.arange(len(rows)), trial.query_ids)
    fitted = FittedMethod(trial, method(4))
    collection = bitkin.Collection.create(None, fitted.hasher, vectors=None)
    collection.add(rows[others], ids=others)
    truth = others[bitkin.evaluate.nearest(rows[others], rows[trial.query_ids], 5).ids]
    for stage in ("codes", "estimate"):
        first = {"first": "estimate"} if stage == "estimate" else {}
        hits = collection.search(rows[trial.query_ids], 5, stage=stage, **first)  # type: ignore[arg-type]
        real = bitkin.evaluate.recall(hits.ids, truth)
        assert fitted.measure(stage).recall == pytest.approx(real, abs=1e-9), stage


def test_sets_are_compared_by_jaccard_with_codes_alone() -> None:
    rng = np.random.default_rng(0)
    rows = scipy.sparse.random_array((300, 120), density=0.1, rng=rng, format="csr")
    trial = draw_trial(rows, k=3, metric="jaccard", n_queries=30, sample_rows=100)
    assert {type(one.hasher) for one in choose_methods(None, 64, trial)} == {bitkin.MinHash}
    assert kept_kinds(trial) == {}
    (one,) = choose_methods(["minhash, 4-bit"], 64, trial)
    (measured,) = measure_method(trial, one, ("codes", "estimate", "exact"), {})
    others = np.setdiff1d(np.arange(300), trial.query_numbers)
    truth = bitkin.evaluate.nearest(rows[others], trial.queries, 3, "jaccard")
    np.testing.assert_allclose(trial.near_distances[:, :3], truth.distances)
    assert measured.error is None
    assert 0.1 < measured.recall < measured.recall_at(10) < 1.0
    with pytest.raises(InvalidInputError, match=r"metric='jaccard' .* CSR"):
        draw_trial(rows.toarray(), metric="jaccard")


@pytest.mark.parametrize("n_sample", [150, 600])
def test_a_small_sample_predicts_the_first_rows_without_bias(n_sample: int) -> None:
    # one row in twenty: where none of the sample precedes a row, some of all rows often do
    trial = draw_trial(X, k=5, n_queries=400, sample_rows=n_sample)
    others = np.setdiff1d(np.arange(len(X)), trial.query_numbers)
    truth = others[bitkin.evaluate.nearest(X[others], trial.queries, 5).ids]
    for name in ("pca × random", "wta"):
        (one,) = choose_methods([name], 16, trial)
        fitted = FittedMethod(trial, one)
        collection = bitkin.Collection.create(None, fitted.hasher, vectors=None)
        collection.add(X[others], ids=others)
        for oversample in (1, 2, 10):
            hits = collection.search(trial.queries, 5 * oversample, stage="codes")
            real = bitkin.evaluate.recall(hits.ids, truth)
            predicted = fitted.measure("codes").recall_at(oversample)
            assert abs(predicted - real) < 0.03, (name, oversample, predicted, real)
