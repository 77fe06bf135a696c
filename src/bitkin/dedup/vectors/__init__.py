"""Near-duplicate vectors, by `find_duplicate_vectors`."""

from bitkin.dedup.vectors.candidates import MISS_RATE
from bitkin.dedup.vectors.finding import (
    DuplicateVectors,
    find_duplicate_vectors,
    vector_threshold,
)

__all__ = ["MISS_RATE", "DuplicateVectors", "find_duplicate_vectors", "vector_threshold"]
