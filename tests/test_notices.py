"""A warning names the line of whoever called bitkin."""

from __future__ import annotations

import numpy as np
import pytest

from bitkin import WTAHash
from bitkin.notices import warn_caller


def test_a_warning_from_deep_inside_points_here() -> None:
    with pytest.warns(UserWarning, match="All fitted rows are zeros") as told:
        WTAHash(8, 4).fit(np.zeros((3, 10)))
    assert told[0].filename == __file__


def test_a_warning_from_the_surface_points_here_too() -> None:
    with pytest.warns(UserWarning, match="a word") as told:
        warn_caller("a word")
    assert told[0].filename == __file__
