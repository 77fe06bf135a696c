"""The service itself: whether it is there, what it permits, what it counts."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from fastapi import APIRouter, Depends, Request, Response

from bitkin._version import __version__
from bitkin.service.context import context_of, may_read
from bitkin.service.observed.metrics import CONTENT_TYPE
from bitkin.service.problems import RETRY_SECONDS, problem
from bitkin.service.routes.answers import answer, described
from bitkin.service.schemas import ServiceAnswer, StatusAnswer
from bitkin.service.tokens import WRITE

router = APIRouter(tags=["service"])


@router.get("/healthz", summary="Is it alive", responses=described(StatusAnswer))
async def health() -> Response:
    """Answer, which a process that hangs does not."""
    return answer({"status": "ok"})


@router.get("/readyz", summary="Is it ready", responses=described(StatusAnswer))
async def ready(request: Request) -> Response:
    """Say whether all collections are open, and have answered a first search."""
    if context_of(request).is_ready:
        return answer({"status": "ready"})
    return problem(
        503,
        "the service is starting or stopping.",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )


@router.get(
    "/v1/service",
    summary="Say what this service is",
    responses=described(ServiceAnswer),
    dependencies=[Depends(may_read)],
)
async def service(request: Request) -> Response:
    """Return version, collections, limits, and what the token of this request permits."""
    context = context_of(request)
    access = context.tokens.access(request.headers.get("authorization"))
    return answer(
        {
            "version": __version__,
            "instance": context.once.instance,
            "collections": context.shelf.names,
            "several": context.shelf.folder is not None or len(context.shelf.names) != 1,
            "read_only": context.read_only,
            "can_write": access == WRITE and not context.read_only,
            "limits": asdict(context.limits),
        }
    )


@router.get(
    "/metrics",
    summary="Counters for Prometheus",
    responses=described(None, media="text/plain"),
    response_class=Response,
    dependencies=[Depends(may_read)],
)
async def metrics(request: Request) -> Response:
    """Return all counters as Prometheus reads them."""
    context = context_of(request)
    loop = asyncio.get_running_loop()
    text = await loop.run_in_executor(context.shelf.workers.short, context.metrics.as_text)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})
