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
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.errors import (
    ArgumentError,
    CorruptFileError,
    EnvironmentVariableError,
    InvalidInputError,
)

VARIABLE = "BITKIN_DATA"
_BESIDE = Path("..") / "shared" / "data"
SHIPPED = "fashion_mnist_10k"


@dataclass(frozen=True, slots=True, eq=False)
class DenseSet:
    """Vectors, one per row, and the classes of the rows."""

    name: str
    X: npt.NDArray[Any]
    y: npt.NDArray[np.int64]


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
        found = [name for name in names if self._try(name)]
        if not found:
            missing = ", ".join(f"{name} ({self.left_out[name]})" for name in names)
            raise InvalidInputError(
                f"data for {what} must be there, and is not: {missing}. Name the folder that has "
                f"it by --data or {VARIABLE}, or take --quick."
            )
        return found

    def dense(self, name: str) -> DenseSet:
        """Return a set of dense vectors that `find` has found."""
        found = self._loaded[name]
        assert isinstance(found, DenseSet)
        return found

    def _try(self, name: str) -> bool:
        if name not in self._loaded and name not in self.left_out:
            try:
                self._loaded[name] = self._load(name)
            except FileNotFoundError as error:
                self.left_out[name] = str(error)
        return name in self._loaded

    def _load(self, name: str) -> Any:
        if self.quick or name == SHIPPED:
            return _load_shipped()
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


def _flat(pictures: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return pictures.reshape(len(pictures), -1)


@dataclass(frozen=True, slots=True)
class _StoredSet:
    files: tuple[str, ...]
    read: Callable[[list[Path]], Any]
    fetch: Callable[[], Any] | None = None


_FILES = {
    "fashion_mnist": _StoredSet(("fashion_mnist.npz",), _read_fashion, _fetch_fashion),
    "cifar10_gist960": _StoredSet(("cifar10_gist960.npz",), _read_gist),
}
