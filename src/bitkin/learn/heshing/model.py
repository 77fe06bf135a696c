"""What a HeshingClassifier has learned, and how it learns: `fitted` starts afresh, `continued` goes
on.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.errors import InvalidInputError
from bitkin.kernels.blocks import read_only
from bitkin.kernels.heshing import Tables, Tree
from bitkin.learn.heshing.alpha import USUAL_ALPHA, choose_alpha
from bitkin.learn.heshing.class_labels import in_order, require_classes
from bitkin.learn.heshing.held_out import split_rows
from bitkin.learn.heshing.progress import Progress, choosing_of
from bitkin.learn.heshing.scoring import Scorer
from bitkin.learn.heshing.searched_tree import searched_tree
from bitkin.learn.heshing.settings import Settings
from bitkin.learn.heshing.sgd import Labelled, Method, learn_in_order, train
from bitkin.learn.heshing.tables import (
    copied,
    deepened,
    finished_weights,
    new_tables,
    resumed_tables,
    steps_of,
)
from bitkin.learn.heshing.training_rows import TrainingRows
from bitkin.learn.taxonomy.building import new_root
from bitkin.learn.taxonomy.growing import grow
from bitkin.learn.taxonomy.labels import plain_paths
from bitkin.learn.taxonomy.taxonomy import Taxonomy

_HELD_OUT = 0.1  # of the rows, for early stopping


@dataclass
class Model:
    """A model at one moment; learning makes another and never writes to it.

    Tables exist between calls of `partial_fit` only; all else needs just the weights.
    """

    settings: Settings
    seed: int
    taxonomy: Taxonomy
    class_numbers: npt.NDArray[np.int64]
    """Classes that may be predicted, by their numbers in the taxonomy, ascending."""
    class_counts: npt.NDArray[np.int64]
    method: Method
    tree: Tree
    steps: int
    losses: list[float] = field(default_factory=list)
    tables: Tables | None = None
    finished: npt.NDArray[np.float32] | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be what was pickled, read-only as before: for arrays that can be written kernels would be
        compiled again.
        """
        self.__dict__.update(state)
        self.tree = Tree._make(read_only(array) for array in self.tree)
        self.finished = None if self.finished is None else read_only(self.finished)

    @property
    def weights(self) -> npt.NDArray[np.float32]:
        """The weights to predict with, read-only; made when they are first wanted."""
        weights = self.finished
        if weights is None:
            if self.tables is None:
                raise RuntimeError("a model has weights, or tables to make them of")
            weights = read_only(finished_weights(self.tables))
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
        """How many nodes of a level to go on with; None for all."""
        return self.settings.beam_for(self.tree)

    def scorer(self) -> Scorer:
        """Return what predicts."""
        factor = 1.0 / math.sqrt(self.taxonomy.n_levels)
        return Scorer(self.tree, self.weights, factor, self.method.intercept)

    def log_prior(self) -> npt.NDArray[np.float32]:
        """Return the logarithms of the shares of the classes, each counted once more than it
        came.
        """
        counts = self.class_counts + 1.0
        prior: npt.NDArray[np.float32] = np.log(counts / counts.sum()).astype(np.float32)
        return prior


def fitted(
    settings: Settings,
    seed: int,
    rows: TrainingRows,
    labels: Sequence[Hashable],
    progress: Progress | None,
) -> Model:
    """Return a model of these rows."""
    different = in_order(labels)
    if len(different) < 2:
        raise InvalidInputError(
            f"y must hold at least two classes, got one class, {different[0]!r}, in all rows."
        )
    taxonomy = settings.taxonomy or Taxonomy.from_classes(different)
    require_classes(taxonomy, different, "Add them by taxonomy.with_paths.")
    class_numbers = np.sort(taxonomy.index_of(different))
    tree = searched_tree(taxonomy, class_numbers, seed)
    data = Labelled(rows.batch, _places(taxonomy, class_numbers, labels))
    method = first_method(settings, rows)
    n_buckets = settings.buckets_for(taxonomy)
    beam = settings.beam_for(tree)
    common: dict[str, Any] = {"max_iter": settings.max_iter, "beam": beam, "seed": seed}
    if settings.alpha is None:
        chosen = choose_alpha(
            data, tree, n_buckets, method, choosing=choosing_of(progress), **common
        )
        method = replace(method, alpha=chosen)
    learned, held_out = data, None
    if settings.early_stopping:
        learned, put_aside = split_rows(data, _HELD_OUT, seed, "early stopping")
        held_out = put_aside if len(put_aside) else None
    trained = train(
        learned, tree, n_buckets, method, held_out=held_out, progress=progress, **common
    )
    counts = np.bincount(learned.classes, minlength=len(class_numbers)).astype(np.int64)
    weights = read_only(trained.weights)
    return Model(
        settings,
        seed,
        taxonomy,
        class_numbers,
        counts,
        method,
        tree,
        trained.steps,
        trained.losses,
        finished=weights,
    )


def first_taxonomy(labels: Sequence[Hashable], paths: Any) -> Taxonomy:
    """Return the tree to begin with where none was given: labels below one root, those of `paths`
    where these lead.
    """
    placed = [] if paths is None else plain_paths(paths)
    ends = {path[-1] for path in placed}
    others = [(label,) for label in in_order(labels) if label not in ends]
    root = new_root(label for (label,) in others)
    return Taxonomy(
        grow(root, [*others, *(path[1:] if path[0] == root else path for path in placed)])
    )


def started(settings: Settings, seed: int, taxonomy: Taxonomy, rows: TrainingRows) -> Model:
    """Return a model that has learned nothing and knows no class yet."""
    nobody = np.empty(0, dtype=np.int64)
    tables = new_tables(
        taxonomy.n_levels - 1, settings.buckets_for(taxonomy), average=settings.average
    )
    tree = searched_tree(taxonomy, nobody, seed)
    return Model(
        settings, seed, taxonomy, nobody, nobody, first_method(settings, rows), tree, 0, [], tables
    )


def continued(
    model: Model,
    rows: TrainingRows,
    labels: Sequence[Hashable],
    classes: Sequence[Hashable],
    paths: Any = None,
) -> Model:
    """Return the model after learning rows once, in order; `classes` and those of `paths` may be
    new.
    """
    taxonomy = model.taxonomy if paths is None else model.taxonomy.with_paths(paths)
    if model.settings.taxonomy is None:
        unknown = [
            (taxonomy.root_label, label) for label in in_order(classes) if label not in taxonomy
        ]
        taxonomy = taxonomy.with_paths(unknown) if unknown else taxonomy
    hint = (
        "Give the path of a new class in paths."
        if model.settings.taxonomy
        else "List new classes in classes."
    )
    require_classes(taxonomy, [*labels, *classes], hint)
    known = np.union1d(model.class_numbers, taxonomy.index_of([*labels, *classes])).astype(np.int64)
    counts = np.zeros(len(known), dtype=np.int64)
    counts[np.searchsorted(known, model.class_numbers)] = model.class_counts
    model.settings.require_room(taxonomy.n_levels, model.n_buckets)
    if model.tables is None or len(known) > len(model.class_numbers):
        # Weights from before a class was known would hold it down in an average, which starts anew,
        # from the old one.
        tables = resumed_tables(model.weights.copy(), model.steps, average=model.method.average)
    else:
        tables = copied(model.tables)
    tables = deepened(tables, taxonomy.n_levels - 1)
    tree = model.tree
    if len(known) > len(model.class_numbers) or taxonomy is not model.taxonomy:
        tree = searched_tree(taxonomy, known, model.seed)
    data = Labelled(rows.batch, _places(taxonomy, known, labels))
    learn_in_order(
        tables, tree, model.method, data, np.arange(len(data)), model.settings.beam_for(tree)
    )
    return replace(
        model,
        taxonomy=taxonomy,
        class_numbers=known,
        class_counts=counts + np.bincount(data.classes, minlength=len(known)),
        tree=tree,
        steps=steps_of(tables),
        tables=tables,
        finished=None,
    )


def first_method(settings: Settings, rows: TrainingRows) -> Method:
    """Return how to learn rows like these, before `alpha` is chosen by trial."""
    return Method(
        softmax=settings.softmax,
        average=settings.average,
        alpha=USUAL_ALPHA * rows.mean_square if settings.alpha is None else settings.alpha,
        mean_square=rows.mean_square,
        intercept=math.sqrt(rows.mean_square) if settings.fit_intercept else 0.0,
    )


def _places(
    taxonomy: Taxonomy, class_numbers: npt.NDArray[np.int64], labels: Sequence[Hashable]
) -> npt.NDArray[np.int32]:
    """Return for each label its place among the classes of a model."""
    return np.searchsorted(class_numbers, taxonomy.index_of(labels)).astype(np.int32)
