"""The collection behind a store: opened, asked over HTTP, or made with the first texts.

All that a store asks of a `Collection` or a `Client` is asked here.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from bitkin.checks import named_path, one_of, shown, suggest, whole_number
from bitkin.choices import METRICS
from bitkin.collection.collection import Collection
from bitkin.collection.folder.lock import DATABASE
from bitkin.collection.metadata.documents import check_fields
from bitkin.collection.metadata.filters import matches, parse_filter
from bitkin.collection.results import Hits, Records
from bitkin.errors import FileAccessError, InvalidInputError, UnknownIdError
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.vector_stores.text_rows import RESERVED, TextRow, check_text_key, read_row

T = TypeVar("T")
N_BITS = 512
OVERSAMPLE = 50
_ROWS_TO_CENTER = 2048
_ROWS_OF_A_PAGE = 1000
_VECTORS = ("float32", "float16", "int8")
_SEARCH_OPTIONS = ("stage", "oversample", "first", "probes")
_STAGES = ("estimate", "exact")


@runtime_checkable
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


class TextHit(NamedTuple):
    """A text that was found."""

    row: TextRow
    distance: float


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


class TextCollection:
    """Texts by id in a collection, which may not be there before the first of them."""

    def __init__(
        self,
        collection: Any,
        *,
        text_key: str,
        metric: str | None,
        n_bits: int | None,
        vectors: str | None,
        fields: Any,
        own_fields: Mapping[str, str] | None = None,
    ) -> None:
        self.text_key = check_text_key(text_key)
        self._making = threading.Lock()
        self._source: TextSource | None = None
        self._is_ours = collection is None or isinstance(collection, (str, os.PathLike))
        given = {"metric": metric, "n_bits": n_bits, "vectors": vectors, "fields": fields}
        if not self._is_ours:
            for name, value in given.items():
                if value is not None:
                    raise InvalidInputError(
                        f"{name} must be left out where a collection is given, which has its own, "
                        f"got {shown(value)}."
                    )
            self._source = _check_source(collection)
        self._new = NewTextCollection(
            path=None if collection is None or not self._is_ours else _as_path(collection),
            metric=one_of("cosine" if metric is None else metric, "metric", METRICS),
            n_bits=whole_number(N_BITS if n_bits is None else n_bits, "n_bits", low=1),
            vectors=one_of("float16" if vectors is None else vectors, "vectors", _VECTORS),
            fields={**_check_own_fields(fields), **(own_fields or {})},
        )
        self._metric = self._new.metric
        if self._new.path is not None and _is_there(self._new.path):
            self._source = Collection.open(self._new.path)
        if self._source is not None:
            try:
                self._metric = _check_kind(self._source.stats(), metric)
            except InvalidInputError:
                self.close()
                raise

    @property
    def source(self) -> TextSource | None:
        """The collection or client; None before the first texts."""
        return self._source

    @property
    def is_in_memory(self) -> bool:
        """Whether everything ends with the process."""
        if self._source is None:
            return self._new.path is None
        return isinstance(self._source, Collection) and self._source.path is None

    @property
    def metric(self) -> str:
        """What distances are."""
        return self._metric

    def put(
        self,
        ids: Sequence[str],
        pieces: Sequence[npt.NDArray[np.float32]],
        rows: Sequence[dict[str, Any]],
    ) -> None:
        """Add rows, replacing those whose ids are there; their vectors come in pieces."""
        if not len(ids):
            return
        lengths = {piece.shape[1] for piece in pieces}
        if len(lengths) > 1:
            raise InvalidInputError(
                f"the embedding must make vectors of one length, got {sorted(lengths)}."
            )
        vectors = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        self._source_for(vectors).upsert(vectors, ids=list(ids), metadata=list(rows))

    def search(
        self,
        vector: Any,
        k: int,
        *,
        where: dict[str, Any] | None = None,
        allow: Sequence[str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> list[TextHit]:
        """Return the nearest texts, nearest first."""
        k = whole_number(k, "k", low=1)
        options = _check_options(options or {})
        query = as_vectors([vector], 1, "the embedding of the query")
        if self._source is None:
            return []
        restricted: dict[str, Any] = {} if where is None else {"where": where}
        if allow is not None:
            restricted["allow"] = list(allow)
        hits = self._source.search(query, k, **restricted, **options)
        metadata: Any = [None] * len(hits.ids[0]) if hits.metadata is None else hits.metadata[0]
        return [
            TextHit(read_row(id, row or {}, self.text_key), float(distance))
            for id, distance, row in zip(hits.ids[0], hits.distances[0], metadata, strict=True)
            if id is not None
        ]

    def get(self, ids: Sequence[str], where: dict[str, Any] | None = None) -> list[TextRow]:
        """Return those texts that are there and match, in the order of `ids`."""
        return [row for records in self._records(ids) for row in self._read(records, where)]

    def find(self, where: dict[str, Any] | None) -> list[TextRow]:
        """Return the texts that match, or all."""
        return [] if self._source is None else self._read(self._source.get(where=where))

    def vectors(self, ids: Sequence[str]) -> tuple[list[str], npt.NDArray[np.float64]]:
        """Return those of the ids that are there, and their vectors."""
        found = self._records(ids)
        if any(records.vectors is None for records in found):
            raise InvalidInputError(
                "the collection must keep vectors, of which hits that differ are chosen, but it "
                "has vectors=None. Search by similarity."
            )
        dense = [
            records.vectors.toarray() if hasattr(records.vectors, "toarray") else records.vectors
            for records in found
        ]
        there = [id for records in found for id in records.ids.tolist()]
        return there, np.concatenate(dense) if dense else np.empty((0, 0))

    def remove(self, ids: Sequence[str]) -> None:
        """Remove the rows that are there."""
        source = self._source
        if source is not None:
            _for_known(source.remove, list(dict.fromkeys(ids)))

    def remove_matching(self, where: dict[str, Any] | None) -> None:
        """Remove the rows that match, or all."""
        source = self._source
        if source is None:
            return
        if where is None:  # without reading rows
            self.remove(source.ids.tolist())
            return
        while ids := source.get(where=where, limit=_ROWS_OF_A_PAGE).ids.tolist():
            self.remove(ids)

    def close(self) -> None:
        """Close the collection, where it was opened or made here."""
        if self._is_ours and self._source is not None:
            self._source.close()

    def _source_for(self, vectors: npt.NDArray[np.float32]) -> TextSource:
        with self._making:
            if self._source is None:
                self._source = self._new.make(vectors)
            return self._source

    def _records(self, ids: Sequence[str]) -> list[Records]:
        return [] if self._source is None else _for_known(self._source.get, list(ids))

    def _read(self, records: Records, where: dict[str, Any] | None = None) -> list[TextRow]:
        condition = None if where is None else parse_filter(where)
        rows: Sequence[dict[str, Any]] = records.metadata or [{}] * len(records.ids)
        return [
            read_row(id, row, self.text_key)
            for id, row in zip(records.ids, rows, strict=True)
            if condition is None or matches(condition, row)
        ]


def as_vectors(vectors: Any, n: int, name: str) -> npt.NDArray[np.float32]:
    """Return what an embedding made of `n` texts, as rows; raise where those are none."""
    try:
        rows = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError):  # of several lengths, or no numbers
        rows = np.empty(0, dtype=np.float32)
    if rows.ndim != 2 or len(rows) != n or not rows.shape[1]:
        raise InvalidInputError(
            f"{name} must be one vector of numbers per text, all of one length, for {n:,} in all, "
            f"got {shown(vectors)}."
        )
    return rows


def _check_source(collection: Any) -> TextSource:
    if not isinstance(collection, TextSource):
        raise InvalidInputError(
            "collection must be a bitkin.Collection, a bitkin.Client, the path of a folder, or "
            f"None for one in memory, got {shown(collection)}."
        )
    if inspect.iscoroutinefunction(collection.search):
        raise InvalidInputError(
            f"collection must be a bitkin.Client, got a {type(collection).__name__}: the async "
            "methods of a store let a Client wait in a thread."
        )
    return collection


def _check_kind(about: Mapping[str, Any], metric: str | None) -> str:
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


def _check_own_fields(fields: Any) -> dict[str, str]:
    """Return fields that a caller declares, which are not those of this package."""
    checked = {} if fields is None else check_fields(fields)
    for name in RESERVED & checked.keys():
        raise InvalidInputError(f"fields must not be called {name!r}, which stores use themselves.")
    return checked


def _check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return how to search, beside what a store says itself."""
    for name in options:
        if name not in _SEARCH_OPTIONS:
            raise InvalidInputError(
                f"a search takes {', '.join(_SEARCH_OPTIONS)} beside its own arguments, got "
                f"{name}={shown(options[name])}.{suggest(name, _SEARCH_OPTIONS)}"
            )
    if options.get("stage") is not None:
        one_of(options["stage"], "stage", _STAGES, or_none=True)  # codes tell no similarity
    return dict(options)


def _as_path(path: Any) -> Path:
    return named_path(path, "collection", "folder").absolute()


def _is_there(path: Path) -> bool:
    """Tell whether a folder holds a collection; raise where none could be made either."""
    if (path / DATABASE).is_file():
        return True
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileAccessError(
            f"{path} is there already and holds no collection. Give the path of a collection, or "
            "one where nothing is yet."
        )
    return False


def _for_known(act: Callable[[list[str]], T], ids: list[str]) -> list[T]:
    """Do something for the ids that are there, by halves where some are not, and return the
    results.
    """
    if not ids:
        return []
    try:
        return [act(ids)]
    except UnknownIdError:
        if len(ids) == 1:
            return []
    middle = len(ids) // 2
    return [*_for_known(act, ids[:middle]), *_for_known(act, ids[middle:])]
