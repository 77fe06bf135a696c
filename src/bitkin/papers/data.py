"""The data of the experiments: from a folder, from public servers, or what ships with the package.

Sets are looked for in the folder that is given, else in that of BITKIN_DATA, else in
`../shared/data`; then at their public sources, where the same set is to be had. A set that cannot
be had is left out of an experiment, and the report says so; without any, there is no experiment.
"""

from __future__ import annotations

import importlib.resources
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from bitkin.errors import (
    ArgumentError,
    CorruptFileError,
    EnvironmentVariableError,
    InvalidInputError,
)
from bitkin.papers import label_trees
from bitkin.papers.label_trees import LabelTree
from bitkin.papers.visual_words import count_words
from bitkin.randomness import Draws

VARIABLE = "BITKIN_DATA"
_BESIDE = Path("..") / "shared" / "data"
SHIPPED = "fashion_mnist_10k"
_BAGGED, _BAGS_ASKED = 3000, 600  # of its pictures become bags of visual words


@dataclass(frozen=True, slots=True, eq=False)
class DenseSet:
    """Vectors, one per row, and the classes of the rows."""

    name: str
    X: npt.NDArray[Any]
    y: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class BagSet:
    """Sparse rows of counts with their classes, and others to ask with."""

    name: str
    X: scipy.sparse.csr_matrix
    y: npt.NDArray[np.int64]
    Q: scipy.sparse.csr_matrix
    yq: npt.NDArray[np.int64]


class PaperData:
    """Finds data sets by name, and keeps those that were loaded.

    Parameters
    ----------
    folder : path, optional
        Where the files are.
    quick : bool, default False
        Use what ships with the package and nothing else.
    """

    def __init__(self, folder: Path | None = None, *, quick: bool = False) -> None:
        self.quick = quick
        self.folder = None if quick else _find_folder(folder)
        self.left_out: dict[str, str] = {}
        self._loaded: dict[str, Any] = {}

    def find(self, names: Sequence[str], what: str) -> list[str]:
        """Return those of some sets that can be had, loaded; raise where there is none of them."""
        found = self.find_some(names)
        if not found:
            missing = ", ".join(f"{name} ({self.left_out[name]})" for name in names)
            raise InvalidInputError(
                f"data for {what} must be there, and is not: {missing}. Name the folder that has "
                f"it by --data or {VARIABLE}, or take --quick."
            )
        return found

    def find_some(self, names: Sequence[str]) -> list[str]:
        """Return those of some sets that can be had, loaded; there may be none."""
        return [name for name in names if self._try(name)]

    def dense(self, name: str) -> DenseSet:
        """Return a set of dense vectors that `find` has found."""
        found = self._loaded[name]
        assert isinstance(found, DenseSet)
        return found

    def bags(self, name: str) -> BagSet:
        """Return a set of sparse rows that `find` has found."""
        found = self._loaded[name]
        assert isinstance(found, BagSet)
        return found

    def tree(self, name: str) -> LabelTree:
        """Return a set with a tree above its classes that `find` has found."""
        found = self._loaded[name]
        assert isinstance(found, LabelTree)
        return found

    def _try(self, name: str) -> bool:
        if name not in self._loaded and name not in self.left_out:
            try:
                self._loaded[name] = self._load(name)
            except FileNotFoundError as error:
                self.left_out[name] = str(error)
        return name in self._loaded

    def _load(self, name: str) -> Any:
        if name in _SHIPPED:
            return _SHIPPED[name]()
        if self.quick:
            raise FileNotFoundError("not in the package")
        stored = _FILES[name]
        paths = [] if self.folder is None else [self.folder / file for file in stored.files]
        if paths and all(path.is_file() for path in paths):
            try:
                return stored.read(paths)
            except (KeyError, ValueError, OSError) as error:
                raise CorruptFileError(
                    f"{paths[0]} is not the data set {name}: {error}."
                ) from error
        missing = [path.name for path in paths if not path.is_file()] or list(stored.files)
        place = f"not in {self.folder}" if self.folder is not None else "no folder of data"
        if stored.fetch is None:
            raise FileNotFoundError(f"{', '.join(missing)}: {place}, and no public source")
        try:
            return stored.fetch()
        except (OSError, ValueError) as error:  # no connection, or not what the server had before
            raise FileNotFoundError(
                f"{', '.join(missing)}: {place}, and its public source does not answer "
                f"({type(error).__name__})"
            ) from error


def _find_folder(given: Path | None) -> Path | None:
    if given is not None:
        if not given.is_dir():
            raise ArgumentError(f"must be a folder of data sets, got {given}.", "data")
        return given
    variable = os.environ.get(VARIABLE)
    if variable:
        if not Path(variable).is_dir():
            raise EnvironmentVariableError(
                f"{VARIABLE} must name a folder of data sets, got {variable}."
            )
        return Path(variable)
    return _BESIDE if _BESIDE.is_dir() else None


def _load_shipped() -> DenseSet:
    """Return the 10,000 pictures that ship with the package."""
    with (importlib.resources.files("bitkin.data") / f"{SHIPPED}.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        return DenseSet(SHIPPED, _flat(stored["images"]), stored["labels"].astype(np.int64))


def _read_fashion(paths: list[Path]) -> DenseSet:
    with np.load(paths[0], allow_pickle=False) as file:
        X = np.concatenate([_flat(file["X_train"]), _flat(file["X_test"])])
        y = np.concatenate([file["y_train"], file["y_test"]])
    return DenseSet("fashion_mnist", X, y.astype(np.int64))


def _fetch_fashion() -> DenseSet:
    from sklearn.datasets import fetch_openml

    found = fetch_openml("Fashion-MNIST", version=1, as_frame=False, parser="liac-arff")
    return DenseSet("fashion_mnist", found.data.astype(np.uint8), found.target.astype(np.int64))


def _read_gist(paths: list[Path]) -> DenseSet:
    with np.load(paths[0], allow_pickle=False) as file:
        X, y = np.concatenate([file["X"], file["Q"]]), np.concatenate([file["y"], file["yq"]])
    return DenseSet("cifar10_gist960", X, y.astype(np.int64))


def _load_shipped_bags(n_words: int) -> BagSet:
    """Return bags of visual words of the pictures that ship with the package."""
    shipped = _load_shipped()
    pictures = shipped.X[: _BAGGED + _BAGS_ASKED].reshape(-1, 28, 28)
    counts = count_words(pictures, n_words)
    return BagSet(
        f"bow_fashion_{n_words}",
        counts[:_BAGGED],
        shipped.y[:_BAGGED],
        counts[_BAGGED:],
        shipped.y[_BAGGED : len(pictures)],
    )


def _read_bags(paths: list[Path]) -> BagSet:
    X, Q = (scipy.sparse.csr_matrix(scipy.sparse.load_npz(path)) for path in paths[:2])
    with np.load(paths[2], allow_pickle=False) as file:
        y, yq = file["y_train"].astype(np.int64), file["y_test"].astype(np.int64)
    name = paths[0].name.removesuffix("_train.npz")
    return _shuffled(BagSet(name, X.astype(np.float32), y, Q.astype(np.float32), yq))


def _read_newsgroups(paths: list[Path]) -> BagSet:
    X = scipy.sparse.csr_matrix(scipy.sparse.load_npz(paths[0])).astype(np.float32)
    with np.load(paths[1], allow_pickle=False) as file:
        split, y = file["split"], file["y"].astype(np.int64)
    train, test = split == "train", split == "test"
    return _shuffled(BagSet("newsgroups20", X[train], y[train], X[test], y[test]))


def _fetch_newsgroups() -> BagSet:
    """Return the texts that scikit-learn fetches, their words counted: the same texts, cut into
    words by other rules.
    """
    from sklearn.datasets import fetch_20newsgroups
    from sklearn.feature_extraction.text import CountVectorizer

    train, test = (
        fetch_20newsgroups(subset=part, remove=("headers", "quotes")) for part in ("train", "test")
    )
    counts = CountVectorizer(min_df=2, dtype=np.float32)
    X, Q = counts.fit_transform(train.data), counts.transform(test.data)
    y, yq = train.target.astype(np.int64), test.target.astype(np.int64)
    return _shuffled(BagSet("newsgroups20", X, y, Q, yq))


def _fetch_newsgroups_tree() -> LabelTree:
    from sklearn.datasets import fetch_20newsgroups
    from sklearn.feature_extraction.text import CountVectorizer

    parts = [
        fetch_20newsgroups(subset=part, remove=("headers", "quotes")) for part in ("train", "test")
    ]
    counts = CountVectorizer(min_df=2, dtype=np.float32)
    X = scipy.sparse.csr_array(counts.fit_transform([text for part in parts for text in part.data]))
    groups = [part.target_names[number] for part in parts for number in part.target]
    learned = np.arange(len(groups)) < len(parts[0].data)
    return label_trees.tree_of_groups(X, groups, learned, ~learned)


def _shuffled(bags: BagSet) -> BagSet:
    """Return the rows in random order: files may have them class by class, and experiments take
    the first ones.
    """
    rows, asked = (
        Draws(0, f"{part} of {bags.name}").permutation(n)
        for part, n in (("rows", len(bags.y)), ("queries", len(bags.yq)))
    )
    return BagSet(bags.name, bags.X[rows], bags.y[rows], bags.Q[asked], bags.yq[asked])


def _flat(pictures: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return pictures.reshape(len(pictures), -1)


@dataclass(frozen=True, slots=True)
class _StoredSet:
    files: tuple[str, ...]
    read: Callable[[list[Path]], Any]
    fetch: Callable[[], Any] | None = None


_SHIPPED: dict[str, Callable[[], Any]] = {
    SHIPPED: _load_shipped,
    "icd10cm": label_trees.load_diagnoses,
    **{f"bow_fashion_{n}": partial(_load_shipped_bags, n) for n in (100, 300, 1000)},
}
_FILES = {
    "fashion_mnist": _StoredSet(("fashion_mnist.npz",), _read_fashion, _fetch_fashion),
    "cifar10_gist960": _StoredSet(("cifar10_gist960.npz",), _read_gist),
    "newsgroups20": _StoredSet(
        ("newsgroups20_bow.npz", "newsgroups20_labels.npz"), _read_newsgroups, _fetch_newsgroups
    ),
    "newsgroups20_tree": _StoredSet(
        ("newsgroups20_bow.npz", "newsgroups20_labels.npz"),
        label_trees.read_newsgroups,
        _fetch_newsgroups_tree,
    ),
    "imclef07a": _StoredSet(("imclef07a.npz",), label_trees.read_xrays),
    "onet_minilm": _StoredSet(("onet_tasks_minilm384.npz",), label_trees.read_task_vectors),
    "onet_text": _StoredSet(("onet_tasks.jsonl.gz",), label_trees.read_tasks),
    **{
        f"tinyimagenet_{kind}": _StoredSet(
            (
                f"bow_tinyimagenet_{kind}_train.npz",
                f"bow_tinyimagenet_{kind}_test.npz",
                "tinyimagenet_labels.npz",
                "tinyimagenet_paths.json",
            ),
            label_trees.read_images,
        )
        for kind in ("1000", "spm21000")
    },
    **{
        f"bow_cifar10_{n}": _StoredSet(
            (
                f"bow_cifar10_{n}_train.npz",
                f"bow_cifar10_{n}_test.npz",
                "bow_cifar10_labels.npz",
            ),
            _read_bags,
        )
        for n in (100, 300, 1000, 5000, 10_000)
    },
}
