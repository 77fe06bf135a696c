"""Vector files as an attacker would write them, read in little memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.limited import outcome_of


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
@pytest.mark.parametrize("part", range(4))
def test_twenty_thousand_hostile_vector_files_in_two_gigabytes(
    tmp_path: Path, share: float, part: int
) -> None:
    count = int(5000 * share)
    outcome = outcome_of("tests.io.vectors.hostile_reader", part, 0, count, tmp_path)
    print(f"{outcome['n_read']:,} of {count:,} hostile files could be read")
    assert outcome["failures"] == []
    assert 0.1 * count < outcome["n_read"] < 0.5 * count
