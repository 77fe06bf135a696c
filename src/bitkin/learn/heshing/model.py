"""What a HeshingClassifier has learned, and how it learns more, row after row."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import HeshingTables, OnlineTables, Tree
from bitkin.learn.heshing.class_labels import find_classes, sort_labels
from bitkin.learn.heshing.held_out import USUAL_ALPHA
from bitkin.learn.heshing.online import (
    copy_online,
    deepen_online,
    finish_online,
    learn_online,
    mean_of,
    mean_square_of,
    rows_met,
    start_online,
)
from bitkin.learn.heshing.rows import TrainingRows, is_usable
from bitkin.learn.heshing.scoring import ClassScorer, SpreadWeights
from bitkin.learn.heshing.settings import HeshingSettings
from bitkin.learn.heshing.sgd import (
    LabelledRows,
    LearningMethod,
    TrainingPlan,
    copy_tables,
    deepen_tables,
    finish_weights,
    learn_rows,
    start_tables,
    steps_of,
)
from bitkin.learn.heshing.tree import build_tree
from bitkin.learn.taxonomy.building import name_root
from bitkin.learn.taxonomy.growing import grow
from bitkin.learn.taxonomy.labels import plain_paths
from bitkin.learn.taxonomy.taxonomy import Taxonomy


@dataclass
class HeshingModel:
    """A model at one moment; learning makes another and never writes to it.

    Tables exist between calls of `partial_fit` only; all else needs just the weights, and the mean
    of rows that are centred. A model that `partial_fit` began learns online; one that `fit` began,
    or `partial_fit` before there was online learning, continues with steps of `sgd`.
    """

    settings: HeshingSettings
    seed: int
    taxonomy: Taxonomy
    class_numbers: npt.NDArray[np.int64]
    """Classes that may be predicted, by their numbers in the taxonomy, ascending."""
    class_counts: npt.NDArray[np.int64]
    method: LearningMethod
    tree: Tree
    steps: int
    losses: list[float] = field(default_factory=list)
    tables: HeshingTables | OnlineTables | None = None
    finished: npt.NDArray[np.float32] | None = None
    spread: SpreadWeights | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be made again."""
        return {**self.__dict__, "spread": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled, read-only as before: for arrays that can be written kernels
        would be compiled again.
        """
        self.__dict__.update(state)
        self.spread = None
        self.tree = Tree._make(read_only(array) for array in self.tree)
        self.finished = None if self.finished is None else read_only(self.finished)

    @property
    def weights(self) -> npt.NDArray[np.float32]:
        """The weights to predict with, read-only; made when they are first needed."""
        weights = self.finished
        if weights is None:
            if self.tables is None:
                raise RuntimeError("a model has weights, or tables to make them of")
            if isinstance(self.tables, OnlineTables):
                weights = read_only(finish_online(self.tables))
            else:
                weights = read_only(finish_weights(self.tables))
            self.finished = weights
        return weights

    @property
    def n_buckets(self) -> int:
        """Weights of a level."""
        return int((self.weights if self.tables is None else self.tables.weights).shape[1])

    @property
    def labels(self) -> list[Hashable]:
        """The classes that may be predicted."""
        return [self.taxonomy.classes[number] for number in self.class_numbers.tolist()]

    @property
    def beam(self) -> int | None:
        """How many nodes of a level to continue with; None for all."""
        return self.settings.beam_for(self.tree)

    @property
    def mean(self) -> npt.NDArray[np.float32] | None:
        """What is subtracted from every row; None for nothing."""
        return mean_of(self.tables) if isinstance(self.tables, OnlineTables) else None

    def scorer(self, n_features: int) -> ClassScorer:
        """Return what predicts rows of so many features."""
        spread = self.spread
        if spread is None:
            spread = SpreadWeights(n_features)
            self.spread = spread
        return ClassScorer(self.tree, self.weights, self.method.intercept, spread)

    def log_prior(self) -> npt.NDArray[np.float32]:
        """Return the logarithms of the shares of the classes, each counted once more than it
        came: log((n_c + 1) / Σ (n + 1)).
        """
        counts = self.class_counts + 1.0
        prior: npt.NDArray[np.float32] = np.log(counts / counts.sum()).astype(np.float32)
        return prior


def first_taxonomy(labels: Sequence[Hashable], paths: Any) -> Taxonomy:
    """Return the tree to begin with where none was given: labels below one root, those of `paths`
    where these lead.
    """
    given_paths = [] if paths is None else plain_paths(paths)
    ends = {path[-1] for path in given_paths}
    others = [(label,) for label in sort_labels(labels) if label not in ends]
    root = name_root(label for (label,) in others)
    below = [path[1:] if path[0] == root else path for path in given_paths]
    return Taxonomy(grow(root, [*others, *below]))


def start_model(
    settings: HeshingSettings, seed: int, taxonomy: Taxonomy, rows: TrainingRows
) -> HeshingModel:
    """Return a model that has learned nothing and knows no class yet."""
    no_class = np.empty(0, dtype=np.int64)
    # the root has no table: its part of a score is the same for every class
    shape = (taxonomy.n_levels - 1, settings.buckets_for(taxonomy))
    return HeshingModel(
        settings=settings,
        seed=seed,
        taxonomy=taxonomy,
        class_numbers=no_class,
        class_counts=no_class,
        method=first_method(settings, rows.mean_square),
        tree=build_tree(taxonomy, no_class, seed),
        steps=0,
        tables=start_online(shape, rows.batch, average=settings.average),
    )


def continue_model(
    model: HeshingModel,
    rows: TrainingRows,
    labels: Sequence[Hashable],
    classes: Sequence[Hashable],
    paths: Any = None,
) -> HeshingModel:
    """Return the model after learning rows once, in order; `classes` and those of `paths` may be
    new.
    """
    taxonomy = _extend_taxonomy(model, classes, paths)
    hint = (
        "Give the path of a new class in paths."
        if model.settings.taxonomy is not None
        else "List new classes in classes."
    )
    named = find_classes(taxonomy, [*labels, *classes], hint)
    # Classes keep their order by number, so a new one may come between old ones; what was counted
    # moves along.
    known = np.union1d(model.class_numbers, named).astype(np.int64)
    counts = np.zeros(len(known), dtype=np.int64)
    counts[np.searchsorted(known, model.class_numbers)] = model.class_counts
    # The number of buckets is fixed by now, since all hashes depend on it: a deeper tree takes more
    # memory.
    model.settings.require_room(taxonomy.n_levels, model.n_buckets)
    has_new_classes = len(known) > len(model.class_numbers)
    tables = _continue_tables(model, taxonomy.n_levels - 1, has_new_classes)
    tree = model.tree
    if has_new_classes or taxonomy is not model.taxonomy:
        tree = build_tree(taxonomy, known, model.seed)
    plan = TrainingPlan(
        tree=tree,
        n_buckets=model.n_buckets,
        method=model.method,
        beam=model.settings.beam_for(tree),
        max_iter=1,
        seed=model.seed,
    )
    places = np.searchsorted(known, named[: len(labels)]).astype(np.int32)
    data = LabelledRows(rows.batch, places)
    method = model.method
    if isinstance(tables, OnlineTables):
        own_alpha = model.settings.alpha is not None
        learn_online(tables, plan, data, own_alpha=own_alpha)
        mean_square = mean_square_of(tables)
        if mean_square is not None and is_usable(mean_square):
            if not own_alpha:
                method = replace(method, alpha=USUAL_ALPHA * mean_square, mean_square=mean_square)
            if method.intercept:
                # that of all rows so far, as learned: the first part alone may know little
                method = replace(method, intercept=math.sqrt(mean_square))
        steps = rows_met(tables)
    else:
        learn_rows(tables, plan, data, np.arange(len(places)))
        steps = steps_of(tables)
    return replace(
        model,
        taxonomy=taxonomy,
        class_numbers=known,
        class_counts=counts + np.bincount(places, minlength=len(known)),
        method=method,
        tree=tree,
        steps=steps,
        tables=tables,
        finished=None,
        spread=None,
    )


def _continue_tables(
    model: HeshingModel, n_levels: int, has_new_classes: bool
) -> HeshingTables | OnlineTables:
    """Return tables to continue with, which no other model has."""
    if isinstance(model.tables, OnlineTables):
        return deepen_online(copy_online(model.tables), n_levels)
    if model.tables is None or has_new_classes:
        # Weights from before a class was known would hold it down in an average. So that starts
        # again, from the old average.
        weights = model.weights.copy()
        tables = start_tables(weights, steps=model.steps, average=model.method.average)
    else:
        tables = copy_tables(model.tables)
    return deepen_tables(tables, n_levels)


def _extend_taxonomy(model: HeshingModel, classes: Sequence[Hashable], paths: Any) -> Taxonomy:
    """Return the tree of a model with the classes of `paths`, and where the model made its own
    tree, with unknown `classes` below the root.
    """
    taxonomy = model.taxonomy if paths is None else model.taxonomy.with_paths(paths)
    if model.settings.taxonomy is not None:
        return taxonomy
    unknown = [
        (taxonomy.root_label, label) for label in sort_labels(classes) if label not in taxonomy
    ]
    return taxonomy.with_paths(unknown) if unknown else taxonomy


def first_method(settings: HeshingSettings, mean_square: float) -> LearningMethod:
    """Return how to learn rows of this mean squared length, before `alpha` is chosen by trial."""
    return LearningMethod(
        softmax=settings.softmax,
        average=settings.average,
        # The loss is a function of ⟨w, x⟩: rows λ times as long need weights 1/λ times as large,
        # and so λ² times the strength in the penalty α‖w‖²/2.
        alpha=USUAL_ALPHA * mean_square if settings.alpha is None else settings.alpha,
        mean_square=mean_square,
        # As large as a usual row is long, so that it is learned as fast as the features.
        intercept=math.sqrt(mean_square) if settings.fit_intercept else 0.0,
    )
