"""Labels and paths as users write them: any hashable thing, checked and made plain."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from bitkin.checks import shown
from bitkin.errors import InvalidInputError

Path: TypeAlias = tuple[Hashable, ...]

_PLAIN = {str, int, bool, type(None)}


def plain_label(value: Any, name: str) -> Hashable:
    """Return `value` as a label; NumPy's numbers and strings become Python's, which are equal and
    shorter to show.
    """
    if type(value) in _PLAIN:
        return value  # type: ignore[no-any-return]
    if isinstance(value, (np.bool_, np.number, np.str_, np.bytes_)):
        value = value.item()
    try:
        hash(value)
    except TypeError:
        raise InvalidInputError(
            f"{name} must be hashable, got {shown(value)}. Use strings, numbers or tuples of them."
        ) from None
    if value != value:
        raise InvalidInputError(
            f"{name} must be equal to itself, got {shown(value)}. Leave missing parts of a path "
            "out."
        )
    return value  # type: ignore[no-any-return]


def plain_labels(values: Any, name: str) -> list[Hashable]:
    """Return a flat list, tuple, array or other series of labels as a list of plain ones."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidInputError(
            f"{name} must be a list of labels, got {shown(values)}. Wrap a single label in a list."
        )
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise InvalidInputError(
            f"{name} must be 1-dimensional, got shape {values.shape}. Give one label a row."
        )
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuUS":
        return list(values.tolist())
    return [plain_label(value, f"{name}[{row}]") for row, value in enumerate(values)]


def plain_paths(paths: Any) -> list[Path]:
    """Return `paths` as a list of tuples of labels, at least one, none of them empty."""
    if isinstance(paths, (str, bytes)) or not isinstance(paths, Iterable):
        raise InvalidInputError(f"paths must be a list of tuples of labels, got {shown(paths)}.")
    checked: list[Path] = []
    for row, path in enumerate(paths):
        if (
            isinstance(path, (str, bytes))
            or not isinstance(path, (Sequence, np.ndarray))
            or len(path) == 0
        ):
            raise InvalidInputError(
                f"paths[{row}] must be a tuple of labels from the top to the class, got "
                f"{shown(path)}. Labels with dots in them go to Taxonomy.from_labels."
            )
        checked.append(tuple(plain_label(label, f"a label of paths[{row}]") for label in path))
    if not checked:
        raise InvalidInputError("paths must hold at least one path, got none.")
    return checked


def some_labels(labels: Iterable[Hashable], limit: int = 5) -> str:
    """Return the first labels for a message, and how many more there are."""
    labels = list(labels)
    more = f" and {len(labels) - limit} more" if len(labels) > limit else ""
    return ", ".join(shown(label) for label in labels[:limit]) + more
