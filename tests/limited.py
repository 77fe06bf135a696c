"""Processes of little memory, in which what comes from outside may do no harm."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
MOST_BYTES = 2 * 2**30
SECONDS_A_FILE = 30


def limit_memory() -> None:
    """Let this process have no more than 2 GB of memory of its own, threads and all it has already
    included.

    Not of address space: libraries and stacks of threads take gigabytes of that, and never touch
    them.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))


def outcome_of(module: str, *arguments: object) -> dict[str, Any]:
    """Run a module, which must come to its end and print one line of JSON, and return that."""
    command = [sys.executable, "-W", "error", "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (
        f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    )
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome
