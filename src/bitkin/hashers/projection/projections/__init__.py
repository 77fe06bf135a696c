"""Projections: how a hasher finds the directions whose signs become bits."""

from bitkin.hashers.projection.projections.base import Learned, Projection, StreamingProjection
from bitkin.hashers.projection.projections.frequent_directions import FrequentDirections
from bitkin.hashers.projection.projections.nystrom import Nystrom
from bitkin.hashers.projection.projections.opast import OPAST
from bitkin.hashers.projection.projections.pca import PCA
from bitkin.hashers.projection.projections.random import RandomProjection

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
