"""A fitted ProjectionHash in a file: its model, its two slots and, where it follows a stream, all
it needs to go on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError
from bitkin.estimators.feature_names import names_tensor, restore_names
from bitkin.hashers.projection import registry as slots
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.hashers.projection.streams.state import live_from_file, live_tensors
from bitkin.io.layout import damaged
from bitkin.io.writer import write_file
from bitkin.randomness import resolve_seed

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash
    from bitkin.io.reader import StoredFile


def save_hasher(
    hasher: ProjectionHash, path: str | os.PathLike[str], more: Mapping[str, Any] | None = None
) -> None:
    """Write a fitted hasher to `path`: aside first, then in place at once.

    `more` are JSON values that the file keeps beside the hasher's parameters, for whoever looks for
    them.
    """
    live = hasher._live
    # another thread may go on learning while the file is written
    with nullcontext() if live is None else live.lock:
        model, stream = hasher._model, live_tensors(live)
    parameters = {
        "n_bits": model.spec.n_symbols,
        "projection": slots.describe(hasher._projection),
        "rotation": slots.describe(hasher._rotation),
        "center": model.mean is not None,
        "normalize": model.normalize,
        "random_state": None if hasher.random_state is None else int(hasher.random_state),
        "seed": hasher.seed_,
    }
    tensors: dict[str, npt.NDArray[Any]] = {"components": model.components}
    if model.mean is not None:
        tensors["mean"] = model.mean
    tensors |= names_tensor(hasher) | stream
    write_file(path, "ProjectionHash", parameters | dict(more or {}), model.fingerprint, tensors)


def load_hasher(kind: type[ProjectionHash], stored: StoredFile) -> ProjectionHash:
    """Return the fitted hasher that a file holds."""
    n_bits = stored.parameter("n_bits")
    components = stored.tensor(
        "components", np.float32, (None, n_bits if type(n_bits) is int else -1)
    )
    mean = stored.optional_tensor("mean", np.float64, (len(components),))
    hasher = kind(
        n_bits,
        projection=slots.projection_from(stored.parameter("projection"), stored.name),
        rotation=slots.rotation_from(stored.parameter("rotation"), stored.name),
        center=stored.parameter("center"),
        normalize=stored.parameter("normalize"),
        random_state=stored.parameter("random_state"),
    )
    try:
        hasher._require_parameters()
        hasher.seed_ = whole_number(stored.parameter("seed"), "seed", low=0, high=2**64 - 1)
        resolve_seed(hasher.random_state)
    except ValueError as error:
        raise damaged(stored.name, f"has impossible parameters: {error}") from None
    if hasher.center != (mean is not None) or len(components) == 0:
        raise damaged(stored.name, "has tensors that do not fit its parameters")
    hasher.n_features_in_ = len(components)
    restore_names(hasher, stored)
    hasher._projection, hasher._rotation = hasher.projection, hasher.rotation
    try:
        hasher._set_model(
            SignModel(components, mean, bool(hasher.normalize), random=hasher._slots.random)
        )
        live = live_from_file(stored, hasher)
    except InvalidInputError as error:
        raise damaged(stored.name, f"holds an impossible model: {str(error).rstrip('.')}") from None
    stored.require_no_more_tensors()
    if live is not None:
        hasher._still, hasher._live = None, live
    if hasher.fingerprint_ != stored.fingerprint:
        raise damaged(stored.name, "holds a model that does not fit its fingerprint")
    return hasher
