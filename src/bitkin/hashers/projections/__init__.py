"""Projections: how a hasher finds the directions whose signs become bits."""

from bitkin.hashers.projections.base import Projection
from bitkin.hashers.projections.random import RandomProjection

__all__ = ["Projection", "RandomProjection"]
