"""Sending many rows: batch by batch, each of them a transaction, and saying what has arrived where
one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.client.messages import Flow
from bitkin.client.remote import CollectionInfo, RemoteCollection
from bitkin.client.rows import IdRuns, RowBatch
from bitkin.collection.ids import require_different
from bitkin.collection.metadata.documents import (
    check_metadata,
    encode_documents,
    encode_metadata,
)
from bitkin.errors import BitkinError, DuplicateIdError, InvalidInputError, ServiceError

Progress = Callable[[int], object]
_MOST_RUNS = 8  # of ids made here, all of which somebody else would have
_CONFLICT, _TOO_LARGE = 409, 413


class RowSender:
    """Sends batches of rows, each a transaction of its own, and knows what has arrived."""

    def __init__(
        self,
        remote: RemoteCollection,
        runs: IdRuns,
        *,
        replaces: bool,
        progress: Progress | None,
        of_file: bool = False,
    ) -> None:
        self._remote = remote
        self._runs = runs
        self._replaces = replaces
        self._progress = progress
        self._of_file = of_file
        self._sent: list[npt.NDArray[Any]] = []
        self._makes_ids = False
        self._trying: npt.NDArray[Any] | None = None
        self.n_rows = 0

    def send(self, batches: Iterator[RowBatch]) -> Flow[npt.NDArray[Any]]:
        """Send all rows, and return their ids; an error says how many there are."""
        about = yield from self._remote.about()
        service = yield from self._remote.service()
        place = ""  # errors in what comes next name their own
        try:
            while (batch := next(batches, None)) is not None:
                place = batch.place
                yield from self._put(batch, about, service.most_bytes)
                place = ""
        except BitkinError as error:
            told = self._with_rest(error, place)
            if told is error:
                raise
            raise told from error
        except Exception as error:
            if self.n_rows:  # of the caller's own iterator, whose errors stay what they are
                error.add_note(self._rest().strip())
            raise
        nothing = np.empty(0, dtype=object if about.has_string_ids else np.int64)
        return np.concatenate([nothing, *self._sent]) if len(self._sent) != 1 else self._sent[0]

    def _put(self, batch: RowBatch, about: CollectionInfo, most_bytes: int) -> Flow[None]:
        """Send a batch, in halves where it is too large for the service."""
        if batch.n_rows == 0:
            return
        for _ in range(_MOST_RUNS):
            if batch.ids is None:
                self._makes_ids = True
                ids = self._runs.take(batch.n_rows, strings=about.has_string_ids)
            else:
                ids = batch.ids
            text = batch.as_json(ids)
            fits = len(text) <= most_bytes and len(text.encode()) <= most_bytes
            if fits or batch.n_rows == 1:
                self._trying = ids
                arrived = yield from self._put_once(batch, text, ids)
                self._trying = None
                if arrived:
                    self._sent.append(ids)
                    self.n_rows += batch.n_rows
                    if self._progress is not None:
                        self._progress(self.n_rows)
                    return
                if arrived is None:
                    self._runs.start_again()
                    continue
            half = batch.n_rows // 2
            yield from self._put(batch.part(0, half), about, most_bytes)
            yield from self._put(batch.part(half, batch.n_rows), about, most_bytes)
            return
        raise ServiceError(
            f"{self._remote.url} has rows under all ids that were made for these. Give ids of "
            "your own."
        )

    def _put_once(self, batch: RowBatch, text: str, ids: npt.NDArray[Any]) -> Flow[bool | None]:
        """Send rows, and return whether they are in: False where they are too many for one request,
        None where somebody else has ids that were made for them.
        """
        remote, made = self._remote, batch.ids is None
        passing = (_CONFLICT,) if made else ()
        if len(ids) > 1:
            passing = (*passing, _TOO_LARGE)
        reply = yield from remote.send(
            "PUT" if self._replaces else "POST",
            remote.path_to("items"),
            text,
            # ids made here are a key by themselves, which lasts longer than any other
            keyed=not (self._replaces or made),
            takes_long=batch.texts is not None,
            passing=passing,
        )
        if reply.status == _TOO_LARGE:
            return False
        if reply.status != _CONFLICT:
            return True
        if reply.problem.get("error") != DuplicateIdError.__name__:
            raise remote.error_in(reply)
        if reply.doubtful:
            # These rows are there, or those of somebody else. Rows of one request are all there or
            # none of them is, and nobody else can have all of these ids but by a chance that is
            # smaller than any other failure.
            there = yield from _are_all_there(remote, ids)
            if there:
                return True
        return None

    def _with_rest(self, error: BitkinError, place: str) -> BitkinError:
        rest = self._rest()
        maybe = isinstance(error, ServiceError) and error.maybe_done and self._trying is not None
        if maybe and self._trying is not None:
            rest += (
                f" Whether the {len(self._trying):,} behind them are there too, as ids "
                f"{_range_of(self._trying)}, is not known."
            )
        if not rest and self._of_file:
            rest = " Nothing was added."
        where = f"{place}: " if place else ""
        return with_words(error, where, rest)

    def _rest(self) -> str:
        """Say what there is of rows that were not all added."""
        if not self.n_rows:
            return ""
        n = f"{self.n_rows:,}"
        if self._makes_ids:
            first, last = self._sent[0], self._sent[-1]
            names = _range_of(np.concatenate([first[:1], last[-1:]]))
            return f" The first {n} rows were added, as ids {names}: go on with those behind them."
        if self._replaces:
            return f" The first {n} rows were added or replaced: send the others, or all again."
        return (
            f" The first {n} rows were added: add the others, or send all of them by upsert, which "
            "replaces those that are there."
        )


def with_words(error: BitkinError, before: str, behind: str) -> BitkinError:
    """Return an error of the same kind that says more."""
    if not (before or behind):
        return error
    message = f"{before}{error}{behind}"
    if isinstance(error, ServiceError):
        return type(error)(message, error.maybe_done)
    return type(error)(message)


def _range_of(ids: npt.NDArray[Any]) -> str:
    return f"{ids[0]}" if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"


def _are_all_there(remote: RemoteCollection, ids: npt.NDArray[Any]) -> Flow[bool]:
    reply = yield from remote.send(
        "POST", remote.path_to("items/get"), {"ids": ids.tolist()}, passing=(404,)
    )
    return reply.status != 404


class GivenRows:
    """The ids and metadata that a caller gave beside rows, dealt out to batches of these."""

    def __init__(self, n_rows: int | None, ids: Any, metadata: Any, about: CollectionInfo) -> None:
        self.n_rows = n_rows
        self._ids: npt.NDArray[Any] | None = None
        if ids is not None:
            self._ids = about.ids.check(ids)
            require_different(self._ids)
            if n_rows is not None:
                self._require_one_per_row(n_rows)
        self._documents: list[dict[str, Any]] | None = None
        if metadata is not None:
            n = n_rows
            if n is None:
                n = len(metadata) if hasattr(metadata, "__len__") else 0
            self._documents = check_metadata(metadata, n)
            encode_documents(self._documents, about.fields)

    def join(self, batches: Iterator[RowBatch]) -> Iterator[RowBatch]:
        """Yield batches with what belongs to their rows. Where something is given for rows of an
        iterator, a batch is held back until the next one is there, so that what is given for too
        many is found before the last of them is sent.
        """
        end, held = 0, None
        holds_back = self.n_rows is None and not (self._ids is None and self._documents is None)
        for batch in batches:
            first, end = end, end + batch.n_rows
            if self.n_rows is None:
                self._require_enough(end)
            if held is not None:
                yield held
            held = self._with_given(batch, first, end)
            if not holds_back:
                yield held
                held = None
        if self.n_rows is None:
            self._require_no_more(end)
        if held is not None:
            yield held

    def _with_given(self, batch: RowBatch, first: int, end: int) -> RowBatch:
        ids = None if self._ids is None else self._ids[first:end]
        texts = None
        if self._documents is not None:
            texts = metadata_texts(self._documents[first:end])
        return replace(batch, ids=ids, metadata=texts)

    def _require_one_per_row(self, n_rows: int) -> None:
        if self._ids is not None and len(self._ids) != n_rows:
            raise InvalidInputError(
                f"ids must be one a row, got {len(self._ids)} for {n_rows} rows."
            )

    def _require_enough(self, end: int) -> None:
        if self._ids is not None and len(self._ids) < end:
            raise InvalidInputError(
                f"ids must be one a row, got {len(self._ids)} for {end} rows or more."
            )
        if self._documents is not None and len(self._documents) < end:
            raise InvalidInputError(
                f"metadata must have one dictionary per row, got {len(self._documents):,} for "
                f"{end:,} rows or more."
            )

    def _require_no_more(self, end: int) -> None:
        self._require_one_per_row(end)
        if self._documents is not None and len(self._documents) != end:
            raise InvalidInputError(
                f"metadata must have one dictionary per row, got {len(self._documents):,} for "
                f"{end:,} rows."
            )


def metadata_texts(documents: Sequence[dict[str, Any]]) -> list[str]:
    """Return the metadata of rows as JSON."""
    return [encode_metadata(one, row) if one else "{}" for row, one in enumerate(documents)]
