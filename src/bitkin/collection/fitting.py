"""The hasher of a new collection, where nobody gave one: learned from vectors, or drawn where there
are too few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bitkin.notices import warn_caller

if TYPE_CHECKING:
    from bitkin.hashers.base import Hasher

# Rows of which a hasher is learned before the collection is made. Of 18,000 sentences (MiniLM, 256
# bits, the file sorted by topic) the exact stage found 0.997 of the true ten with a hasher learned
# from all, 0.993 with one from the first 2,048 or the first 300, and 0.954 with random directions.
ROWS_TO_FIT = 2048
BITS = 256


def learn_hasher(vectors: Any, bits: int | None = None, *, normalize: bool) -> Hasher:
    """Return a ProjectionHash learned from vectors, of `bits` or of 256, or of as many as there are
    columns.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((100, 8))
    >>> learn_hasher(X, normalize=True).spec_
    CodeSpec(n_symbols=8, bits_per_symbol=1)
    """
    from bitkin.hashers.projection.projection_hash import ProjectionHash
    from bitkin.io.vectors import open_vectors

    source = open_vectors(vectors)
    n_bits = min(BITS, source.shape[1]) if bits is None else bits
    return ProjectionHash(n_bits=n_bits, normalize=normalize).fit(source)


def draw_hasher(n_features: int, bits: int | None = None) -> Hasher:
    """Return a ProjectionHash of random directions, which needs no data.

    Examples
    --------
    >>> draw_hasher(8, 16).spec_
    CodeSpec(n_symbols=16, bits_per_symbol=1)
    """
    from bitkin.hashers.projection.projection_hash import ProjectionHash

    hasher = ProjectionHash(
        n_bits=BITS if bits is None else bits,
        projection="random",
        rotation=None,
        center=False,
        normalize=True,
    )
    return hasher.fit(np.eye(1, n_features, dtype=np.float32))


def hasher_for_texts(vectors: Any, bits: int | None = None) -> Hasher:
    """Return a hasher for embedded texts under cosine: learned where there are enough of them, and
    drawn with a warning where not.
    """
    n_rows, n_features = vectors.shape
    wanted = min(BITS, n_features) if bits is None else bits
    if wanted > n_features:
        return draw_hasher(n_features, wanted)
    if n_rows <= wanted:
        warn_caller(
            f"{n_rows:,} texts are too few to learn {wanted} bits from, so directions are random, "
            "which lose more. With more texts there, run bitkin collection reencode FOLDER --learn."
        )
        return draw_hasher(n_features, wanted)
    return learn_hasher(vectors, wanted, normalize=True)
