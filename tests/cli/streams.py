"""Real processes of `bitkin stream`: fed, killed, and gone on with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

_FEED_BYTES = 1 << 14


@contextmanager
def stdin_of(data: bytes | Path) -> Iterator[None]:
    """Let stdin of this process deliver these bytes, or those of a file."""
    with data.open("rb") if isinstance(data, Path) else tempfile.TemporaryFile() as file:
        if isinstance(data, bytes):
            file.write(data)
            file.seek(0)
        before = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(before, 0)
            os.close(before)


def start_stream(*arguments: object, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start the program, with pipes to its stdin and from its stderr."""
    return subprocess.Popen(
        [sys.executable, "-m", "bitkin", "stream", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, "BITKIN_QUIET": "1"},
        bufsize=0,
    )


def announced(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Wait until a process that goes on says from which byte to feed, and to how many bytes its
    output is cut back.
    """
    assert process.stderr is not None
    said = process.stderr.readline().decode()
    found = re.search(
        r"continues from vector [\d,]+ \(byte ([\d,]+)\); .* is cut back to ([\d,]+) bytes", said
    )
    assert found, said
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


def feed_and_stop(
    process: subprocess.Popen[bytes],
    data: bytes,
    out: Path,
    size: int,
    number: signal.Signals,
    delay: float,
) -> str:
    """Feed until the output has `size` bytes, wait a little longer, send a signal, and return what
    was said.
    """
    assert process.stdin is not None
    assert process.stderr is not None
    at = 0
    while not out.exists() or out.stat().st_size < size:
        assert process.poll() is None, process.stderr.read()
        if at < len(data):
            at += os.write(process.stdin.fileno(), data[at : at + _FEED_BYTES])
        else:
            time.sleep(0.001)
    time.sleep(delay)
    process.send_signal(number)
    said = process.stderr.read().decode()
    process.stdin.close()
    process.wait()
    process.stderr.close()
    return said


def run_killed(
    data: bytes,
    out: Path,
    final_size: int,
    arguments: list[object],
    signals: list[signal.Signals],
    random: Random,
) -> list[str]:
    """Run one stream in pieces, each ended by one of the signals at a random moment; the last piece
    is missing yet.

    Return what each piece said, without the line that names the byte to feed from.
    """
    said = []
    for i, number in enumerate(signals):
        process = start_stream(*arguments)
        first, begun = announced(process) if i else (0, 0)
        # of what is left; on average all moments are as likely
        share = random.random() * 2 / (len(signals) - i + 1)
        size = begun + int(share * (final_size - begun))
        # little beyond, or the process would rush on
        more = int((share + 0.1) * (len(data) - first))
        said.append(
            feed_and_stop(
                process, data[first : first + more], out, size, number, random.random() * 0.01
            )
        )
        assert process.returncode == -number, said[-1]
    return said


def stream_in(folder: Path) -> dict[str, object]:
    """Return every file below a folder, and of a state all but which input came last: that depends
    on how the stream was fed.
    """
    files: dict[str, object] = dict(files_in(folder))
    for name in files:
        if Path(name).name == "state":
            files[name] = _parts_of_state(folder / name)
    return files


def _parts_of_state(path: Path) -> tuple[object, ...]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    parameters = json.loads(header["__metadata__"].pop("parameters"))
    del header["__metadata__"]["header_crc32"]
    for name in ("last", "source"):
        del parameters["stream"]["taken"][name]
    return header, parameters, data[8 + length :]


def files_in(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
