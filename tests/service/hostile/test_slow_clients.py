"""Whoever is slow, silent or half gone keeps nobody else waiting, and is let go in the end."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import bitkin
from bitkin.service import ServiceLimits, create_app, running, server
from bitkin.service import bodies as bodies_module
from tests.service.hostile.kinds import X, new_collection
from tests.service.hostile.raw import RawConnection, ask_json

_HEAD = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_N_SILENT = 60  # of each kind
_CONNECTIONS, _ESTABLISHED = Path("/proc/net/tcp"), "01"


@pytest.fixture
def notes() -> bitkin.Collection:
    return new_collection("int")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch, notes: bitkin.Collection) -> Iterator[str]:
    """A service that waits for nobody for long."""
    monkeypatch.setattr(server, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(server, "UNREAD_SECONDS", 1.5)
    monkeypatch.setattr(server, "_IDLE_SECONDS", 1)
    monkeypatch.setattr(bodies_module, "STALL_SECONDS", 1.0)
    limits = ServiceLimits(body_seconds=3)
    with running(create_app(notes, limits=limits)) as url:
        yield url


def require_answers(url: str) -> None:
    """Require that a search, a write and a count are answered."""
    found = ask_json(url, "POST", "/v1/search", {"vectors": X[:2].tolist(), "k": 3})
    assert found.status == 200
    assert len(found.json()["ids"]) == 2
    assert ask_json(url, "POST", "/v1/items", {"vectors": X[:1].tolist()}).status == 201
    assert ask_json(url, "GET", "/v1/count").status == 200


def is_open(connection: RawConnection) -> bool:
    """Tell whether the other side has not closed, and has sent nothing."""
    connection.socket.setblocking(False)
    try:
        connection.socket.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    return False


def test_hundreds_of_silent_connections_keep_nobody_waiting(notes: bitkin.Collection) -> None:
    begun = [
        b"",  # nothing at all
        b"GET /v1/count HT",  # half a head
        _HEAD + b"X-A: ",  # a head without an end
        _HEAD + b'Content-Length: 500\r\n\r\n{"vect',  # half a body
        _HEAD + b"Content-Length: 60000000\r\n\r\n{",  # the beginning of a large one
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",  # half a chunk
    ]
    with running(create_app(notes)) as url, ExitStack() as stack:
        silent = []
        for data in begun:
            for _ in range(_N_SILENT):
                silent.append(stack.enter_context(RawConnection(url)))
                silent[-1].send(data)
        require_answers(url)
        still = [is_open(one) for one in silent]
        # of the large bodies just as many are waited for as there is memory for
        assert sum(still) >= (len(begun) - 1) * _N_SILENT
        assert sum(still[4 * _N_SILENT : 5 * _N_SILENT]) == 4
        refused = silent[5 * _N_SILENT - 1]
        refused.socket.setblocking(True)
        assert refused.answer().status == 503


@pytest.mark.parametrize("data", [b"", b"GET /v1/count HT", _HEAD])
def test_a_head_that_does_not_end_is_given_up(hurried: str, data: bytes) -> None:
    with RawConnection(hurried) as connection:
        connection.send(data)
        assert connection.rest() == b""
    require_answers(hurried)


def test_a_head_that_comes_drop_by_drop_is_given_up_too(hurried: str) -> None:
    with RawConnection(hurried) as connection, suppress(ConnectionError):
        connection.send(b"GET /v1/count HTTP/1.1\r\nX-A: ")
        for _ in range(600):
            connection.send(b"a")
            time.sleep(0.1)
        raise AssertionError("it waits for a minute")
    with RawConnection(hurried) as connection:  # a further request of one connection
        assert connection.ask("GET", "/v1/count").status == 200
        connection.send(b"GET /v1/cou")
        assert connection.rest() == b""


def test_a_connection_without_requests_is_closed(hurried: str) -> None:
    with RawConnection(hurried) as connection:
        assert connection.ask("GET", "/v1/count").status == 200
        assert connection.rest() == b""


@pytest.mark.parametrize("length", [b"Content-Length: 900", b"Transfer-Encoding: chunked"])
def test_a_body_that_stops_is_a_408(hurried: str, length: bytes) -> None:
    with RawConnection(hurried) as connection:
        connection.send(_HEAD + length + b"\r\n\r\n5\r\n{")
        told = connection.answer()
        assert told.status == 408
        assert told.headers["connection"] == "close"
        assert "within 3 seconds, or nothing of it for 1" in told.json()["detail"]
        assert connection.rest() == b""


def test_a_body_that_comes_drop_by_drop_is_a_408_too(hurried: str) -> None:
    with RawConnection(hurried) as connection:
        connection.send(_HEAD + b"Content-Length: 90000\r\n\r\n")
        dripping = threading.Thread(target=drip, args=(connection,))
        dripping.start()
        require_answers(hurried)
        assert connection.answer().status == 408
        dripping.join()


def drip(connection: RawConnection) -> None:
    """Send a byte now and then, for a minute or until the connection ends."""
    with suppress(OSError):
        for _ in range(600):
            connection.send(b" ")
            time.sleep(0.1)


def test_whoever_reads_nothing_is_cut_off_and_keeps_nobody_waiting(
    hurried: str, notes: bitkin.Collection
) -> None:
    if not _CONNECTIONS.exists():
        pytest.skip("only Linux tells what has become of the other end of a connection")
    notes.add(X[:1].repeat(45_000, axis=0), metadata=[{"title": "a" * 300}] * 45_000)
    page = "/v1/items?limit=45000&vectors=true"
    whole = len(ask_json(hurried, "GET", page).raw)
    assert whole > 16 << 20  # more than the sockets hold
    with ExitStack() as stack:
        lazy = [stack.enter_context(RawConnection(hurried)) for _ in range(4)]
        for one in lazy:
            one.send(one.head("GET", page))
        require_answers(hurried)
        for _ in range(1200):
            if count_connections(hurried) == 0:
                break
            time.sleep(0.05)
        assert all(len(one.rest()) < whole for one in lazy)
    require_answers(hurried)


def count_connections(url: str) -> int:
    """Return how many connections a service has not ended."""
    port = f":{urlsplit(url).port:04X}"
    rows = [line.split() for line in _CONNECTIONS.read_text().splitlines()[1:]]
    return sum(row[1].endswith(port) and row[3] == _ESTABLISHED for row in rows)


def test_a_body_that_nobody_reads_has_an_end(hurried: str) -> None:
    with RawConnection(hurried) as connection:
        connection.send(b"GET /v1/count HTTP/1.1\r\nHost: localhost\r\n")
        connection.send(b"Transfer-Encoding: chunked\r\n\r\n")
        assert connection.answer().status == 200
        with suppress(ConnectionError):
            for _ in range(600):
                connection.send(b"1\r\n \r\n")
                time.sleep(0.1)
            raise AssertionError("it is read for a minute")


def test_whoever_goes_away_in_the_middle_keeps_nobody_waiting(
    hurried: str, notes: bitkin.Collection
) -> None:
    body = json.dumps({"vectors": X.tolist(), "k": 100}).encode()
    n_before = len(notes)
    rows = json.dumps({"vectors": X.tolist()}).encode()
    for target, sent in (("/v1/search", body), ("/v1/items", rows)) * 5:
        with RawConnection(hurried) as connection:
            typed = [("Content-Type", "application/json"), ("Content-Length", str(len(sent)))]
            connection.send(connection.head("POST", target, typed) + sent)
            linger_not(connection.socket)
    require_answers(hurried)
    # what had arrived whole may have been done, a request at a time
    assert (len(notes) - n_before - 1) % len(X) == 0


def linger_not(one: socket.socket) -> None:
    """Let a socket be reset when it is closed."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
