"""Codes of a stream together with the models that made them, for whoever keeps both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bitkin.codes import Codes
from bitkin.hashers.streams.rows import Flags, Skipped

if TYPE_CHECKING:
    from bitkin.hashers.projection_hash import ProjectionHash
    from bitkin.hashers.sign_model import SignModel


class EpochCodes:
    """Sketches batch after batch, as `sketch_stream` does, and names the snapshot behind each piece of codes.

    Vectors that are not finite get empty codes, without a warning: whoever keeps codes sees them.

    Parameters
    ----------
    hasher : ProjectionHash
        A live one, or one that can start.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> from bitkin.hashers.streams.epoch_codes import EpochCodes
    >>> X = np.random.default_rng(0).standard_normal((100, 20), dtype=np.float32)
    >>> hasher = bitkin.ProjectionHash(4, projection="opast", rotation="unifdiag", epochs=60)
    >>> [(len(codes), codes.fingerprint == model.fingerprint_) for model, codes in EpochCodes(hasher).of(X)]
    [(60, True), (40, True)]
    """

    def __init__(self, hasher: ProjectionHash) -> None:
        self._hasher = hasher
        self._skipped = _Unsaid()
        self._model: SignModel | None = None
        self._snapshot: ProjectionHash | None = None

    def of(self, rows: npt.NDArray[np.float32]) -> Iterator[tuple[ProjectionHash | None, Codes]]:
        """Yield snapshot and codes for each epoch that the rows fall in; no snapshot where there are no epochs."""
        for model, codes in self._hasher._coded_with_models(rows, False, self._skipped):
            if model is not self._model:
                self._model = model
                self._snapshot = None if model is None else self._hasher._frozen_hasher(model)
            yield self._snapshot, codes


class _Unsaid(Skipped):
    """Counts vectors that were left out, and says nothing."""

    def among(self, usable: Flags) -> int:
        """Return how many vectors cannot be used."""
        return int(np.count_nonzero(~usable))
