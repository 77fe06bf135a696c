"""HTTP spoken byte by byte: what no good client sends, and every byte of what comes back."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

PATIENCE = 60.0  # seconds: only what hangs takes so long


class Answer(NamedTuple):
    """What came back, and the bytes that it came as."""

    status: int
    headers: dict[str, str]
    body: bytes
    raw: bytes

    def json(self) -> Any:
        """Return the body as what it says."""
        return json.loads(self.body)


class RawConnection:
    """A connection that sends whatever it is given."""

    def __init__(self, url: str, seconds: float = PATIENCE) -> None:
        place = urlsplit(url)
        assert place.hostname is not None
        self.host = f"{place.hostname}:{place.port}"
        self.socket = socket.create_connection((place.hostname, place.port), seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def head(
        self, method: str, target: bytes | str, headers: Iterable[tuple[str, bytes | str]] = ()
    ) -> bytes:
        """Return the head of a request: what is given, and a host unless one is among it."""
        target = target.encode("latin-1") if isinstance(target, str) else target
        lines = [method.encode() + b" " + target + b" HTTP/1.1"]
        given = list(headers)
        if not any(name.lower() == "host" for name, _ in given):
            given.insert(0, ("Host", self.host))
        for name, value in given:
            value = value.encode("latin-1") if isinstance(value, str) else value
            lines.append(name.encode("latin-1") + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def ask(
        self,
        method: str,
        target: bytes | str,
        body: bytes | None = None,
        headers: Iterable[tuple[str, bytes | str]] = (),
    ) -> Answer:
        """Send a whole request, and return its answer."""
        given = list(headers)
        if body is not None and not any(
            name.lower() in ("content-length", "transfer-encoding") for name, _ in given
        ):
            given.append(("Content-Length", str(len(body))))
        self.send(self.head(method, target, given) + (body or b""))
        return self.answer(method)

    def answer(self, method: str = "GET") -> Answer:
        """Return the next answer; raise ConnectionError where none comes."""
        head = self._until(b"\r\n\r\n")
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        status = int(first.split(" ")[1])
        if status == 100:
            return self.answer(method)
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if method == "HEAD" or status in (204, 304):
            body = b""
        elif "content-length" in headers:
            body = self._take(int(headers["content-length"]))
        elif headers.get("transfer-encoding") == "chunked":
            body = self._chunks()
        else:
            body = self.rest()
        return Answer(status, headers, body, head + body)

    def rest(self) -> bytes:
        """Return all that still comes, until the other side closes."""
        parts = [self._rest]
        self._rest = b""
        while True:
            try:
                part = self.socket.recv(1 << 16)
            except ConnectionError:
                part = b""
            if not part:
                return b"".join(parts)
            parts.append(part)

    def _chunks(self) -> bytes:
        parts = []
        while size := int(self._until(b"\r\n"), 16):
            parts.append(self._take(size))
            self._take(2)
        self._take(2)
        return b"".join(parts)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._receive()
        head, _, self._rest = self._rest.partition(mark)
        return head + mark

    def _take(self, n_bytes: int) -> bytes:
        while len(self._rest) < n_bytes:
            self._receive()
        taken, self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return taken

    def _receive(self) -> None:
        part = self.socket.recv(1 << 16)
        if not part:
            raise ConnectionError("closed before the answer was whole")
        self._rest += part


def ask(
    url: str,
    method: str,
    target: bytes | str,
    body: bytes | None = None,
    headers: Iterable[tuple[str, bytes | str]] = (),
    seconds: float = PATIENCE,
) -> Answer:
    """Send one request over a connection of its own, and return its answer."""
    with RawConnection(url, seconds) as connection:
        return connection.ask(method, target, body, headers)


def ask_json(
    url: str,
    method: str,
    target: str,
    given: Any = None,
    headers: Iterable[tuple[str, bytes | str]] = (),
    seconds: float = PATIENCE,
) -> Answer:
    """Send JSON over a connection of its own, and return the answer."""
    body = None if given is None else json.dumps(given).encode()
    typed = [("Content-Type", "application/json")] if body is not None else []
    return ask(url, method, target, body, [*typed, *headers], seconds)
