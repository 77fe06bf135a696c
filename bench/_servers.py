"""The servers that bench/service.py compares, each in a process of its own, and how to ask them."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from collection import GROUP, K, Rows

WHERE = {"topic": GROUP}
_JSON, _BYTES = "application/json", "application/octet-stream"
_CHROMA = "/api/v2/tenants/default_tenant/databases/default_database/collections"
# what bench/collection.py sets for itself: servers run as users run them
_OWN_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request, on so many connections."""

    form: str
    """Of the queries: "lists", "base64" or "bytes"."""
    connections: int
    size: int = 1
    """Queries in a request."""
    metadata: bool = False
    filtered: bool = False

    @property
    def name(self) -> str:
        """What there is to say of it."""
        words = ["lone" if self.size == 1 else f"batches of {self.size}", self.form]
        words += ["metadata"] * self.metadata + ["filter of 1 %"] * self.filtered
        return ", ".join(words)


class Server:
    """A server of rows, in a process of its own."""

    name: ClassVar[str]

    def __init__(self, command: Sequence[str], port: int | None = None) -> None:
        environment = {key: value for key, value in os.environ.items() if key not in _OWN_SETTINGS}
        # chromadb's server writes a line per request: into a pipe until it is full, and then waits
        out = subprocess.PIPE if port is None else subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.DEVNULL, env=environment, text=True
        )
        self.port = self._read_port() if port is None else port
        self._wait_until_ready()

    def request(self, queries: Rows, case: Case) -> bytes:
        """Return the bytes of a request."""
        raise NotImplementedError

    def read(self, body: bytes) -> tuple[list[list[int]], list[list[float]]]:
        """Return the ids and distances that an answer holds."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """Whether it answers searches."""
        raise NotImplementedError

    def post(self, method: str, path: str, content_type: str, body: bytes) -> bytes:
        """Return a request as it goes over the wire."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def ask(self, path: str, method: str = "GET", content: Any = None) -> Any:
        """Return what a lone request answers."""
        body = None if content is None else json.dumps(content).encode()
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", body, {"Content-Type": _JSON}, method=method
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def cpu(self) -> float:
        """Return the seconds of processor that all its threads took."""
        stat = Path(f"/proc/{self._process.pid}/stat")
        if not stat.exists():
            return float("nan")
        fields = stat.read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self) -> float:
        """Return the megabytes of memory that it has, pages of mapped files included."""
        statm = Path(f"/proc/{self._process.pid}/statm")
        if not statm.exists():
            return float("nan")
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.communicate()

    def _read_port(self) -> int:
        raise NotImplementedError

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            if self._process.poll() is not None:
                break
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                if self.is_ready():
                    return
            time.sleep(0.05)
        raise SystemExit(f"{self.name} did not begin to answer.")


class BitkinServer(Server):
    """`bitkin serve`, with its defaults."""

    name = "bitkin"

    def __init__(self, place: Path, oversample: int | None = None) -> None:
        self.oversample = oversample
        super().__init__([sys.executable, "-m", "bitkin", "serve", str(place), "--port", "0"])

    def request(self, queries: Rows, case: Case) -> bytes:
        arguments: dict[str, Any] = {"k": K, "metadata": case.metadata}
        if case.filtered:
            arguments["where"] = WHERE
        if self.oversample is not None:
            arguments["oversample"] = self.oversample
        if case.form == "bytes":
            words = "&".join(f"{key}={json.dumps(value)}" for key, value in arguments.items())
            return self.post("POST", f"/v1/search?{words}", _BYTES, queries.tobytes())
        vectors: Any = queries.tolist()
        if case.form == "base64":
            vectors = {"float32": base64.b64encode(queries.tobytes()).decode()}
        body = json.dumps({"vectors": vectors, **arguments}).encode()
        return self.post("POST", "/v1/search", _JSON, body)

    def read(self, body: bytes) -> tuple[list[list[int]], list[list[float]]]:
        answer = json.loads(body)
        return answer["ids"], answer["distances"]

    def is_ready(self) -> bool:
        return bool(self.ask("/readyz") == {"status": "ready"})

    def _read_port(self) -> int:
        line = (self._process.stdout.readline() if self._process.stdout else "").partition(" (")[0]
        return int(line.rpartition(":")[2] or 0)


class ChromaServer(Server):
    """`chroma run`."""

    name = "chromadb"

    def __init__(self, place: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._path = ""
        words = ["run", "--path", str(place), "--host", "127.0.0.1", "--port", str(port)]
        super().__init__([chroma_command() or "chroma", *words], port)
        self._path = f"{_CHROMA}/{self.ask(f'{_CHROMA}/rows')['id']}"

    def set_effort(self, effort: int) -> None:
        """Let the next process look so far."""
        self.ask(self._path, "PUT", {"new_configuration": {"hnsw": {"ef_search": effort}}})

    def request(self, queries: Rows, case: Case) -> bytes:
        asked: dict[str, Any] = {
            "query_embeddings": queries.tolist(),
            "n_results": K,
            "include": ["distances", "metadatas"] if case.metadata else ["distances"],
        }
        if case.filtered:
            asked["where"] = WHERE
        return self.post("POST", f"{self._path}/query", _JSON, json.dumps(asked).encode())

    def read(self, body: bytes) -> tuple[list[list[int]], list[list[float]]]:
        answer = json.loads(body)
        return [[int(one) for one in ids] for ids in answer["ids"]], answer["distances"]

    def is_ready(self) -> bool:
        return bool(self.ask("/api/v2/heartbeat"))


def chroma_command() -> str | None:
    """Return the path of the command, beside this Python or elsewhere; None where it is not."""
    beside = Path(sys.executable).with_name("chroma")
    return str(beside) if beside.exists() else shutil.which("chroma")
