"""Streams for tests, and ways to cut and compare them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

import bitkin
from bitkin import Codes, ProjectionHash


def live(n_bits: int = 5, **parameters: Any) -> ProjectionHash:
    """A hasher that follows a stream; OPAST with UnifDiag unless told otherwise."""
    return ProjectionHash(n_bits, **({"projection": "opast", "rotation": "unifdiag"} | parameters))


def turning(n: int, d: int = 13, seed: int = 0) -> npt.NDArray[np.float32]:
    """Rows whose strongest directions are others in the second half of the stream."""
    rng = np.random.default_rng(seed)
    scales = np.geomspace(8, 0.2, d)
    halves = [
        rng.standard_normal((n - n // 2, d)) * scales + 1,
        rng.standard_normal((n // 2, d)) * scales[::-1] - 1,
    ]
    return np.concatenate(halves).astype(np.float32)


def fed(
    hasher: ProjectionHash, X: npt.NDArray[Any], cuts: Sequence[int], ways: Sequence[int]
) -> list[Codes]:
    """Feed a stream in pieces, each in one of four ways; return the codes of those that give any.

    Ways: 0 partial_fit, 1 sketch, 2 sketch_stream of an array, 3 sketch_stream of an iterator of
    vectors.
    """
    codes: list[Codes] = []
    edges = [0, *sorted(cuts), len(X)]
    for k, (first, stop) in enumerate(pairwise(edges)):
        way, piece = ways[k % len(ways)], X[first:stop]
        if way == 0 and len(piece):
            hasher.partial_fit(piece)
        elif way == 1:
            codes += [hasher.sketch(x) for x in piece]
        elif way == 2 and len(piece):
            codes += hasher.sketch_stream(piece)
        elif way == 3:
            codes += hasher.sketch_stream(x for x in piece)
    return codes


def by_row(codes: list[Codes]) -> list[tuple[bytes, str | None]]:
    """What each row of a stream got: its code and who made it."""
    return [(row.tobytes(), part.fingerprint) for part in codes for row in part.to_bytes()]


def everything(hasher: ProjectionHash) -> dict[str, bytes]:
    """The whole state of a live hasher, to compare to the last bit."""
    from bitkin.hashers.projection.streams.state import tensors_of_stream

    tensors = {"components": hasher.components_, **tensors_of_stream(hasher.stream_)}
    return {name: tensor.tobytes() for name, tensor in tensors.items()}


def small_projections(hasher: ProjectionHash, x: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a bit may be either, since BLAS adds up in another order than the kernel of a
    stream.
    """
    small: npt.NDArray[np.bool_] = np.abs(hasher.project(x)) < 1e-5 * np.linalg.norm(
        x, axis=1, keepdims=True
    )
    return small


COMBINATIONS = [
    live(),
    live(refresh=1, epochs=None),
    live(refresh=7, epochs=50, normalize=True),
    live(refresh=30, epochs=0.05, projection=bitkin.projections.OPAST(forgetting=0.99)),
    live(rotation=None, center=False, epochs=100),
    live(rotation="random", epochs=None),
    live(rotation="isohash", refresh=37, epochs=90),
    live(rotation=bitkin.rotations.UnifDiag(start="random"), refresh=13, epochs=None),
    live(projection=bitkin.projections.FrequentDirections(chunk_rows=30), epochs=80),
    live(
        projection=bitkin.projections.FrequentDirections(chunk_rows=30),
        rotation="random",
        epochs=None,
    ),
]
