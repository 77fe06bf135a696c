"""HeshingClassifier: one small table of hashed weights per level classifies into a whole
taxonomy.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError
from bitkin.estimators.available import unless
from bitkin.estimators.feature_names import restore_names
from bitkin.estimators.vector_input import VectorInput
from bitkin.io.vectors import VectorSource
from bitkin.kernels.heshing import HeshingRows
from bitkin.learn.heshing.class_labels import check_row_labels, to_label_array, to_object_array
from bitkin.learn.heshing.fitting import fit_model
from bitkin.learn.heshing.model import (
    HeshingModel,
    continue_model,
    first_taxonomy,
    start_model,
)
from bitkin.learn.heshing.rows import (
    TrainingRows,
    center_rows,
    gather_rows,
    measure_rows,
    refuse_texts,
    to_kernel_rows,
)
from bitkin.learn.heshing.settings import check_margin, check_settings
from bitkin.learn.heshing.training import Progress
from bitkin.learn.heshing.tree import sure_depth
from bitkin.learn.metrics import flat_error
from bitkin.learn.taxonomy.labels import plain_labels
from bitkin.learn.taxonomy.taxonomy import Taxonomy
from bitkin.randomness import resolve_seed

if TYPE_CHECKING:
    from bitkin.io.reader import StoredFile


_Best: TypeAlias = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.bool_]]


class TopClasses(NamedTuple):
    """The best classes of rows, best first."""

    labels: npt.NDArray[Any]
    """(n, k)"""
    scores: npt.NDArray[np.float32]
    """(n, k); of an empty row, logarithms of the prior."""
    empty: npt.NDArray[np.bool_]
    """(n,): rows without a feature, answered by the prior."""


def _why_no_probabilities(classifier: HeshingClassifier) -> str | None:
    learned: HeshingModel | None = getattr(classifier, "_model", None)
    softmax = classifier.loss == "softmax" if learned is None else learned.method.softmax
    return (
        None
        if softmax
        else "scores learned by loss='hinge' are no probabilities. Fit with loss='softmax'."
    )


class HeshingClassifier(ClassifierMixin, VectorInput):  # type: ignore[misc]
    """Classify into a taxonomy by hashed weights: `n_buckets` numbers per level, however many
    classes and features.

    Every node of the tree hashes a row in its own way into the table of its level, and the score of
    a class is the sum over its path. Classes share what their common ancestors learn; mistakes stay
    near the truth.

    Parameters
    ----------
    taxonomy : Taxonomy, optional
        The tree above the classes. Without one, classes hang below one root.
    n_buckets : int, default 2**18
        Weights of a level, the paper's m; up to 2**31, any number.
    max_bytes : int, optional
        Memory of `weights_`, which then decides `n_buckets`. A class that would make the tree so
        deep that they no longer fit is an error of `partial_fit`.
    loss : "hinge" or "softmax", default "hinge"
        Crammer–Singer's multi-class hinge, or cross entropy, which has `predict_proba` and learns
        more slowly.
    alpha : float or "auto", default "auto"
        Strength of the L2 penalty. "auto" tries a few on a held-out part of the rows, then learns
        all of them; in `partial_fit` it is 1e-4 times the mean squared length of the rows so far,
        and the start is as precise as the penalty of 30 rows would make it.
    max_iter : int, default 10
        Passes of `fit` over the rows.
    average : bool, default True
        Predict with the mean of the weights after every step, and not with the last ones; in
        `partial_fit` over about the last fifth of the rows, at most 2,000.
    fit_intercept : bool, default False
        Give every row a constant feature. For rows that are not centred; bags of words need none.
    beam : int, "auto" or None, default "auto"
        Learn and predict below this many of the best nodes of a level only. None scores every node.
        "auto" does for up to 256 nodes and with "softmax", whose probabilities are shares of all
        classes, and takes 8 beyond; `beam_gap` tells how often its answer is another.
    min_margin : float, optional
        Predict an inner node where the leaf is not sure: the lowest one on the best path that leads
        every class outside it by this much, for which every node is scored, whatever the beam.
    early_stopping : bool, default False
        Stop when the error on a tenth of the rows of every class, which are not learned, has not
        fallen for two passes, and keep the weights of the pass where it was least.
    progress : callable, optional
        Called as `progress(rows_learned, rows_in_all)` while `fit` makes its passes. Where it also
        has a method `choosing_alpha`, that is called as `choosing_alpha(trial, rows_learned,
        rows_of_the_trial)` while "auto" tries one strength after another; trials count from 1, and
        there are at most 8.
    random_state : int or None, default 0
        The seed of hashes and orders; None takes a fresh one, kept as `seed_` and in files.

    Attributes
    ----------
    classes_ : array
        The labels met, those of a taxonomy in its order, else sorted, unlike kinds one after
        another; classes added later come last. Columns of scores are in this order.
    class_counts_ : int64 (n_classes,)
        Rows learned of each, those held out for early stopping left out.
    taxonomy_ : Taxonomy
    weights_ : float32 (n_levels − 1, n_buckets)
        One table per level below the root, which is common to all classes. So the T of
        `theory.expected_feature_loss` is `n_levels` − 1 here: a feature is lost where it meets
        others in every table.
    feature_means_ : float32 (n_features_in_,) or None
        The means of the rows met, which are subtracted from rows before they are hashed; see the
        notes on `partial_fit`. None where nothing is, as after `fit`.
    alpha_ : float
    n_iter_ : int
        Passes made by `fit`; 0 after `partial_fit` alone.
    losses_ : list of float
        Mean loss of each pass of `fit`.
    seed_ : int
    n_features_in_ : int

    Notes
    -----
    A row without a feature says nothing: it is answered by the prior, the share of each class among
    the rows learned, and `predict_top` and `empty_rows` tell which they are. Its scores are the
    logarithms of the prior, and those are what `min_margin` compares.

    Learning is one row after another in one thread, so that one seed is one model; predicting uses
    all threads.

    `partial_fit` learns rows in the order given, once, by steps that shrink for each weight with
    what is known of it, so it needs neither scaled features nor many passes; how rows come in parts
    changes nothing, whatever the sizes. With "hinge" it learns by log Σ exp(s_c + [c ≠ y]) − s_y, a
    smooth bound of that hinge. Where the first row fills an eighth or more of at most 4,096
    columns, rows are centred by the mean of those so far (`feature_means_`). Rows sorted by class
    are learned less well than mixed ones: shuffle them where you can, and name all `classes` in the
    first call. Where `fit` began the model, `partial_fit` continues with the steps of `fit`, and
    its average starts again with every new class, from the weights averaged before.

    Between calls of `partial_fit` a model holds 12 bytes per bucket and level to learn with, 4 of
    them only with `average`, beside the 4 of `weights_`. It learns on a copy of the tables, and the
    first prediction after it makes the average: both cost as much as several passes over
    `weights_`, so give it some hundred rows at a time where speed counts.

    Of narrow data, up to 16 MB for all features in all nodes of the tree, the first larger
    prediction spreads the hashed weights over features once, and those after it hash nothing. The
    scores are the same to the last bit; neither files nor pickles hold these weights.

    `fit` ends above the optimum of its problem: at 300 rows, 5 classes and alpha 1e-3 ten passes
    come to 0.383, fifty to 0.344, and the least is 0.314. An average that begins with the second
    pass comes to 0.375, and one from the sixth to 0.365, but on test rows of six sets neither is
    better than the whole.

    Parameters set after `fit` count from the next `fit`. `partial_fit` accepts changes of `beam`,
    `min_margin`, `max_iter` and `early_stopping`, and refuses all others, since its weights depend
    on them.

    References
    ----------
    Zhao and Xing, Hierarchical feature hashing for fast dimensionality reduction, CVPR 2014.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> rng = np.random.default_rng(0)
    >>> kinds = rng.integers(0, 3, 300)
    >>> X = rng.poisson(0.2, (300, 40)) + 2 * (np.arange(40) % 3 == kinds[:, None])
    >>> y = np.array(["plant.lily", "plant.rose", "animal.cat"])[kinds]
    >>> tree = bitkin.Taxonomy.from_labels(y)
    >>> model = bitkin.HeshingClassifier(tree, n_buckets=2**10).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.95, model.weights_.nbytes
    (True, 8192)
    >>> model.predict_path(X[200:201]).tolist() == [tree.path_of(y[200])]
    True
    """

    classes_: npt.NDArray[Any]
    class_counts_: npt.NDArray[np.int64]
    taxonomy_: Taxonomy
    alpha_: float
    n_iter_: int
    losses_: list[float]
    seed_: int
    _model: HeshingModel

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        n_buckets: int = 2**18,
        max_bytes: int | None = None,
        loss: str = "hinge",
        alpha: float | str = "auto",
        max_iter: int = 10,
        average: bool = True,
        fit_intercept: bool = False,
        beam: int | str | None = "auto",
        min_margin: float | None = None,
        early_stopping: bool = False,
        progress: Progress | None = None,
        random_state: int | None = 0,
    ) -> None:
        self.taxonomy = taxonomy
        self.n_buckets = n_buckets
        self.max_bytes = max_bytes
        self.loss = loss
        self.alpha = alpha
        self.max_iter = max_iter
        self.average = average
        self.fit_intercept = fit_intercept
        self.beam = beam
        self.min_margin = min_margin
        self.early_stopping = early_stopping
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn rows of an array, a CSR matrix, a data frame or a `VectorSource`, which is read
        whole; a label each.
        """
        with self._restored_on_failure():
            settings = check_settings(self)
            rows = self._rows_to_learn(X, reset=True)
            labels = check_row_labels(y, rows.batch.shape[0])
            self._set_model(
                fit_model(settings, resolve_seed(self.random_state), rows, labels, self.progress)
            )
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, paths: Any = None) -> Self:
        """Learn more rows, once, in the order given; the first call may come before `fit` or after
        it.

        Parameters
        ----------
        X : array, CSR matrix, data frame or VectorSource
            Rows to learn.
        y : list of labels
            One per row.
        classes : list of labels, optional
            Classes to choose from even before one of their rows has come. Without a taxonomy this
            is how new classes are added after the first call, which takes those of `y` anyway.
        paths : list of tuples of labels, optional
            Where in the tree new classes are, as for `Taxonomy.with_paths`.
        """
        with self._restored_on_failure():
            first = not hasattr(self, "_model")
            settings = check_settings(self)
            rows = self._rows_to_learn(X, reset=first)
            labels = check_row_labels(y, rows.batch.shape[0])
            known = [] if classes is None else plain_labels(classes, "classes")
            if first:
                taxonomy = settings.taxonomy
                if taxonomy is None:
                    taxonomy = first_taxonomy([*known, *labels], paths)
                model = start_model(settings, resolve_seed(self.random_state), taxonomy, rows)
            else:
                self._require_same_seed()
                self._model.settings.require_compatible(settings)
                # parameters that weights do not depend on, such
                # as the beam, may change between calls
                model = replace(self._model, settings=settings)
            self._set_model(continue_model(model, rows, labels, known, paths))
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the label of the best class of every row; with `min_margin` it may be that of an
        inner node.
        """
        check_is_fitted(self)
        if self._model.settings.min_margin is None:
            return self.predict_top(X, 1).labels[:, 0]
        paths = [self._model.taxonomy.path_of(label) for label in self._model.labels]
        # of all there are, not of those found
        kind = to_label_array([label for path in paths for label in path]).dtype
        return to_object_array([path[-1] for path in self.predict_path(X)]).astype(kind)

    def predict_path(self, X: Any, min_margin: float | None = None) -> npt.NDArray[np.object_]:
        """Return the labels from the root to the prediction: (n,), a tuple per row; None is
        the model's `min_margin`.

        With a margin it is what it is without one, or the first labels of that.
        """
        check_is_fitted(self)
        model = self._model
        label_paths = [model.taxonomy.path_of(label) for label in model.labels]
        margin = model.settings.min_margin if min_margin is None else check_margin(min_margin)
        if margin is None:
            return to_object_array(
                [label_paths[best] for classes, _, _ in self._best(X, 1) for best in classes[:, 0]]
            )
        scorer, prior = model.scorer(self.n_features_in_), model.log_prior()
        # Rows without a feature all get the same answer, from the prior alone.
        usual = int(np.argmax(prior))
        usual_depth = sure_depth(model.taxonomy.class_paths[model.class_numbers], prior, margin)
        found: list[tuple[Hashable, ...]] = []
        for rows in self._rows(X):
            classes, depths = scorer.best_and_sure(rows, model.beam, margin)
            empty = _without_feature(rows)
            classes[empty], depths[empty] = usual, usual_depth
            found += [
                label_paths[best][: depth + 1] for best, depth in zip(classes, depths, strict=True)
            ]
        return to_object_array(found)

    def predict_top(self, X: Any, k: int) -> TopClasses:
        """Return the `k` best classes of every row, best first; equal ones in the order of their
        nodes.

        The first of them is what `predict` answers, and a smaller `k` gives the first columns of a
        larger one. So where the beam reaches fewer than `k` classes, they come first, and the best
        of all others follow.
        """
        check_is_fitted(self)
        k = whole_number(k, "k", low=1, high=len(self.classes_))
        parts = list(self._best(X, k))
        classes = np.concatenate([np.empty((0, k), dtype=np.int32), *(part[0] for part in parts)])
        scores = np.concatenate([np.empty((0, k), dtype=np.float32), *(part[1] for part in parts)])
        empty = np.concatenate([np.empty(0, dtype=np.bool_), *(part[2] for part in parts)])
        return TopClasses(self.classes_[classes], scores, empty)

    def decision_function(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the scores of all classes, (n, n_classes), without a beam; of two classes their
        difference, (n,).

        That is scikit-learn's custom. The scores of an empty row are the logarithms of the prior. A
        model learned with a beam has compared few classes at a time: scores of those that the beam
        does not reach say little, and may be above that of the class `predict` answers.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    @unless(_why_no_probabilities)
    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the probabilities of all classes, (n, n_classes), without a beam; only learned by
        "softmax".
        """
        scores = self._scores(X)
        # exp(s − max s) / Σ exp(s − max s): the largest exponent is 0, so nothing overflows.
        shares: npt.NDArray[np.float32] = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose label is predicted, 1 − `flat_error`; rows may count by
        weights.
        """
        predicted = self.predict(X).tolist()
        labels = check_row_labels(y, len(predicted))
        if sample_weight is None:
            return 1.0 - flat_error(labels, predicted)
        hits = np.array(
            [label == guess for label, guess in zip(labels, predicted, strict=True)],
            dtype=np.float64,
        )
        try:
            return float(np.average(hits, weights=sample_weight))
        except (ValueError, TypeError, ZeroDivisionError) as error:
            raise InvalidInputError(
                f"sample_weight must be {len(hits)} numbers, one a row, that do not add up to 0: "
                f"{error}"
            ) from error

    def empty_rows(self, X: Any) -> npt.NDArray[np.bool_]:
        """Tell which rows have no feature, so that the prior answers them."""
        check_is_fitted(self)
        return np.concatenate(
            [np.empty(0, dtype=np.bool_), *(_without_feature(rows) for rows in self._rows(X))]
        )

    def beam_gap(self, X: Any, beam: int | None = None) -> float:
        """Return the share of rows whose best class a beam misses; None stands for the beam of this
        model.
        """
        check_is_fitted(self)
        width = self._model.beam if beam is None else whole_number(beam, "beam", low=1)
        scorer = self._model.scorer(self.n_features_in_)
        missed = [
            # the best class of all against the best that the beam reaches
            scorer.best(rows, 1, None)[0] != scorer.best(rows, 1, width)[0]
            for rows in self._rows(X)
        ]
        return float(np.concatenate(missed).mean()) if missed else 0.0

    @property
    def weights_(self) -> npt.NDArray[np.float32]:
        """The tables that predict, read-only."""
        check_is_fitted(self)
        return self._model.weights

    @property
    def feature_means_(self) -> npt.NDArray[np.float32] | None:
        """What is subtracted from every row before it is hashed; None for nothing."""
        check_is_fitted(self)
        return self._model.mean

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to `path`: aside first, then in place at once. `progress` is not
        kept.
        """
        from bitkin.learn.heshing.files import write_model

        check_is_fitted(self)
        write_model(self, self._model, path)

    @classmethod
    def from_stored(cls, stored: StoredFile) -> HeshingClassifier:
        """Return the fitted classifier that a file holds."""
        from bitkin.learn.heshing.files import read_model, read_parameters

        made = cls(**read_parameters(stored))
        made.n_features_in_, model = read_model(made, stored)
        made._set_model(model)
        restore_names(made, stored)
        stored.require_no_more_tensors()
        return made

    def take_model(self, model: HeshingModel, n_features: int) -> Self:
        """Become what learned rows of so many features elsewhere, such as on a cluster."""
        self.n_features_in_ = n_features
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._set_model(model)
        return self

    def _require_same_seed(self) -> None:
        if self.random_state is not None and resolve_seed(self.random_state) != self.seed_:
            raise InvalidInputError(
                f"random_state must stay what it was when the model was begun, {self.seed_}, since "
                f"its hashes come from it, got {self.random_state}. Set it back, or fit anew."
            )

    def _set_model(self, model: HeshingModel) -> None:
        """Make `model` the one that predicts."""
        self._model = model
        self.taxonomy_ = model.taxonomy
        self.classes_ = to_label_array(model.labels)
        self.class_counts_ = model.class_counts
        self.alpha_ = model.method.alpha
        self.losses_ = model.losses
        self.n_iter_ = len(model.losses)
        self.seed_ = model.seed

    def _rows_to_learn(self, X: Any, *, reset: bool) -> TrainingRows:
        if not isinstance(X, VectorSource):
            refuse_texts(X)
            return measure_rows(self._validate_rows(X, reset=reset))
        if reset:
            self._training_source(X)
        else:
            self.require_features(X)
        rows = gather_rows(X)
        if reset and not rows.shape[0]:
            raise InvalidInputError(f"{X.name} has no rows. Give at least one row to fit.")
        return measure_rows(rows)

    def _rows(self, X: Any) -> Iterator[HeshingRows]:
        """Yield the rows to predict."""
        mean = self._model.mean
        refuse_texts(X)
        for _, batch in self._batches(X):
            yield to_kernel_rows(batch if mean is None else center_rows(batch, mean))

    def _best(self, X: Any, k: int) -> Iterator[_Best]:
        """Yield the `k` best classes, by place, their scores, and which rows are empty, batch by
        batch.
        """
        scorer, prior = self._model.scorer(self.n_features_in_), self._model.log_prior()
        # a row without a feature has score 0 for all classes: the most frequent ones answer
        usual = np.argsort(-prior, kind="stable")[:k]
        for rows in self._rows(X):
            classes, scores = scorer.best(rows, k, self._model.beam)
            empty = _without_feature(rows)
            classes[empty], scores[empty] = usual, prior[usual]
            yield classes, scores, empty

    def _scores(self, X: Any) -> npt.NDArray[np.float32]:
        check_is_fitted(self)
        scorer, prior = self._model.scorer(self.n_features_in_), self._model.log_prior()
        parts = [np.empty((0, len(prior)), dtype=np.float32)]
        for rows in self._rows(X):
            scores = scorer.scores(rows)
            scores[_without_feature(rows)] = prior
            parts.append(scores)
        return np.concatenate(parts)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _without_feature(rows: HeshingRows) -> npt.NDArray[np.bool_]:
    return np.asarray(np.diff(rows.indptr) == 0)
