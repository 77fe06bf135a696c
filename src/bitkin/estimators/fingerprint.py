"""Fingerprints: one short text per fitted model, equal exactly when the models are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def fingerprint(
    class_name: str, settings: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> str:
    """Return 32 hexadecimal digits of the SHA-256 of all that decides a model's codes."""
    digest = hashlib.sha256(json.dumps([class_name, dict(settings)], sort_keys=True).encode())
    # Name, type and shape come before the bytes of an array, so that no two models run together;
    # bytes are little-endian on every machine.
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(json.dumps([name, array.dtype.newbyteorder("<").str, array.shape]).encode())
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()[:32]
