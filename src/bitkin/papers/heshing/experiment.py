"""Table 2 and figures 3 and 4 of the paper, its theorems, and how near the fit comes to the optimum
of its problem.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse

from bitkin import theory
from bitkin.learn.heshing.heshing_classifier import HeshingClassifier
from bitkin.learn.taxonomy.taxonomy import Taxonomy
from bitkin.papers.data import PaperData
from bitkin.papers.heshing.findings import build_report
from bitkin.papers.heshing.names import (
    FLATHASH,
    FLATHASH_TOTAL,
    HESHING,
    HIESVM,
    LOW,
    METHODS,
    MSVM,
    ONCE,
    OVR,
    PCA,
    TREESVM,
)
from bitkin.papers.heshing.rivals import (
    HashedMachine,
    OneVsRestMachine,
    ProjectedMachine,
    TopDownMachine,
    TreeMachine,
    choose_alpha,
)
from bitkin.papers.report import PaperReport
from bitkin.papers.scores import Job, Scores

_SETS = (
    "imclef07a", "tinyimagenet_1000", "tinyimagenet_spm21000", "onet_minilm", "onet_text",
    "newsgroups20_tree", "icd10cm",
)  # fmt: skip
_CURVES = ("tinyimagenet_spm21000", "onet_text", "newsgroups20_tree", "icd10cm")
_DRAWS = 3  # of the small problem
_TREE = {HESHING: True, HIESVM: True, FLATHASH: False, FLATHASH_TOTAL: False, MSVM: False}


@dataclass(frozen=True, slots=True)
class HashedTreeSizes:
    """How much of everything."""

    seeds: int = 5
    low_bits: int = 11
    high_bits: int = 16
    curve_bits: tuple[int, ...] = (10, 12, 14, 16, 18, 21)
    curve_seeds: int = 3
    components: int = 500
    most_bits: int = 23
    """Of the tables that stand for machines without hashing."""
    learned_rows: int | None = None
    tested_rows: int | None = None
    optimum_passes: tuple[int, ...] = (10, 50, 500, 3000)
    alphas: tuple[float, ...] = (1e-2, 1e-3)


QUICK = HashedTreeSizes(
    seeds=2, high_bits=14, curve_bits=(10, 12, 14, 16), curve_seeds=1, components=50,
    most_bits=22, learned_rows=1500, tested_rows=700, optimum_passes=(10, 50, 1000),
)  # fmt: skip


def experiment(data: PaperData) -> HashedTreeExperiment:
    """Return the experiment on the data there is."""
    if data.quick:
        found = data.find(["icd10cm"], "heshing")
        return HashedTreeExperiment(data, found, found, QUICK)
    found = data.find(_SETS, "heshing")
    curves = [name for name in _CURVES if name in found]
    return HashedTreeExperiment(data, found, curves, HashedTreeSizes())


class HashedTreeExperiment:
    """Trains all machines on the same rows."""

    def __init__(
        self, data: PaperData, sets: list[str], curves: list[str], sizes: HashedTreeSizes
    ) -> None:
        self.data, self.sets, self.curves, self.sizes = data, sets, curves, sizes
        self.scores = Scores()
        self._alphas: dict[tuple[str, bool], float] = {}
        self._by_row: dict[Any, dict[str, Any]] = {}

    def jobs(self) -> list[Job]:
        """Return the steps."""
        steps: list[Job] = [self._theorems, self._optimum]
        for name in self.sets:
            steps.append(partial(self._describe, name))
            for method in METHODS:
                seeds = 1 if method in ONCE else self.sizes.seeds
                steps += [partial(self._table, name, method, seed) for seed in range(seeds)]
        steps += [
            partial(self._curve, name, bits, seed)
            for name in self.curves
            for bits in self.sizes.curve_bits
            for seed in range(self.sizes.curve_seeds)
        ]
        return steps

    def report(self) -> PaperReport:
        """Return tables, figures and claims."""
        return build_report(
            self.scores, self.sets, self.curves, asdict(self.sizes), self.data.left_out
        )

    def _describe(self, name: str) -> None:
        data, (n, m) = self.data.tree(name), self._rows(name)
        for what, value in (
            ("T", data.taxonomy.n_levels),
            ("classes", len(np.unique(data.y[:n]))),
            ("features", data.X.shape[1]),
            ("rows", n),
            ("tested", m),
            ("buckets", self._buckets(name)),
        ):
            self.scores.add((what, name), value)

    def _table(self, name: str, method: str, seed: int) -> None:
        data, (n, m) = self.data.tree(name), self._rows(name)
        machine = self._machine(name, method, seed)
        start = time.process_time()
        machine.fit(data.X[:n], data.y[:n])
        self.scores.add(("seconds", name, method), time.process_time() - start)
        self._add_errors(("table", name, method), name, machine, m)
        if method == HESHING:
            for rival in (FLATHASH, FLATHASH_TOTAL):
                self._add_row_error(("table", name, rival), ("table", name, HESHING))
        # a machine without hashing has a weight per feature and class, or node
        nodes = {MSVM: data.taxonomy.n_classes, HIESVM: data.taxonomy.n_nodes - 1}
        n_bytes = 4 * data.X.shape[1] * nodes[method] if method in nodes else machine.n_bytes
        self.scores.add(("bytes", name, method), n_bytes)

    def _curve(self, name: str, bits: int, seed: int) -> None:
        data, (n, m) = self.data.tree(name), self._rows(name)
        for method in (HESHING, FLATHASH):
            machine = self._hashed(name, method, 2**bits, seed).fit(data.X[:n], data.y[:n])
            self._add_errors(("curve", name, bits, method), name, machine, m)
        key = "curve", name, bits
        self._add_row_error((*key, FLATHASH), (*key, HESHING))

    def _add_errors(self, key: Any, name: str, machine: TreeMachine, m: int) -> None:
        data = self.data.tree(name)
        predicted = machine.predict(data.X_test[:m])
        paths, true = data.taxonomy.class_paths, data.y_test[:m]
        heights = (paths[predicted] != paths[true]).sum(axis=1)
        self._by_row[key] = {"flat": predicted != true, "hierarchical": heights}
        for kind, errors in self._by_row[key].items():
            self.scores.add((kind, *key), float(errors.mean()))

    def _add_row_error(self, key: Any, other: Any) -> None:
        """Add the standard error that a difference has because there are only so many test rows,
        which are the same for all seeds.
        """
        for kind, errors in self._by_row[key].items():
            apart = errors.astype(np.float64) - self._by_row[other][kind]
            self.scores.add(("rows", kind, *key), float(apart.std() / np.sqrt(len(apart))))

    def _machine(self, name: str, method: str, seed: int) -> TreeMachine:
        data, (n, _) = self.data.tree(name), self._rows(name)
        X, y = data.X[:n], data.y[:n]
        if method == OVR:
            return OneVsRestMachine(choose_alpha(OneVsRestMachine, X, y))
        if method == TREESVM:
            make = partial(TopDownMachine, data)
            return make(choose_alpha(make, X, y))
        if method == PCA:
            return ProjectedMachine(min(self.sizes.components, X.shape[1] - 1))
        return self._hashed(name, method, self._buckets_of(name, method), seed)

    def _hashed(self, name: str, method: str, n_buckets: int, seed: int) -> HashedMachine:
        """Return a machine whose alpha was chosen once for the set, with the tree and without."""
        data, (n, _), tree = self.data.tree(name), self._rows(name), _TREE[method]
        if (name, tree) not in self._alphas:
            first = HashedMachine(data, self._buckets(name), "auto", 0, tree=tree)
            first.fit(data.X[:n], data.y[:n])
            self._alphas[name, tree] = first.model.alpha_
        return HashedMachine(data, n_buckets, self._alphas[name, tree], seed, tree=tree)

    def _buckets_of(self, name: str, method: str) -> int:
        """Return the buckets of a method. Machines without hashing are hashed into so many that
        hardly any two weights meet.
        """
        data = self.data.tree(name)
        if method in (MSVM, HIESVM):
            n_nodes = data.taxonomy.n_nodes if method == HIESVM else data.taxonomy.n_classes
            wanted = 4 * data.X.shape[1] * n_nodes
            return int(2 ** min(self.sizes.most_bits, int(wanted - 1).bit_length()))
        return self._buckets(name) * (data.n_tables if method == FLATHASH_TOTAL else 1)

    def _buckets(self, name: str) -> int:
        return int(2 ** (self.sizes.low_bits if name in LOW else self.sizes.high_bits))

    def _rows(self, name: str) -> tuple[int, int]:
        data = self.data.tree(name)
        n, m = self.sizes.learned_rows, self.sizes.tested_rows
        return min(n or len(data.y), len(data.y)), min(m or len(data.y_test), len(data.y_test))

    def _theorems(self) -> None:
        """Count features that are lost, beside Theorem 2, and look at Theorem 1's buckets."""
        d, m = 20_000, 2**16
        rng = np.random.default_rng(0)
        for T in (1, 2, 3):
            alone = np.zeros(d, dtype=bool)
            for _ in range(T):
                buckets = rng.integers(0, m, d)
                alone |= np.bincount(buckets, minlength=m)[buckets] == 1
            self.scores.add(("lost", T), int((~alone).sum()))
            self.scores.add(("lost bound", T), theory.expected_feature_loss(d, m, T))
            self.scores.add(("lost exact", T), theory.expected_feature_loss(d, m, T, exact=True))
        self.scores.add(("Theorem 1",), theory.buckets_for(0.1, 0.1, 3))

    def _optimum(self) -> None:
        """Measure problem (2) at the end of the fit, by passes, on a small problem."""
        for seed, alpha in product(range(_DRAWS), self.sizes.alphas):
            X, y, X_test, y_test, tree = small_problem(seed)
            for passes in self.sizes.optimum_passes:
                model = HeshingClassifier(tree, n_buckets=2**10, alpha=alpha, max_iter=passes)
                model.fit(X, y)
                self.scores.add(("objective", alpha, passes), objective(model, X, y, alpha))
                error = float((model.predict(X_test) != np.array(y_test)).mean())
                self.scores.add(("objective error", alpha, passes), error)


def small_problem(seed: int = 0) -> tuple[Any, list[str], Any, list[str], Taxonomy]:
    """Return 300 rows of 5 classes in a tree, and 1,000 others, all of overlapping words."""
    rng = np.random.default_rng(seed)
    names = ["a.1", "a.2", "b.1", "b.2", "b.3"]
    means = 0.15 * rng.gamma(0.3, 1.0, (5, 200)) + rng.gamma(0.3, 0.4, 200)
    classes = rng.integers(0, 5, 1300)
    X = rng.poisson(means[classes]).astype(np.float32)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    y = [names[c] for c in classes]
    rows = scipy.sparse.csr_array(X)
    return rows[:300], y[:300], rows[300:], y[300:], Taxonomy.from_labels(names)


def objective(model: HeshingClassifier, X: Any, y: list[str], alpha: float) -> float:
    """Return λ/2·‖w‖² + mean hinge, the paper's problem (2)."""
    scores = np.asarray(model.decision_function(X), dtype=np.float64)
    column = {label: i for i, label in enumerate(model.classes_.tolist())}
    own = np.array([column[label] for label in y])
    margins = 1.0 + scores
    margins[np.arange(len(y)), own] -= 1.0
    hinges = margins.max(axis=1) - scores[np.arange(len(y)), own]
    weights = model.weights_.astype(np.float64)
    return float(alpha / 2 * (weights**2).sum() + hinges.mean())
