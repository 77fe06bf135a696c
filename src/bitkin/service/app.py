"""`create_app`: collections behind HTTP, as an ASGI app."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware import Middleware

from bitkin._version import __version__
from bitkin.checks import flag, shown
from bitkin.collection.collection import Collection
from bitkin.errors import BitkinError, FileAccessError, InvalidInputError
from bitkin.service.context import ServiceContext
from bitkin.service.explorer import STATIC
from bitkin.service.middleware import RequestGuard
from bitkin.service.observed.memory_history import SECONDS_BETWEEN_LOOKS
from bitkin.service.observed.metrics import ServiceMetrics
from bitkin.service.problems import problem, problem_of_error, problem_of_http, problem_of_values
from bitkin.service.routes import collections, explorer, items, searching, system, upkeep
from bitkin.service.settings import ServiceLimits
from bitkin.service.shelf import Shelf
from bitkin.service.tokens import Tokens

logger = logging.getLogger("bitkin.service")

_ABOUT = (
    "Vectors by id, and their nearest neighbours. What stands under `/v1` is about the only "
    "collection of a service; under `/v1/collections/{name}` it is about any."
)
_NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "Of the collection.",
    "schema": {"type": "string"},
}


def create_app(
    collections: Collection | dict[str, Collection] | str | os.PathLike[str],
    *,
    tokens: Tokens | None = None,
    limits: ServiceLimits | None = None,
    read_only: bool = False,
    embed: str | None = None,
    backups: str | os.PathLike[str] | None = None,
    any_host: bool = False,
) -> FastAPI:
    """Return a service of collections, to be run by any ASGI server, or by `bitkin.service.run`.

    Parameters
    ----------
    collections : Collection, dict or path
        One collection, several by name, the folder of one, or a folder whose folders are
        collections: then others may be made and dropped. The service closes them when it ends.
    tokens : Tokens, optional
        Who may read and write; without, everybody who reaches it by a name of this machine.
    limits : ServiceLimits, optional
        The most that one request may ask for.
    read_only : bool, default False
        Refuse all writes, and open folders without the right to write.
    embed : str, optional
        What makes vectors of texts, such as "hash:256", in collections that do not remember it.
    backups : path, optional
        The folder that `POST backup` writes copies to; without, it writes none.
    any_host : bool, default False
        Without tokens, answer under any name, and not under those of this machine alone: whoever
        can reach it may do everything, pages of other sites in a browser here included.

    Notes
    -----
    One process writes to a folder, so run one worker process. Searches release the GIL and use
    bitkin's threads.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> from fastapi.testclient import TestClient
    >>> from bitkin.service import create_app
    >>> X = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float32)
    >>> notes = bitkin.Collection.create(None, bitkin.ProjectionHash(n_bits=8).fit(X))
    >>> ids = notes.add(X)
    >>> with TestClient(create_app(notes)) as http:
    ...     http.post("/v1/search", json={"ids": [7], "k": 3}).json()["stage"]
    'exact'
    """
    read_only, any_host = flag(read_only, "read_only"), flag(any_host, "any_host")
    if tokens is not None and not isinstance(tokens, Tokens):
        raise InvalidInputError(f"tokens must be Tokens, got a {type(tokens).__name__}.")
    limits = ServiceLimits() if limits is None else limits
    backup_folder = None if backups is None else _backup_folder(backups)
    metrics = ServiceMetrics()
    shelf = Shelf(
        collections, limits, read_only=read_only, embed=embed, observe=metrics.batch.observe
    )
    metrics.watch(shelf)
    context = ServiceContext(
        shelf,
        tokens or Tokens(),
        limits,
        read_only,
        backup_folder,
        metrics,
    )
    app = FastAPI(
        title="bitkin",
        version=__version__,
        description=_ABOUT,
        lifespan=_lifespan,
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # to where a proxy may not lead, with whatever stood in the address
        middleware=[
            Middleware(
                RequestGuard,
                metrics=metrics,
                tokens=context.tokens,
                own_names=not (context.tokens or any_host),
            )
        ],
    )
    app.state.bitkin = context
    _add_routes(app)
    _add_error_answers(app)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: ServiceContext = app.state.bitkin
    # This builds all routes, which else the first request does: by then other threads are at work,
    # and how FastAPI silences a warning while it builds does not bear that.
    app.openapi()
    tasks = [asyncio.create_task(_warm_up(context)), asyncio.create_task(_watch_memory(context))]
    try:
        yield
    finally:
        context.is_ready = False
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(context.shelf.close)


async def _warm_up(context: ServiceContext) -> None:
    for served in context.shelf.all:
        await served.warm_up()
    context.is_ready = True


async def _watch_memory(context: ServiceContext) -> None:
    while True:
        context.memory.look()
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)


def _add_routes(app: FastAPI) -> None:
    app.include_router(system.router)
    app.include_router(collections.router, prefix="/v1")
    for prefix in ("/v1", "/v1/collections/{name}"):
        # a fixed word first: `items/remove` is no id
        for router in (
            searching.router,
            items.reading,
            items.writing,
            upkeep.reading,
            upkeep.writing,
            explorer.router,
        ):
            app.include_router(router, prefix=prefix)
    app.include_router(explorer.page)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.openapi = lambda: _describe(app)  # type: ignore[method-assign]


def _describe(app: FastAPI) -> dict[str, Any]:
    """Return what OpenAPI says of the app, with the parameter that routes read by themselves."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        for path, methods in schema["paths"].items():
            if "{name}" not in path:
                continue
            for about in methods.values():
                parameters = about.setdefault("parameters", [])
                if not any(one["name"] == "name" and one["in"] == "path" for one in parameters):
                    parameters.append(_NAME)
        app.openapi_schema = schema
    return app.openapi_schema


def _add_error_answers(app: FastAPI) -> None:
    async def values(request: Request, error: Exception) -> Response:
        if isinstance(error, RequestValidationError):
            first = error.errors()[0]
            field = str(first["loc"][-1])
            detail = f"{field}: {first['msg']}, got {shown(first.get('input'))}."
            return problem(422, detail, field=field)
        if isinstance(error, ValidationError):
            return problem_of_values(error)
        raise error

    async def of_http(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return problem_of_http(error)
        if isinstance(error, StarletteHTTPException):
            detail = f"{request.method} {request.scope['path'][:200]}: {error.detail}."
            return problem(error.status_code, detail, headers=error.headers)
        raise error

    async def of_library(request: Request, error: Exception) -> Response:
        answer = problem_of_error(error)
        if answer.status_code >= 500:
            logger.warning("%s: %s", type(error).__name__, error)
        return answer

    app.add_exception_handler(RequestValidationError, values)
    app.add_exception_handler(ValidationError, values)
    app.add_exception_handler(StarletteHTTPException, of_http)
    app.add_exception_handler(BitkinError, of_library)
    app.add_exception_handler(MemoryError, of_library)


def _backup_folder(path: Any) -> Path:
    folder = Path(path).absolute()
    if not folder.is_dir():
        raise FileAccessError(f"backups: {folder} is no folder. Make it first.")
    return folder
