"""Flows that change something: rows in, rows out, learning, and the collections themselves."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import flag, named_path, require_order, shown, whole_number
from bitkin.client.connections import check_name
from bitkin.client.messages import Flow
from bitkin.client.remote import CollectionInfo, RemoteCollection
from bitkin.client.rows import (
    IdRuns,
    RowBatch,
    check_texts,
    float_batches,
    open_rows,
    require_n_features,
)
from bitkin.client.sending import GivenRows, Progress, RowSender, metadata_texts, with_words
from bitkin.codes import Codes, require_codes, require_comparable
from bitkin.collection.ids import require_different
from bitkin.collection.metadata.documents import (
    check_metadata,
    encode_documents,
    encode_metadata,
)
from bitkin.errors import BitkinError, InvalidInputError
from bitkin.io.vectors.stored import ArraySource
from bitkin.wire import pack_vectors

_TEXTS_AT_ONCE = 256  # of which a service makes vectors for one request


def require_ids(ids: Any) -> None:
    """Raise where rows are to be replaced, and none are named."""
    if ids is None:
        raise InvalidInputError(
            "ids must be given to upsert, one a row. Use add for ids that are made here."
        )


def add(
    remote: RemoteCollection,
    runs: IdRuns,
    vectors: Any,
    *,
    ids: Any,
    metadata: Any,
    progress: Progress | None,
    replaces: bool,
) -> Flow[npt.NDArray[Any]]:
    """Add vectors, or replace those that are there, some megabytes per request."""
    require_order(ids)
    if isinstance(vectors, Codes):
        return (
            yield from add_codes(
                remote,
                runs,
                vectors,
                ids=ids,
                corrections=None,
                metadata=metadata,
                progress=progress,
                replaces=replaces,
            )
        )
    about = yield from remote.about()
    service = yield from remote.service()
    source = open_rows(vectors, "vectors")
    if source.shape[1] != about.n_features:
        about = yield from remote.about_now()
    require_n_features(source, about)
    given = GivenRows(source.shape[0], ids, metadata, about)
    most = service.most_rows
    if isinstance(source, ArraySource) and given.n_rows is not None:
        # what is in memory is checked to its end before anything is sent
        for _ in float_batches(source, most):
            pass
    batches = (
        RowBatch(batch.shape[0], vectors=batch, place=_place("vectors", first))
        for first, batch in float_batches(source, most)
    )
    sender = RowSender(remote, runs, replaces=replaces, progress=progress)
    return (yield from sender.send(given.join(batches)))


def add_codes(
    remote: RemoteCollection,
    runs: IdRuns,
    codes: Any,
    *,
    ids: Any,
    corrections: Any,
    metadata: Any,
    progress: Progress | None = None,
    replaces: bool = False,
) -> Flow[npt.NDArray[Any]]:
    """Add codes without their vectors."""
    require_order(ids)
    codes = require_codes(codes, "codes")
    about = yield from remote.about_now()
    service = yield from remote.service()
    require_comparable(about.spec, about.fingerprint, codes, "codes")
    numbers = None if corrections is None else _check_corrections(corrections, len(codes))
    given = GivenRows(len(codes), ids, metadata, about)
    whole = RowBatch(len(codes), codes=codes, corrections=numbers)
    most = min(service.most_rows, max(1, service.most_bytes // (8 * about.spec.n_bytes + 64)))
    batches = (
        replace(whole.part(first, min(len(codes), first + most)), place=_place("codes", first))
        for first in range(0, len(codes), most)
    )
    sender = RowSender(remote, runs, replaces=replaces, progress=progress)
    return (yield from sender.send(given.join(batches)))


def add_texts(
    remote: RemoteCollection,
    runs: IdRuns,
    texts: Any,
    *,
    ids: Any,
    metadata: Any,
    key: Any,
    progress: Progress | None,
    replaces: bool,
) -> Flow[npt.NDArray[Any]]:
    """Add texts, of which the service makes vectors."""
    require_order(ids)
    require_order(texts, "texts")
    listed = check_texts(texts)
    if not isinstance(key, str) or not key:
        raise InvalidInputError(f"key must be a non-empty string, got {shown(key)}.")
    about = yield from remote.about()
    service = yield from remote.service()
    given = GivenRows(len(listed), ids, metadata, about)
    whole = RowBatch(len(listed), texts=listed, text_key=key)
    most = min(service.most_rows, _TEXTS_AT_ONCE)
    batches = (
        replace(whole.part(first, min(len(listed), first + most)), place=_place("texts", first))
        for first in range(0, len(listed), most)
    )
    sender = RowSender(remote, runs, replaces=replaces, progress=progress)
    return (yield from sender.send(given.join(batches)))


def _place(name: str, first: int) -> str:
    """Say where a batch begins that is not the first."""
    return f"{name} from row {first:,} on" if first else ""


def _check_corrections(corrections: Any, n: int) -> npt.NDArray[np.float32]:
    try:
        numbers = np.asarray(corrections, dtype=np.float32)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"corrections must be numbers, two per code, got {shown(corrections)}."
        ) from None
    if numbers.shape != (n, 2) or not np.isfinite(numbers).all():
        raise InvalidInputError(
            f"corrections must be finite and of shape {(n, 2)}, got shape {numbers.shape}."
        )
    return numbers


def remove(remote: RemoteCollection, ids: Any) -> Flow[None]:
    """Remove rows."""
    about = yield from remote.about()
    service = yield from remote.service()
    given = list(dict.fromkeys(about.ids.check(ids).tolist()))
    n_done = 0
    for some in _cut(given, service.most_rows):
        with _counting(n_done, "removed"):
            yield from remote.ask("POST", "items/remove", {"ids": some}, keyed=True)
        n_done += len(some)


def update_metadata(
    remote: RemoteCollection, ids: Any, metadata: Any, *, replace: Any
) -> Flow[None]:
    """Change the metadata of rows."""
    replace = flag(replace, "replace")
    about = yield from remote.about()
    service = yield from remote.service()
    given = about.ids.check(ids)
    for_all = isinstance(metadata, dict)
    documents = check_metadata([metadata] if for_all else metadata, 1 if for_all else len(given))
    require_different(given)
    texts = [encode_metadata(one, row) for row, one in enumerate(documents)]
    encode_documents(documents, about.fields)
    n_done = 0
    for some in _cut(given.tolist(), service.most_rows):
        part = texts[0] if for_all else f"[{', '.join(texts[n_done : n_done + len(some)])}]"
        body = (
            f'{{"ids": {json.dumps(some)}, "metadata": {part}, "replace": {json.dumps(replace)}}}'
        )
        with _counting(n_done, "changed"):
            yield from remote.ask("PATCH", "items", body)
        n_done += len(some)


def _cut(values: list[Any], most: int) -> Iterator[list[Any]]:
    return (values[first : first + most] for first in range(0, len(values), most))


@contextmanager
def _counting(n_done: int, what: str) -> Iterator[None]:
    """Let an error of the block say how many rows were changed before it."""
    try:
        yield
    except BitkinError as error:
        if not n_done:
            raise
        raise with_words(error, "", f" The first {n_done:,} were {what}.") from error


def learn(remote: RemoteCollection, vectors: Any) -> Flow[bool]:
    """Let the hasher learn from vectors."""
    about = yield from remote.about()
    service = yield from remote.service()
    source = open_rows(vectors, "vectors")
    require_n_features(source, about)
    began = False
    n_done = 0
    for _, batch in float_batches(source, service.most_rows):
        body = {"vectors": pack_vectors(batch)}
        with _counting(n_done, "learned from"):
            answer = yield from remote.ask("POST", "learn", body, keyed=True, takes_long=True)
        n_done += batch.shape[0]
        with remote.understood("learn"):
            began = bool(answer["epoch_began"]) or began
    remote.forget()
    return began


def new_epoch(remote: RemoteCollection) -> Flow[bool]:
    """Let what was learned encode new rows."""
    answer = yield from remote.ask("POST", "epochs", {}, keyed=True, takes_long=True)
    remote.forget()
    with remote.understood("epochs"):
        return bool(answer["epoch_began"])


def reencode(remote: RemoteCollection) -> Flow[int]:
    """Encode rows of earlier epochs again."""
    answer = yield from remote.ask("POST", "reencode", {}, keyed=True, takes_long=True)
    remote.forget()
    with remote.understood("reencode"):
        return int(answer["rows"])


def do(remote: RemoteCollection, what: str) -> Flow[None]:
    """Let the service compact, write a checkpoint or verify."""
    yield from remote.ask("POST", what, {}, takes_long=True)


def backup(remote: RemoteCollection, name: Any) -> Flow[str]:
    """Write a copy, where the service keeps those."""
    body = {"name": check_name(name)}
    answer = yield from remote.ask("POST", "backup", body, keyed=True, takes_long=True)
    with remote.understood("backup"):
        return str(answer["path"])


def import_file(
    remote: RemoteCollection,
    runs: IdRuns,
    path: Any,
    *,
    upsert: Any,
    progress: Progress | None,
    batch_rows: int,
    ids: Any,
    metadata: Any,
    **options: Any,
) -> Flow[int]:
    """Add the rows of a file, a batch at a time."""
    from bitkin.collection.transfer.arriving import RowFileOptions, RowTarget
    from bitkin.collection.transfer.importing import open_row_file

    upsert = flag(upsert, "upsert")
    batch_rows = whole_number(batch_rows, "batch_rows", low=1)
    about = yield from remote.about_now()
    service = yield from remote.service()
    rows = open_row_file(
        path,
        RowFileOptions(
            options["id"],
            options["vector"],
            options["text"],
            options["embed"],
            None if ids is None else named_path(ids, "ids"),
            None if metadata is None else named_path(metadata, "metadata"),
            batch_rows=min(batch_rows, service.most_rows),
        ),
        RowTarget(about.spec, about.n_features, about.has_string_ids, about.vectors is not None),
    )
    sender = RowSender(remote, runs, replaces=upsert, progress=progress, of_file=True)
    yield from sender.send(_arriving(rows.batches(), about, upsert=upsert))
    return sender.n_rows


def _arriving(batches: Any, about: CollectionInfo, *, upsert: bool) -> Iterator[RowBatch]:
    """Yield rows of a file as they are sent."""
    for batch in batches:
        if upsert and batch.ids is None:
            raise InvalidInputError("upsert must be False for rows without ids.")
        ids = None if batch.ids is None else about.ids.check(batch.ids)
        if ids is not None:
            require_different(ids)
        texts = None
        if batch.metadata is not None:
            encode_documents(batch.metadata, about.fields)
            texts = metadata_texts(batch.metadata)
        if batch.codes is not None:
            require_comparable(about.spec, about.fingerprint, batch.codes, "codes")
            yield RowBatch(
                batch.n_rows,
                codes=batch.codes,
                corrections=batch.corrections,
                ids=ids,
                metadata=texts,
                place=batch.place,
            )
            continue
        source = open_rows(batch.vectors, batch.place)
        require_n_features(source, about)
        for first, some in float_batches(source, batch.n_rows):
            stop = first + some.shape[0]
            yield RowBatch(
                some.shape[0],
                vectors=some,
                ids=None if ids is None else ids[first:stop],
                metadata=None if texts is None else texts[first:stop],
                place=batch.place,
            )


def collections(remote: RemoteCollection) -> Flow[list[str]]:
    """Return the names of all collections."""
    reply = yield from remote.send("GET", "/v1/collections")
    with remote.understood("collections"):
        return [str(one["name"]) for one in remote.read(reply)["collections"]]


def create_collection(
    remote: RemoteCollection, name: Any, hasher: Any, *, sample: Any, **settings: Any
) -> Flow[None]:
    """Make a collection where the service holds a folder of them."""
    body: dict[str, Any] = {"name": check_name(name)}
    if hasher is not None:
        body["model"] = _file_of(hasher)
    if sample is not None:
        rows = [batch for _, batch in float_batches(open_rows(sample, "sample"), 1 << 62)]
        if len(rows) != 1:
            n = sum(batch.shape[0] for batch in rows)
            raise InvalidInputError(
                f"sample must fit into one request, got {n:,} rows. Give some thousand of them, or "
                "a hasher that is fitted."
            )
        body["sample"] = pack_vectors(rows[0])
    fields = settings.pop("fields")
    if fields is not None:
        from bitkin.collection.metadata.documents import check_fields

        body["fields"] = check_fields(fields)
    vectors = settings.pop("vectors")
    body["vectors"] = "none" if vectors is None else vectors
    body.update({key: value for key, value in settings.items() if value is not None})
    yield from remote.send("POST", "/v1/collections", body, keyed=True)


def _file_of(hasher: Any) -> str:
    """Return the file of a fitted hasher in base64."""
    from bitkin.collection.encoding import freeze_hasher

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bitkin"
        freeze_hasher(hasher)  # which says what is no fitted hasher
        hasher.save(path)  # a stream with what it learns from
        return base64.b64encode(path.read_bytes()).decode("ascii")


def drop_collection(remote: RemoteCollection, name: Any) -> Flow[None]:
    """Delete a collection."""
    other = remote.named(check_name(name))
    yield from remote.send("DELETE", other.path_to("").rstrip("/"), keyed=True)
