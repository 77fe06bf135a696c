"""The names of features in files: the strings that an estimator was fitted on, as JSON in the bytes
of one tensor.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitkin.estimators.vector_input import VectorInput, fitted_names
from bitkin.io.layout import damaged
from bitkin.io.vectors.columns import Columns

if TYPE_CHECKING:
    from bitkin.io.reader import StoredFile

TENSOR = "feature_names"


def names_tensor(hasher: VectorInput) -> dict[str, npt.NDArray[Any]]:
    """Return the tensor of the names that a hasher was fitted with, or nothing."""
    return encode_names(fitted_names(hasher))


def encode_names(names: Columns | None) -> dict[str, npt.NDArray[Any]]:
    """Return the tensor of these names, or nothing where there are none."""
    if names is None:
        return {}
    return {TENSOR: np.frombuffer(json.dumps(list(map(str, names))).encode(), dtype=np.uint8)}


def restore_names(hasher: VectorInput, stored: StoredFile) -> None:
    """Give a hasher, its `n_features_in_` known, the names its file holds."""
    names = read_names(stored, hasher.n_features_in_)
    if names is not None:
        hasher.feature_names_in_ = np.array(names, dtype=object)


def read_names(stored: StoredFile, n_features: int) -> Columns | None:
    """Return the names that a file holds, one per feature, or None where it holds none."""
    tensor = stored.optional_tensor(TENSOR, np.uint8, (None,))
    if tensor is None:
        return None
    try:
        names = json.loads(tensor.tobytes())
    except (ValueError, RecursionError):
        names = None
    if (
        not isinstance(names, list)
        or len(names) != n_features
        or not all(type(n) is str for n in names)
    ):
        raise damaged(stored.name, "has feature names that are not texts, one a feature")
    return tuple(names)
