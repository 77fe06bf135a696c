"""MinHash codes of sets."""

from bitkin.hashers.minhash.minhash import MinHash

__all__ = ["MinHash"]
