"""Labels on the command line: text, whatever they were in the file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from bitkin.errors import CorruptFileError, InvalidInputError


def label_text(value: Any, where: str) -> str:
    """Return a string, a number or a truth value of JSON as text."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, (bool, int, float)) and math.isfinite(value):
        return json.dumps(value)
    raise InvalidInputError(
        f"{where} must hold a label, text or a number, got {json.dumps(value)[:60]}."
    )


def read_labels(path: Path) -> list[str]:
    """Return the labels of a file: a line each, or a one-dimensional array in .npy."""
    return _from_array(path) if path.suffix.lower() == ".npy" else _from_lines(path)


def _from_lines(path: Path) -> list[str]:
    from bitkin.io.stable import unreadable_is_access_error

    try:
        with unreadable_is_access_error(path):
            lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{path} is not text in UTF-8: {error}.") from error
    labels = [line.strip() for line in lines]
    if "" in labels:
        raise InvalidInputError(
            f"{path}, line {labels.index('') + 1}: no label. Every line must hold one."
        )
    return labels


def _from_array(path: Path) -> list[str]:
    from bitkin.cli.npy_files import map_npy

    array = map_npy(path)
    if array.ndim != 1 or array.dtype.kind not in "biufU":
        raise InvalidInputError(
            f"{path} must hold a one-dimensional array of text or numbers, got {array.dtype} of "
            f"shape {array.shape}."
        )
    return [label_text(value, f"{path}[{row}]") for row, value in enumerate(array.tolist())]
