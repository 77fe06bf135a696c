"""Writes that are sent again are done once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request
from starlette.responses import Response

import bitkin
from bitkin.service.once import AnswersByKey
from bitkin.wire import pack_vectors
from tests.service.conftest import D, N, Rows, require_problem


def key(name: str = "k1") -> dict[str, str]:
    return {"Idempotency-Key": name}


def test_a_write_that_is_sent_again_is_done_once(http: TestClient, X: Rows) -> None:
    body = {"vectors": X[:2].tolist()}
    first = http.post("/v1/items", json=body, headers=key())
    again = http.post("/v1/items", json=body, headers=key())
    assert first.json() == again.json() == {"ids": [N, N + 1]}
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert http.get("/v1/count").json() == {"count": N + 2}
    assert http.post("/v1/items", json=body).json() == {"ids": [N + 2, N + 3]}


def test_a_write_of_as_many_rows_as_one_request_takes_is_done_once_too(
    serve: Callable[..., TestClient], X: Rows
) -> None:
    hasher = bitkin.ProjectionHash(8).fit(X)
    rows = bitkin.Collection.create(None, hasher, index="flat")
    http = serve(rows)
    ids = list(range(2**62, 2**62 + 100_000))
    body = {"vectors": pack_vectors(np.zeros((len(ids), D))), "ids": ids}
    first = http.post("/v1/items", json=body, headers=key())
    again = http.post("/v1/items", json=body, headers=key())
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json() == {"ids": ids}
    assert len(rows) == len(ids)


def test_a_refusal_is_told_again_too(http: TestClient, X: Rows) -> None:
    body = {"vectors": X[:1].tolist(), "ids": [7]}
    for _ in range(2):
        require_problem(http.post("/v1/items", json=body, headers=key()), 409, "7")
    http.delete("/v1/items/7")
    require_problem(http.post("/v1/items", json=body, headers=key()), 409, "7")
    assert http.post("/v1/items", json=body, headers=key("k2")).status_code == 201


def test_removing_again_is_no_error(http: TestClient) -> None:
    assert [http.delete("/v1/items/7", headers=key()).status_code for _ in range(2)] == [204, 204]
    assert http.delete("/v1/items/7", headers=key("k2")).status_code == 404


def test_a_service_that_was_started_again_says_so_before_it_does_anything(
    serve: Callable[..., TestClient], notes: bitkin.Collection, http: TestClient, X: Rows
) -> None:
    before = http.get("/v1/service").json()["instance"]
    headers = {"Idempotency-Key": "one", "Idempotency-Instance": before}
    body = {"vectors": X[:1].tolist()}
    assert http.post("/v1/items", json=body, headers=headers).status_code == 201
    started_again = serve(notes)
    assert started_again.get("/v1/service").json()["instance"] != before
    refused = started_again.post("/v1/items", json=body, headers=headers)
    require_problem(refused, 412, "was started again since", "Nothing was done now")
    assert len(notes) == N + 1
    assert http.post("/v1/items", json=body, headers=headers).headers["idempotency-replayed"]


def test_a_key_is_for_one_request(http: TestClient, X: Rows) -> None:
    http.post("/v1/items", json={"vectors": X[:1].tolist()}, headers=key())
    other = http.post("/v1/items", json={"vectors": X[1:2].tolist()}, headers=key())
    require_problem(other, 422, "was used for another request")
    elsewhere = http.delete("/v1/items/3", headers=key())
    require_problem(elsewhere, 422, "was used for another request")
    require_problem(http.delete("/v1/items/3", headers=key("x" * 65)), 422, "1 to 64 visible")


def request() -> Request:
    headers = [(b"idempotency-key", b"k"), (b"host", b"localhost")]
    return Request(
        {"type": "http", "method": "POST", "path": "/x", "query_string": b"", "headers": headers}
    )


def test_whoever_comes_meanwhile_waits_for_the_first() -> None:
    async def run() -> tuple[int, list[bytes]]:
        answers, calls, gate = AnswersByKey(), 0, asyncio.Event()

        async def do() -> Response:
            nonlocal calls
            calls += 1
            await gate.wait()
            return Response(b"done", 201)

        tasks = [asyncio.create_task(answers.answer(request(), b"", do)) for _ in range(5)]
        await asyncio.sleep(0.01)
        gate.set()
        return calls, [bytes(one.body) for one in await asyncio.gather(*tasks)]

    assert asyncio.run(run()) == (1, [b"done"] * 5)


@pytest.mark.parametrize("status", [503, 500, 429, None])
def test_what_failed_may_be_tried_again(status: int | None) -> None:
    async def run() -> list[Any]:
        answers, calls = AnswersByKey(), 0

        async def do() -> Response:
            nonlocal calls
            calls += 1
            await asyncio.sleep(0.001)
            if calls > 1:
                return Response(b"done")
            if status is None:
                raise RuntimeError("broken")
            return Response(b"later", status)

        tasks = [asyncio.create_task(answers.answer(request(), b"", do)) for _ in range(3)]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        return [one.body if isinstance(one, Response) else type(one) for one in found]

    first = RuntimeError if status is None else b"later"
    assert asyncio.run(run()) == [first, b"done", b"done"]


def test_only_the_last_keys_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitkin.service.once._MOST_KEYS", 3)

    async def run() -> int:
        answers, calls = AnswersByKey(), 0

        async def do() -> Response:
            nonlocal calls
            calls += 1
            return Response(b"")

        for name in (b"a", b"b", b"c", b"d", b"d", b"a"):
            asked = request()
            asked.scope["headers"][0] = (b"idempotency-key", name)
            await answers.answer(Request(asked.scope), b"", do)
        return calls

    assert asyncio.run(run()) == 5  # a was forgotten, d was not
