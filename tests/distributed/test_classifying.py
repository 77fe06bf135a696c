"""A classifier that learns on a cluster: what one machine learns, mixed from shards."""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from dask.delayed import delayed
from distributed import Client, LocalCluster
from scipy.sparse import csr_array

import bitkin
from bitkin import HeshingClassifier
from bitkin.distributed import fit
from bitkin.distributed.classifying.shards import group_pieces
from bitkin.distributed.classifying.training import bytes_per_pass, choose_shards, fit_classifier
from bitkin.errors import InvalidInputError
from bitkin.learn.heshing.class_labels import sort_labels
from bitkin.learn.heshing.fitting import plan_fit
from bitkin.learn.heshing.mixing import count_passes, first_averaged
from bitkin.learn.heshing.rows import measure_rows
from bitkin.learn.heshing.settings import check_settings
from bitkin.learn.heshing.sgd import (
    LabelledRows,
    finish_weights,
    start_tables,
)
from bitkin.learn.heshing.training import learn_pass
from tests.distributed.clusters import ANY_PORT
from tests.learn.heshing_truth import TREE, bags

X, Y = bags(611)


def parts(*sizes: int, sparse: bool = False) -> list[Any]:
    """Delayed pairs of the first rows, in pieces of these sizes."""
    stops = np.cumsum(sizes).tolist()
    rows = csr_array(X) if sparse else X
    return [
        delayed((rows[stop - size : stop], Y[stop - size : stop]), pure=False)
        for size, stop in zip(sizes, stops, strict=True)
    ]


def model(**options: Any) -> HeshingClassifier:
    return HeshingClassifier(**{"n_buckets": 128, "alpha": 1e-3, "max_iter": 4, **options})


def same(one: HeshingClassifier, other: HeshingClassifier) -> bool:
    return np.array_equal(one.weights_, other.weights_) and one.losses_ == other.losses_


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"taxonomy": TREE, "alpha": "auto"},
        {"loss": "softmax", "fit_intercept": True},
        {"average": False},
        {"early_stopping": True, "max_iter": 9, "taxonomy": TREE},
    ],
    ids=["plain", "alpha chosen", "softmax", "last weights", "early stopping"],
)
def test_one_shard_is_the_model_of_one_machine(here: Client, options: dict[str, Any]) -> None:
    alone = model(**options).fit(X, Y)
    for sizes in ((611,), (200, 0, 311, 100)):
        fitted = fit_classifier(model(**options), parts(*sizes), here, n_shards=1)
        assert same(fitted, alone)
        assert fitted.alpha_ == alone.alpha_
        assert fitted.class_counts_.tolist() == alone.class_counts_.tolist()
        assert fitted.classes_.tolist() == alone.classes_.tolist()
        assert fitted.predict(X).tolist() == alone.predict(X).tolist()


def mixed_by_hand(
    rows: list[npt.NDArray[Any]], labels: list[npt.NDArray[Any]], options: dict[str, Any]
) -> npt.NDArray[Any]:
    """The formulas of `mixing`, weight by weight in float64, with no penalty for what did not
    move.
    """
    classifier = model(**options)
    settings = check_settings(classifier)
    all_rows = measure_rows(np.concatenate(rows))
    different = sort_labels(np.concatenate(labels).tolist())
    plan = plan_fit(settings, 0, different, all_rows.mean_square).training
    data = [
        LabelledRows(part, TREE.index_of(named).astype(np.int32))
        for part, named in zip(rows, labels, strict=True)
    ]
    n_passes = count_passes(settings.max_iter, len(rows))
    common = np.zeros((int(plan.tree.levels[-1]) + 1, plan.n_buckets), dtype=np.float32)
    averages = []
    for iteration in range(n_passes):
        moves, means, weight, n = 0.0, 0.0, 0.0, sum(map(len, data))
        kept, kept_mean = 0.0, 0.0
        for number, part in enumerate(data):
            size = len(part)
            t = np.arange(iteration * size, (iteration + 1) * size)
            first = 4 / plan.method.mean_square
            left = np.cumprod(
                1 / (1 + plan.method.alpha * first / np.sqrt(1 + plan.method.alpha * first * t))
            )
            tables = start_tables(common.copy(), steps=iteration * size, average=True)
            learn_pass(tables, plan, part, iteration, shard=number)
            last = tables.weights * tables.numbers[0]
            mean = finish_weights(tables)
            moved = ~np.isclose(last, left[-1] * common, rtol=1e-6, atol=0)
            moves = moves + size * moved * (last - left[-1] * common)
            means = means + size * moved * (mean - left.mean() * common)
            weight = weight + size * moved
            kept, kept_mean = kept + size * left[-1] / n, kept_mean + size * left.mean() / n
        averages.append(kept_mean * common + means / np.maximum(weight, 1))
        common = (kept * common + moves / np.maximum(weight, 1)).astype(np.float32)
    if not settings.average:
        return common
    found: npt.NDArray[Any] = np.mean(averages[first_averaged(n_passes) :], axis=0)
    return found


@pytest.mark.parametrize("average", [True, False])
def test_shards_are_mixed_as_the_formula_says(here: Client, average: bool) -> None:
    options = {"taxonomy": TREE, "average": average}
    sizes = (100, 311, 200)
    stops = np.cumsum(sizes)
    rows, labels = np.split(X, stops[:-1]), np.split(Y, stops[:-1])
    fitted = fit_classifier(model(**options), parts(*sizes), here, n_shards=3)
    want = mixed_by_hand(rows, labels, options)
    np.testing.assert_allclose(fitted.weights_, want, rtol=2e-4, atol=1e-5)
    assert fitted.n_iter_ == count_passes(4, 3) == 6


def test_shards_learn_as_well_as_one_machine(here: Client) -> None:
    more, named = bags(2000, seed=1)
    alone = model(taxonomy=TREE).fit(X, Y).score(more, named)
    for n in (2, 4, 9):
        sizes = [611 // n] * (n - 1) + [611 - 611 // n * (n - 1)]
        fitted = fit_classifier(model(taxonomy=TREE), parts(*sizes), here, n_shards=n)
        assert fitted.score(more, named) > alone - 0.02


def test_workers_and_their_threads_change_nothing(here: Client, two_workers: Client) -> None:
    sizes = [40] * 15 + [11]
    options = {"taxonomy": TREE, "early_stopping": True, "alpha": "auto"}
    fitted = [
        fit_classifier(model(**options), parts(*sizes), client, n_shards=11)
        for client in (here, two_workers, two_workers)
    ]
    assert same(fitted[0], fitted[1])
    assert same(fitted[0], fitted[2])
    assert fitted[0].alpha_ == fitted[1].alpha_


def test_a_sparse_matrix_and_its_dense_copy_give_the_same(here: Client) -> None:
    dense, sparse = (
        fit_classifier(model(), parts(300, 311, sparse=kind), here, n_shards=2)
        for kind in (False, True)
    )
    assert same(dense, sparse)


def test_unequal_empty_and_one_sided_partitions_are_learned(here: Client) -> None:
    order = np.argsort(Y, kind="stable")
    rows, labels = X[order], Y[order]
    cuts = [0, 1, 1, 2, 400, 405, 611]  # one row, none, one class only
    pieces = [delayed((rows[a:b], labels[a:b])) for a, b in itertools.pairwise(cuts)]
    pieces.append(delayed((np.empty((0, 3), dtype=np.int8), [])))
    fitted = fit_classifier(model(taxonomy=TREE), pieces, here, n_shards=6)
    assert fitted.class_counts_.sum() == 611
    assert fitted.classes_.tolist() == list(TREE.classes)
    assert fitted.score(X, Y) > 0.5


def test_rows_are_held_out_in_every_shard(here: Client) -> None:
    fitted = fit_classifier(
        model(taxonomy=TREE, early_stopping=True, max_iter=30),
        parts(300, 311),
        here,
        n_shards=2,
    )
    assert fitted.class_counts_.sum() == 611 - 30 - 31
    assert fitted.n_iter_ < count_passes(30, 2)


def test_the_fitted_model_is_an_ordinary_one(here: Client, tmp_path: Path) -> None:
    fitted = fit_classifier(model(taxonomy=TREE), parts(300, 311), here, n_shards=2)
    fitted.save(tmp_path / "model.bitkin")
    for other in (pickle.loads(pickle.dumps(fitted)), bitkin.load(tmp_path / "model.bitkin")):
        assert other.predict(X).tolist() == fitted.predict(X).tolist()
    assert fitted.partial_fit(X[:9], Y[:9]).n_features_in_ == 60
    assert bytes_per_pass(fitted._model, 4) == 4 * 3 * fitted.weights_.nbytes


def test_progress_counts_rows_of_all_passes(here: Client) -> None:
    seen: list[tuple[int, int]] = []
    fit_classifier(
        model(max_iter=2), parts(300, 311), here, lambda *told: seen.append(told), n_shards=2
    )
    n_passes = count_passes(2, 2)
    assert seen[-1] == (611 * n_passes, 611 * n_passes)
    assert seen == sorted(seen)
    assert len(seen) == 2 * n_passes


def test_a_worker_that_dies_changes_nothing() -> None:
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=ANY_PORT,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        arrays = da.from_array(X, chunks=(100, -1)), da.from_array(Y, chunks=100)
        killed: list[int] = []

        def kill_once(done: int, of: int) -> None:
            if done > of // 2 and not killed:
                killed.append(min(client.run(os.getpid).values()))
                os.kill(killed[0], signal.SIGKILL)

        wounded, whole = (
            fit(model(taxonomy=TREE, max_iter=6), *arrays, progress=told, n_shards=4)
            for told in (kill_once, None)
        )
    assert killed
    assert same(wounded, whole)


def test_labels_may_be_given_in_many_ways(here: Client, tmp_path: Path) -> None:
    given = fit_classifier(model(), parts(250, 250, 111), here, n_shards=2)
    rows = da.from_array(X, chunks=(250, -1))
    blocks = [delayed(part) for part in np.split(Y, [250, 500])]
    for labels in (da.from_array(Y, chunks=250), Y, Y.tolist(), blocks):
        assert same(fit(model(), rows, labels, n_shards=2, client=here), given)
    for number, part in enumerate(np.split(X, [250, 500])):
        np.save(tmp_path / f"{number}.npy", part)
    assert same(fit(model(), tmp_path, Y, n_shards=2, client=here), given)
    frame = dd.from_pandas(pd.DataFrame(X).assign(kind=Y), npartitions=3)
    fitted = fit(model(), frame.drop(columns="kind"), frame["kind"], n_shards=2, client=here)
    assert fitted.score(X, Y) > 0.8


def test_labels_that_do_not_fit_the_rows_are_refused(here: Client) -> None:
    rows = da.from_array(X, chunks=(250, -1))
    with pytest.raises(InvalidInputError, match=r"rechunk with y.rechunk\(\(X.chunks\[0\],\)\)"):
        fit(model(), rows, da.from_array(Y, chunks=200), client=here)
    with pytest.raises(InvalidInputError, match="611 in all, got 610"):
        fit(model(), rows, Y[1:], client=here)
    with pytest.raises(InvalidInputError, match="as many partitions as X, 3, got 1"):
        fit(model(), rows, [delayed(Y)], client=here)
    with pytest.raises(InvalidInputError, match=r"y must hold a label per row of X.*got None"):
        fit(model(), rows, client=here)
    with pytest.raises(InvalidInputError, match="n_shards is for classifiers"):
        fit(bitkin.SignHash(), rows, n_shards=2, client=here)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: X.rechunk((250, 20)), r"chunks of whole rows.*Use X.rechunk\({1: -1}\)"),
        (lambda X: X[X[:, 1] > 0], r"Use X.compute_chunk_sizes\(\)"),
        (lambda X: X[:, 0], "X must have two dimensions"),
        (lambda X: X.compute(), "X must be a Dask array"),
    ],
)
def test_arrays_that_have_no_rows_in_chunks_are_refused(
    here: Client, change: Any, words: str
) -> None:
    rows = change(da.from_array(X, chunks=(250, -1)))
    with pytest.raises(InvalidInputError, match=words):
        fit(model(), rows, Y, client=here)
    fitted = model().fit(X, Y)
    with pytest.raises(InvalidInputError, match=words):
        bitkin.distributed.predict(fitted, rows)


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        ((X[:5, :59], Y[:5]), "partition 1 has dense float32 with 59 columns, and X, partition 0"),
        ((X[:5].astype(np.float64), Y[:5]), "partition 1 has dense float64 with 60 columns"),
        ((csr_array(X[:5]), Y[:5]), "partition 1 has CSR float32"),
        ((X[:5], Y[:4]), "X, partition 1: y must hold one label a row of X, 5 in all, got 4"),
        ((X[:5], ["fox"] * 5), "y must hold classes of the taxonomy, got 'fox'"),
        ((X[:5] * np.nan, Y[:5]), "X, partition 1: NaN at row 0"),
        ((["text"] * 5, Y[:5]), "bitkin.text_features"),
        (X[:5], "X, partition 1 must be a pair of rows and labels, got a ndarray"),
    ],
)
def test_a_partition_unlike_the_others_is_named(here: Client, piece: Any, words: str) -> None:
    fitted = model(taxonomy=TREE)
    with pytest.raises(InvalidInputError, match=words):
        fit_classifier(fitted, [*parts(300), delayed(piece)], here)
    assert not hasattr(fitted, "n_features_in_")


def test_what_no_model_can_be_made_of_is_refused(here: Client) -> None:
    with pytest.raises(InvalidInputError, match="n_shards must be"):
        fit_classifier(model(), parts(300), here, n_shards=0)
    with pytest.raises(InvalidInputError, match="delayed pairs of rows and labels"):
        fit_classifier(model(), [X], here)
    with pytest.raises(InvalidInputError, match="X has no rows"):
        fit_classifier(model(), [delayed((X[:0], []))], here)
    with pytest.raises(InvalidInputError, match="at least two classes, got one class, 'lily'"):
        fit_classifier(model(), [delayed((X[:7], ["lily"] * 7))], here)


@pytest.mark.parametrize(
    ("counts", "n_shards", "groups"),
    [
        ([10], 4, [[0]]),
        ([10, 10, 10, 10], 2, [[0, 1], [2, 3]]),
        ([1, 1, 1, 37], 4, [[0, 1, 2], [3]]),
        ([5, 30, 5], 3, [[0], [1], [2]]),
        ([1] * 7, 7, [[0], [1], [2], [3], [4], [5], [6]]),
    ],
)
def test_neighbouring_pieces_make_a_shard(
    counts: list[int], n_shards: int, groups: list[list[int]]
) -> None:
    assert group_pieces(counts, n_shards) == groups


def test_the_number_of_shards_comes_from_the_rows_alone() -> None:
    assert [choose_shards(n) for n in (1, 99_999, 100_000, 10**9)] == [1, 1, 2, 64]


def test_labels_are_predicted_lazily_where_the_rows_are(here: Client) -> None:
    for options in ({}, {"taxonomy": TREE, "min_margin": 0.4}):
        fitted = model(**options).fit(X, Y)
        fitted.progress = lambda *_: here  # nothing that could be sent
        labels = bitkin.distributed.predict(fitted, da.from_array(X, chunks=(250, -1)))
        want = fitted.predict(X)
        assert labels.chunks == ((250, 250, 111),)
        assert (labels.dtype, labels._meta.shape) == (want.dtype, (0,))
        assert labels.compute().tolist() == want.tolist()
    blocks = da.from_array(X, chunks=(250, -1)).map_blocks(csr_array)
    assert bitkin.distributed.predict(fitted, blocks).compute().tolist() == want.tolist()


def test_predictions_need_a_fitted_classifier_and_its_columns() -> None:
    rows = da.from_array(X, chunks=(250, -1))
    with pytest.raises(InvalidInputError, match="must be a HeshingClassifier, got a SignHash"):
        bitkin.distributed.predict(bitkin.SignHash(), rows)
    with pytest.raises(InvalidInputError, match="X has 59 features"):
        bitkin.distributed.predict(model().fit(X, Y), rows[:, :59])
