"""Labels of rows: what scikit-learn calls `y`, of any hashable kind, in arrays of the type they came in."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from bitkin.errors import InvalidInputError
from bitkin.learn.labels import plain_labels, shown
from bitkin.learn.taxonomy import Taxonomy

_PLAIN = (str, bool, int, float)


def object_array(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    """Return a 1-D array of objects; NumPy by itself would make tuples another axis."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def label_array(labels: Sequence[Hashable]) -> npt.NDArray[Any]:
    """Return labels as an array of strings or numbers where they are all of one such kind, else of objects."""
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= set(_PLAIN):
        array = np.array(labels)
        if array.dtype.kind in "Ubif":  # not whole numbers beyond 64 bits
            return array
    return object_array(labels) if labels else np.empty(0, dtype=object)


def row_labels(y: Any, n_rows: int) -> list[Hashable]:
    """Return the labels of `n_rows` rows."""
    if y is None:
        raise InvalidInputError(
            "HeshingClassifier requires y to be passed, but the target y is None. Give a label a row."
        )
    if isinstance(y, (list, tuple)) and (len(set(map(type, y))) > 1 or any(isinstance(label, tuple) for label in y)):
        y = object_array(y)  # NumPy would make another axis of tuples, and texts of numbers beside texts
    try:
        flat = column_or_1d(y, warn=True)
        if flat.dtype.kind == "f":
            assert_all_finite(flat, input_name="y")
            check_classification_targets(flat)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(str(error)) from error
    labels = plain_labels(flat, "y")
    if len(labels) != n_rows:
        raise InvalidInputError(f"y must hold one label a row of X, {n_rows} in all, got {len(labels)}.")
    return labels


def in_order(labels: Iterable[Hashable]) -> list[Hashable]:
    """Return the different labels, sorted where they can be, else in order of appearance."""
    different = list(dict.fromkeys(labels))
    try:
        return sorted(different)  # type: ignore[type-var]
    except TypeError:
        return different


def require_classes(taxonomy: Taxonomy, labels: Iterable[Hashable], hint: str) -> None:
    """Raise for labels that are no classes, listing them."""
    missing = [label for label in dict.fromkeys(labels) if label not in taxonomy]
    if missing:
        raise InvalidInputError(f"y must hold classes of the taxonomy, got {shown(missing)}. {hint}")
