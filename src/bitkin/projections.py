"""Projections, by their public name: `from bitkin.projections import OPAST`."""

from bitkin.hashers.projection.projections import (
    OPAST,
    PCA,
    FrequentDirections,
    Learned,
    Nystrom,
    Projection,
    RandomProjection,
    StreamingProjection,
)

__all__ = [
    "OPAST",
    "PCA",
    "FrequentDirections",
    "Learned",
    "Nystrom",
    "Projection",
    "RandomProjection",
    "StreamingProjection",
]
