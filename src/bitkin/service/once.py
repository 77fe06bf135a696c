"""Writes that are sent again are done once: `Idempotency-Key`, and the answer that it had."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import HTTPException, Request, Response
from pydantic import ValidationError

from bitkin.errors import BitkinError, InvalidInputError
from bitkin.service.problems import problem_of_error, problem_of_http, problem_of_values

_HEADER, _INSTANCE_HEADER = "idempotency-key", "idempotency-instance"
_KEY = re.compile(r"[\x21-\x7e]{1,64}")
_MOST_KEYS, _SECONDS_KEPT = 1000, 600.0
_LARGEST_KEPT = 16 << 20  # the ids of as many rows as one request may bring
_MOST_BYTES = 64 << 20  # of all answers together
_NOT_FINAL = (408, 429)


@dataclass(slots=True, eq=False)
class _Once:
    digest: bytes
    since: float
    answer: asyncio.Future[Response | None]
    n_bytes: int = 0


class AnswersByKey:
    """The answers to the last writes, by the keys that their senders gave.

    A request whose key was seen gets the answer of the first one, and is not done. One that comes
    while the first is under way waits for it.
    """

    def __init__(self) -> None:
        self.instance = secrets.token_hex(16)
        """Another one whenever a service is started: then it knows no key of before."""
        self._known: OrderedDict[str, _Once] = OrderedDict()
        self._n_bytes = 0

    async def answer(
        self, request: Request, data: bytes, do: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Return the answer that a key had before, or do what was asked and keep the answer."""
        key = request.headers.get(_HEADER)
        if key is None:
            return await do()
        if not _KEY.fullmatch(key):
            raise InvalidInputError(
                f"Idempotency-Key must be 1 to 64 visible characters, got {len(key)}."
            )
        if request.headers.get(_INSTANCE_HEADER, self.instance) != self.instance:
            raise HTTPException(
                412,
                "the service was started again since, and knows no key of before: it cannot tell "
                "whether this was done already. Nothing was done now.",
            )
        # whoever may not write gets no answer either, and never comes here
        digest = hashlib.sha256(
            b"\0".join([request.method.encode(), str(request.url).encode(), data])
        ).digest()
        while (known := self._known.get(key)) is not None and not _is_old(known):
            if known.digest != digest:
                raise InvalidInputError(
                    "Idempotency-Key was used for another request. Send each with a key of its own."
                )
            kept = await asyncio.shield(known.answer)
            if kept is not None:
                again = Response(kept.body, kept.status_code, dict(kept.headers))
                again.headers["Idempotency-Replayed"] = "true"
                return again
            self._forget(key, known)  # the first one failed: this one may try
        return await self._do(key, digest, do)

    async def _do(self, key: str, digest: bytes, do: Callable[[], Awaitable[Response]]) -> Response:
        once = _Once(digest, time.monotonic(), asyncio.get_running_loop().create_future())
        self._forget(key, self._known.get(key))
        self._known[key] = once
        while (
            len(self._known) > _MOST_KEYS
            or self._n_bytes > _MOST_BYTES
            or _is_old(next(iter(self._known.values())))
        ):
            self._forget(*next(iter(self._known.items())))
        kept: Response | None = None
        try:
            response = await _answer(do)
            final = response.status_code < 500 and response.status_code not in _NOT_FINAL
            if final and len(response.body) <= _LARGEST_KEPT:
                kept = response
            return response
        finally:
            once.answer.set_result(kept)
            if kept is None:
                self._forget(key, once)
            elif self._known.get(key) is once:
                once.n_bytes = len(kept.body)
                self._n_bytes += once.n_bytes

    def _forget(self, key: str, once: _Once | None) -> None:
        if once is not None and self._known.get(key) is once:
            del self._known[key]
            self._n_bytes -= once.n_bytes


async def _answer(do: Callable[[], Awaitable[Response]]) -> Response:
    """Return what comes of a request, errors that its sender made included."""
    try:
        return await do()
    except ValidationError as error:
        return problem_of_values(error)
    except BitkinError as error:
        return problem_of_error(error)
    except HTTPException as error:
        return problem_of_http(error)


def _is_old(once: _Once) -> bool:
    return once.answer.done() and time.monotonic() - once.since > _SECONDS_KEPT
