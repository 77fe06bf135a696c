"""A collection as a whole: what it is, epochs, upkeep, copies."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from bitkin.collection.collection import Collection
from bitkin.service.asked import filter_in, read_vectors
from bitkin.service.bodies import json_body
from bitkin.service.context import collection_of, context_of, may_read, may_write
from bitkin.service.routes.answers import answer, body_of, described
from bitkin.service.schemas import (
    BackupAnswer,
    BackupBody,
    EpochAnswer,
    EpochsAnswer,
    LearnBody,
    RowsAnswer,
)
from bitkin.service.shelf import require_name
from bitkin.wire import BINARY_TYPE, LINES_TYPE

reading = APIRouter(tags=["collection"], dependencies=[Depends(may_read)])
writing = APIRouter(tags=["collection"], dependencies=[Depends(may_write)])


@reading.get("/stats", summary="Say what the collection is", responses=described(None))
async def stats(request: Request) -> Response:
    """Return rows, settings, bytes, epochs, and how long the last searches took."""
    served, context = collection_of(request), context_of(request)
    about = await served.read(served.describe)
    return answer({**about, "memory": context.memory.as_json()})


@reading.get("/epochs", summary="List epochs", responses=described(EpochsAnswer))
async def list_epochs(request: Request) -> Response:
    """Return the epochs that have rows, and the current one, which comes first."""
    served = collection_of(request)
    epochs = await served.read(lambda: served.collection.epochs)
    return answer(
        {
            "epochs": [
                {"number": one.number, "fingerprint": one.fingerprint, "rows": one.n_rows}
                for one in epochs
            ]
        }
    )


@reading.get("/drift", summary="Say how far the model has moved", responses=described(None))
async def drift(request: Request) -> Response:
    """Return how far what was learned has moved away from what encodes new rows."""
    served = collection_of(request)
    moved = dataclasses.asdict(await served.read(served.collection.drift))
    return answer({name: _plain(value) for name, value in moved.items()})


@reading.get(
    "/export",
    summary="Write rows as JSON lines",
    responses=described(None, media=LINES_TYPE),
    response_class=FileResponse,
)
async def export(request: Request, where: str | None = None) -> Response:
    """Return all rows of one moment, or those that match a filter, as JSON lines that `POST items`
    takes back.
    """
    served = collection_of(request)
    condition = filter_in(where)
    # whole, before the first byte leaves: a slow reader holds no moment of the database open
    folder = Path(await served.read(tempfile.mkdtemp))
    path = folder / "rows.jsonl"
    try:
        n_rows = await served.do_long(partial(served.collection.export, path, where=condition))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return FileResponse(
        path,
        media_type=LINES_TYPE,
        headers={"X-Total-Rows": str(n_rows)},
        background=BackgroundTask(shutil.rmtree, folder, ignore_errors=True),
    )


@reading.get(
    "/hasher",
    summary="Get the hasher",
    responses=described(None, media=BINARY_TYPE),
    response_class=Response,
)
async def hasher(request: Request) -> Response:
    """Return the file of the hasher that encodes new rows, as `bitkin.load` reads it."""
    served = collection_of(request)
    return Response(await served.read(_hasher_file, served.collection), media_type=BINARY_TYPE)


@writing.post(
    "/learn",
    summary="Learn from vectors",
    responses=described(EpochAnswer, writes=True),
    openapi_extra=body_of(LearnBody),
)
async def learn(request: Request) -> Response:
    """Let the hasher of a stream learn from vectors, which are not added."""
    served = collection_of(request)

    def change(collection: Collection, body: LearnBody) -> dict[str, bool]:
        rows = read_vectors(body.vectors, served.n_features)
        return {"epoch_began": collection.learn(rows)}

    return await _change(request, change, LearnBody)


@writing.post("/epochs", summary="Begin an epoch", responses=described(EpochAnswer, writes=True))
async def new_epoch(request: Request) -> Response:
    """Let the model as it has learned until now encode new rows."""
    return await _change(request, lambda collection, _: {"epoch_began": collection.new_epoch()})


@writing.post(
    "/reencode", summary="Encode old rows again", responses=described(RowsAnswer, writes=True)
)
async def reencode(request: Request) -> Response:
    """Encode the rows of earlier epochs by the current hasher, while searches go on."""
    # not in turn with other writes: it lets those come in between by itself
    return await _change(
        request, lambda collection, _: {"rows": collection.reencode()}, in_turn=False
    )


@writing.post("/compact", summary="Give space back", responses=described(None, writes=True))
async def compact(request: Request) -> Response:
    """Give the space of removed rows back."""
    return await _change(request, lambda collection, _: collection.compact())


@writing.post("/checkpoint", summary="Write a checkpoint", responses=described(None, writes=True))
async def checkpoint(request: Request) -> Response:
    """Write what is held in memory to the folder, so that opening it is quick."""
    return await _change(request, lambda collection, _: collection.checkpoint())


@writing.post("/verify", summary="Check everything", responses=described(None, writes=True))
async def verify(request: Request) -> Response:
    """Read all rows and compare them with their checksums."""
    return await _change(request, lambda collection, _: collection.verify(), in_turn=False)


@writing.post(
    "/backup",
    summary="Copy the collection",
    responses=described(BackupAnswer, writes=True),
    openapi_extra=body_of(BackupBody),
)
async def backup(request: Request) -> Response:
    """Write a copy of one moment to a new folder among the backups of the service."""
    folder = context_of(request).backups
    if folder is None:
        raise HTTPException(
            405, "this service has no place for backups. Start it with --backups FOLDER."
        )

    def change(collection: Collection, body: BackupBody) -> dict[str, str]:
        path = folder / require_name(body.name)
        if path.exists():
            raise HTTPException(409, f"name must be new, there is a backup {body.name!r} already.")
        collection.backup(path)
        return {"path": body.name}

    return await _change(request, change, BackupBody, in_turn=False)


async def _change(
    request: Request,
    change: Callable[[Collection, Any], Any],
    kind: Any = None,
    *,
    in_turn: bool = True,
) -> Response:
    """Do something to a collection, once for each key; in the turn of writes, or beside them."""
    context, served = context_of(request), collection_of(request)
    body = None if kind is None else await json_body(request, kind, context.bodies)
    data = b"" if body is None else body.model_dump_json().encode()

    async def do() -> Response:
        run = served.write if in_turn else served.do_long
        return answer(await run(partial(change, served.collection, body)) or {})

    return await context.once.answer(request, data, do)


def _hasher_file(collection: Collection) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hasher.bitkin"
        collection.hasher.save(path)
        return path.read_bytes()


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
