"""The hasher of a new collection is learned from files, with a bar while they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitkin.cli.output import progress_bar
from bitkin.errors import InvalidInputError

if TYPE_CHECKING:
    from bitkin.embedding import Embedder
    from bitkin.hashers.base import Hasher


def fit_hasher(vectors: Any, bits: int | None, *, normalize: bool) -> Hasher:
    """Return a hasher learned from vectors, with a bar while they are read."""
    from bitkin.collection.fitting import learn_hasher
    from bitkin.io.vectors import open_vectors
    from bitkin.io.vectors.source import WatchedSource

    source = open_vectors(vectors)
    with progress_bar("reading", source.shape[0], then="learning a hasher") as done:
        return learn_hasher(WatchedSource(source, done), bits, normalize=normalize)


def texts_to_fit(path: Path, text: str, embed: Embedder) -> Any:
    """Return the vectors of the first texts of a file."""
    import numpy as np

    from bitkin.collection.fitting import ROWS_TO_FIT
    from bitkin.collection.transfer.arriving import RowFileOptions, RowTarget
    from bitkin.collection.transfer.importing import open_row_file

    options = RowFileOptions(text_key=text, embed=embed)
    with progress_bar("embedding", None, "texts"):
        rows = open_row_file(path, options, RowTarget()).look_ahead(ROWS_TO_FIT)
    if not rows:
        raise InvalidInputError(f"{path}: no rows, of which a hasher could be learned.")
    return np.concatenate([batch.vectors for batch in rows])
