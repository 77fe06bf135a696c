"""Rotations: how projected data is turned before its signs are taken."""

from bitkin.hashers.rotations.base import Rotation

__all__ = ["Rotation"]
