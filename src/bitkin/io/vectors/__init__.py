"""Vectors from anywhere, one batch at a time: arrays, data frames, iterators and files of every
common format.
"""

from bitkin.io.vectors.opening import open_vectors
from bitkin.io.vectors.source import VectorSource

__all__ = ["VectorSource", "open_vectors"]
