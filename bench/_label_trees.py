"""Data sets whose classes are the leaves of a tree: rows to learn, rows to test, and the tree."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, load_npz
from sklearn.preprocessing import normalize

import bitkin
from _data import data_file
from _tiny import TINY
from bitkin.data.icd10cm import load_icd10cm


@dataclass(frozen=True)
class TreeSet:
    """Rows, the numbers of their classes, and the tree.

    The first `n_learned` columns are all that training rows have; test rows may have others, which
    only hashing meets.
    """

    name: str
    taxonomy: bitkin.Taxonomy
    X: Any
    y: npt.NDArray[np.int64]
    X_test: Any
    y_test: npt.NDArray[np.int64]
    n_learned: int
    intercept: bool = False

    @property
    def labels(self) -> npt.NDArray[np.object_]:
        """The class labels, by number."""
        labels = np.empty(self.taxonomy.n_classes, dtype=object)
        labels[:] = self.taxonomy.classes
        return labels

    def errors(
        self, predicted: npt.NDArray[np.int64], true: npt.NDArray[np.int64] | None = None
    ) -> tuple[float, float]:
        """Return flat and hierarchical error on the test rows, or on rows of which the truth is
        given.
        """
        true = self.y_test if true is None else true
        paths = self.taxonomy.class_paths
        return float((predicted != true).mean()), float(
            (paths[predicted] != paths[true]).sum(axis=1).mean()
        )


def load_set(name: str) -> TreeSet:
    """Return the set of this name."""
    return SETS[name]()


def _newsgroups(known_words_only: bool = False) -> TreeSet:
    """Return tf-idf rows; a word that no training row has gets the largest idf, or is left out
    where that is asked.
    """
    counts = csr_array(load_npz(data_file("newsgroups20_bow.npz"))).astype(np.float32)
    stored = np.load(data_file("newsgroups20_labels.npz"), allow_pickle=False)
    groups, split = stored["group"].tolist(), stored["split"]
    counts.data = 1 + np.log(counts.data)
    learned = split == "train"
    in_rows = np.bincount(counts[learned].indices, minlength=counts.shape[1])
    counts.data *= (1 + np.log((1 + learned.sum()) / (1 + in_rows)))[counts.indices].astype(
        np.float32
    )
    name = "newsgroups20"
    if known_words_only:
        name, counts = "newsgroups20_known", counts[:, in_rows > 0]
    tree = bitkin.Taxonomy.from_paths([(group.split(".")[0], group) for group in groups])
    return _sparse_set(name, tree, counts, groups, learned, split == "test")


def _onet() -> TreeSet:
    with gzip.open(data_file("onet_tasks.jsonl.gz"), "rt") as lines:
        tasks = [json.loads(line) for line in lines]
    paths = [tuple(task["path"]) for task in tasks]
    tested = np.random.default_rng(7).random(len(tasks)) < 0.2
    X = bitkin.text_features([task["text"] for task in tasks])
    return _sparse_set(
        "onet", bitkin.Taxonomy.from_paths(paths), X, [path[-1] for path in paths], ~tested, tested
    )


def _icd() -> TreeSet:
    diagnoses = load_icd10cm()
    if TINY:
        some = {field: part[:600] for field, part in diagnoses._asdict().items()}
        diagnoses = diagnoses._replace(**some)
    tested = np.array(diagnoses.held_out)
    tree = bitkin.Taxonomy.from_paths(diagnoses.paths)
    X = bitkin.text_features(diagnoses.texts)
    return _sparse_set("icd10cm", tree, X, [path[-1] for path in diagnoses.paths], ~tested, tested)


def _tinyimagenet() -> TreeSet:
    stored = np.load(data_file("tinyimagenet_labels.npz"), allow_pickle=False)
    about = json.loads(data_file("tinyimagenet_paths.json").read_text())
    names = stored["wnids"].tolist()
    tree = (
        bitkin.Taxonomy.from_paths([[node for node, _ in about[name]["path"]] for name in names])
        .condensed()
        .cut(6)
    )
    parts = [
        csr_array(load_npz(data_file(f"bow_tinyimagenet_1000_{part}.npz")))
        for part in ("train", "test")
    ]
    X, X_test = (normalize(np.sqrt(part.astype(np.float32))) for part in parts)
    numbers = tree.index_of(names)
    y, y_test = numbers[stored["y_train"]], numbers[stored["y_test"]]
    return TreeSet("tinyimagenet", tree, csr_array(X), y, csr_array(X_test), y_test, X.shape[1])


def _imclef() -> TreeSet:
    stored = np.load(data_file("imclef07a.npz"), allow_pickle=False)
    labels, labels_test = (
        [label.rpartition("@")[2] for label in stored[f"y_{part}"]] for part in ("train", "test")
    )
    tree = bitkin.Taxonomy.from_labels(labels + labels_test, sep="/")
    X, X_test = stored["X_train"], stored["X_test"]
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0] = 1
    X, X_test = ((part - mean) / deviation for part in (X, X_test))
    y, y_test = tree.index_of(labels), tree.index_of(labels_test)
    return TreeSet("imclef07a", tree, X, y, X_test, y_test, X.shape[1], intercept=True)


def _sparse_set(
    name: str, tree: bitkin.Taxonomy, X: Any, labels: Sequence[Any], learned: Any, tested: Any
) -> TreeSet:
    """Return rows of length 1 over the columns in use, those of the training rows first."""
    X = csr_array(normalize(X))
    seen = np.unique(X[learned].indices)
    used = np.concatenate([seen, np.setdiff1d(X[tested].indices, seen)])
    order = np.argsort(used)
    numbers = tree.index_of(labels)

    def compact(rows: Any) -> Any:
        columns = order[np.searchsorted(used[order], rows.indices)].astype(np.int32)
        made = csr_array(
            (rows.data, columns, rows.indptr.astype(np.int32)), shape=(rows.shape[0], len(used))
        )
        made.sort_indices()
        return made

    return TreeSet(
        name,
        tree,
        compact(X[learned]),
        numbers[learned],
        compact(X[tested]),
        numbers[tested],
        len(seen),
    )


SETS: dict[str, Callable[[], TreeSet]] = {
    "newsgroups20": _newsgroups,
    "newsgroups20_known": functools.partial(_newsgroups, known_words_only=True),
    "onet": _onet,
    "imclef07a": _imclef,
    "tinyimagenet": _tinyimagenet,
    "icd10cm": _icd,
}
