"""The names of features in a file: texts in JSON, as bytes of one tensor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitkin.io.layout import damaged

if TYPE_CHECKING:
    from bitkin.hashers.base import Hasher
    from bitkin.io.reader import StoredFile

_TENSOR = "feature_names"


def names_tensor(hasher: Hasher) -> dict[str, npt.NDArray[Any]]:
    """Return the tensor that keeps the names a hasher was fitted with, or nothing."""
    if not hasattr(hasher, "feature_names_in_"):
        return {}
    names = json.dumps([str(name) for name in hasher.feature_names_in_]).encode()
    return {_TENSOR: np.frombuffer(names, dtype=np.uint8)}


def restore_names(hasher: Hasher, stored: StoredFile) -> None:
    """Give a hasher, its `n_features_in_` known, the names its file holds."""
    tensor = stored.optional_tensor(_TENSOR, np.uint8, (None,))
    if tensor is None:
        return
    try:
        names = json.loads(tensor.tobytes())
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or len(names) != hasher.n_features_in_ or not all(type(n) is str for n in names):
        raise damaged(stored.name, "has feature names that are not texts, one a feature")
    hasher.feature_names_in_ = np.array(names, dtype=object)
