"""A token stands in no answer and no line of the log, wherever a request has it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from tests.service.hostile.kinds import new_collection
from tests.service.hostile.raw import Answer, RawConnection
from tests.service.process import served

READER, WRITER = "reader-0123456789~._+/=", "writer-abcdefghijklmnopqrstuvwxyz-0123456789"
_TARGETS = (
    *("/{}", "/v1/{}", "/v1/items/{}", "/v1/items/{}/", "/static/{}", "/v1/collections/{}/count"),
    *("/v1/collections/{}/", "/v1/count?where={}", "/v1/count?{}=1", "/v1/items?limit={}"),
    *("/v1/map?by={}", "/v1/map?field={}", "/v1/items?vectors={}", "/healthz?token={}"),
    *("/v1/" + 70 * "a" + "/{}", "/v1/" + 170 * "a" + "{}", "http://{}/healthz", "{}"),
)
_HEADERS = (
    *("X-Request-Id", "Idempotency-Key", "Idempotency-Instance", "Host", "Origin", "Cookie"),
    *("User-Agent", "Referer", "Content-Type", "Accept", "Content-Length", "Transfer-Encoding"),
    *("X-Api-Key", "Range", "If-None-Match", "Expect", "Upgrade", "Sec-Fetch-Site"),
)
_BODIES = (
    *('{{"{}": 1}}', '"{}"', "{}", '{{"ids": ["{}"]}}', '{{"vectors": "{}"}}'),
    *('{{"vectors": [["{}"]]}}', '{{"where": {{"{}": {{"{}": 1}}}}}}', '{{"codes": ["{}"]}}'),
    *('{{"stage": "{}"}}', '{{"name": "{}"}}', '{{"name": "{}", "n_features": 3}}'),
    *('{{"model": "{}"}}', '{{"ids": [1], "metadata": {{"{}": 1e999}}}}', '{{"k": "{}"}}'),
    '{{"vectors": {{"float32": "{}"}}}}',
)
_PLACES: tuple[str, ...] = (
    "POST /v1/search",
    "POST /v1/items",
    "PATCH /v1/items",
    "POST /v1/items/remove",
)
_PLACES += ("POST /v1/count", "POST /v1/collections", "POST /v1/backup", "POST /v1/items/get")


def requests(token: str) -> Iterator[tuple[str, str, bytes | None, list[tuple[str, str]]]]:
    """Yield requests that hold a token somewhere, by those who may write and those who may not."""
    for own in ([], [("Authorization", f"Bearer {WRITER}")]):
        for target in _TARGETS:
            for word in (token, quote(token, safe="")):
                yield "GET", target.replace("{}", word), None, own
        yield "DELETE", f"/v1/items/{token}", None, own
        yield token, "/v1/count", None, own
        for name in _HEADERS:
            yield "GET", "/v1/count", None, [*own, (name, token)]
            yield "POST", "/v1/search", b"{}", [*own, (name, token)]
        for place in _PLACES:
            method, _, target = place.partition(" ")
            for body in _BODIES:
                text = body.replace("{{", "{").replace("}}", "}").replace("{}", token)
                for kind in ("application/json", "application/x-ndjson"):
                    yield method, target, text.encode(), [*own, ("Content-Type", kind)]
    for scheme in ("Basic", "Bearer x", "Token", ""):
        yield "GET", "/v1/count", None, [("Authorization", f"{scheme} {token}")]


def test_a_token_that_is_sent_anywhere_is_told_nowhere(tmp_path: Path) -> None:
    new_collection("str", tmp_path / "notes").close()
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {READER}\nwrite {WRITER}\n")
    tokens.chmod(0o600)
    answers: list[Answer] = []
    with served("serve", tmp_path / "notes", "--token-file", tokens, "--log", "json") as service:
        for token in (READER, WRITER):
            connection = RawConnection(service.url)
            for method, target, body, headers in requests(token):
                try:
                    answers.append(connection.ask(method, target, body, headers))
                except ConnectionError:
                    connection.close()
                    connection = RawConnection(service.url)
                    continue
                if answers[-1].headers.get("connection") == "close":
                    connection.close()
                    connection = RawConnection(service.url)
            connection.close()
        code, told = service.end(signal.SIGTERM)
    assert code == 0
    statuses = {answer.status for answer in answers}
    assert {200, 401, 403, 404, 405, 415, 422} <= statuses
    assert max(statuses) < 500
    assert len(told.splitlines()) > 300
    everything = told.encode()
    for answer in answers:  # a good one may say what was asked for, such as the name of a field
        everything += (
            answer.raw if answer.status >= 400 else answer.raw[: -len(answer.body) or None]
        )
    for token in (READER, WRITER):
        for word in (token, quote(token, safe=""), json.dumps(token)[1:-1]):
            for piece in (word[:16], word[-16:]):
                at = everything.find(piece.encode())
                assert at < 0, everything[max(0, at - 200) : at + 200]
