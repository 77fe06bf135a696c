"""Codes by the million that lie to each other like real ones: a real data set, every row many times
with noise.

How far apart the tenth neighbours of n real rows would be is read off the rows there are: their
mean distance at a tenth of the rows and at all of them, carried on in the logarithm of n. The
noise, a share of every feature's standard deviation, is then chosen so that the tenth nearest of a
row's noisy copies is at that distance from another copy. Rows and queries are drawn alike. Other
rows' copies only bring neighbours nearer, so the result is printed, not assumed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import bitkin
from _data import data_file
from _tiny import sized
from bitkin import Codes, FlatIndex, ProjectionHash

COPIES = sized(100, 10)
K = 10
_SAMPLE = sized(300, 20)
_PIECE = 50_000
_FEATURES = 128


class Clustered(NamedTuple):
    """Codes and queries of one making."""

    codes: Codes
    queries: Codes
    noise: float
    wanted_distance: float


def clustered(
    name: str, n: int, n_bits: int, n_queries: int, rng: np.random.Generator
) -> Clustered:
    """Return `n` codes made from the rows of a data set, and queries of the same making."""
    with np.load(data_file(f"{name}.npz")) as stored:
        key = "X_train" if "X_train" in stored else "X"
        rows = stored[key].reshape(len(stored[key]), -1).astype(np.float32)
    rows = _fewer_features(rows[rng.permutation(len(rows))])
    projection = "pca" if n_bits <= rows.shape[1] else "random"
    hasher = ProjectionHash(n_bits, projection=projection, random_state=0).fit(rows[:20_000])
    wanted = distance_among(hasher.encode(rows), n)
    base = rows[: max(1, min(len(rows), n // COPIES))]
    scale = rows.std(axis=0)
    noise = _noise_for(wanted, base, scale, -(-n // len(base)), hasher, rng)
    parts = [
        hasher.encode(
            _noisy(base[np.arange(start, min(start + _PIECE, n)) % len(base)], noise * scale, rng)
        )
        for start in range(0, n, _PIECE)
    ]
    queries = hasher.encode(_noisy(base[rng.integers(0, len(base), n_queries)], noise * scale, rng))
    return Clustered(Codes.concatenate(parts), queries, noise, wanted)


def _fewer_features(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Keep the directions of largest variance: drawing noise for more than codes have bits takes
    minutes.
    """
    if rows.shape[1] <= _FEATURES:
        return rows
    centred = rows - rows.mean(axis=0)
    directions = np.linalg.svd(centred[:5000], full_matrices=False)[2][:_FEATURES]
    return np.ascontiguousarray(centred @ directions.T)


def distance_among(codes: Codes, n: int) -> float:
    """Return at which distance the tenth neighbour would be among `n` rows like these: never below
    nought.
    """
    queries, rest = codes[:_SAMPLE], codes[_SAMPLE:]
    means = []
    for count in (len(rest) // 10, len(rest)):
        index = FlatIndex(codes.spec)
        index.add(rest[:count])
        means.append(float(np.mean(index.search(queries, K).distances[:, -1])))
    return max(0.0, means[1] - (means[0] - means[1]) * math.log10(n / len(rest)))


def _noise_for(
    wanted: float, base: npt.NDArray[np.float32], scale: npt.NDArray[np.float32], copies: int,
    hasher: ProjectionHash, rng: np.random.Generator,
) -> float:  # fmt: skip
    low, high = 0.0, 4.0
    some = base[rng.integers(0, len(base), _SAMPLE)]
    for _ in range(12):
        noise = (low + high) / 2
        tenths = []
        for row in some:
            made = hasher.encode(
                _noisy(np.repeat(row[None], copies + 1, axis=0), noise * scale, rng)
            )
            tenths.append(np.sort(bitkin.distances(made[:1], made[1:])[0])[min(K, copies) - 1])
        if np.mean(tenths) > wanted:
            high = noise
        else:
            low = noise
    return noise


def _noisy(
    rows: npt.NDArray[np.float32], scale: npt.NDArray[np.float32], rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    return rows + scale * rng.standard_normal(rows.shape, dtype=np.float32)
