"""A fitted ProjectionHash from directions that were found elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.projection.projections.given import Given
from bitkin.hashers.projection.sign_model import SignModel


def hasher_from_directions(
    directions: npt.ArrayLike, mean: npt.ArrayLike | None = None
) -> ProjectionHash:
    """Return a fitted hasher whose bit j of x is (x − mean) · directions[:, j] ≥ 0.

    Parameters
    ----------
    directions : (n_features, n_bits)
        Kept in float32.
    mean : (n_features,), optional
        Without one, rows are projected as they are.
    """
    components = _numbers(directions, "directions", np.float32)
    if components.ndim != 2 or not components.size:
        raise InvalidInputError(
            f"directions must have shape (n_features, n_bits), got {components.shape}."
        )
    centre = None if mean is None else _numbers(mean, "mean", np.float64)
    if centre is not None and centre.shape != components.shape[:1]:
        raise InvalidInputError(
            f"mean must have shape {components.shape[:1]}, one a feature, got {centre.shape}."
        )
    hasher = ProjectionHash(
        components.shape[1], projection=Given(), rotation=None, center=centre is not None
    )
    model = SignModel(components, centre, normalize=False).require_smaller_mean()
    hasher.become_fitted(hasher.resolve_parameters(), model)
    return hasher


def _numbers(values: npt.ArrayLike, name: str, dtype: type) -> npt.NDArray[Any]:
    try:
        with np.errstate(over="ignore"):
            array: npt.NDArray[Any] = np.array(values, dtype=dtype, order="C")
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{name} must be an array of numbers, got something else."
        ) from None
    if not np.isfinite(array).all():
        raise InvalidInputError(
            f"{name} must be finite in {np.dtype(dtype)}, got NaN or a number beyond it."
        )
    return array
