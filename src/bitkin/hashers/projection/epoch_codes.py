"""Codes of a stream together with the models that made them, for whoever keeps both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bitkin.arrays import Batch
from bitkin.codes import Codes
from bitkin.hashers.projection.streams.rows import SkippedVectors
from bitkin.io.vectors.batch import row_slice

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash
    from bitkin.hashers.projection.sign_model import SignModel


class EpochCodes:
    """Sketches batch after batch, as `sketch_stream` does, and names the snapshot and the rows
    behind each piece.

    Vectors that are not finite get empty codes, without a warning: whoever keeps codes sees them.

    Parameters
    ----------
    hasher : ProjectionHash
        A live one, or one that can start.
    strict : bool, default False
        Whether a vector that is not finite is an error.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> from bitkin.hashers.projection.epoch_codes import EpochCodes
    >>> X = np.random.default_rng(0).standard_normal((100, 20), dtype=np.float32)
    >>> hasher = bitkin.ProjectionHash(4, projection="opast", rotation="unifdiag", epochs=60).fit(X)
    >>> for snapshot, codes, rows in EpochCodes(hasher).sketch(X):
    ...     print(len(codes), rows.shape, codes.fingerprint == snapshot.fingerprint_)
    60 (60, 20) True
    40 (40, 20) True
    """

    def __init__(self, hasher: ProjectionHash, *, strict: bool = False) -> None:
        self._hasher = hasher
        self._strict = strict
        self._skipped = SkippedVectors(warn=False)
        self._model: SignModel | None = None
        self._snapshot: ProjectionHash | None = None

    def sketch(self, X: Any) -> Iterator[tuple[ProjectionHash | None, Codes, Batch]]:
        """Yield snapshot, codes and rows of a batch for each epoch that its rows fall in; no
        snapshot where there are no epochs.
        """
        stream, batch = self._hasher.start_stream(X)
        first = 0
        for model, codes in stream.sketch(batch, self._skipped, strict=self._strict):
            if model is not self._model:
                self._model = model
                self._snapshot = None if model is None else self._hasher.snapshot_of(model)
            yield self._snapshot, codes, row_slice(batch, first, first + len(codes))
            first += len(codes)

    def sketch_stream(self, vectors: Any) -> Iterator[tuple[ProjectionHash | None, Codes, Batch]]:
        """Yield what `sketch` does of all batches that `ProjectionHash.sketch_stream` takes."""
        for batch in self._hasher.stream_batches(vectors):
            yield from self.sketch(batch)
