"""Reading the body of a request: within bounds of size and time, and refused before it is held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from fastapi import HTTPException, Request
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from bitkin.service.problems import RETRY_SECONDS
from bitkin.service.settings import ServiceLimits
from bitkin.wire import JSON_TYPE

_READ_HERE = 64 << 10  # bytes; reading more takes so long that others should not wait for it
_BODIES_AT_ONCE = 4  # of the largest permitted
_CLOSE = {"Connection": "close"}  # what is still on its way is not read
STALL_SECONDS = 10.0
"""Within which something of a body must come."""
SMALL_BODY = 256 << 10
"""Bytes of a body for which there is always room."""

Body = TypeVar("Body", bound=BaseModel)


class BodyReader:
    """Reads bodies, and knows how many bytes of them are held at the moment."""

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes of bodies in memory."""
        return self._held

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Give the whole body, which counts as held while the block runs."""
        limits, size = self._limits, 0
        announced = announced_length(request)
        self._require_size(announced)
        reserved = announced
        self._reserve(reserved, reserved)
        pieces: list[bytes] = []
        try:
            now = asyncio.get_running_loop().time
            end = now() + limits.body_seconds
            try:
                async with asyncio.timeout_at(min(end, now() + STALL_SECONDS)) as patience:
                    async for piece in request.stream():
                        size += len(piece)
                        self._require_size(size)
                        if size > reserved:  # it did not say how long it is
                            self._reserve(size - reserved, size)
                            reserved = size
                        pieces.append(piece)
                        patience.reschedule(min(end, now() + STALL_SECONDS))
            except TimeoutError:
                raise HTTPException(
                    408,
                    f"the body did not arrive within {limits.body_seconds:g} seconds, or nothing "
                    f"of it for {STALL_SECONDS:g}.",
                    headers=_CLOSE,
                ) from None
            except ClientDisconnect:
                raise HTTPException(400, "the connection ended before the body did.") from None
            body = b"".join(pieces)
            pieces.clear()
            yield body
        finally:
            self._held -= reserved

    def _reserve(self, n_bytes: int, size: int) -> None:
        """Count more bytes of a body of that size; small ones come through always, or a few slow
        senders of large ones would keep everybody from searching.
        """
        room = _BODIES_AT_ONCE * self._limits.body - self._held
        if size > SMALL_BODY and self._held and n_bytes > room:
            raise HTTPException(
                503,
                "the service holds as many large requests as it may. Send this one again later.",
                headers={"Retry-After": str(RETRY_SECONDS), **_CLOSE},
            )
        self._held += n_bytes

    def _require_size(self, n_bytes: int) -> None:
        most = self._limits.body
        if n_bytes > most:
            raise HTTPException(
                413,
                f"the body must have at most {most:,} bytes, got {n_bytes:,} or more. Send fewer "
                "rows at a time, or start the service with a larger --max-body.",
                headers=_CLOSE,
            )


def announced_length(request: Request) -> int:
    """Return how many bytes a request says that its body has, 0 where it does not say."""
    text = request.headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise HTTPException(
            400, f"Content-Length must be a number of bytes, got {text[:40]!r}.", headers=_CLOSE
        )
    return int(text)


def content_type(request: Request, *permitted: str) -> str:
    """Return what kind of body a request has, one of those permitted."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in permitted:
        raise HTTPException(
            415,
            f"Content-Type must be {' or '.join(permitted)}, got {given[:80] or 'none'!r}.",
            headers=_CLOSE,
        )
    return given


async def parse_body(kind: type[Body], data: bytes) -> Body:
    """Return a JSON body as an object, parsed beside the loop where that takes long."""
    if len(data) <= _READ_HERE:
        return kind.model_validate_json(data or b"{}")
    return await asyncio.to_thread(kind.model_validate_json, data)


async def json_body(request: Request, kind: type[Body], reader: BodyReader) -> Body:
    """Read a request whose body must be JSON; one without a body is as an empty object."""
    if announced_length(request) or "transfer-encoding" in request.headers:
        content_type(request, JSON_TYPE)
    async with reader.read(request) as data:
        return await parse_body(kind, data)
