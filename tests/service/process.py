"""A service in a process of its own, started as anybody would."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


class Served:
    """A service in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], url: str, log: IO[str]) -> None:
        self.process = process
        self.url = url
        self._log = log

    def ask(self, path: str, body: Any = None, token: str | None = None) -> Any:
        """Return the answer as JSON; of an error, its problem."""
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(self.url + path, data, headers)) as answer:
                return json.load(answer)
        except HTTPError as error:
            return json.load(error)

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal, and return the exit code and what was logged."""
        self.process.send_signal(number)
        self.process.wait(timeout=60)
        self._log.seek(0)
        return self.process.returncode, self._log.read()

    def bytes_of(self, name: str) -> int:
        """Return what Linux tells of the memory of the process, such as VmHWM: the most it had."""
        told = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB$", told, flags=re.MULTILINE)
        assert found is not None, name
        return 1024 * int(found[1])

    def forget_peak(self) -> None:
        """Let VmHWM begin again at what the process has now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


@contextmanager
def served(*arguments: object) -> Iterator[Served]:
    """Run a command that serves on a free port, while the block runs."""
    command = [sys.executable, "-m", "bitkin", *map(str, arguments), "--port", "0"]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as log,  # a pipe would be full some time
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            found = re.match(r"bitkin is at (http://\S+) \(Ctrl-C ends it\)", line)
            if found is None:
                log.seek(0)
                raise AssertionError((line, log.read()))
            yield Served(process, found[1], log)
        finally:
            if process.poll() is None:
                process.kill()


def wait_until_ready(url: str) -> None:
    """Wait until a service has compiled its kernels."""
    for _ in range(3000):
        try:
            urlopen(f"{url}/readyz").close()
        except HTTPError:  # 503
            time.sleep(0.2)
        else:
            return
    raise AssertionError("kernels are not compiled yet")
