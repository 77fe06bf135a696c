"""Labels of rows: what scikit-learn calls `y`, of any hashable kind, in arrays of the type they
came in.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from bitkin.errors import InvalidInputError
from bitkin.learn.taxonomy.labels import plain_labels, some_labels
from bitkin.learn.taxonomy.taxonomy import Taxonomy

_PLAIN = (str, bool, int, float)


def to_object_array(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    """Return a 1-D array of objects; NumPy by itself would make tuples another axis."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def to_label_array(labels: Sequence[Hashable]) -> npt.NDArray[Any]:
    """Return labels as an array of strings or numbers where they are all of one such kind, else of
    objects.
    """
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= set(_PLAIN) and not any(map(_ends_in_nul, labels)):
        array = np.array(labels)
        if array.dtype.kind in "Ubif":  # not whole numbers beyond 64 bits
            return array
    return to_object_array(labels) if labels else np.empty(0, dtype=object)


def check_row_labels(y: Any, n_rows: int) -> list[Hashable]:
    """Return the labels of `n_rows` rows as a list of plain ones."""
    if y is None:
        raise InvalidInputError(
            "HeshingClassifier requires y to be passed, but the target y is None. Give a label a "
            "row."
        )
    if isinstance(y, (list, tuple)) and (
        len(set(map(type, y))) > 1
        or any(isinstance(label, tuple) or _ends_in_nul(label) for label in y)
    ):
        # NumPy would make another axis of tuples, and texts of numbers that stand beside texts.
        y = to_object_array(y)
    try:
        flat = column_or_1d(y, warn=True)
        if flat.dtype.kind == "f":
            assert_all_finite(flat, input_name="y")
            check_classification_targets(flat)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(str(error)) from error
    labels = plain_labels(flat, "y")
    if len(labels) != n_rows:
        raise InvalidInputError(
            f"y must hold one label a row of X, {n_rows} in all, got {len(labels)}."
        )
    return labels


def sort_labels(labels: Iterable[Hashable]) -> list[Hashable]:
    """Return the different labels, sorted: as texts or numbers or tuples of them, else by type and
    how they print.

    The order never depends on that of the rows.
    """
    different = list(dict.fromkeys(labels))
    kinds = {type(label) for label in different}
    if kinds <= {bool, int, float} or (len(kinds) == 1 and kinds <= {str, bytes, tuple}):
        with suppress(TypeError):  # tuples of unlike things
            return sorted(different)  # type: ignore[type-var]
    return sorted(different, key=lambda label: (type(label).__name__, repr(label)))


def _ends_in_nul(label: object) -> bool:
    """Tell whether NumPy's texts, which are filled up with NUL, would cut the label short."""
    return isinstance(label, (str, bytes)) and label[-1:] in ("\0", b"\0")


def find_classes(
    taxonomy: Taxonomy, labels: Sequence[Hashable], hint: str
) -> npt.NDArray[np.int64]:
    """Return the numbers of classes in the taxonomy; raise for labels that are none, listing
    them.
    """
    numbers = taxonomy.class_numbers_of(labels)
    if (numbers < 0).any():
        missing = dict.fromkeys(labels[row] for row in np.flatnonzero(numbers < 0).tolist())
        raise InvalidInputError(
            f"y must hold classes of the taxonomy, got {some_labels(missing)}. {hint}"
        )
    return numbers
