"""The signs of the coordinates as they come."""

from bitkin.hashers.sign_hash.sign_hash import SignHash

__all__ = ["SignHash"]
