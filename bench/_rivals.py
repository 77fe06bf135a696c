"""Ways to classify into a tree, each with `fit`, `predict` of class numbers, and `n_bytes` of what
must be kept.
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy.sparse import csr_array, issparse
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import bitkin
from _label_trees import TreeSet

Classes = npt.NDArray[np.int64]


class Rival(Protocol):
    """What the bench asks of a method."""

    n_bytes: int

    def fit(self, X: Any, y: Classes) -> Self: ...
    def predict(self, X: Any) -> Classes: ...


class Hashed:
    """`HeshingClassifier`, with the tree or, as flat hashing, without it."""

    def __init__(
        self,
        data: TreeSet,
        n_buckets: int,
        strength: float | str,
        seed: int,
        *,
        tree: bool,
        **more: Any,
    ):
        self.labels = data.labels
        self.taxonomy = data.taxonomy
        self.model = bitkin.HeshingClassifier(
            data.taxonomy if tree else bitkin.Taxonomy.from_classes(data.taxonomy.classes),
            n_buckets=n_buckets,
            alpha=strength,
            random_state=seed,
            fit_intercept=data.intercept,
            **more,
        )

    def fit(self, X: Any, y: Classes) -> Self:
        self.model.fit(X, self.labels[y])
        self.n_bytes = self.model.weights_.nbytes
        return self

    def predict(self, X: Any) -> Classes:
        return self.taxonomy.index_of(self.model.predict(X))


class OneVsRest:
    """Linear SVM, a weight vector a class; `crammer_singer` for the multi-class hinge. Weights
    count as float32.
    """

    def __init__(self, strength: float, seed: int, multi_class: str = "ovr"):
        self.model = LinearSVC(C=strength, multi_class=multi_class, random_state=seed, max_iter=200)

    def fit(self, X: Any, y: Classes) -> Self:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(X, y)
        self.n_bytes = 4 * (self.model.coef_.size + self.model.intercept_.size)
        return self

    def predict(self, X: Any) -> Classes:
        return np.asarray(self.model.predict(X))


class Projected:
    """One-vs-rest on the principal directions, which must be kept too."""

    def __init__(self, strength: float, seed: int, n_components: int):
        self.directions = TruncatedSVD(n_components, random_state=seed)
        self.svm = OneVsRest(strength, seed)

    def fit(self, X: Any, y: Classes) -> Self:
        self.svm.fit(self.directions.fit_transform(X), y)
        self.n_bytes = self.svm.n_bytes + 4 * self.directions.components_.size
        return self

    def predict(self, X: Any) -> Classes:
        return self.svm.predict(self.directions.transform(X))


class TopDown:
    """A linear SVM at every inner node, over its children; rows walk down."""

    def __init__(self, data: TreeSet, strength: float, seed: int):
        self.paths = data.taxonomy.class_paths
        self.strength, self.seed = strength, seed

    def fit(self, X: Any, y: Classes) -> Self:
        self.class_of = {int(path[-1]): number for number, path in enumerate(self.paths)}
        self.only_child: dict[int, int] = {}
        self.svms: dict[int, OneVsRest] = {}
        paths = self.paths[y]
        for level in range(paths.shape[1]):
            above = paths[:, level - 1] if level else np.full(len(y), -1)
            for node in np.unique(above).tolist():
                here = above == node
                children = paths[here, level]
                if (children == children[0]).all():
                    self.only_child[node] = int(children[0])
                else:
                    self.svms[node] = OneVsRest(self.strength, self.seed).fit(X[here], children)
        self.n_bytes = sum(svm.n_bytes for svm in self.svms.values())
        return self

    def predict(self, X: Any) -> Classes:
        at = np.full(X.shape[0], -1)
        for _ in range(self.paths.shape[1]):
            below = np.empty_like(at)
            for node in np.unique(at).tolist():
                here = at == node
                below[here] = (
                    self.only_child[node]
                    if node in self.only_child
                    else self.svms[node].predict(X[here])
                )
            at = below
        return np.array([self.class_of[leaf] for leaf in at.tolist()])


@njit(cache=False)
def _learn_nodes(rows, classes, order, paths, factor, alpha, first_step, weights, sums):  # type: ignore[no-untyped-def]
    """Steps as in `bitkin.kernels.heshing`, on one weight vector a node; `sums` ends as the average
    of the weights.
    """
    indptr, columns, values = rows
    n_nodes, n_classes = weights.shape[1], len(paths)
    scale, carried = 1.0, 0.0
    nodes = np.zeros(n_nodes)
    for t in range(len(order)):
        row = order[t]
        true = classes[row]
        nodes[:] = 0.0
        square = 0.0
        for i in range(indptr[row], indptr[row + 1]):
            square += values[i] ** 2
            for node in range(n_nodes):
                nodes[node] += values[i] * weights[columns[i], node]
        rival, best, own = -1, 0.0, 0.0
        for c in range(n_classes):
            score = 0.0
            for level in range(paths.shape[1]):
                score += nodes[paths[c, level]]
            score *= factor * scale
            if c == true:
                own = score
            elif rival < 0 or score > best:
                rival, best = c, score
        loss = 1.0 - own + best
        step = first_step / np.sqrt(1.0 + alpha * first_step * t)
        if loss > 0.0 and square > 0.0:
            apart = (paths[true] != paths[rival]).sum()
            amount = min(step, loss / (2.0 * apart * square * factor * factor)) * factor / scale
            for level in range(paths.shape[1]):
                good, bad = paths[true, level], paths[rival, level]
                if good != bad:
                    for i in range(indptr[row], indptr[row + 1]):
                        change = amount * values[i]
                        weights[columns[i], good] += change
                        weights[columns[i], bad] -= change
                        sums[columns[i], good] -= carried * change
                        sums[columns[i], bad] += carried * change
        scale /= 1.0 + step * alpha
        if scale < 0.01:
            sums += np.float32(carried) * weights
            weights *= np.float32(scale)
            scale, carried = 1.0, 0.0
        carried += scale
    sums += np.float32(carried) * weights
    sums /= np.float32(len(order))


class HierarchicalSVM:
    """A weight vector a node; a class scores the sum over its path. Averaged SGD as HESHING's,
    without hashing.
    """

    def __init__(self, data: TreeSet, strength: float, seed: int, passes: int = 10):
        self.paths = data.taxonomy.class_paths
        self.factor = 1 / np.sqrt(data.taxonomy.n_levels)
        self.n_nodes = data.taxonomy.n_nodes
        self.alpha, self.seed, self.passes = strength, seed, passes

    def fit(self, X: Any, y: Classes) -> Self:
        X = csr_array(X)
        known = np.unique(y)
        paths = self.paths[known]
        self.weights = np.zeros((X.shape[1], self.n_nodes), dtype=np.float32)
        sums = np.zeros_like(self.weights)
        rng = np.random.default_rng(self.seed)
        order = np.concatenate([rng.permutation(len(y)) for _ in range(self.passes)])
        first_step = 4 * X.shape[0] / float((X.data**2).sum())
        rows = (X.indptr, X.indices, X.data.astype(np.float32))
        _learn_nodes(
            rows,
            np.searchsorted(known, y),
            order,
            paths,
            self.factor,
            self.alpha,
            first_step,
            self.weights,
            sums,
        )
        self.weights = sums
        self.known, self.known_paths = known, paths
        self.n_bytes = sums.nbytes
        return self

    def predict(self, X: Any) -> Classes:
        nodes = X @ self.weights
        return np.concatenate(
            [
                self.known[block[:, self.known_paths].sum(axis=2).argmax(axis=1)]
                for block in _blocks(nodes)
            ]
        )


class HiClass:
    """HiClass's local classifier per parent node, with `LinearSVC`."""

    def __init__(self, data: TreeSet, strength: float, seed: int):
        from hiclass import LocalClassifierPerParentNode

        self.model = LocalClassifierPerParentNode(
            LinearSVC(C=strength, random_state=seed, max_iter=200)
        )
        self.paths = data.taxonomy.class_paths

    def fit(self, X: Any, y: Classes) -> Self:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.fit(X, self.paths[y])
        graph = self.model.hierarchy_
        local = [graph.nodes[node].get("classifier") for node in graph.nodes]
        self.n_bytes = sum(4 * one.coef_.size for one in local if hasattr(one, "coef_"))
        return self

    def predict(self, X: Any) -> Classes:
        leaves = np.asarray(self.model.predict(X))[:, -1].astype(np.int64)
        class_of = np.zeros(self.paths.max() + 1, dtype=np.int64)
        class_of[self.paths[:, -1]] = np.arange(len(self.paths))
        return class_of[leaves]


class VowpalWabbit:
    """One against all in one hashed table of 2**bits weights, which count 4 bytes each."""

    def __init__(self, data: TreeSet, n_buckets: int, strength: float, seed: int, passes: int = 10):
        from vowpalwabbit import Workspace

        bits = int(np.ceil(np.log2(n_buckets)))
        self.n_classes = data.taxonomy.n_classes
        self.model = Workspace(
            f"--oaa {self.n_classes} -b {bits} --loss_function hinge -l {strength} --power_t 0.5 "
            "--quiet --noconstant"
        )
        self.seed, self.passes, self.n_bytes = seed, passes, 4 * 2**bits

    def fit(self, X: Any, y: Classes) -> Self:
        lines = [
            f"{label + 1} | {text}" for label, text in zip(y.tolist(), _vw_features(X), strict=True)
        ]
        rng = np.random.default_rng(self.seed)
        for _ in range(self.passes):
            for row in rng.permutation(len(lines)).tolist():
                self.model.learn(lines[row])
        return self

    def predict(self, X: Any) -> Classes:
        return np.array([self.model.predict(f"| {text}") - 1 for text in _vw_features(X)])


def _vw_features(X: Any) -> list[str]:
    X = X if issparse(X) else csr_array(X)
    pairs = list(zip(X.indices.tolist(), X.data.tolist(), strict=True))
    return [
        " ".join(f"{column}:{value:.5g}" for column, value in pairs[a:b])
        for a, b in zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist(), strict=True)
    ]


def _blocks(rows: npt.NDArray[Any], size: int = 256) -> list[npt.NDArray[Any]]:
    return [rows[first : first + size] for first in range(0, len(rows), size)]
