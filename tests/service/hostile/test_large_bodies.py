"""A request over the limit is refused before it is held: the service needs no memory for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.service.hostile.kinds import new_collection
from tests.service.hostile.raw import Answer, RawConnection, ask_json
from tests.service.process import Served, served

_MB = 1 << 20
_LIMIT = 2 * _MB
_MUCH = 100 * _MB  # that a client sends if nobody stops it
_ROOM = 12 * _MB  # a body of the limit, as bytes, read and parsed


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells the most memory that a process had")
    folder: Path = tmp_path_factory.mktemp("large") / "rows"
    new_collection("int", folder).close()
    arguments = ("serve", folder, "--log", "none", "--max-body", _LIMIT)
    with served(*arguments) as started:
        for _ in range(3000):
            if ask_json(started.url, "GET", "/readyz").status == 200:
                break
            time.sleep(0.02)
        text = '{"vectors": [' + ",".join(["[1,2,3,4,5,6,7,8]"] * 900) + "]}"
        for target in ("/v1/search", "/v1/items"):
            assert ask_json(started.url, "POST", target, {"a": text}).status == 422
        yield started


def send_much(service: Served, head: bytes, chunk: bytes) -> tuple[int, Answer | None]:
    """Send a head and pieces of a body without an end; return how many bytes went out until the
    other side had enough, and its answer.
    """
    with RawConnection(service.url) as connection:
        connection.send(head)
        n_sent = 0
        with suppress(ConnectionError):
            while n_sent < _MUCH:
                connection.send(chunk)
                n_sent += len(chunk)
        try:
            return n_sent, connection.answer()
        except ConnectionError:  # the answer was lost with what was still being sent
            return n_sent, None


def head_of(target: str, *lines: str) -> bytes:
    given = [f"{target} HTTP/1.1", "Host: localhost", *lines, "", ""]
    return "\r\n".join(given).encode()


_CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"


@pytest.mark.parametrize("target", ["POST /v1/search", "PUT /v1/items", "POST /v1/items/remove"])
@pytest.mark.parametrize("length", [_LIMIT + 1, 10**12])
def test_what_says_that_it_is_too_long_is_refused_before_it_is_sent(
    service: Served, target: str, length: int
) -> None:
    service.forget_peak()
    before = service.bytes_of("VmHWM")
    lines = ("Content-Type: application/json", f"Content-Length: {length}")
    with RawConnection(service.url) as connection:
        connection.send(head_of(target, *lines))
        told = connection.answer()
    assert told.status == 413
    assert told.headers["connection"] == "close"
    assert f"at most {_LIMIT:,} bytes, got {length:,} or more" in told.json()["detail"]
    assert service.bytes_of("VmHWM") - before < _MB


@pytest.mark.parametrize(
    ("target", "lines"),
    [
        ("POST /v1/search", ("Content-Type: application/json", "Content-Length: 999999999")),
        ("POST /v1/search", ("Content-Type: application/json", "Transfer-Encoding: chunked")),
        ("POST /v1/items", ("Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")),
        ("PUT /v1/items", ("Content-Type: application/octet-stream", "Transfer-Encoding: chunked")),
        ("POST /v1/items", ("Content-Type: text/plain", "Transfer-Encoding: chunked")),
        ("GET /v1/count", ("Transfer-Encoding: chunked",)),
        ("DELETE /v1/items/99999", ("Transfer-Encoding: chunked",)),
        ("POST /v1/compact", ("Content-Length: 999999999",)),
        ("GET /nowhere", ("Transfer-Encoding: chunked",)),
        ("GET /", ("Transfer-Encoding: chunked",)),
    ],
)
def test_whatever_is_sent_on_is_not_kept(
    service: Served, target: str, lines: tuple[str, ...]
) -> None:
    service.forget_peak()
    before = service.bytes_of("VmHWM")
    n_sent, told = send_much(service, head_of(target, *lines), _CHUNK)
    assert service.bytes_of("VmHWM") - before < _ROOM
    if "Content-Type" in lines[0]:  # a body is wanted there, and the service hung up
        assert n_sent < _MUCH
        assert told is None or told.status in (413, 415)
    assert ask_json(service.url, "GET", "/v1/count").json() == {"count": 130}


@pytest.mark.parametrize(
    "chunk", [b"1\r\n \r\n" * 4000, b"1;" + b"x" * 5000 + b"\r\n \r\n"], ids=["tiny", "extended"]
)
def test_a_body_of_very_many_pieces_is_held_as_its_bytes(service: Served, chunk: bytes) -> None:
    lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    service.forget_peak()
    before = service.bytes_of("VmHWM")
    with RawConnection(service.url) as connection:
        connection.send(head_of("POST /v1/search", *lines))
        with suppress(ConnectionError):
            for _ in range(100):
                connection.send(chunk)
            connection.send(b"0\r\n\r\n")
        assert connection.answer().status in (400, 413, 422)
    assert service.bytes_of("VmHWM") - before < _ROOM


def test_a_head_without_an_end_is_not_kept(service: Served) -> None:
    service.forget_peak()
    before = service.bytes_of("VmHWM")
    n_sent, told = send_much(service, b"GET / HTTP/1.1\r\nX-A: ", b"a" * 0x10000)
    assert n_sent < _MUCH
    assert told is None or told.status == 400
    assert service.bytes_of("VmHWM") - before < _ROOM
