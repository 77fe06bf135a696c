"""Thousands of requests that were valid once: none is a fault, and each write that was accepted is
there, and nothing else.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.hostile.attacking import attack
from tests.service.hostile.kinds import KINDS


@pytest.mark.filterwarnings("ignore:n_bits=.* is more than the:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_bent_requests_are_no_faults_and_leave_what_was_accepted(tmp_path: Path, kind: str) -> None:
    statuses = attack(kind, tmp_path, n_requests=200, seed=KINDS.index(kind))
    assert sum(statuses[status] for status in (200, 201, 204)) > 30
    assert sum(statuses[status] for status in (400, 404, 409, 413, 415, 422)) > 60
