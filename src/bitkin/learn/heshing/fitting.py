"""What `fit` does: a plan, made of the labels and the lengths of the rows, and a model, when passes
over the rows are over.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bitkin.errors import InvalidInputError
from bitkin.kernels.blocks import read_only
from bitkin.learn.heshing.class_labels import find_classes, sort_labels
from bitkin.learn.heshing.held_out import HELD_OUT_SHARE, choose_alpha, split_rows
from bitkin.learn.heshing.model import HeshingModel, first_method
from bitkin.learn.heshing.rows import TrainingRows
from bitkin.learn.heshing.settings import HeshingSettings
from bitkin.learn.heshing.sgd import LabelledRows, TrainingPlan
from bitkin.learn.heshing.training import AlphaProgress, Progress, TrainingResult, train
from bitkin.learn.heshing.tree import build_tree
from bitkin.learn.taxonomy.taxonomy import Taxonomy


@dataclass(frozen=True)
class FitPlan:
    """What `fit` will do, known once the labels and the lengths of the rows are."""

    settings: HeshingSettings
    taxonomy: Taxonomy
    class_numbers: npt.NDArray[np.int64]
    """As in a `HeshingModel`."""
    training: TrainingPlan

    def with_alpha(self, alpha: float) -> FitPlan:
        """Return the plan with this strength."""
        method = replace(self.training.method, alpha=alpha)
        return replace(self, training=replace(self.training, method=method))

    def model(
        self,
        result: TrainingResult[npt.NDArray[np.float32]],
        class_counts: npt.NDArray[np.int64],
    ) -> HeshingModel:
        """Return the model that training has come to; rows of each class are counted."""
        return HeshingModel(
            settings=self.settings,
            seed=self.training.seed,
            taxonomy=self.taxonomy,
            class_numbers=self.class_numbers,
            class_counts=class_counts,
            method=self.training.method,
            tree=self.training.tree,
            steps=result.steps,
            losses=result.losses,
            finished=read_only(result.weights),
        )


def plan_fit(
    settings: HeshingSettings,
    seed: int,
    taxonomy: Taxonomy,
    different: Sequence[Hashable],
    mean_square: float,
) -> FitPlan:
    """Return the plan for rows of these different labels, of this mean squared length."""
    class_numbers = number_classes(taxonomy, different)
    tree = build_tree(taxonomy, class_numbers, seed)
    training = TrainingPlan(
        tree=tree,
        n_buckets=settings.buckets_for(taxonomy),
        method=first_method(settings, mean_square),
        beam=settings.beam_for(tree),
        max_iter=settings.max_iter,
        seed=seed,
    )
    return FitPlan(settings, taxonomy, class_numbers, training)


def taxonomy_to_fit(settings: HeshingSettings, different: Sequence[Hashable]) -> Taxonomy:
    """Return the tree given, or one of all labels, sorted; there must be two."""
    if len(different) < 2:
        raise InvalidInputError(
            f"y must hold at least two classes, got one class, {different[0]!r}, in all rows."
        )
    return Taxonomy.from_classes(different) if settings.taxonomy is None else settings.taxonomy


def number_classes(taxonomy: Taxonomy, different: Sequence[Hashable]) -> npt.NDArray[np.int64]:
    """Return the numbers of the classes met, ascending; raise for labels that are none."""
    return np.sort(find_classes(taxonomy, different, "Add them by taxonomy.with_paths."))


def place_classes(
    taxonomy: Taxonomy, class_numbers: npt.NDArray[np.int64], labels: Sequence[Hashable]
) -> npt.NDArray[np.int32]:
    """Return the places of labels among the classes met: the taxonomy may have many more."""
    return np.searchsorted(class_numbers, taxonomy.class_numbers_of(labels)).astype(np.int32)


def count_classes(data: LabelledRows, n_classes: int) -> npt.NDArray[np.int64]:
    """Return how many rows each class has."""
    return np.bincount(data.classes, minlength=n_classes).astype(np.int64)


def fit_model(
    settings: HeshingSettings,
    seed: int,
    rows: TrainingRows,
    labels: Sequence[Hashable],
    progress: Progress | None,
) -> HeshingModel:
    """Return a model of these rows."""
    different = sort_labels(labels)
    taxonomy = taxonomy_to_fit(settings, different)
    plan = plan_fit(settings, seed, taxonomy, different, rows.mean_square)
    data = LabelledRows(rows.batch, place_classes(taxonomy, plan.class_numbers, labels))
    if settings.alpha is None:
        # The trials learn other weights than the model will; only the strength is taken from them.
        plan = plan.with_alpha(choose_alpha(plan.training, data, _alpha_progress(progress)))
    # Rows held out for early stopping are learned from by no pass, and not counted in the prior.
    learned, held_out = data, None
    if settings.early_stopping:
        learned, put_aside = split_rows(data, HELD_OUT_SHARE, seed, "early stopping")
        held_out = put_aside if len(put_aside) else None
    result = train(plan.training, learned, held_out, progress)
    return plan.model(result, count_classes(learned, len(plan.class_numbers)))


def _alpha_progress(progress: Progress | None) -> AlphaProgress | None:
    """Return what to call while alpha is searched: the method `choosing_alpha` of `progress`, where
    it has one.
    """
    method: AlphaProgress | None = getattr(progress, "choosing_alpha", None)
    if method is not None and not callable(method):
        raise InvalidInputError(f"progress.choosing_alpha must be a method, got {method!r}.")
    return method
