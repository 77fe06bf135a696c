"""Rotations, by their public name: `from bitkin.rotations import UnifDiag`."""

from bitkin.hashers.projection.rotations import *  # noqa: F403  # all that the package lists
from bitkin.hashers.projection.rotations import __all__ as __all__
