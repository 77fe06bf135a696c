"""Rightly signed files of every class, changed within: refused, or as good as any."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.limited import outcome_of


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
@pytest.mark.parametrize("part", range(4))
def test_twenty_thousand_forged_files_of_every_class_in_two_gigabytes(
    tmp_path: Path, share: float, part: int
) -> None:
    count = int(5000 * share)
    outcome = outcome_of("tests.io.forged_reader", part, 0, count, tmp_path)
    print(f"{outcome['n_loaded']:,} of {count:,} forged files were loaded, and worked")
    assert outcome["failures"] == []
    assert 0.1 * count < outcome["n_loaded"] < 0.5 * count
