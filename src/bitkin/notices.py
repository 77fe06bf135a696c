"""Warnings that point at the line of whoever called bitkin, however deep inside it they arise."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from sys import _getframe

_PACKAGE = str(Path(__file__).parent) + os.sep


def warn_caller(message: str) -> None:
    """Warn whoever called into this package."""
    depth, frame = 1, _getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        depth += 1
    warnings.warn(message, UserWarning, stacklevel=depth)
