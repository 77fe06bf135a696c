"""How many functions and files one call passes through stays within the goals of bench/walks.py."""

from __future__ import annotations

import functools
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WALKS = Path(__file__).parents[2] / "bench" / "walks.py"


def goals() -> dict[str, tuple[int, int]]:
    """Read the goals without tracing anything, and leave this process as it was."""
    kept = {name: os.environ.get(name) for name in ("NUMBA_DISABLE_JIT", "BITKIN_NUM_THREADS")}
    try:
        found: dict[str, tuple[int, int]] = runpy.run_path(str(WALKS))["GOALS"]
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
    return found


@functools.cache
def walked() -> dict[str, dict[str, Any]]:
    """Run the tracer once, in a process of its own: kernels run as plain Python there."""
    run = subprocess.run([sys.executable, str(WALKS)], capture_output=True, text=True, check=True)
    return {line["walk"]: line for line in map(json.loads, run.stdout.splitlines())}


@pytest.mark.parametrize("name", goals())
def test_a_walk_is_within_its_goal(name: str) -> None:
    functions, files = goals()[name]
    assert walked()[name]["functions"] <= functions
    assert walked()[name]["files"] <= files
