"""Projections: how a hasher finds the directions whose signs become bits."""

from bitkin.hashers.projections.base import Learned, Projection, StreamingProjection
from bitkin.hashers.projections.frequent_directions import FrequentDirections
from bitkin.hashers.projections.nystrom import Nystrom
from bitkin.hashers.projections.opast import OPAST
from bitkin.hashers.projections.pca import PCA
from bitkin.hashers.projections.random import RandomProjection

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
