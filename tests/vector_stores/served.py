"""A service in this process, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import bitkin
from bitkin.service import create_app, running


@contextmanager
def served_collection(n_features: int, n_bits: int = 64) -> Iterator[bitkin.Client]:
    """Yield a client of a collection in memory that is empty and has strings as ids."""
    hasher = bitkin.ProjectionHash(n_bits, projection="random", rotation=None, normalize=True)
    hasher.fit(np.eye(2, n_features, dtype=np.float32))
    collection = bitkin.Collection.create(
        None, hasher, metric="cosine", ids="str", oversample=50, index="flat"
    )
    with running(create_app(collection)) as url, bitkin.Client(url) as client:
        yield client
