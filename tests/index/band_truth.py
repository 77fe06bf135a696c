"""Bands in plain Python: which rows a query looks at, and what they score."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from bitkin import Codes
from tests.truth import symbol_distances


def probed(r: int, bits: int, probes: int) -> set[tuple[int, ...]]:
    """What is changed in the symbols of a band: nothing, one symbol, two; every symbol once before
    any twice.
    """
    changes: list[tuple[int, ...]] = []
    for changed in range(r + 1):
        for values in product(range(1, 2**bits), repeat=changed):
            for from_the_end in combinations(range(r), changed):
                change = [0] * r
                for place, value in zip(from_the_end, values, strict=True):
                    change[r - 1 - place] = value
                changes.append(tuple(change))
                if len(changes) == probes + 1:
                    return set(changes)
    raise AssertionError("more probes than keys")


def band_hits(rows: Codes, queries: Codes, band_bits: int, probes: int) -> npt.NDArray[np.int64]:
    """Bands of every row, (q, n), that a query looks into."""
    bits = rows.spec.bits_per_symbol
    r = max(1, band_bits // bits)
    changes = probed(r, bits, probes)
    difference = queries.symbols()[:, None, :] ^ rows.symbols()[None, :, :]
    hits = np.zeros(difference.shape[:2], dtype=np.int64)
    for band in range(rows.spec.n_symbols // r):
        part = difference[:, :, band * r : band * r + r]
        hits += np.array(
            [[tuple(pair) in changes for pair in query] for query in part.tolist()]
        ).reshape(hits.shape)
    hits[queries.empty_rows()] = 0
    hits[:, rows.empty_rows()] = 0
    return hits


def nearest(
    rows: Codes,
    ids: npt.NDArray[np.int64],
    queries: Codes,
    k: int,
    band_bits: int,
    probes: int = 0,
    *,
    score: str = "distance",
    allow: npt.NDArray[np.int64] | None = None,
    completed: bool = True,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Sort all candidates by (score, id) and cut; by distance, all rows where there are fewer than
    k of them.
    """
    hits = band_hits(rows, queries, band_bits, probes)
    bands = rows.spec.n_symbols // max(1, band_bits // rows.spec.bits_per_symbol)
    scores = symbol_distances(queries, rows) if score == "distance" else bands - hits
    out_ids = np.full((len(queries), k), -1, dtype=np.int64)
    out_scores = np.full((len(queries), k), rows.spec.n_symbols + 1, dtype=np.int32)
    for q in range(len(queries)):
        allowed = (
            ~rows.empty_rows()
            & ~queries.empty_rows()[q]
            & (True if allow is None else np.isin(ids, allow))
        )
        usable = allowed & (hits[q] > 0)
        if completed and score == "distance" and usable.sum() < k:
            usable = allowed
        order = np.lexsort((ids[usable], scores[q][usable]))[:k]
        out_ids[q, : len(order)], out_scores[q, : len(order)] = (
            ids[usable][order],
            scores[q][usable][order],
        )
    return out_ids, out_scores
