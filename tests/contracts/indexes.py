"""Every exported index, behind one way to make it, fill it and ask it. Exporting a class that adds,
removes and searches is what gets it tested: an index of codes needs nothing more, any other a
`Kind` of its own here.

All kinds are given vectors, so that one truth serves them: indexes of codes are searched by codes,
`EpochIndex` by the estimate, `Collection` by exact distances.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import bitkin
from bitkin import BandIndex, CellIndex, Collection, EpochIndex, ProjectionHash
from bitkin.index.base import RowIndex
from tests.collection.model import Model, Truth, rows_like

D = 9
HASHER = ProjectionHash(8).fit(rows_like(300, D))
# Another model of the same spec, and one with other features and another spec.
OTHER = ProjectionHash(8, random_state=1).fit(rows_like(300, D, seed=5))
WIDER = ProjectionHash(10).fit(rows_like(300, D + 3))
COVERS_ALL = 10_000

Rows = npt.NDArray[np.float32]


class Kind(ABC):
    """One exported class, and how its calls differ from those of the others."""

    stage: str
    """The stage of a collection whose distances its answers hold."""
    worst: float
    """The distance where there is no match."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exported = getattr(bitkin, name)

    def __repr__(self) -> str:
        return self.name

    @abstractmethod
    def make(self) -> Any:
        """Return an index without rows."""

    @abstractmethod
    def add(self, index: Any, rows: Rows, ids: Any = None) -> npt.NDArray[np.int64]:
        """Add vectors."""

    @abstractmethod
    def search(self, index: Any, queries: Rows, k: Any, **options: Any) -> Any:
        """Search for vectors, with a shortlist of all rows where there is one."""

    @abstractmethod
    def foreign(self, index: Any) -> list[Callable[[], Any]]:
        """Return calls that add or search what another hasher made, or rows of another length."""

    def filled(self, rows: Rows, ids: Any = None) -> Any:
        """Return an index with these rows."""
        index = self.make()
        self.add(index, rows, ids)
        return index

    def truth(self, rows: dict[int, Rows], queries: Rows, k: int, allow: Any = None) -> Truth:
        """Return what a search must find."""
        return Model(HASHER, rows=rows).search(queries, k, self.stage, COVERS_ALL, allow)

    def upsert(self, index: Any, rows: Rows, ids: Any) -> None:
        """Add and replace; only asked of classes that have `upsert`."""
        index.upsert(rows, ids=ids)

    @property
    def replaces(self) -> bool:
        """Whether rows can be replaced."""
        return hasattr(self.exported, "upsert")

    @property
    def saves(self) -> bool:
        """Whether there are files."""
        return hasattr(self.exported, "save")

    def load(self, path: Path, mmap: bool) -> Any:
        """Return what was saved."""
        return self.exported.load(path, mmap=mmap)


class OfCodes(Kind):
    """Any `RowIndex`: made from a spec, given codes."""

    stage = "codes"
    worst = HASHER.spec_.n_symbols + 1

    def make(self) -> Any:
        settings: dict[str, Any] = {}
        if issubclass(self.exported, BandIndex):
            settings = {"band_bits": 4, "probes": 15}  # all keys of a band: nothing is missed
        if issubclass(self.exported, CellIndex):
            settings = {"n_cells": 4, "probes": COVERS_ALL}
        return self.exported(HASHER.spec_, **settings)

    def add(self, index: Any, rows: Rows, ids: Any = None) -> npt.NDArray[np.int64]:
        added: npt.NDArray[np.int64] = index.add(HASHER.encode(rows), ids)
        return added

    def search(self, index: Any, queries: Rows, k: Any, **options: Any) -> Any:
        return index.search(HASHER.encode(queries), k, **options)

    def foreign(self, index: Any) -> list[Callable[[], Any]]:
        wide, other = WIDER.encode(rows_like(2, D + 3)), OTHER.encode(rows_like(2, D))
        return [
            lambda: index.add(wide),
            lambda: index.add(other),
            lambda: index.search(wide, 1),
            lambda: index.search(other, 1),
        ]

    def upsert(self, index: Any, rows: Rows, ids: Any) -> None:
        index.upsert(HASHER.encode(rows), ids)


class OfEpochs(Kind):
    """An index of codes of several snapshots; here of one, whose truth is simple."""

    stage = "estimate"
    worst = np.inf

    def make(self) -> Any:
        return self.exported()

    def add(self, index: Any, rows: Rows, ids: Any = None) -> npt.NDArray[np.int64]:
        added: npt.NDArray[np.int64] = index.add(HASHER, rows, ids)
        return added

    def search(self, index: Any, queries: Rows, k: Any, **options: Any) -> Any:
        return index.search(queries, k, oversample=COVERS_ALL, **options)

    def foreign(self, index: Any) -> list[Callable[[], Any]]:
        wide = rows_like(2, D + 3)
        codes = OTHER.encode(rows_like(2, D))
        numbers = bitkin.corrections(OTHER, rows_like(2, D))
        return [
            lambda: index.add(WIDER, wide),
            lambda: index.add(HASHER, wide),
            lambda: index.add_codes(codes, numbers),
            lambda: index.search(wide, 1),
        ]


class OfVectors(Kind):
    """A collection, which has the hasher inside, with one of its stages."""

    def __init__(self, name: str, stage: str) -> None:
        super().__init__(name)
        self.stage = stage
        self.worst = HASHER.spec_.n_symbols + 1 if stage == "codes" else np.inf

    def __repr__(self) -> str:
        return f"{self.name}, {self.stage}"

    def make(self) -> Any:
        return self.exported.create(None, HASHER, stage=self.stage)

    def add(self, index: Any, rows: Rows, ids: Any = None) -> npt.NDArray[np.int64]:
        added: npt.NDArray[np.int64] = index.add(rows, ids=ids)
        return added

    def search(self, index: Any, queries: Rows, k: Any, **options: Any) -> Any:
        return index.search(queries, k, oversample=COVERS_ALL, **options)

    def foreign(self, index: Any) -> list[Callable[[], Any]]:
        wide = rows_like(2, D + 3)
        return [lambda: index.add(wide), lambda: index.search(wide, 1)]


def exported() -> list[str]:
    """All indexes among the public names: classes that add, remove and search.

    A `Client` holds no rows: it asks a `Collection` of another process, and tests/client compares
    every method of it with that collection's own.
    """
    public = {name: getattr(bitkin, name) for name in bitkin.__all__}
    del public["Client"]
    return [
        name
        for name, value in public.items()
        if inspect.isclass(value)
        and all(hasattr(value, verb) for verb in ("add", "remove", "search", "__len__"))
    ]


def kinds_of(name: str) -> list[Kind]:
    """Return the kinds of an exported index; none where nobody has said how it is used."""
    found = getattr(bitkin, name)
    if issubclass(found, RowIndex):
        return [OfCodes(name)]
    if found is EpochIndex:
        return [OfEpochs(name)]
    if found is Collection:
        return [OfVectors(name, stage) for stage in ("codes", "estimate", "exact")]
    return []


KINDS = [kind for name in exported() for kind in kinds_of(name)]
