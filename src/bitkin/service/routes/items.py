"""`items`: rows in, out, changed and removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Query, Request, Response

from bitkin.checks import whole_number
from bitkin.collection.collection import Collection
from bitkin.collection.results import Records
from bitkin.errors import InvalidInputError
from bitkin.service.asked import (
    RowsToWrite,
    filter_in,
    parse_id,
    read_binary,
    read_lines,
    read_rows,
)
from bitkin.service.bodies import content_type, json_body, parse_body
from bitkin.service.context import collection_of, context_of, may_read, may_write
from bitkin.service.routes.answers import answer, body_of, described, encode_large, parameter
from bitkin.service.schemas import (
    GetBody,
    IdsAnswer,
    Item,
    ItemsAnswer,
    ItemsBody,
    MetadataBody,
    MetadataOfIdsBody,
    RemoveBody,
    RemovedAnswer,
    UpdatedAnswer,
)
from bitkin.service.served import ServedCollection
from bitkin.service.settings import ServiceLimits
from bitkin.wire import BINARY_TYPE, JSON_TYPE, LINES_TYPE

reading = APIRouter(tags=["items"], dependencies=[Depends(may_read)])
writing = APIRouter(tags=["items"], dependencies=[Depends(may_write)])

_OF_OTHER_BODIES = {
    "parameters": [
        parameter("first_id", "integer", "Of a binary body: the id of its first row.", minimum=0),
        parameter("text_key", "string", "Of JSON lines: the key of texts to embed."),
    ]
}


@reading.get("/items", summary="Go through rows", responses=described(ItemsAnswer))
async def list_items(
    request: Request,
    where: str | None = None,
    limit: Annotated[int, Query(ge=0)] = 20,
    offset: Annotated[int, Query(ge=0, le=2**63 - 1)] = 0,
    vectors: bool = False,
    codes: bool = False,
) -> Response:
    """Return a page of the rows that match a filter, or of all, by ascending id."""
    body = GetBody(where=filter_in(where), limit=limit, offset=offset, vectors=vectors, codes=codes)
    return await _get(request, body)


@reading.post(
    "/items/get",
    summary="Get rows",
    responses=described(ItemsAnswer),
    openapi_extra=body_of(GetBody),
)
async def get_items(request: Request) -> Response:
    """Return rows by id, in that order, or a page of those that match a filter."""
    return await _get(request, await json_body(request, GetBody, context_of(request).bodies))


@reading.get("/items/{id:path}", summary="Get one row", responses=described(Item))
async def get_item(
    request: Request, id: str, vectors: bool = False, codes: bool = False
) -> Response:
    """Return one row."""
    served = collection_of(request)
    name = parse_id(served, id)
    body = GetBody(vectors=vectors, codes=codes)
    return answer(await served.read(_item_of, served.collection, name, body))


@reading.get("/ids", summary="List ids", responses=described(IdsAnswer))
async def list_ids(request: Request) -> Response:
    """Return all ids of one moment, in the order of ties."""
    served = collection_of(request)
    body = await served.read(lambda: encode_large({"ids": served.collection.ids.tolist()}))
    return Response(body, media_type=JSON_TYPE)


@writing.post(
    "/items",
    summary="Add rows",
    status_code=201,
    responses=described(IdsAnswer, 201, writes=True),
    openapi_extra={**body_of(ItemsBody, lines=True, binary=True), **_OF_OTHER_BODIES},
)
async def add_items(request: Request) -> Response:
    """Add rows, all or none; an id that is there is a 409. JSON lines hold a row each, with its id,
    vector (or code, or text) and metadata; a binary body is float32 numbers, row after row.
    """
    return await _put(request, upsert=False)


@writing.put(
    "/items",
    summary="Add or replace rows",
    responses=described(IdsAnswer, writes=True),
    openapi_extra={**body_of(ItemsBody, lines=True, binary=True), **_OF_OTHER_BODIES},
)
async def upsert_items(request: Request) -> Response:
    """Add rows, and replace those whose ids are there: sent twice, it does the same as once."""
    return await _put(request, upsert=True)


@writing.patch(
    "/items",
    summary="Change metadata of rows",
    responses=described(UpdatedAnswer, writes=True),
    openapi_extra=body_of(MetadataOfIdsBody),
)
async def update_items(request: Request) -> Response:
    """Change keys of the metadata of rows; null takes a key away, others stay."""

    def change(collection: Collection, body: MetadataOfIdsBody) -> dict[str, int]:
        collection.update_metadata(body.ids, body.metadata, replace=body.replace)
        return {"updated": len(body.ids)}

    return await _change(request, MetadataOfIdsBody, change)


@writing.patch(
    "/items/{id:path}",
    summary="Change metadata of one row",
    responses=described(UpdatedAnswer, writes=True),
    openapi_extra=body_of(MetadataBody),
)
async def update_item(request: Request, id: str) -> Response:
    """Change keys of the metadata of one row; null takes a key away, others stay."""
    name = parse_id(collection_of(request), id)

    def change(collection: Collection, body: MetadataBody) -> dict[str, int]:
        collection.update_metadata([name], body.metadata, replace=body.replace)
        return {"updated": 1}

    return await _change(request, MetadataBody, change)


@writing.post(
    "/items/remove",
    summary="Remove rows",
    responses=described(RemovedAnswer, writes=True),
    openapi_extra=body_of(RemoveBody),
)
async def remove_items(request: Request) -> Response:
    """Remove rows by id, all or none; an id that is not there is a 404 unless `missing` is
    "ignore".
    """

    def change(collection: Collection, body: RemoveBody) -> dict[str, int]:
        ids: list[Any] = list(dict.fromkeys(body.ids))
        if body.missing == "ignore":
            ids = [one for one in ids if one in collection]
        if ids:
            collection.remove(ids)
        return {"removed": len(ids)}

    return await _change(request, RemoveBody, change)


@writing.delete(
    "/items/{id:path}",
    summary="Remove one row",
    status_code=204,
    responses=described(None, 204, writes=True),
)
async def remove_item(request: Request, id: str) -> Response:
    """Remove one row."""
    served = collection_of(request)
    name = parse_id(served, id)

    async def remove() -> Response:
        await served.write(served.collection.remove, [name])
        return Response(status_code=204)

    return await context_of(request).once.answer(request, b"", remove)


async def _get(request: Request, body: GetBody) -> Response:
    served, limits = collection_of(request), context_of(request).limits
    if body.ids is not None and body.where is not None:
        raise InvalidInputError("where must be absent where rows are asked for by ids.")
    if body.ids is not None and len(body.ids) > limits.rows:
        raise InvalidInputError(
            f"ids must be at most {limits.rows:,} at a time, got {len(body.ids):,}."
        )
    whole_number(body.limit, "limit", low=0, high=limits.rows)
    call = partial(_page_of, served.collection, body, limits)
    return Response(await served.read(call), media_type=JSON_TYPE)


def _page_of(collection: Collection, body: GetBody, limits: ServiceLimits) -> bytes:
    if body.ids is not None:
        records, total = collection.get(body.ids), None
    else:
        records = collection.get(where=body.where, limit=body.limit, offset=body.offset)
        total = collection.count(body.where)
    if body.vectors and records.vectors is not None and records.vectors.size > limits.numbers:
        argument = "limit" if body.ids is None else "ids"
        raise InvalidInputError(
            f"{argument} must ask for at most {limits.numbers:,} numbers of vectors at a time, got "
            f"{records.vectors.size:,} of {len(records.ids):,} rows. Ask for fewer rows at a time, "
            "or for an export."
        )
    return encode_large({"items": _items_in(records, body), "total": total})


def _item_of(collection: Collection, name: Any, body: GetBody) -> dict[str, Any]:
    return next(_items_in(collection.get([name]), body))


def _items_in(records: Records, body: GetBody) -> Iterator[dict[str, Any]]:
    """Yield rows as JSON holds them, one at a time: all of them would be many times as large as
    their arrays.
    """
    codes = records.codes.to_bytes() if body.codes else None
    empty = records.codes.empty
    for place, name in enumerate(records.ids.tolist()):
        metadata = None if records.metadata is None else records.metadata[place]
        item: dict[str, Any] = {"id": name, "metadata": metadata}
        if body.vectors and records.vectors is not None:
            item["vector"] = _vector_at(records.vectors, place)
        if codes is not None:
            nothing = empty is not None and bool(empty[place])
            item["code"] = None if nothing else codes[place].tobytes().hex()
        yield item


def _vector_at(vectors: Any, place: int) -> Any:
    if isinstance(vectors, np.ndarray):
        return vectors[place].tolist()
    own = slice(vectors.indptr[place], vectors.indptr[place + 1])
    return {"indices": vectors.indices[own].tolist(), "values": vectors.data[own].tolist()}


async def _put(request: Request, *, upsert: bool) -> Response:
    context, served = context_of(request), collection_of(request)
    kind = content_type(request, JSON_TYPE, LINES_TYPE, BINARY_TYPE)
    async with context.bodies.read(request) as data:

        async def put() -> Response:
            rows = await _read_rows(request, served, kind, data)
            ids = await served.write(write_rows, served.collection, rows, upsert)
            return answer({"ids": ids}, 200 if upsert else 201)

        return await context.once.answer(request, data, put)


async def _read_rows(
    request: Request, served: ServedCollection, kind: str, data: bytes
) -> RowsToWrite:
    limits, given = context_of(request).limits, request.query_params
    if kind == LINES_TYPE:
        return await served.read(read_lines, served, data, limits, given.get("text_key"))
    if kind == BINARY_TYPE:
        word = given.get("first_id")
        first_id = None if word is None else _first_id(word)
        return await served.read(read_binary, served, data, limits, first_id)
    body = await parse_body(ItemsBody, data)
    return await served.read(read_rows, served, body, limits)


def _first_id(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 19):
        raise InvalidInputError(f"first_id must be a whole number, got {word[:40]!r}.")
    return int(word)


def write_rows(collection: Collection, rows: RowsToWrite, upsert: bool) -> list[Any]:
    """Add rows, or replace them, in one transaction, and return their ids."""
    put: Callable[..., Any] = collection.upsert if upsert else collection.add
    if upsert and rows.ids is None:
        raise InvalidInputError("ids must be given where rows are replaced, one per row.")
    if rows.codes is None:
        ids = put(rows.vectors, ids=rows.ids, metadata=rows.metadata)
    elif upsert and rows.corrections is not None:
        raise InvalidInputError("corrections cannot be replaced. Remove the rows and add them.")
    elif upsert:
        ids = collection.upsert(rows.codes, ids=rows.ids, metadata=rows.metadata)
    else:
        ids = collection.add_codes(
            rows.codes, ids=rows.ids, corrections=rows.corrections, metadata=rows.metadata
        )
    plain: list[Any] = ids.tolist()
    return plain


async def _change(
    request: Request, kind: Any, change: Callable[[Collection, Any], Any]
) -> Response:
    """Make a change that a JSON body describes, once for each key."""
    context, served = context_of(request), collection_of(request)
    content_type(request, JSON_TYPE)
    async with context.bodies.read(request) as data:

        async def do() -> Response:
            body = await parse_body(kind, data)
            return answer(await served.write(partial(change, served.collection, body)))

        return await context.once.answer(request, data, do)
