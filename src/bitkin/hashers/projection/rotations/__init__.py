"""Rotations: how projected data is rotated before its signs are taken."""

from bitkin.hashers.projection.rotations.auto import AutoRotation
from bitkin.hashers.projection.rotations.base import FoundRotation, Projected, Rotation
from bitkin.hashers.projection.rotations.covariance import CovarianceRotation
from bitkin.hashers.projection.rotations.isohash import IsoHash
from bitkin.hashers.projection.rotations.itq import ITQ
from bitkin.hashers.projection.rotations.random import RandomRotation
from bitkin.hashers.projection.rotations.unifdiag import UnifDiag

__all__ = [
    "ITQ",
    "AutoRotation",
    "CovarianceRotation",
    "FoundRotation",
    "IsoHash",
    "Projected",
    "RandomRotation",
    "Rotation",
    "UnifDiag",
]
