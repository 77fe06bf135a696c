"""Long runs. BITKIN_SOAK is the share of them to do: 1 is all, `.ci/run` does a tenth."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def share() -> float:
    """The share of the full run to do."""
    return float(os.environ.get("BITKIN_SOAK", "1"))
