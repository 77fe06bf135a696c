"""Some of the forged files of `make soak`, and that every class is among them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bitkin._load import _MODULES
from tests.io.forged_objects import forged_parts, good_objects
from tests.limited import outcome_of


def test_every_class_that_can_be_loaded_is_forged_and_can_be_made_again(tmp_path: Path) -> None:
    objects = good_objects(tmp_path)
    assert {parts.class_name for parts in objects.values()} == set(_MODULES)
    for number in range(20):
        (name, parts), (again, same) = (forged_parts(objects, 3, number) for _ in range(2))
        assert (name, parts.parameters, list(parts.tensors)) == (
            again,
            same.parameters,
            list(same.tensors),
        )
        assert all(
            parts.tensors[key].tobytes() == same.tensors[key].tobytes() for key in parts.tensors
        )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_forged_files_are_refused_or_work(tmp_path: Path) -> None:
    outcome = outcome_of("tests.io.forged_reader", 99, 0, 300, tmp_path)
    assert outcome["failures"] == []
    assert 30 < outcome["n_loaded"] < 150
