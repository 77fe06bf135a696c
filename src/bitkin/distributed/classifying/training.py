"""Fitting a `HeshingClassifier` where the rows are."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from distributed import Client, Future

from bitkin.checks import whole_number
from bitkin.distributed.classifying.learner import LearnerOnShards
from bitkin.distributed.classifying.pieces import PieceSet, open_pieces
from bitkin.distributed.classifying.shards import (
    ShardFacts,
    describe_shard,
    group_pieces,
    join_pieces,
    measure_lengths,
    number_rows,
    split_shard,
    take_rows,
    train_alone,
    try_alphas,
)
from bitkin.distributed.cluster import Progress, gather, taking_back, wait_for
from bitkin.learn.heshing.fitting import FitPlan, plan_fit
from bitkin.learn.heshing.held_out import draw_trial_rows
from bitkin.learn.heshing.heshing_classifier import HeshingClassifier
from bitkin.learn.heshing.mixing import count_passes
from bitkin.learn.heshing.model import HeshingModel
from bitkin.learn.heshing.rows import to_mean_square
from bitkin.learn.heshing.settings import HeshingSettings, check_settings
from bitkin.learn.heshing.training import make_passes
from bitkin.randomness import resolve_seed

ROWS_PER_SHARD = 50_000
"""At least, where the number of shards is not given; see the table in docs/taxonomies.md."""
MOST_SHARDS = 64


def fit_classifier(
    classifier: HeshingClassifier,
    pieces: Sequence[Any],
    client: Client,
    progress: Progress | None = None,
    *,
    n_shards: int | None = None,
    name: str = "X",
) -> HeshingClassifier:
    """Fit a classifier to labelled rows that a cluster holds, and return it.

    The rows are grouped into shards, and every shard learns a pass over its rows from common
    weights, by the very function that learns on one machine; then the weights are mixed, and so on
    (iterative parameter mixing, McDonald, Hall and Mann, 2010; `bitkin.learn.heshing.mixing` has
    the formula). Rows stay where they are between passes, and weights travel: of every pass, 12
    bytes per bucket, level and shard at most (8 without `average`); see `bytes_per_pass`.

    One shard is learned as on one machine, and the model is the same to the last bit. S shards make
    `max_iter` · (1 + log2(S) / 4) passes, since mixed weights settle later, and predict with the
    average over the steps of their last half. The model depends on the rows, their partitions, the
    number of shards and the seed, and never on the workers.

    Parameters
    ----------
    classifier : HeshingClassifier
        Fitted in place. With alpha="auto" the strength is chosen by one worker, on the rows that
        one machine would take, at most 20,000; `progress.choosing_alpha` is not called. Rows for
        early stopping are put aside in every shard.
    pieces : list of delayed or futures
        Each becomes a pair of rows, an array or a CSR matrix, and labels; see `pair_arrays`. Rows
        of one class in few partitions are learned badly: mix them beforehand.
    client : distributed.Client
        Whose workers learn.
    progress : callable, optional
        Called with the rows learned and those to learn in all; by default that of the classifier.
    n_shards : int, optional
        At most; a piece is never cut. By default one per 50,000 rows, and no more than 64,
        whatever the cluster.
    name : str
        What messages call the rows.
    """
    settings = check_settings(classifier)
    if n_shards is not None:
        n_shards = whole_number(n_shards, "n_shards", low=1)
    report = classifier.progress if progress is None else progress
    given = open_pieces(pieces, client, name)
    seed = resolve_seed(classifier.random_state)
    with taking_back(client, given.pieces):
        model = _fit(settings, seed, given, client, report, n_shards)
    return classifier.take_model(model, given.n_features)


def choose_shards(n_rows: int) -> int:
    """Return how many shards rows make where it is not said."""
    return max(1, min(MOST_SHARDS, n_rows // ROWS_PER_SHARD))


def bytes_per_pass(model: HeshingModel, n_shards: int) -> int:
    """Return how many bytes a pass moves between workers, at most: the common weights to every
    shard, and back what it has learned, with the sums of the average.
    """
    if n_shards == 1:
        return 0
    return n_shards * model.weights.nbytes * (3 if model.settings.average else 2)


def _fit(
    settings: HeshingSettings,
    seed: int,
    given: PieceSet,
    client: Client,
    progress: Any,
    n_shards: int | None,
) -> HeshingModel:
    groups = group_pieces(given.counts, n_shards or choose_shards(sum(given.counts)))
    counts = [sum(given.counts[number] for number in group) for group in groups]
    joined = [
        client.submit(join_pieces, [given.pieces[number] for number in group], pure=False)
        for group in groups
    ]
    lengths = gather(client, client.map(measure_lengths, joined, pure=False))
    mean_square = to_mean_square(sum(one for one, _ in lengths), sum(n for _, n in lengths))
    plan = plan_fit(settings, seed, given.labels, mean_square)
    shards = _number_classes(plan, given.labels, joined, client)
    wait_for(client, shards)
    given.pieces[:] = shards  # which have the rows
    joined.clear()
    if settings.alpha is None:
        plan = plan.with_alpha(_choose_alpha(plan, shards, counts, client))
    split = [
        client.submit(
            split_shard, shard, seed, number, early_stopping=settings.early_stopping, pure=False
        )
        for number, shard in enumerate(shards)
    ]
    facts: list[ShardFacts] = gather(
        client,
        client.map(describe_shard, split, [len(plan.class_numbers)] * len(split), pure=False),
    )
    class_counts = np.sum([one.class_counts for one in facts], axis=0)
    if len(split) == 1:
        (result,) = gather(
            client, [client.submit(train_alone, split[0], plan.training, pure=False)]
        )
        if progress is not None:
            n = facts[0].n_learned * plan.training.max_iter
            progress(n, n)
        return plan.model(result, class_counts)
    training = replace(plan.training, max_iter=count_passes(plan.training.max_iter, len(split)))
    learner = LearnerOnShards(client, training, split, facts)
    found = make_passes(learner, training.max_iter, progress)
    (weights,) = gather(client, [found.weights])
    return plan.model(replace(found, weights=weights), class_counts)


def _number_classes(
    plan: FitPlan, labels: list[Hashable], joined: list[Future], client: Client
) -> list[Future]:
    """Return shards, with classes by their places among those met."""
    places = np.searchsorted(plan.class_numbers, plan.taxonomy.class_numbers_of(labels))
    by_label = client.submit(dict, list(zip(labels, places.tolist(), strict=True)), pure=False)
    return [client.submit(number_rows, one, by_label, pure=False) for one in joined]


def _choose_alpha(plan: FitPlan, shards: list[Future], counts: list[int], client: Client) -> float:
    """Return the strength that one machine would choose for these rows, chosen by a worker."""
    order = draw_trial_rows(sum(counts), plan.training.seed)
    stops = np.cumsum(counts)
    wanted = np.split(np.sort(order), np.searchsorted(np.sort(order), stops[:-1]))
    parts = [
        client.submit(take_rows, shard, rows - (stop - count), pure=False)
        for shard, rows, stop, count in zip(shards, wanted, stops.tolist(), counts, strict=True)
    ]
    # the sample holds the rows in their order; `order` is given by the places in it
    places = np.argsort(np.argsort(order))
    (alpha,) = gather(client, [client.submit(try_alphas, parts, places, plan.training, pure=False)])
    return float(alpha)
