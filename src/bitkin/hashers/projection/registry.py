"""The two slots of a projection hash: names, objects, and how they are written to files."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.hashers.projection import projections, rotations
from bitkin.hashers.projection.projections.base import Projection, StreamingProjection
from bitkin.hashers.projection.projections.given import Given
from bitkin.hashers.projection.rotations.base import Rotation

Slot = TypeVar("Slot", Projection, Rotation)

PROJECTIONS: dict[str, type[Projection]] = {
    "pca": projections.PCA,
    "nystrom": projections.Nystrom,
    "random": projections.RandomProjection,
    "opast": projections.OPAST,
    "frequent-directions": projections.FrequentDirections,
}
ROTATIONS: dict[str, type[Rotation]] = {
    "auto": rotations.AutoRotation,
    "itq": rotations.ITQ,
    "unifdiag": rotations.UnifDiag,
    "isohash": rotations.IsoHash,
    "random": rotations.RandomRotation,
}

STREAM_ROTATIONS = [
    name for name, kind in ROTATIONS.items() if issubclass(kind, rotations.CovarianceRotation)
]
"""Names of the rotations that can follow a stream; so can None."""

_IN_FILES: dict[str, type[Projection]] = {**PROJECTIONS, "given": Given}


def projection_for(value: Any) -> Projection:
    """Return the projection that a name or an object stands for."""
    if isinstance(value, str) and value in PROJECTIONS:
        return PROJECTIONS[value]()
    if isinstance(value, Projection):
        return value
    raise _unknown(value, "projection", list(PROJECTIONS))


def rotation_for(value: Any, projection: Projection | None = None) -> Rotation | None:
    """Return the rotation that a name, an object or None stands for beside a projection.

    "auto" beside a projection that follows a stream is a random rotation: it stands still, so that
    codes of neighbouring moments differ by what the stream has done only, and it was ahead of
    UnifDiag wherever vectors differ in length.
    """
    if isinstance(value, str) and value == "auto" and isinstance(projection, StreamingProjection):
        return rotations.RandomRotation()
    if isinstance(value, str) and value in ROTATIONS:
        return ROTATIONS[value]()
    if value is None or isinstance(value, Rotation):
        return value
    raise _unknown(value, "rotation", list(ROTATIONS))


def rotation_name(rotation: Rotation | None) -> str:
    """Return the name of a rotation of ours, "none" for None."""
    names = {kind: name for name, kind in ROTATIONS.items()}
    return "none" if rotation is None else names.get(type(rotation), type(rotation).__name__)


def describe(value: Projection | Rotation | None) -> dict[str, Any] | None:
    """Return what a file keeps of a slot: the class and its parameters."""
    if value is None:
        return None
    if type(value) not in (*_IN_FILES.values(), *ROTATIONS.values()):
        raise InvalidInputError(
            f"{value!r} cannot be saved: only bitkin's own projections and rotations can be loaded."
        )
    parameters = value.get_params(deep=False)
    plain = {
        name: kept.item() if isinstance(kept, np.generic) else kept
        for name, kept in parameters.items()
    }
    return {"class": type(value).__name__, "parameters": plain}


def projection_from(description: Any, file_name: str) -> Projection:
    """Return the projection that `describe` described."""
    return _restore(description, file_name, _IN_FILES)


def rotation_from(description: Any, file_name: str) -> Rotation | None:
    """Return the rotation that `describe` described."""
    return None if description is None else _restore(description, file_name, ROTATIONS)


def _unknown(value: Any, name: str, known: list[str]) -> InvalidInputError:
    choices = [repr(choice) for choice in known] + (["None"] if name == "rotation" else [])
    return InvalidInputError(
        f"{name} must be {', '.join(choices)} or a {name.capitalize()} object, got {value!r}."
    )


def _restore(description: Any, file_name: str, known: dict[str, type[Slot]]) -> Slot:
    classes = {kind.__name__: kind for kind in known.values()}
    try:
        slot = classes[description["class"]](**description["parameters"])
        slot.require_parameters()
        return slot
    except (KeyError, TypeError, InvalidInputError):
        raise CorruptFileError(
            f"{file_name} names a part this bitkin does not know: {description!r}."
        ) from None
