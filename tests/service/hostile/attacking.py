"""A service under bent requests, and what it must hold afterwards."""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from bitkin.service import ServiceLimits, running
from tests.service.hostile.acknowledged import (
    AcknowledgedRows,
    AcknowledgedService,
    SentRequest,
)
from tests.service.hostile.fuzzing import RequestFuzzer
from tests.service.hostile.kinds import NAMES, new_app
from tests.service.hostile.raw import Answer, RawConnection

CUT, NO_ANSWER = -1, -2
"""What stands for the status of a request that was not sent whole, or was not answered."""
_LIMITS = ServiceLimits(body=1 << 20, rows=2000)


def attack(kind: str, tmp_path: Path, n_requests: int, seed: int) -> Counter[int]:
    """Send so many requests to a service of a kind; fail where one is answered as a fault, or where
    afterwards it does not hold what it accepted. Return how often each status came.
    """
    app = new_app(kind, tmp_path, limits=_LIMITS)
    shelf = app.state.bitkin.shelf
    collections = {served.name: served.collection for served in shelf.all}
    only = None if kind == "folder" else next(iter(collections))
    model = AcknowledgedService(collections, only)
    if kind == "folder":
        fuzzers = [
            RequestFuzzer(seed * 10 + i, of_kind, f"/v1/collections/{name}")
            for i, (name, of_kind) in enumerate(
                # two are there, and one may be made
                [(NAMES[0], "int"), (NAMES[1], "str")] * 2 + [("new-1", "int")]
            )
        ]
    else:
        fuzzers = [RequestFuzzer(seed * 10, kind)]
    statuses: Counter[int] = Counter()
    with running(app) as url:
        sender = _Sender(url)
        for number in range(n_requests):
            request = fuzzers[number % len(fuzzers)].make()
            answer = sender.send(request, cut=number % 50 == 49)
            status = answer if isinstance(answer, int) else answer.status
            statuses[status] += 1
            assert status < 500, (number, request, answer)
            assert status != NO_ANSWER, (number, request)
            if isinstance(answer, Answer):
                made = model.note(request, answer)
                if made is not None:
                    model.held[made] = AcknowledgedRows(shelf.find(made).collection)
        sender.close()
        assert {served.name for served in shelf.all} == model.held.keys()
        for served in shelf.all:
            model.held[served.name].require_same(served.collection)
    assert model.n_writes > n_requests / 20
    return statuses


class _Sender:
    """Sends requests over one connection as long as it lasts."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: RawConnection | None = None

    def send(self, request: SentRequest, *, cut: bool) -> Answer | int:
        """Return the answer; with `cut`, send half of the request and go away."""
        if self._connection is None:
            self._connection = RawConnection(self._url)
        connection = self._connection
        headers = list(request.headers)
        framed = any(name.lower() in ("content-length", "transfer-encoding") for name, _ in headers)
        if request.body is not None and not framed:
            headers.append(("Content-Length", str(len(request.body)).encode()))
        head = connection.head(request.method, request.target, headers)
        data = head + (request.body or b"")
        if cut:
            # what needs no body would be done once its head is there
            whole = len(head if request.method == "DELETE" else data)
            with suppress(ConnectionError):
                connection.send(data[: whole * 2 // 3])
            self.close()
            return CUT
        with suppress(ConnectionError):  # refused before it was all sent: the answer is there
            connection.send(data)
        if framed:  # it may wait for more than there is
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)
        try:
            answer = connection.answer(request.method)
        except ConnectionError:
            self.close()
            return CUT if framed else NO_ANSWER
        if framed or answer.headers.get("connection", "").lower() == "close":
            self.close()
        return answer

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def describe(statuses: Counter[int]) -> dict[Any, int]:
    """Return how often each status came, in order."""
    return dict(sorted(statuses.items()))
