"""The collections of a service: listed, made, dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from bitkin.service.bodies import content_type, parse_body
from bitkin.service.context import context_of, may_read, may_write
from bitkin.service.routes.answers import answer, body_of, described
from bitkin.service.schemas import CollectionAnswer, CollectionBody, CollectionsAnswer
from bitkin.service.served import ServedCollection
from bitkin.wire import JSON_TYPE

router = APIRouter(tags=["collections"])

_TOLD = ("rows", "metric", "ids", "vectors", "codes", "n_features", "fields", "stage", "index")
Result = TypeVar("Result")


@router.get(
    "/collections",
    summary="List collections",
    responses=described(CollectionsAnswer),
    dependencies=[Depends(may_read)],
)
async def list_collections(request: Request) -> Response:
    """Return all collections, those that other processes have made meanwhile included."""
    shelf = context_of(request).shelf

    await _in_thread(request, shelf.refresh)
    told = []
    for served in shelf.all:
        with suppress(HTTPException):  # dropped by another request meanwhile
            told.append(await served.read(_about, served))
    return answer({"collections": told})


@router.get(
    "/collections/{name}",
    summary="Say what one collection is",
    responses=described(CollectionAnswer),
    dependencies=[Depends(may_read)],
)
async def get_collection(request: Request, name: str) -> Response:
    """Return what there is to say of a collection in few words; `stats` says more."""
    served = context_of(request).shelf.find(name)
    return answer(await served.read(_about, served))


@router.post(
    "/collections",
    summary="Make a collection",
    status_code=201,
    responses=described(CollectionAnswer, 201, writes=True),
    dependencies=[Depends(may_write)],
    openapi_extra=body_of(CollectionBody),
)
async def create_collection(request: Request) -> Response:
    """Make an empty collection in the folder that is served."""
    context = context_of(request)
    content_type(request, JSON_TYPE)
    async with context.bodies.read(request) as data:

        async def make() -> Response:
            body = await parse_body(CollectionBody, data)

            def create() -> tuple[ServedCollection, dict[str, Any]]:
                made = context.shelf.create(body)
                return made, _about(made)

            made, about = await asyncio.shield(_in_thread(request, create))
            made.begin_warming()
            return answer(about, 201)

        return await context.once.answer(request, data, make)


@router.delete(
    "/collections/{name}",
    summary="Drop a collection",
    status_code=204,
    responses=described(None, 204, writes=True),
    dependencies=[Depends(may_write)],
)
async def drop_collection(request: Request, name: str) -> Response:
    """Delete a collection with all its rows, for good."""
    context = context_of(request)

    async def drop() -> Response:
        await asyncio.shield(_in_thread(request, lambda: context.shelf.drop(name)))
        return Response(status_code=204)

    return await context.once.answer(request, b"", drop)


async def _in_thread(request: Request, call: Callable[[], Result]) -> Result:
    workers = context_of(request).shelf.workers
    return await asyncio.get_running_loop().run_in_executor(workers.shelf, call)


def _about(served: ServedCollection) -> dict[str, Any]:
    about = served.describe()
    return {"name": served.name, "embed": served.embed, **{key: about[key] for key in _TOLD}}
