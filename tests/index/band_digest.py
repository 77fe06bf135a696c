"""One small search in bands of every kind, boiled down to a hash: the same everywhere, compiled or
not.

Also a script: `python -m tests.index.band_digest`.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from bitkin import BandIndex, Codes
from bitkin.index.bands import band_index
from bitkin.index.bands import search as band_search

KINDS = [
    {"band_bits": 6},
    {"band_bits": 12, "probes": 5},
    {"band_bits": 12, "probes": 5, "budget": 40},
    {"band_bits": 12, "score": "hits"},
]


def digest(n: int = 150) -> str:
    """Search `n` rows in tables, rows outside them and both, with and without a filter, and hash
    all answers.
    """
    found = hashlib.sha256()
    for n_symbols, bits in ((70, 1), (24, 3)):
        pattern = (
            np.arange(n)[:, None] % 9 * 2654435761 + np.arange(n_symbols) * 40503 >> 7
        ) % 2**bits
        pattern[np.arange(n), np.arange(n) * 7 % n_symbols] ^= 1
        codes = Codes.from_symbols(pattern, bits, empty=np.arange(n) % 50 == 49)
        for kind in KINDS:
            for few_rows in (0, n):
                with pytest.MonkeyPatch.context() as patches:
                    patches.setattr(band_index, "FEW_ROWS", few_rows)
                    patches.setattr(band_search, "SCAN_SHARE", 1)
                    index = BandIndex(codes.spec, **kind)  # type: ignore[arg-type]
                    index.add(codes[: n - 9])
                    index.add(codes[n - 9 :])
                    index.remove([3, 5])
                    for part in (
                        *index.search(codes[:3], 9),
                        *index.search(codes[:2], 2, allow=[1, 2, 3, 4, 100]),
                        *index.search_radius(codes[:2], n_symbols // 2),
                        index.count_candidates(codes[:2]),
                    ):
                        found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    print(digest())
