"""Machines that HESHING is compared with: `fit`, `predict` of class numbers, `n_bytes` of what must
be kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import SGDClassifier

from bitkin.learn.heshing.heshing_classifier import HeshingClassifier
from bitkin.learn.taxonomy.taxonomy import Taxonomy
from bitkin.papers.label_trees import LabelTree
from bitkin.randomness import Draws

Classes = npt.NDArray[np.int64]


class TreeMachine(Protocol):
    """What the experiment asks of a machine."""

    n_bytes: int

    def fit(self, X: Any, y: Classes) -> Any:
        """Learn rows and the numbers of their classes."""

    def predict(self, X: Any) -> Classes:
        """Return the class numbers of rows."""


class HashedMachine:
    """`HeshingClassifier`, with the tree or, as flat hashing, without it."""

    def __init__(
        self, data: LabelTree, n_buckets: int, alpha: float | str, seed: int, *, tree: bool
    ) -> None:
        labels = data.taxonomy.classes
        self.labels = np.empty(len(labels), dtype=object)
        self.labels[:] = labels
        self.taxonomy = data.taxonomy
        self.model = HeshingClassifier(
            data.taxonomy if tree else Taxonomy.from_classes(labels),
            n_buckets=n_buckets,
            alpha=alpha,
            random_state=seed,
            fit_intercept=data.intercept,
        )
        self.n_bytes = 0

    def fit(self, X: Any, y: Classes) -> HashedMachine:
        """Learn rows."""
        self.model.fit(X, self.labels[y])
        self.n_bytes = self.model.weights_.nbytes
        return self

    def predict(self, X: Any) -> Classes:
        """Return class numbers."""
        return np.asarray(self.taxonomy.index_of(self.model.predict(X)))


class OneVsRestMachine:
    """A linear SVM per class, by averaged stochastic gradient descent as in the paper."""

    def __init__(self, alpha: float) -> None:
        self.model = SGDClassifier(
            loss="hinge", alpha=alpha, max_iter=10, tol=None, average=True, random_state=0
        )
        self.n_bytes = 0

    def fit(self, X: Any, y: Classes) -> OneVsRestMachine:
        """Learn rows."""
        with warnings.catch_warnings():
            # a node may have hardly more rows than children
            warnings.filterwarnings("ignore", message="The number of unique classes")
            self.model.fit(X, y)
        self.n_bytes = 4 * (self.model.coef_.size + self.model.intercept_.size)
        return self

    def predict(self, X: Any) -> Classes:
        """Return class numbers."""
        return np.asarray(self.model.predict(X))


class ProjectedMachine:
    """A linear SVM per class on principal directions, which must be kept too. Its alpha is chosen
    on what was projected, so that directions are found once.
    """

    def __init__(self, n_components: int) -> None:
        self.directions = TruncatedSVD(n_components, n_iter=3, random_state=0)
        self.n_bytes = 0

    def fit(self, X: Any, y: Classes) -> ProjectedMachine:
        """Learn directions and rows."""
        projected = self.directions.fit_transform(X)
        self.svm = OneVsRestMachine(choose_alpha(OneVsRestMachine, projected, y))
        self.svm.fit(projected, y)
        self.n_bytes = self.svm.n_bytes + 4 * self.directions.components_.size
        return self

    def predict(self, X: Any) -> Classes:
        """Return class numbers."""
        return self.svm.predict(self.directions.transform(X))


class TopDownMachine:
    """A linear SVM at every inner node, over its children; rows walk down."""

    def __init__(self, data: LabelTree, alpha: float) -> None:
        self.paths = data.taxonomy.class_paths
        self.alpha = alpha
        self.n_bytes = 0

    def fit(self, X: Any, y: Classes) -> TopDownMachine:
        """Learn rows at every node that they pass."""
        self.class_of = {int(path[-1]): number for number, path in enumerate(self.paths)}
        self.only_child: dict[int, int] = {}
        self.svms: dict[int, OneVsRestMachine] = {}
        paths = self.paths[y]
        for level in range(paths.shape[1]):
            above = paths[:, level - 1] if level else np.full(len(y), -1)
            for node in np.unique(above).tolist():
                here = above == node
                children = paths[here, level]
                if (children == children[0]).all():
                    self.only_child[node] = int(children[0])
                else:
                    self.svms[node] = OneVsRestMachine(self.alpha).fit(X[here], children)
        self.n_bytes = sum(svm.n_bytes for svm in self.svms.values())
        return self

    def predict(self, X: Any) -> Classes:
        """Return the class at the end of every row's way."""
        at = np.full(X.shape[0], -1)
        for _ in range(self.paths.shape[1]):
            below = np.empty_like(at)
            for node in np.unique(at).tolist():
                here = at == node
                known = node in self.only_child
                below[here] = self.only_child[node] if known else self.svms[node].predict(X[here])
            at = below
        return np.array([self.class_of[leaf] for leaf in at.tolist()])


def choose_alpha(make: Callable[[float], TreeMachine], X: Any, y: Classes) -> float:
    """Return the penalty with the least error on a fifth of the rows, of three that grow with
    ‖x‖².
    """
    squares = X.multiply(X).sum() if hasattr(X, "multiply") else (X**2).sum()
    alphas = [a * float(squares / X.shape[0]) for a in (1e-5, 1e-4, 1e-3)]
    order = Draws(0, "alpha").permutation(len(y))
    held, kept = order[: len(y) // 5], order[len(y) // 5 :]
    errors = [(make(a).fit(X[kept], y[kept]).predict(X[held]) != y[held]).mean() for a in alphas]
    return alphas[int(np.argmin(errors))]
