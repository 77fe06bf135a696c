"""What a service says is wrong is the error that a collection raises, and what is no service of
ours is told in words.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

import bitkin
from bitkin.client.messages import lost_answer
from bitkin.errors import (
    AccessDeniedError,
    CodeMismatchError,
    CorruptFileError,
    DuplicateIdError,
    FileAccessError,
    InvalidInputError,
    ServiceError,
    UnknownIdError,
)
from tests.client.services import SERVICE, STATS, Script, problem

URL = "http://there:8000"
SECRET = "very-secret-token-0123456789"


def ask(answer: Any, **others: Any) -> None:
    """Ask a service that answers so."""
    script = Script(count=answer, **others)
    with bitkin.Client(URL, SECRET, transport=script, retries=0) as client:
        client.count()


@pytest.mark.parametrize(
    "status, kind",
    [
        (409, DuplicateIdError),
        (404, UnknownIdError),
        (422, InvalidInputError),
        (422, CodeMismatchError),
        (500, CorruptFileError),
        (503, FileAccessError),
    ],
)
def test_a_named_error_is_raised_by_its_name(status: int, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"this is wrong.$") as caught:
        ask(problem(status, "this is wrong.", kind.__name__))
    assert type(caught.value) is kind


def test_an_error_of_a_machine_says_which_machine() -> None:
    with pytest.raises(FileAccessError, match=f"on the machine of {URL}: no space"):
        ask(problem(503, "no space.", "FileAccessError"))


@pytest.mark.parametrize("name", [None, "NoSuchError", "BaseException", 5])
def test_an_error_without_a_known_name_goes_by_its_status(name: Any) -> None:
    for status in (400, 404, 405, 409, 413, 415, 421, 422):
        with pytest.raises(InvalidInputError, match=r"^because of this$"):
            ask(problem(status, "because of this", name))
    with pytest.raises(
        ServiceError, match=r"failed \(status 500, request 'r7'\): because"
    ) as caught:
        ask(problem(500, "because of this", name, x_request_id="r7"))
    assert caught.value.maybe_done


def test_a_refused_token_is_told_apart_from_one_that_may_not_write() -> None:
    with pytest.raises(AccessDeniedError, match="refused the token, or wants one: give token="):
        ask(problem(401, "the bearer token is absent."))
    with pytest.raises(AccessDeniedError, match="does not permit this: this token may only read"):
        ask(problem(403, "this token may only read."))
    with pytest.raises(PermissionError):
        ask(problem(403, "no."))
    with pytest.raises(ConnectionError):
        ask(problem(401, "no."))


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, html="<html>hello</html>"),
        httpx.Response(404, html="<html>not found</html>"),
        httpx.Response(404, json={"detail": "Not Found"}),
        httpx.Response(200, content=b"\xff\x00"),
        httpx.Response(500, text="oops"),
        httpx.Response(403, html="<html>forbidden</html>"),
    ],
)
def test_what_is_no_service_of_ours_is_called_so(answer: httpx.Response) -> None:
    script = Script(service=answer)
    with (
        bitkin.Client(URL, SECRET, transport=script) as client,
        pytest.raises(ServiceError, match="does not answer as a bitkin service does: status"),
    ):
        client.search([[1.0, 2.0, 3.0, 4.0]], 1)


def test_a_redirect_is_not_followed_but_told() -> None:
    away = httpx.Response(307, headers={"location": "https://there/v1/count"})
    with pytest.raises(ServiceError, match="sends elsewhere, to 'https://there/v1/count'"):
        ask(away)


@pytest.mark.parametrize(
    "service, stats",
    [
        ({}, STATS),
        ([], STATS),
        ({**SERVICE, "limits": {"rows": "many"}}, STATS),
        (SERVICE, {}),
        (SERVICE, {**STATS, "codes": "eight bits"}),
        (SERVICE, {**STATS, "fields": 5}),
    ],
)
def test_an_answer_of_another_version_says_so(service: Any, stats: Any) -> None:
    script = Script(service=service, stats=stats)
    with (
        bitkin.Client(URL, transport=script) as client,
        pytest.raises(ServiceError, match=r"does not understand.*update the older of the two"),
    ):
        client.search([[1.0, 2.0, 3.0, 4.0]], 1)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"ids": [[1]], "distances": [["near"]], "stage": "exact"},
        {"ids": [[1, 2, 3]], "distances": [[1, 2, 3]], "stage": "exact"},
        {"ids": [], "distances": [], "stage": "exact"},
        {"ids": [["a"]], "distances": [[1]], "stage": "exact"},
        {"ids": [[1]], "distances": [[1]], "stage": "guess"},
    ],
)
def test_hits_that_cannot_be_are_refused(answer: Any) -> None:
    with (
        bitkin.Client(URL, transport=Script(search=answer)) as client,
        pytest.raises(ServiceError, match=r"answered a search in a way.*The service is 9.9"),
    ):
        client.search([[1.0, 2.0, 3.0, 4.0]], 2)


def test_nothing_there_is_one_clear_line() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    words = f"^{url} cannot be reached: nothing answers there .2 attempts.. Is the service running"
    with bitkin.Client(url, SECRET, retries=1) as client, pytest.raises(ServiceError, match=words):
        client.count()
    with (
        bitkin.Client("http://no-such-machine.invalid", SECRET) as client,
        pytest.raises(ServiceError, match="cannot be reached"),
    ):
        client.count()


@contextmanager
def says(*answers: bytes) -> Iterator[str]:
    """The address of something that gives every connection one of these answers, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)

        def serve() -> None:
            for answer in answers:
                with server.accept()[0] as one:
                    one.settimeout(5)
                    one.recv(65536)
                    one.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_a_broken_connection_is_told_and_tried_again() -> None:
    body = b'{"count": 5}'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
    whole = head + b"Content-Length: 12\r\n\r\n" + body
    with says(b"", whole[:-7], whole) as url, bitkin.Client(url, SECRET, timeout=5) as client:
        assert client.count() == 5
    with (
        says(whole[:-7]) as url,
        bitkin.Client(url, SECRET, timeout=5, retries=0) as client,
        pytest.raises(ServiceError, match=r"no answer from .*: the connection broke off before"),
    ):
        client.count()


def test_https_where_there_is_none_asks_for_http() -> None:
    with (
        says(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url,
        bitkin.Client(url.replace("http:", "https:"), SECRET) as client,
        pytest.raises(ServiceError, match=r"does not speak https there. Did you mean http://"),
    ):
        client.count()


@pytest.mark.parametrize(
    "error, words, arrived",
    [
        (httpx.ConnectTimeout("x"), "did not take the connection within 3 seconds", False),
        (httpx.PoolTimeout("x"), "no connection became free", False),
        (httpx.ProxyError(SECRET), "the proxy on the way refused", False),
        (httpx.ReadTimeout("x"), "did not answer within 3 seconds", True),
        (httpx.WriteTimeout("x"), "did not take the request", True),
        (httpx.RemoteProtocolError(SECRET), "broke off", True),
        (httpx.LocalProtocolError(SECRET), "cannot be sent", False),
        (
            httpx.ConnectError(
                "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "
                "self-signed certificate (_ssl.c:1006)"
            ),
            "is refused: self-signed certificate",
            False,
        ),
        (httpx.ConnectError("[Errno -2] Name or service not known"), "no machine of that", False),
        (httpx.ConnectError("[Errno 113] No route to host"), "No route to host", False),
        (httpx.ConnectError(""), "no reason given", False),
    ],
)
def test_failures_of_httpx_become_words_without_what_was_sent(
    error: Exception, words: str, arrived: bool
) -> None:
    lost = lost_answer(error, 3.0)
    assert words in lost.reason
    assert lost.arrived is arrived
    assert SECRET not in lost.reason


def test_no_message_holds_the_token() -> None:
    errors: list[BaseException] = []
    for answer in (
        problem(401, "no."),
        problem(403, "no."),
        problem(500, "no."),
        httpx.Response(200, text="?"),
        httpx.ReadError("?"),
        httpx.LocalProtocolError(f"Illegal header value b'Bearer {SECRET}'"),
        ssl.SSLError("?"),
    ):
        try:
            ask(answer)
        except (ServiceError, ssl.SSLError) as error:
            errors.append(error)
    assert len(errors) == 7
    while errors:
        one = errors.pop()
        assert SECRET not in repr(one)
        if one.__cause__ is not None:
            errors.append(one.__cause__)
