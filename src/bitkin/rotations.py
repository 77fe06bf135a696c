"""Rotations, by their public name: `from bitkin.rotations import UnifDiag`."""

from bitkin.hashers.projection.rotations import (
    ITQ,
    CovarianceRotation,
    IsoHash,
    Projected,
    RandomRotation,
    Rotation,
    UnifDiag,
)

__all__ = [
    "ITQ",
    "CovarianceRotation",
    "IsoHash",
    "Projected",
    "RandomRotation",
    "Rotation",
    "UnifDiag",
]
