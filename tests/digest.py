"""One small search of every kind, boiled down to a hash: the same everywhere, however it is run.

Also a script: `python -m tests.digest`.
"""

from __future__ import annotations

import hashlib

import numpy as np

from bitkin import Codes, FlatIndex, distances


def digest(n: int = 700) -> str:
    """Search `n` rows with one and several planes, in order and out of order, and hash all
    answers.
    """
    found = hashlib.sha256()
    for n_symbols, bits in ((70, 1), (20, 3)):
        pattern = (np.arange(n * n_symbols).reshape(n, n_symbols) * 2654435761 >> 7) % 2**bits
        codes = Codes.from_symbols(pattern, bits, empty=np.arange(n) % 50 == 49)
        index = FlatIndex(codes.spec)
        index.add(codes[n // 2 :], np.arange(n // 2, n))
        index.add(codes[: n // 2], np.arange(n // 2))
        index.remove([3, 5])
        for part in (
            *index.search(codes[:3], 9),
            *index.search(codes[:1], 2, allow=[1, 2, 3, 4, 500]),
            *index.search_radius(codes[:2], n_symbols // 2),
            distances(codes[:3], codes),
        ):
            found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    print(digest())
