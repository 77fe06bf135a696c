"""Passes over shards on workers, and their tables mixed after each: the `PassLearner` of a cluster.

The workers hold rows and tables. Every pass sends the common weights to whoever learns a shard, and
the tables learned to whoever mixes them, eight at a time in the order of the shards: the sums never
depend on which worker does what, so a lost worker changes nothing. The client sees numbers only,
and the weights at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from distributed import Client, Future

from bitkin.distributed.classifying.shards import (
    ShardFacts,
    add_shards,
    compare_shards,
    count_errors,
    learn_shard,
)
from bitkin.distributed.cluster import FAN_IN, gather, merge_levels, wait_for
from bitkin.learn.heshing.mixing import (
    LearnedPart,
    add_average,
    finish_mixed,
    first_averaged,
    mix_weights,
)
from bitkin.learn.heshing.sgd import TrainingPlan
from bitkin.learn.heshing.training import Report


class LearnerOnShards:
    """Rows of several shards, each learned from the common weights, which are mixed after every
    pass.
    """

    def __init__(
        self,
        client: Client,
        plan: TrainingPlan,
        shards: Sequence[Future],
        facts: Sequence[ShardFacts],
    ) -> None:
        self.n_rows = sum(one.n_learned for one in facts)
        self._n_held_out = sum(one.n_held_out for one in facts)
        self.holds_out = self._n_held_out > 0
        self._client = client
        self._averages_from = first_averaged(plan.max_iter)
        self._shards = list(shards)
        self._counts = [one.n_learned for one in facts]
        self._plan = client.submit(hold, plan, pure=False)
        self._common = client.submit(zero_weights, self._plan, pure=False)
        self._average: Future | None = None

    def learn_pass(self, iteration: int, report: Report | None) -> float:
        """Learn every shard once more, in orders of their own, and mix; return the sum of the
        losses.
        """
        client = self._client
        learned = [
            client.submit(
                learn_shard, shard, self._common, self._plan, iteration, number, pure=False
            )
            for number, shard in enumerate(self._shards)
        ]
        total = self._add(learned, iteration)
        kept = None if iteration <= self._averages_from else self._average
        self._average = client.submit(add_average, kept, self._common, total, pure=False)
        self._common = client.submit(mix_weights, self._common, total, pure=False)

        def count_rows(done: int, of: int) -> None:
            if report is not None:
                report(self.n_rows * done // of)  # shards are of about equally many rows

        wait_for(client, learned, count_rows)
        wait_for(client, [self._common, self._average])
        (loss,) = gather(client, [client.submit(loss_of_pass, total, pure=False)])
        return float(loss)

    def finish(self) -> Future:
        """Return the weights to predict with now, where they are."""
        return self._client.submit(finish_mixed, self._common, self._average, pure=False)

    def error(self, weights: Future) -> float:
        """Return the share of all held-out rows that are put into a wrong class."""
        client = self._client
        wrong = gather(
            client,
            [
                client.submit(count_errors, shard, weights, self._plan, pure=False)
                for shard in self._shards
            ],
        )
        return float(sum(wrong) / max(1, self._n_held_out))

    def _add(self, learned: Sequence[Future], iteration: int) -> Future:
        """Return what all shards have learned together."""
        client = self._client
        parts = [
            client.submit(
                compare_shards,
                list(learned[first : first + FAN_IN]),
                self._common,
                self._plan,
                iteration,
                self._counts[first : first + FAN_IN],
                pure=False,
            )
            for first in range(0, len(learned), FAN_IN)
        ]
        return merge_levels(parts, lambda some: client.submit(add_shards, some, pure=False))[0]


def hold(plan: TrainingPlan) -> TrainingPlan:
    """Return the plan: as the result of a task it is sent to a worker once, and made again where it
    was lost.
    """
    return plan


def zero_weights(plan: TrainingPlan) -> npt.NDArray[np.float32]:
    """Return the common weights to begin with."""
    return np.zeros((int(plan.tree.levels[-1]) + 1, plan.n_buckets), dtype=np.float32)


def loss_of_pass(total: LearnedPart) -> float:
    """Return the sum of the losses of a pass."""
    return total.loss
