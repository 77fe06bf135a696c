"""A million random 256-bit codes, searched exactly; what it costs, and what the answer looks like."""

from __future__ import annotations

import time

import numpy as np

import bitkin


def main() -> None:
    """Build, search, print."""
    rng = np.random.default_rng(0)
    codes = bitkin.Codes.from_bytes(rng.integers(0, 256, (1_000_000, 32), dtype=np.uint8), 256)
    index = bitkin.FlatIndex(codes.spec)
    start = time.perf_counter()
    index.add(codes)
    built = time.perf_counter() - start
    queries = codes[:100]
    index.search(queries, 10)  # compiles, the first time
    start = time.perf_counter()
    found = index.search(queries, 10)
    searched = time.perf_counter() - start
    print(f"{index!r}, {index.nbytes / 1e6:.0f} MB, built in {built:.2f} s")
    print(f"100 queries, the exact 10 nearest of each: {1e3 * searched:.0f} ms, {bitkin.get_threads()} threads")
    print("query   id of the nearest five            symbols that differ")
    for q in range(3):
        print(f"{q:5d}   {found.ids[q, :5]!s:32}  {found.distances[q, :5]}")


if __name__ == "__main__":
    main()
