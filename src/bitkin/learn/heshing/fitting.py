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
from bitkin.learn.heshing.training import (
    AlphaProgress,
    LearnerHere,
    Progress,
    TrainingResult,
    make_passes,
)
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
            class_counts=class_counts.astype(np.int64),
            method=self.training.method,
            tree=self.training.tree,
            steps=result.steps,
            losses=result.losses,
            finished=read_only(result.weights),
        )


def plan_fit(
    settings: HeshingSettings, seed: int, different: Sequence[Hashable], mean_square: float
) -> FitPlan:
    """Return the plan for rows of these different labels, sorted, of this mean squared length."""
    if len(different) < 2:
        raise InvalidInputError(
            f"y must hold at least two classes, got one class, {different[0]!r}, in all rows."
        )
    taxonomy = settings.taxonomy
    if taxonomy is None:
        taxonomy = Taxonomy.from_classes(different)
    hint = "Add them by taxonomy.with_paths."
    class_numbers = np.sort(find_classes(taxonomy, different, hint))
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


def fit_model(
    settings: HeshingSettings,
    seed: int,
    rows: TrainingRows,
    labels: Sequence[Hashable],
    progress: Progress | None,
) -> HeshingModel:
    """Return a model of these rows."""
    plan = plan_fit(settings, seed, sort_labels(labels), rows.mean_square)
    # Classes are numbered by their place among those met: the taxonomy may have many more.
    places = np.searchsorted(plan.class_numbers, plan.taxonomy.class_numbers_of(labels))
    data = LabelledRows(rows.batch, places.astype(np.int32))
    if settings.alpha is None:
        # The trials learn other weights than the model will; only the strength is taken from them.
        plan = plan.with_alpha(choose_alpha(plan.training, data, _alpha_progress(progress)))
    # Rows held out for early stopping are learned from by no pass, and not counted in the prior.
    learned, held_out = data, None
    if settings.early_stopping:
        learned, put_aside = split_rows(data, HELD_OUT_SHARE, seed, "early stopping")
        held_out = put_aside if len(put_aside) else None
    learner = LearnerHere(plan.training, learned, held_out)
    result = make_passes(learner, plan.training.max_iter, progress)
    return plan.model(result, np.bincount(learned.classes, minlength=len(plan.class_numbers)))


def _alpha_progress(progress: Progress | None) -> AlphaProgress | None:
    """Return what to call while alpha is searched: the method `choosing_alpha` of `progress`, where
    it has one.
    """
    method: AlphaProgress | None = getattr(progress, "choosing_alpha", None)
    if method is not None and not callable(method):
        raise InvalidInputError(f"progress.choosing_alpha must be a method, got {method!r}.")
    return method
