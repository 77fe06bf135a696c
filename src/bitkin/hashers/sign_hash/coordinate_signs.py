"""The model behind SignHash: a projection onto the axes, which costs no product."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin import threads
from bitkin.arrays import Batch
from bitkin.code_spec import WORD, CodeSpec
from bitkin.estimators.fingerprint import fingerprint
from bitkin.hashers.projection.sign_model import Multiply, SignModel
from bitkin.hashers.projection.training import prepare_rows
from bitkin.io.vectors.batch import row_slice

_NUMBERS_AT_ONCE = 1 << 18  # compared and packed while they are in the cache of a core


class CoordinateSigns(SignModel):
    """Bit j of x is xⱼ > 0: directions are the axes, and there is no mean. Nothing of it ever
    changes.
    """

    def __init__(self, n_features: int) -> None:
        self.mean = None
        self.normalize = False
        self.random = False
        self.spec = CodeSpec(n_features)
        self.exact_offset = np.zeros(n_features)
        self.offset = np.zeros(n_features, dtype=np.float32)

    @property
    def n_features(self) -> int:
        """Length of a vector, and of a code."""
        return self.spec.n_symbols

    @property
    def keeps_inner_products(self) -> bool:
        """Axes do."""
        return True

    @cached_property
    def components(self) -> npt.NDArray[np.float32]:  # type: ignore[override]  # made on demand
        """The axes as columns: as many numbers as the square of the features."""
        axes = np.eye(self.n_features, dtype=np.float32)
        axes.flags.writeable = False
        return axes

    @cached_property
    def fingerprint(self) -> str:
        """Equal for all models of one width, and for no others."""
        return fingerprint("SignHash", {"n_features": self.n_features}, {})

    def project(
        self, batch: Batch, name: str = "X", multiply: Multiply | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the rows as dense float32; `name` is for messages, and nothing is multiplied."""
        rows = prepare_rows(batch, False, name)
        dense: npt.NDArray[np.float32] = rows.toarray() if issparse(rows) else rows
        return dense

    def words(self, batch: Batch) -> npt.NDArray[np.uint64]:
        """Return packed codes: uint64 (n, words per row)."""
        n_rows = batch.shape[0]
        words = np.zeros((n_rows, self.spec.plane_words), dtype=WORD)
        step = max(1, _NUMBERS_AT_ONCE // self.n_features)
        threads.run(partial(self._fill_words, words, batch, step), range(0, n_rows, step))
        return words

    def pack(self, projected: npt.NDArray[np.float32], words: npt.NDArray[np.uint64]) -> None:
        """Write the bits of projected rows to the zeroed rows `words`: 0 has no bit."""
        # as np.packbits puts them: the first bit highest in its byte
        n_bytes = -(-self.n_features // 8)
        words.view(np.uint8)[:, :n_bytes] = np.packbits(projected > 0, axis=1)

    def _fill_words(self, words: npt.NDArray[np.uint64], batch: Any, step: int, first: int) -> None:
        stop = min(first + step, batch.shape[0])
        rows = prepare_rows(row_slice(batch, first, stop), False, "X", first)
        self.pack(rows.toarray() if issparse(rows) else rows, words[first:stop])
