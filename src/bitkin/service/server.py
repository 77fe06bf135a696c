"""Running a service: uvicorn with limits on slow clients, logs, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from bitkin.checks import one_of
from bitkin.errors import FileAccessError
from bitkin.service.middleware import JsonLogLines, PlainLogLines
from bitkin.service.tokens import Tokens

HEAD_SECONDS = 20.0
"""From the first moment of a connection, or the first byte of a further request, to the end of its
head.
"""
UNREAD_SECONDS = 30.0
"""After which a connection is cut whose client has taken nothing of an answer."""
_LOOKS = 3
_GRACE_SECONDS = 60  # for answers that are under way when the service ends
_IDLE_SECONDS = 75
_MOST_CONNECTIONS = 2000
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOGS = ("text", "json", "none")


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that gives up on a client which does not say what it wants, or does not take what
    it asked for.

    uvicorn closes idle connections between requests. Those that have never sent a whole head it
    leaves open for ever, and those whose answers nobody reads.
    """

    _timer: asyncio.TimerHandle | None = None
    _next_look: asyncio.TimerHandle | None = None
    _unread = _n_looks_unread = 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the head of the first request."""
        super().connection_made(transport)
        self._wait()
        self._look()

    def data_received(self, data: bytes) -> None:
        """Take bytes; wait on where they are no whole head yet."""
        super().data_received(data)
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering:
            self._wait_no_more()
        elif self._timer is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait_no_more()
        if self._next_look is not None:
            self._next_look.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Go on with an answer, most of which so far has been taken."""
        self._unread = 0
        super().resume_writing()

    def _look(self) -> None:
        """Look now and then whether anything is taken of what waits to be sent."""
        before, self._unread = self._unread, self.transport.get_write_buffer_size()
        self._n_looks_unread = self._n_looks_unread + 1 if 0 < before <= self._unread else 0
        if self._n_looks_unread == _LOOKS:
            self.transport.abort()  # to close would be to wait until all is sent
        else:
            self._next_look = self.loop.call_later(UNREAD_SECONDS / _LOOKS, self._look)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()


def run(
    app: FastAPI,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    log: str = "json",
    on_start: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve an app until SIGINT or SIGTERM; then nothing new is accepted, and what was is ended.

    `on_start` is called with the address once it listens.
    """
    one_of(log, "log", LOGS)
    configure_logs(log, app.state.bitkin.tokens)
    server = _server(app, host, port)
    try:
        with listen(host, port) as listening:
            on_start(_url(host, listening.getsockname()[1]))
            server.run(sockets=[listening])
    finally:
        app.state.bitkin.shelf.close()  # as the end of the service does, if it came to that


@contextmanager
def running(app: FastAPI, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve an app in a thread while the block runs, on a port that is free, and give its address.

    Examples
    --------
    >>> import numpy as np, bitkin, urllib.request
    >>> from bitkin.service import create_app, running
    >>> hasher = bitkin.ProjectionHash(n_bits=2).fit(np.eye(3))
    >>> with running(create_app(bitkin.Collection.create(None, hasher))) as url:
    ...     urllib.request.urlopen(url + "/healthz").read()
    b'{"status":"ok"}'
    """
    server = _server(app, host, port)
    failed: list[BaseException] = []

    def serve() -> None:
        try:
            server.run(sockets=[listening])
        except BaseException as error:  # told in the thread that waits
            failed.append(error)
            raise

    with listen(host, port) as listening:
        thread = threading.Thread(target=serve, name="bitkin-service", daemon=True)
        thread.start()
        try:
            while not server.started and thread.is_alive():
                thread.join(0.01)
            if failed:
                raise failed[0]
            yield _url(host, listening.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def listen(host: str, port: int) -> Iterator[socket.socket]:
    """Give a socket that listens; raise one clear error where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY where the protocol is named, and only there. Without it the body of
    # an answer waits for the other side to acknowledge its head: 40 ms for nothing.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FileAccessError(
                f"{host}:{port} cannot be listened to: {reason}. Give another host or port."
            ) from error
        listening.listen(1024)
        yield listening


def configure_logs(kind: str, tokens: Tokens) -> None:
    """Let requests and warnings be lines on stderr: "json", "text", or "none" of requests; none
    of them holds a token.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainLogLines(tokens) if kind == "text" else JsonLogLines(tokens))
    logging.captureWarnings(True)
    for name in ("bitkin.service", "uvicorn.error", "py.warnings"):
        one = logging.getLogger(name)
        one.handlers[:] = [handler]
        one.propagate = False
        one.setLevel(logging.INFO if name == "bitkin.service" else logging.WARNING)
    requests = logging.getLogger("bitkin.service.requests")
    requests.setLevel(logging.WARNING if kind == "none" else logging.INFO)


class _Server(uvicorn.Server):
    """Ends in order when it is told to, and does not send itself the signal once more: that would
    cut short the commands that run it.
    """

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM end the service while the block runs; elsewhere than in the main
        thread nobody can.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in _SIGNALS}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


def _server(app: FastAPI, host: str, port: int) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        h11_max_incomplete_event_size=64 << 10,
    )
    return _Server(config)


def _url(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{'127.0.0.1' if shown == '0.0.0.0' else shown}:{port}"
