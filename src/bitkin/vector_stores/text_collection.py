"""The collection behind a store: opened, asked over HTTP, or made with the first texts.

All that a store asks of a `Collection` or a `Client` is asked here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from bitkin.checks import one_of, shown, suggest, whole_number
from bitkin.collection.collection import Collection
from bitkin.collection.metadata.filters import matches, parse_filter
from bitkin.collection.results import Records
from bitkin.errors import InvalidInputError, UnknownIdError
from bitkin.vector_stores.text_rows import TextRow, check_text_key, read_row
from bitkin.vector_stores.text_source import (
    TextSource,
    check_kind,
    check_new,
    check_source,
    holds_collection,
)

T = TypeVar("T")
_ROWS_OF_A_PAGE = 1000
_SEARCH_OPTIONS = ("stage", "oversample", "first", "probes")
_STAGES = ("estimate", "exact")


class TextHit(NamedTuple):
    """A text that was found."""

    row: TextRow
    distance: float


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
            self._source = check_source(collection)
        self._new = check_new(
            collection if self._is_ours else None, own_fields=own_fields or {}, **given
        )
        self._metric = self._new.metric
        if self._new.path is not None and holds_collection(self._new.path):
            self._source = Collection.open(self._new.path)
        if self._source is not None:
            try:
                self._metric = check_kind(self._source.stats(), metric)
            except BaseException:
                self.close()  # or nobody could open the folder
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

    def vectors(self, ids: Sequence[str]) -> tuple[list[str], npt.NDArray[Any]]:
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
