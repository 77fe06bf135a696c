"""Vectors to codes: the contract every hasher keeps, and its members."""

from bitkin.hashers.base import Hasher
from bitkin.hashers.projection_hash import ProjectionHash

__all__ = ["Hasher", "ProjectionHash"]
