"""Load on a service that listens on this machine: a process of its own that sends requests, each
connection its next one as soon as it has an answer, and says how long every answer took.

It takes little more than the time of its system calls, as it takes processors from the service:
requests are ready bytes, connections stay open, and of an answer it reads the status and the
length. It imports nothing that has to be installed.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_RECEIVED = 1 << 18  # bytes read at a time
_PATIENCE = 60.0  # seconds without any answer


@dataclass
class Load:
    """What to send: requests in turn, on so many connections, for so many seconds."""

    port: int
    requests: Sequence[bytes]
    connections: int
    seconds: float


@dataclass
class Answered:
    """What came back."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Seconds per answer."""
    bodies: dict[int, bytes] = field(default_factory=dict)
    """The first answer to every request, by the number of that."""
    errors: list[str] = field(default_factory=list)
    bytes_in: int = 0
    cpu: float = 0.0
    """Seconds of the processor that sending and receiving took."""


class LoadGenerator:
    """The process that sends."""

    def __init__(self, loads: IO[bytes], answers: IO[bytes]) -> None:
        self._loads, self._answers = loads, answers

    def send(self, load: Load) -> Answered:
        """Send all of a load, and return what came back."""
        pickle.dump(vars(load), self._loads)
        self._loads.flush()
        return Answered(**pickle.load(self._answers))


@contextlib.contextmanager
def load_generator() -> Iterator[LoadGenerator]:
    """Start a process that sends, and end it with the block."""
    with subprocess.Popen(
        [sys.executable, "-S", str(Path(__file__).resolve())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        if process.stdin is not None and process.stdout is not None:  # both are pipes
            with process.stdin:
                yield LoadGenerator(process.stdin, process.stdout)


class _Connection:
    """One connection, and the request that is under way on it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = 0
        self.since = 0.0
        self._received = bytearray()
        self._head = self._length = -1

    def send(self, request: int, data: bytes) -> None:
        """Send a request; note when."""
        self.request = request
        self._received.clear()
        self._head = self._length = -1
        self.since = time.perf_counter()
        self.socket.sendall(data)

    def receive(self) -> bool:
        """Read what has come; return whether the answer is whole."""
        data = self.socket.recv(_RECEIVED)
        if not data:
            raise ConnectionError("the connection was closed before the answer was whole")
        self._received += data
        if self._head < 0:
            self._head = self._received.find(b"\r\n\r\n")
            if self._head < 0:
                return False
            head = bytes(self._received[: self._head]).lower()
            before, _, after = head.partition(b"\r\ncontent-length:")
            if not after:
                raise ConnectionError(f"an answer without a length: {before[:80]!r}")
            self._length = int(after.split(b"\r\n", 1)[0])
        return len(self._received) >= self._head + 4 + self._length

    @property
    def status(self) -> int:
        """Of the answer."""
        return int(self._received[9:12])

    @property
    def body(self) -> bytes:
        """Of the answer."""
        return bytes(self._received[self._head + 4 :])

    @property
    def n_received(self) -> int:
        """Bytes of the answer, head included."""
        return len(self._received)


def send_load(load: Load) -> Answered:
    """Keep all connections busy; what was begun when the time is over is waited for."""
    answered = Answered()
    numbers = itertools.cycle(range(len(load.requests)))
    connections = [_Connection(load.port) for _ in range(load.connections)]
    cpu, start = time.process_time(), time.perf_counter()
    end, now = start + load.seconds, start
    with selectors.DefaultSelector() as selector:
        for one in connections:
            selector.register(one.socket, selectors.EVENT_READ, one)
            number = next(numbers)
            one.send(number, load.requests[number])
        n_open = len(connections)
        while n_open:
            ready = selector.select(_PATIENCE)
            if not ready:
                answered.errors += ["no answer"] * n_open
                break
            for key, _ in ready:
                one = key.data
                try:
                    if not one.receive():
                        continue
                    now = time.perf_counter()
                    _note(answered, one, now)
                    if now < end:
                        number = next(numbers)
                        one.send(number, load.requests[number])
                        continue
                except OSError as error:
                    answered.errors.append(str(error))
                selector.unregister(one.socket)
                n_open -= 1
    answered.seconds = now - start
    answered.cpu = time.process_time() - cpu
    for one in connections:
        one.socket.close()
    return answered


def _note(answered: Answered, one: _Connection, now: float) -> None:
    answered.bytes_in += one.n_received
    if one.status == 200:
        answered.latencies.append(now - one.since)
        if one.request not in answered.bodies:
            answered.bodies[one.request] = one.body
    else:
        answered.errors.append(f"{one.status}: {one.body[:200]!r}")


def main() -> None:
    """Send the loads that come on stdin, until there are no more."""
    with contextlib.suppress(EOFError):
        while True:
            given = pickle.load(sys.stdin.buffer)
            pickle.dump(vars(send_load(Load(**given))), sys.stdout.buffer)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
