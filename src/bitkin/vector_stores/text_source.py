"""Where texts may be kept: a collection that is given, one in a folder, or one that is made."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from bitkin.checks import named_path, one_of, shown, whole_number
from bitkin.choices import METRICS
from bitkin.collection.collection import Collection
from bitkin.collection.folder.lock import DATABASE
from bitkin.collection.metadata.documents import check_fields
from bitkin.collection.results import Hits, Records
from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.vector_stores.text_rows import RESERVED

N_BITS = 512
OVERSAMPLE = 50
_ROWS_TO_CENTER = 2048
_VECTORS = ("float32", "float16", "int8")
_METHODS = ("upsert", "remove", "get", "search", "count", "stats", "close")


class TextSource(Protocol):
    """What a `Collection` and a `Client` have in common, as far as stores need it."""

    @property
    def ids(self) -> npt.NDArray[Any]:
        """All ids."""

    def upsert(self, vectors: Any, *, ids: Any, metadata: Any = None) -> Any:
        """Add rows, replacing those that are there."""

    def remove(self, ids: Any) -> Any:
        """Remove rows."""

    def get(
        self, ids: Any = None, *, where: Any = None, limit: int | None = None, offset: int = 0
    ) -> Records:
        """Return rows."""

    def search(
        self,
        queries: Any,
        k: int,
        *,
        stage: str | None = None,
        oversample: int | None = None,
        where: Any = None,
        allow: Any = None,
        first: str | None = None,
        probes: int | None = None,
    ) -> Hits:
        """Return the nearest rows."""

    def count(self, where: Any = None) -> int:
        """Return how many rows there are."""

    def stats(self) -> dict[str, Any]:
        """Return what there is to say."""

    def close(self) -> None:
        """Let go of everything."""


@dataclass(frozen=True)
class NewTextCollection:
    """How a collection is made where there is none yet."""

    path: Path | None
    metric: str
    n_bits: int
    vectors: str
    fields: Mapping[str, str]

    def make(self, vectors: npt.NDArray[np.float32]) -> Collection:
        """Make an empty collection for vectors such as these.

        Directions are random: there may be few texts, and they may be unlike those to come. Two
        things make up for what such codes lose. They are centered on the texts at hand, since
        embeddings of one model often lie all on one side, and `OVERSAMPLE` rows per neighbour are
        measured by their vectors.
        """
        hasher = ProjectionHash(
            self.n_bits,
            projection="random",
            rotation=None,
            center=True,
            normalize=self.metric == "cosine",
        )
        return Collection.create(
            self.path,
            hasher.fit(vectors[:_ROWS_TO_CENTER]),
            metric=self.metric,
            vectors=self.vectors,
            ids="str",
            fields=dict(self.fields),
            oversample=OVERSAMPLE,
            index="flat",  # cells, which "auto" takes in memory, would miss some
        )


def check_new(
    path: Any, *, metric: Any, n_bits: Any, vectors: Any, fields: Any, own_fields: Mapping[str, str]
) -> NewTextCollection:
    """Return how a collection is to be made; None stands for what suits texts."""
    return NewTextCollection(
        path=None if path is None else named_path(path, "collection", "folder").absolute(),
        metric=one_of("cosine" if metric is None else metric, "metric", METRICS),
        n_bits=whole_number(N_BITS if n_bits is None else n_bits, "n_bits", low=1),
        vectors=one_of("float16" if vectors is None else vectors, "vectors", _VECTORS),
        fields={**_check_fields(fields), **own_fields},
    )


def check_source(collection: Any) -> TextSource:
    """Return a collection or client that was given; raise for what is neither."""
    # asked of the class: `ids` of a client would fetch them all
    if not all(callable(getattr(type(collection), name, None)) for name in _METHODS):
        raise InvalidInputError(
            "collection must be a bitkin.Collection, a bitkin.Client, the path of a folder, or "
            f"None for one in memory, got {shown(collection)}."
        )
    if inspect.iscoroutinefunction(collection.search):
        raise InvalidInputError(
            f"collection must be a bitkin.Client, got a {type(collection).__name__}: the async "
            "methods of a store let a Client wait in a thread."
        )
    return cast(TextSource, collection)


def check_kind(about: Mapping[str, Any], metric: str | None) -> str:
    """Return the metric of a collection; raise where it cannot be a store of texts, or has another
    metric than the one asked for.
    """
    if about["ids"] != "str":
        raise InvalidInputError(
            "collection must have strings as ids, as stores of texts do, got one with "
            f"ids={about['ids']!r}. Make one with ids='str', or leave that to the store."
        )
    if about["stage"] == "codes":
        raise InvalidInputError(
            "collection must measure or estimate distances, got one whose searches end with codes. "
            "Make one that keeps vectors."
        )
    if metric not in (None, about["metric"]):
        raise InvalidInputError(
            f"metric must be {about['metric']!r}, which the collection has, got {metric!r}. Leave "
            "it out, or make another collection."
        )
    return str(about["metric"])


def _check_fields(fields: Any) -> dict[str, str]:
    """Return fields that a caller declares, which are not those of this package."""
    checked = {} if fields is None else check_fields(fields)
    for name in RESERVED & checked.keys():
        raise InvalidInputError(f"fields must not be called {name!r}, which stores use themselves.")
    return checked


def holds_collection(path: Path) -> bool:
    """Tell whether a folder holds a collection; raise where none could be made either."""
    if (path / DATABASE).is_file():
        return True
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileAccessError(
            f"{path} is there already and holds no collection. Give the path of a collection, or "
            "one where nothing is yet."
        )
    return False
