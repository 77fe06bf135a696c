"""Some of the hostile files of `make soak`, and that the files they are made of are good."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.io.vectors.hostile import good_files, hostile_file, read_all
from tests.limited import outcome_of

pytest.importorskip("pyarrow")
pytest.importorskip("h5py")


def test_good_files_of_every_format_are_read(tmp_path: Path) -> None:
    for name, data in good_files().items():
        (tmp_path / name).write_bytes(data)
        assert read_all(tmp_path / name), name


def test_a_hostile_file_can_be_made_again() -> None:
    files = good_files()
    made = [hostile_file(files, 3, number) for number in range(40)]
    assert made == [hostile_file(files, 3, number) for number in range(40)]
    assert len({data for _, data in made}) > 30


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_hostile_files_are_read_or_refused_in_two_gigabytes(tmp_path: Path) -> None:
    outcome = outcome_of("tests.io.vectors.hostile_reader", 99, 0, 300, tmp_path)
    assert outcome["failures"] == []
    assert 30 < outcome["n_read"] < 150
