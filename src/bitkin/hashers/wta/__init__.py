"""Winner-take-all hashing: the windows, which size they should have, and the hasher."""

from bitkin.hashers.wta.wta_hash import WTAHash

__all__ = ["WTAHash"]
