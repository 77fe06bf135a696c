"""Data sets whose classes are the leaves of a tree, read from the files that have them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.preprocessing import normalize

from bitkin.data.icd10cm import load_icd10cm
from bitkin.learn.taxonomy.taxonomy import Taxonomy
from bitkin.learn.texts import text_features
from bitkin.randomness import Draws

MOST_ROWS, MOST_TESTED = 4000, 2000
_IMAGE_CLASSES = 40  # of Tiny ImageNet's 200: neighbours in its tree
_TREE_LEVELS = 6


@dataclass(frozen=True, slots=True, eq=False)
class LabelTree:
    """Rows to learn and to test, the numbers of their classes, and the tree above those."""

    name: str
    taxonomy: Taxonomy
    X: Any
    y: npt.NDArray[np.int64]
    X_test: Any
    y_test: npt.NDArray[np.int64]
    intercept: bool = False

    @property
    def n_tables(self) -> int:
        """Levels below the root: how often HESHING has its buckets."""
        return self.taxonomy.n_levels - 1

    def errors(self, predicted: npt.NDArray[np.int64]) -> tuple[float, float]:
        """Return flat and hierarchical error of class numbers."""
        paths = self.taxonomy.class_paths
        wrong = predicted != self.y_test
        heights = (paths[predicted] != paths[self.y_test]).sum(axis=1)
        return float(wrong.mean()), float(heights.mean())


def read_newsgroups(paths: list[Path]) -> LabelTree:
    """Return the texts of 20 newsgroups below their first words, as tf-idf."""
    counts = scipy.sparse.csr_array(scipy.sparse.load_npz(paths[0])).astype(np.float32)
    with np.load(paths[1], allow_pickle=False) as file:
        groups, split = file["group"], file["split"]
    return tree_of_groups(counts, groups.tolist(), split == "train", split == "test")


def tree_of_groups(counts: Any, groups: Sequence[str], learned: Any, tested: Any) -> LabelTree:
    """Return newsgroups as a tree of two levels."""
    counts.data = 1 + np.log(counts.data)
    in_rows = np.bincount(counts[learned].indices, minlength=counts.shape[1])
    weights = 1 + np.log((1 + learned.sum()) / (1 + in_rows))
    counts.data *= weights[counts.indices].astype(np.float32)
    tree = Taxonomy.from_paths([(group.split(".")[0], group) for group in groups])
    return _sparse_tree("newsgroups20_tree", tree, counts, groups, learned, tested)


def load_diagnoses() -> LabelTree:
    """Return the ICD-10-CM descriptions that ship with the package, down to their sections."""
    diagnoses = load_icd10cm()
    paths = [path[:2] for path in diagnoses.paths]
    tested = np.array(diagnoses.held_out)
    X = text_features(diagnoses.texts)
    names = [path[-1] for path in paths]
    return _sparse_tree("icd10cm", Taxonomy.from_paths(paths), X, names, ~tested, tested)


def read_tasks(paths: list[Path]) -> LabelTree:
    """Return sentences of job tasks as text features, down to 95 groups of occupations."""
    with gzip.open(paths[0], "rt", encoding="utf-8") as lines:
        tasks = [json.loads(line) for line in lines]
    chosen = [tuple(task["path"][:2]) for task in tasks]
    X = text_features([task["text"] for task in tasks])
    tested = _draw_tested(len(tasks))
    names = [path[-1] for path in chosen]
    return _sparse_tree("onet_text", Taxonomy.from_paths(chosen), X, names, ~tested, tested)


def read_task_vectors(paths: list[Path]) -> LabelTree:
    """Return the same sentences as embeddings."""
    with np.load(paths[0], allow_pickle=False) as file:
        X, chosen = (
            file["X"].astype(np.float32),
            [tuple(path[:2]) for path in file["path"].tolist()],
        )
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    tree = Taxonomy.from_paths(chosen)
    y, tested = tree.index_of([path[-1] for path in chosen]), _draw_tested(len(X))
    return _limited("onet_minilm", tree, X[~tested], y[~tested], X[tested], y[tested])


def read_xrays(paths: list[Path]) -> LabelTree:
    """Return X-ray features, standardized."""
    with np.load(paths[0], allow_pickle=False) as file:
        X, X_test = file["X_train"], file["X_test"]
        names, names_test = (
            [label.rpartition("@")[2] for label in file[f"y_{part}"].tolist()]
            for part in ("train", "test")
        )
    tree = Taxonomy.from_labels(names + names_test, sep="/")
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0] = 1
    X, X_test = ((part - mean) / deviation for part in (X, X_test))
    y, y_test = tree.index_of(names), tree.index_of(names_test)
    return _limited("imclef07a", tree, X, y, X_test, y_test, intercept=True)


def read_images(paths: list[Path]) -> LabelTree:
    """Return visual words of Tiny ImageNet: square roots at length 1, some classes."""
    X, X_test = (scipy.sparse.csr_array(scipy.sparse.load_npz(path)) for path in paths[:2])
    with np.load(paths[2], allow_pickle=False) as file:
        names = file["wnids"].tolist()
        y, y_test = file["y_train"].astype(np.int64), file["y_test"].astype(np.int64)
    about = json.loads(paths[3].read_text(encoding="utf-8"))
    whole = Taxonomy.from_paths([[node for node, _ in about[name]["path"]] for name in names])
    # classes that follow each other in the tree
    in_order = np.argsort(whole.index_of(names), kind="stable")[:_IMAGE_CLASSES]
    chosen = [names[i] for i in in_order]
    tree = Taxonomy.from_paths([[node for node, _ in about[name]["path"]] for name in chosen])
    tree = tree.condensed().cut(_TREE_LEVELS)
    number = np.full(len(names), -1)
    number[in_order] = tree.index_of(chosen)
    parts = []
    for rows, labels in ((X, y), (X_test, y_test)):
        kept = number[labels] >= 0
        parts += [normalize(np.sqrt(rows[kept].astype(np.float32))), number[labels[kept]]]
    name = paths[0].name.removesuffix("_train.npz").removeprefix("bow_")
    return _limited(name, tree, *parts)


def _sparse_tree(
    name: str, tree: Taxonomy, X: Any, labels: Sequence[Any], learned: Any, tested: Any
) -> LabelTree:
    """Return rows of length 1 over the columns that training rows have."""
    y = tree.index_of(labels)
    found = _limited(name, tree, X[learned], y[learned], X[tested], y[tested])
    used = np.unique(found.X.indices)
    parts = [normalize(_with_columns(rows, used)) for rows in (found.X, found.X_test)]
    return LabelTree(name, tree, parts[0], found.y, parts[1], found.y_test)


def _with_columns(rows: Any, used: npt.NDArray[Any]) -> Any:
    """Return some columns of sparse rows that may have billions of them."""
    place = np.searchsorted(used, rows.indices)
    known = used[np.minimum(place, len(used) - 1)] == rows.indices
    ends = np.concatenate([[0], np.cumsum(known)])[rows.indptr]
    made = scipy.sparse.csr_array(
        (rows.data[known].astype(np.float32), place[known].astype(np.int32), ends.astype(np.int32)),
        shape=(rows.shape[0], len(used)),
    )
    made.sort_indices()
    return made


def _draw_tested(n: int) -> npt.NDArray[np.bool_]:
    tested = np.zeros(n, dtype=bool)
    tested[Draws(0, "tested").permutation(n)[: n // 5]] = True
    return tested


def _limited(
    name: str, tree: Taxonomy, X: Any, y: Any, X_test: Any, y_test: Any, *, intercept: bool = False
) -> LabelTree:
    """Return a set with no more rows than the experiment takes, in random order."""
    order = Draws(0, f"rows of {name}").permutation(len(y))[:MOST_ROWS]
    # rows of a class that is not learned cannot be answered
    known = np.flatnonzero(np.isin(y_test, y[order]))
    asked = known[Draws(0, f"tests of {name}").permutation(len(known))[:MOST_TESTED]]
    return LabelTree(name, tree, X[order], y[order], X_test[asked], y_test[asked], intercept)
