"""The hasher of a new collection: learned from vectors, or drawn where there are too few."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitkin.cli.output import complain, progress_bar
from bitkin.errors import InvalidInputError

if TYPE_CHECKING:
    from bitkin.cli.collection.embedding import Embedder
    from bitkin.hashers.base import Hasher

# Texts that are embedded before the collection is made. Of 18,000 sentences (MiniLM, 256 bits, the
# file sorted by topic) the exact stage found 0.997 of the true ten with a hasher learned from all,
# 0.993 with one from the first 2,048 or the first 300, and 0.954 with random directions.
ROWS_TO_FIT = 2048
_BITS = 256


def fit_hasher(vectors: Any, bits: int | None, *, normalize: bool) -> Hasher:
    """Return a ProjectionHash learned from vectors, of `bits` or of 256, or of as many as there are
    columns.
    """
    from bitkin.hashers.projection.projection_hash import ProjectionHash
    from bitkin.io.vectors import open_vectors
    from bitkin.io.vectors.source import WatchedSource

    source = open_vectors(vectors)
    n_bits = min(_BITS, source.shape[1]) if bits is None else bits
    with progress_bar("reading", source.shape[0], then="learning a hasher") as done:
        return ProjectionHash(n_bits=n_bits, normalize=normalize).fit(WatchedSource(source, done))


def draw_hasher(n_features: int, bits: int | None) -> Hasher:
    """Return a ProjectionHash of random directions, which needs no data."""
    import numpy as np

    from bitkin.hashers.projection.projection_hash import ProjectionHash

    hasher = ProjectionHash(
        n_bits=_BITS if bits is None else bits,
        projection="random",
        rotation=None,
        center=False,
        normalize=True,
    )
    return hasher.fit(np.eye(1, n_features, dtype=np.float32))


def hasher_for_texts(vectors: Any, bits: int | None) -> Hasher:
    """Return a hasher for embedded texts under cosine: learned where there are enough of them, and
    drawn with a warning where not.
    """
    n_rows, n_features = vectors.shape
    wanted = min(_BITS, n_features) if bits is None else bits
    if wanted > n_features:
        return draw_hasher(n_features, wanted)
    if n_rows <= wanted:
        complain(
            f"warning: {n_rows:,} texts are too few to learn {wanted} bits from, so directions are "
            "random, which lose more. With more texts there, run bitkin collection reencode "
            "FOLDER --learn."
        )
        return draw_hasher(n_features, wanted)
    return fit_hasher(vectors, wanted, normalize=True)


def texts_to_fit(path: Path, text: str, embed: Embedder) -> Any:
    """Return the vectors of the first texts of a file."""
    import numpy as np

    from bitkin.collection.transfer.arriving import RowFileOptions, RowTarget
    from bitkin.collection.transfer.importing import open_row_file

    options = RowFileOptions(text_key=text, embed=embed)
    with progress_bar("embedding", None, "texts"):
        rows = open_row_file(path, options, RowTarget()).look_ahead(ROWS_TO_FIT)
    if not rows:
        raise InvalidInputError(f"{path}: no rows, of which a hasher could be learned.")
    return np.concatenate([batch.vectors for batch in rows])
