"""The explorer page, and what only it asks for: a map of rows, and what bits are like."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import FileResponse

from bitkin.service.asked import filter_in
from bitkin.service.context import collection_of, may_read
from bitkin.service.explorer import STATIC, describe_bits, map_rows
from bitkin.service.routes.answers import answer, described

router = APIRouter(tags=["explorer"], dependencies=[Depends(may_read)])
page = APIRouter(include_in_schema=False)


@page.get("/")
async def index() -> Response:
    """Return the page."""
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


@router.get("/map", summary="Rows in two dimensions", responses=described(None))
async def map_of_rows(
    request: Request,
    n: Annotated[int, Query(ge=1, le=5000)] = 1000,
    field: str | None = None,
    by: Literal["vectors", "codes"] = "vectors",
    where: str | None = None,
) -> Response:
    """Lay out a sample of rows by their vectors or codes."""
    served = collection_of(request)
    call = partial(map_rows, served.collection, n, field, by, filter_in(where))
    return answer(await served.do_long(call))


@router.get("/bits", summary="What bits are like", responses=described(None))
async def bits(request: Request, n: Annotated[int, Query(ge=1, le=20_000)] = 2000) -> Response:
    """Return how often each bit is set, and how bits go together, in a sample of rows."""
    served = collection_of(request)
    return answer(await served.do_long(describe_bits, served.collection, n))
