"""The service itself: whether it is there, what it counts, how it logs."""

from __future__ import annotations

import json
import logging
import re
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.request import urlopen

import pytest
from fastapi.testclient import TestClient

import bitkin
from bitkin.service import ServiceLimits, Tokens, create_app, running
from bitkin.service.middleware import JsonLogLines, PlainLogLines
from bitkin.service.served import ServedCollection
from bitkin.service.server import PatientProtocol
from tests.service.conftest import require_problem

Serve = Callable[..., TestClient]


def test_it_is_alive_and_becomes_ready(http: TestClient) -> None:
    assert http.get("/healthz").json() == {"status": "ok"}
    for _ in range(6000):  # kernels may have to be compiled
        if http.get("/readyz").status_code == 200:
            break
        time.sleep(0.01)
    assert http.get("/readyz").json() == {"status": "ready"}


def test_an_answer_is_sent_at_once_and_waits_for_no_acknowledgement(
    notes: bitkin.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once: list[int] = []

    class Observed(PatientProtocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            connection = transport.get_extra_info("socket")
            at_once.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr("bitkin.service.server.PatientProtocol", Observed)
    with running(create_app(notes)) as url, urlopen(f"{url}/healthz") as answer:
        assert answer.read() == b'{"status":"ok"}'
    assert at_once == [1]


def test_routes_are_built_before_other_threads_are_at_work(
    notes: bitkin.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, described = create_app(notes), []
    begin = ServedCollection.begin_warming

    def begin_when_described(served: ServedCollection) -> Any:
        described.append(app.openapi_schema is not None)
        return begin(served)

    monkeypatch.setattr(ServedCollection, "begin_warming", begin_when_described)
    with TestClient(app) as http:
        assert http.post("/v1/search", json={"ids": [7], "k": 3}).status_code == 200
    assert described
    assert all(described)


def test_it_is_not_ready_while_it_stops(http: TestClient) -> None:
    http.app.state.bitkin.is_ready = False  # type: ignore[attr-defined]
    stopping = http.get("/readyz")
    require_problem(stopping, 503, "starting or stopping")
    assert stopping.headers["retry-after"] == "1"


def test_a_first_search_waits_for_kernels_at_no_cost_to_its_time(
    serve: Serve, notes: bitkin.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.service.served.warm_searches", lambda _: time.sleep(2))
    http = serve(notes, limits=ServiceLimits(seconds=1))
    require_problem(http.get("/readyz"), 503, "starting or stopping")
    assert http.post("/v1/search", json={"ids": [7], "k": 3}).status_code == 200
    assert http.get("/readyz").status_code == 200


def test_kernels_that_cannot_be_compiled_ahead_keep_nobody_from_searching(
    serve: Serve,
    notes: bitkin.Collection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("bitkin.service.served.warm_searches", fail)
    http = serve(notes)
    assert http.post("/v1/search", json={"ids": [7], "k": 3}).status_code == 200
    assert http.get("/readyz").status_code == 200
    assert "'default': kernels were not compiled" in caplog.text
    assert "MemoryError: no room" in caplog.text


def test_every_answer_has_a_request_id(http: TestClient) -> None:
    given = http.get("/healthz", headers={"X-Request-Id": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"
    odd = http.get("/nowhere", headers={"X-Request-Id": "no good id\t"})
    assert re.fullmatch("[0-9a-f]{16}", odd.headers["x-request-id"])
    require_problem(odd, 404, "GET /nowhere")


def test_browsers_are_told_what_the_page_may_do(http: TestClient) -> None:
    for path in ("/", "/v1/count", "/static/explorer.css", "/nowhere"):
        headers = http.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
    assert "<script>" not in http.get("/").text
    assert http.get("/docs").status_code == http.get("/redoc").status_code == 404


def test_prometheus_can_read_the_counters(http: TestClient) -> None:
    for _ in range(3):
        http.post("/v1/search", json={"ids": [7], "k": 3})
    http.post("/v1/search", json={})
    http.get("/v1/items/7")
    text = http.get("/metrics").text
    counts = dict(re.findall(r"^bitkin_requests_total\{(.*?)\} (\S+)$", text, flags=re.MULTILINE))
    assert counts['method="POST",route="/v1/search",status="200"'] == "3.0"
    assert counts['method="POST",route="/v1/search",status="422"'] == "1.0"
    assert counts['method="GET",route="/v1/items/{id:path}",status="200"'] == "1.0"
    assert 'bitkin_rows{collection="default"} 203.0' in text
    assert "bitkin_search_batch_queries_count" in text
    assert "bitkin_request_seconds_bucket" in text


def test_the_statistics_tell_times_and_memory(http: TestClient) -> None:
    for _ in range(3):
        http.post("/v1/search", json={"ids": [7], "k": 3})
    stats = http.get("/v1/stats").json()
    searches = stats["searches"]
    assert searches["count"] == len(searches["recent_ms"]) == 3
    assert 0 < searches["ms"]["p50"] <= searches["ms"]["p99"]
    assert searches["batch_mean"] == 1
    assert stats["memory"]["rss_bytes"] > 10_000_000
    assert stats["memory"]["history"]


def test_openapi_has_examples_and_every_route(http: TestClient) -> None:
    told = http.get("/openapi.json").json()
    assert "/v1/search" in told["paths"]
    assert "/v1/collections/{name}/items/{id}" in told["paths"]
    body = told["paths"]["/v1/search"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"]["examples"][0]["vectors"]
    assert "$ref" not in json.dumps(body)
    for path, methods in told["paths"].items():
        for method, about in methods.items():
            assert about["summary"], (path, method)
            names = {one["name"] for one in about.get("parameters", []) if one["in"] == "path"}
            assert names == set(re.findall(r"\{(\w+)\}", path))


def line_of(formatter: logging.Formatter, **fields: Any) -> str:
    record = logging.LogRecord("bitkin.service", logging.INFO, "", 0, "request", (), None)
    if fields:
        record.fields = fields
    return formatter.format(record)


def test_log_lines_are_json_or_plain() -> None:
    fields = {"method": "GET", "path": "/v1/a\x1b[31m", "status": 200, "ms": 1.25}
    told = json.loads(line_of(JsonLogLines(), **fields))
    assert {**fields, "level": "info", "message": "request"}.items() <= told.items()
    plain = line_of(PlainLogLines(), **fields)
    assert plain.endswith("200 GET    /v1/a\\u001b[31m 1.2 ms")
    assert line_of(PlainLogLines()) == "bitkin: request"


def test_no_log_line_holds_a_token() -> None:
    tokens = Tokens.from_words(write=["0123456789abcdef"])
    record = logging.LogRecord(
        "py.warnings", logging.WARNING, "", 0, "of %s", ("0123456789abcdef",), None
    )
    assert json.loads(JsonLogLines(tokens).format(record))["message"] == f"of {'*' * 16}"
    assert PlainLogLines(tokens).format(record) == f"bitkin: of {'*' * 16}"


def test_a_fault_is_logged_and_says_nothing_of_itself(
    http: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a secret of the machine")

    monkeypatch.setattr(bitkin.Collection, "count", fail)
    require_problem(http.get("/v1/count"), 500, "a fault of the service, which its log tells")
    assert "a secret" not in http.get("/v1/count").text
    assert "a secret of the machine" in caplog.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"body": 0}, "body must be at least 1, got 0"),
        ({"k": 0}, "k must be between 1"),
        ({"seconds": 0}, "seconds must be a number above 0"),
        ({"body_seconds": float("nan")}, "body_seconds must be a number"),
        ({"waiting": True}, "waiting must be a whole number"),
    ],
)
def test_limits_are_checked(options: dict[str, Any], words: str) -> None:
    with pytest.raises(bitkin.errors.InvalidInputError, match=words):
        ServiceLimits(**options)


def test_tokens_must_be_tokens(notes: bitkin.Collection) -> None:
    with pytest.raises(bitkin.errors.InvalidInputError, match="tokens must be Tokens, got a str"):
        create_app(notes, tokens="secret")  # type: ignore[arg-type]
