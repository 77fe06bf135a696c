"""Services for tests: one that is a script, and real ones whose connections break."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt

import bitkin

SERVICE = {
    "version": "9.9",
    "instance": "a" * 32,
    "collections": ["notes"],
    "several": False,
    "read_only": False,
    "can_write": True,
    "limits": {"body": 1 << 20, "k": 100, "queries": 50, "rows": 1000, "hits": 1000},
}
STATS = {
    "ids": "int",
    "n_features": 4,
    "codes": "8 × 1-bit",
    "fingerprint": "f" * 32,
    "vectors": "float32",
    "fields": {},
    "metric": "l2",
    "stage": "exact",
}
Answer = Callable[[httpx.Request], httpx.Response]


class Script(httpx.BaseTransport):
    """Answers by path, and keeps what was asked. A list of answers is given in turn, the last of
    them for ever; an exception is raised.
    """

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {"service": SERVICE, "stats": STATS, **answers}
        self.asked: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.asked.append(request)
        name = request.url.path.removeprefix("/v1/").replace("/", "_")
        answer = self.answers[name]
        if isinstance(answer, list) and answer:
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def paths(self) -> list[str]:
        """What was asked, but for what a client asks first."""
        asked = [f"{one.method} {one.url.path.removeprefix('/v1/')}" for one in self.asked]
        return [one for one in asked if one not in ("GET service", "GET stats")]

    def bodies(self, path: str) -> list[Any]:
        """What was sent to a path, as JSON holds it."""
        return [json.loads(one.content) for one in self.asked if one.url.path == f"/v1/{path}"]


def problem(status: int, detail: str, error: str | None = None, **headers: str) -> httpx.Response:
    """An answer that says what is wrong."""
    about = {"status": status, "detail": detail} | ({} if error is None else {"error": error})
    kind = {"content-type": "application/problem+json"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, json=about, headers={**kind, **named})


class Breaking(httpx.BaseTransport):
    """Real connections, of which some break: `plan` says for every request whose path ends so what
    becomes of it, in turn: "ok", "unsent" (it never arrives) or "lost" (its answer does not).
    """

    def __init__(self, ends: str, plan: list[str], method: str | None = None) -> None:
        self._http = httpx.HTTPTransport()
        self._ends, self._plan, self._method = ends, list(plan), method
        self.n_arrived = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        fate = "ok"
        right = self._method in (None, request.method)
        if right and request.url.path.endswith(self._ends) and self._plan:
            fate = self._plan.pop(0)
        if fate == "unsent":
            raise httpx.ConnectError("[Errno 111] Connection refused")
        response = self._http.handle_request(request)
        if request.url.path.endswith(self._ends) and right:
            self.n_arrived += 1
        if fate == "lost":
            response.read()
            response.close()
            raise httpx.ReadError("connection reset")
        return response

    def close(self) -> None:
        self._http.close()


def vectors(n: int, n_features: int = 16, seed: int = 0) -> npt.NDArray[np.float32]:
    """Rows by chance."""
    return np.random.default_rng(seed).standard_normal((n, n_features)).astype(np.float32)


def collection(**settings: Any) -> bitkin.Collection:
    """An empty collection in memory, of 64-bit codes of 16 numbers."""
    hasher = bitkin.ProjectionHash(64, projection="random", rotation=None).fit(vectors(200))
    return bitkin.Collection.create(None, hasher, **settings)
