"""Long runs. BITKIN_SOAK is the share of them to do: 1 is all, `.ci/run` does a twentieth."""

from __future__ import annotations

import os
import signal

import pytest

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as tests/conftest.py says
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def share() -> float:
    """The share of the full run to do."""
    return float(os.environ.get("BITKIN_SOAK", "1"))
