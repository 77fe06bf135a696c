"""Projections, by their public name: `from bitkin.projections import OPAST`."""

from bitkin.hashers.projection.projections import *  # noqa: F403  # all that the package lists
from bitkin.hashers.projection.projections import __all__ as __all__
