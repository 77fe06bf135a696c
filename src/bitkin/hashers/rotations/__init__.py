"""Rotations: how projected data is turned before its signs are taken."""

from bitkin.hashers.rotations.base import Projected, Rotation
from bitkin.hashers.rotations.covariance import CovarianceRotation
from bitkin.hashers.rotations.isohash import IsoHash
from bitkin.hashers.rotations.itq import ITQ
from bitkin.hashers.rotations.random import RandomRotation
from bitkin.hashers.rotations.unifdiag import UnifDiag

__all__ = ["ITQ", "CovarianceRotation", "IsoHash", "Projected", "RandomRotation", "Rotation", "UnifDiag"]
