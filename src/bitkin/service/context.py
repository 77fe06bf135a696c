"""What the routes of a service share, and what a request may do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from bitkin.service.bodies import BodyReader
from bitkin.service.observed.memory_history import MemoryHistory
from bitkin.service.observed.metrics import ServiceMetrics
from bitkin.service.once import AnswersByKey
from bitkin.service.served import ServedCollection
from bitkin.service.settings import ServiceLimits
from bitkin.service.shelf import Shelf
from bitkin.service.tokens import WRITE, Tokens

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="bitkin"', "Connection": "close"}


@dataclass(slots=True)
class ServiceContext:
    """One service: its collections, its limits, and who may do what."""

    shelf: Shelf
    tokens: Tokens
    limits: ServiceLimits
    read_only: bool
    backups: Path | None
    metrics: ServiceMetrics
    bodies: BodyReader = field(init=False)
    once: AnswersByKey = field(default_factory=AnswersByKey)
    memory: MemoryHistory = field(default_factory=MemoryHistory)
    is_ready: bool = False
    """Whether all collections have answered a first search, and the service does not end."""

    def __post_init__(self) -> None:
        self.bodies = BodyReader(self.limits)


def context_of(request: Request) -> ServiceContext:
    """Return what the service of a request is."""
    context: ServiceContext = request.app.state.bitkin
    return context


_bearer = HTTPBearer(auto_error=False, description="A token of the file given to --token-file.")


async def may_read(
    request: Request,
    # so that OpenAPI says it
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> str:
    """Return what the token of a request permits; raise where that is nothing."""
    context = context_of(request)
    access = context.tokens.access(request.headers.get("authorization"))
    if access is None:
        what = "is not one of this service's" if "authorization" in request.headers else "is absent"
        raise HTTPException(
            401, f"the bearer token {what}. Send Authorization: Bearer TOKEN.", headers=_CHALLENGE
        )
    name = request.path_params.get("name")
    if name is not None and context.shelf.may_hold(name):
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(context.shelf.workers.shelf, context.shelf.take_in, name)
    return access


async def may_write(request: Request, access: Annotated[str, Depends(may_read)]) -> str:
    """Return "write"; raise where a request must only read."""
    if context_of(request).read_only:
        raise HTTPException(
            403, "this service only reads: it was started with --read-only.", headers=_CHALLENGE
        )
    if access != WRITE:
        raise HTTPException(
            403, "this token may only read. Send one that may write.", headers=_CHALLENGE
        )
    return access


def collection_of(request: Request) -> ServedCollection:
    """Return the collection that the address of a request names."""
    return context_of(request).shelf.find(request.path_params.get("name"))
