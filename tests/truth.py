"""Slow truths in plain NumPy that tests compare with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import Codes


def random_codes(
    rng: np.random.Generator,
    n: int,
    n_symbols: int,
    bits: int = 1,
    *,
    empty: bool = False,
    near: bool = False,
) -> Codes:
    """Random codes; `near` draws few distinct rows so that distances tie a lot."""
    high = 2**bits if not near else 2
    symbols = rng.integers(0, high, (n, n_symbols), dtype=np.uint64)
    if near and n:
        symbols = symbols[rng.integers(0, max(1, n // 8), n)]
    flags = rng.random(n) < 0.1 if empty else None
    return Codes.from_symbols(symbols, bits, empty=flags)


def symbol_distances(a: Codes, b: Codes) -> npt.NDArray[np.int32]:
    """Compare symbol by symbol."""
    out: npt.NDArray[np.int32] = (a.symbols()[:, None, :] != b.symbols()[None, :, :]).sum(
        axis=2, dtype=np.int32
    )
    out[a.empty_rows()] = a.spec.n_symbols
    out[:, b.empty_rows()] = a.spec.n_symbols
    return out


def nearest(
    codes: Codes, ids: npt.NDArray[np.int64], queries: Codes, k: int, allow: Any = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Sort all rows by (distance, id) and cut."""
    usable = ~codes.empty_rows()
    if allow is not None:
        usable &= np.isin(ids, allow)
    codes, ids = codes[usable], ids[usable]
    distances = symbol_distances(queries, codes)
    out_ids = np.full((len(queries), k), -1, dtype=np.int64)
    out_distances = np.full((len(queries), k), queries.spec.n_symbols + 1, dtype=np.int32)
    for q in np.flatnonzero(~queries.empty_rows()):
        order = np.lexsort((ids, distances[q]))[:k]
        out_ids[q, : len(order)], out_distances[q, : len(order)] = ids[order], distances[q][order]
    return out_ids, out_distances
