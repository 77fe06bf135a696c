"""A service that is told to end: nothing new is accepted, and what was is finished."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import bitkin
from tests.service.hostile.kinds import N, X, new_collection
from tests.service.hostile.raw import RawConnection
from tests.service.process import served


def wait_until_nothing_is_accepted(url: str) -> None:
    place = urlsplit(url)
    for _ in range(1200):
        try:
            socket.create_connection((place.hostname or "", place.port or 0), 5).close()
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError("it is still listening")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_writes_that_were_accepted_are_finished_and_nothing_new_is_accepted(
    tmp_path: Path, number: signal.Signals
) -> None:
    new_collection("int", tmp_path / "rows").close()
    body = X.tobytes() * 20
    kind = ("Content-Type", "application/octet-stream")
    with (
        served("serve", tmp_path / "rows", "--log", "none") as service,
        RawConnection(service.url) as under_way,
        RawConnection(service.url) as idle,
    ):
        assert idle.ask("GET", "/v1/count").status == 200
        head = under_way.head("POST", "/v1/items", [kind, ("Content-Length", str(len(body)))])
        under_way.send(head + body[:-7])
        # until the request is known to have begun
        while b"bitkin_requests_under_way 2.0" not in idle.ask("GET", "/metrics").body:
            time.sleep(0.01)
        service.process.send_signal(number)
        wait_until_nothing_is_accepted(service.url)
        assert service.process.poll() is None
        under_way.send(body[-7:])
        told = under_way.answer()
        assert told.status == 201
        ids = told.json()["ids"]
        assert idle.rest() == b""
        assert service.process.wait(60) == 0
    with bitkin.Collection.open(tmp_path / "rows") as rows:
        assert len(ids) == 20 * N
        assert len(rows) == 21 * N
        assert (rows.get(ids[-N:]).vectors == X).all()
        rows.verify()
