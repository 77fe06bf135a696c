"""A fitted ProjectionHash in a file: its model, its projection and rotation and, where it follows a
stream, all it needs to continue.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError
from bitkin.estimators.feature_names import names_tensor, restore_names
from bitkin.hashers.projection import registry
from bitkin.hashers.projection.rotations import ITQ, AutoRotation, Rotation
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.io.layout import damaged
from bitkin.io.writer import write_file

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
    stream = getattr(hasher, "stream_", None)
    stream_tensors: dict[str, npt.NDArray[Any]] = {}
    # another thread may continue to learn while the file is written
    with nullcontext() if stream is None else stream.lock:
        model = hasher.model_
        if stream is not None:
            from bitkin.hashers.projection.streams.state import tensors_of_stream

            stream_tensors = tensors_of_stream(stream)
    recipe = hasher.recipe_
    parameters: dict[str, Any] = {
        "n_bits": model.spec.n_symbols,
        "projection": registry.describe(recipe.projection),
        "rotation": registry.describe(recipe.rotation),
        "center": model.mean is not None,
        "normalize": model.normalize,
        "random_state": None if hasher.random_state is None else int(hasher.random_state),
        "seed": hasher.seed_,
    }
    if isinstance(recipe.rotation, AutoRotation):
        parameters["chosen_rotation"] = "itq" if isinstance(hasher.rotation_, ITQ) else "random"
    tensors: dict[str, npt.NDArray[Any]] = {"components": model.components}
    if model.mean is not None:
        tensors["mean"] = model.mean
    tensors |= names_tensor(hasher) | stream_tensors
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
        projection=registry.projection_from(stored.parameter("projection"), stored.name),
        rotation=registry.rotation_from(stored.parameter("rotation"), stored.name),
        center=stored.parameter("center"),
        normalize=stored.parameter("normalize"),
        random_state=stored.parameter("random_state"),
    )
    try:
        seed = whole_number(stored.parameter("seed"), "seed", low=0, high=2**64 - 1)
        recipe = replace(hasher.resolve_parameters(), seed=seed)
    except ValueError as error:
        raise damaged(stored.name, f"has impossible parameters: {error}") from None
    if recipe.center != (mean is not None) or len(components) == 0:
        raise damaged(stored.name, "has tensors that do not fit its parameters")
    hasher.n_features_in_ = len(components)
    restore_names(hasher, stored)
    try:
        model = SignModel(components, mean, recipe.normalize, random=recipe.projection.random)
        hasher.become_fitted(recipe, model, _chosen_rotation(recipe.rotation, stored))
        state = stored.optional_tensor("stream.state", np.uint8, (None,))
        if state is not None:
            # Numba comes with it, 100 MB that other hashers need not load.
            from bitkin.hashers.projection.streams.state import stream_from_file

            stream = stream_from_file(stored, state, recipe, model)
            hasher.refresh, hasher.epochs = stream.recipe.refresh, stream.recipe.epochs
            hasher.become_fitted(stream.recipe, stream)
    except InvalidInputError as error:
        raise damaged(stored.name, f"holds an impossible model: {str(error).rstrip('.')}") from None
    stored.require_no_more_tensors()
    if hasher.fingerprint_ != stored.fingerprint:
        raise damaged(stored.name, "holds a model that does not fit its fingerprint")
    return hasher


def _chosen_rotation(rotation: Rotation | None, stored: StoredFile) -> Rotation | None:
    """Return what "auto" chose when the hasher was fitted; None where nothing was to be chosen."""
    name = stored.optional_parameter("chosen_rotation")
    if not isinstance(rotation, AutoRotation) and name is None:
        return None
    if not isinstance(rotation, AutoRotation) or name not in ("itq", "random"):
        raise damaged(stored.name, f"has a chosen rotation that cannot be: {name!r}")
    return rotation.choice(name)
