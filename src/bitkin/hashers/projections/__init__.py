"""Projections: how a hasher finds the directions whose signs become bits."""

from bitkin.hashers.projections.base import Learned, Projection
from bitkin.hashers.projections.nystrom import Nystrom
from bitkin.hashers.projections.pca import PCA
from bitkin.hashers.projections.random import RandomProjection

__all__ = ["PCA", "Learned", "Nystrom", "Projection", "RandomProjection"]
