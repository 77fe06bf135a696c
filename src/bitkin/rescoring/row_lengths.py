"""Whether lengths of rows spoil the codes of a hasher under a metric."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.sign_model import SignModel

_FEWEST_ROWS = 32  # fewer say little about how much lengths differ
_MOST = 0.1  # of the spread of lengths times the length of the mean; see LengthGuard


class LengthGuard:
    """Watches the lengths of rows that are added, and refuses those that codes would not serve.

    Under cosine lengths must not count, and they do where a hasher centres rows without normalizing
    them; under l2 they must, and do not where it normalizes. How much is lost grows with the spread
    of the lengths (standard deviation / mean) times the length of the mean that is subtracted
    (relative to that of rows). True 10 by cosine in the best 50 of 4,000 rows, 64 bits, not
    normalized against normalized: 0.60 and 0.78 at 0.25 (Fashion-MNIST), 0.38 and 0.49 at 0.16
    (GIST), within 0.02 up to 0.05 (GloVe, sentence embeddings, visual words); by l2, the other way
    round, 0.68 and 0.77, 0.41 and 0.44, and equal. Beyond 0.1 rows are refused.

    Parameters
    ----------
    hasher : Hasher
        Fitted. Only one with a centred model can be at odds with a metric.
    metric : {"l2", "cosine", "ip"}
    """

    def __init__(self, hasher: Any, metric: str) -> None:
        model = getattr(hasher, "model_", None)
        self._model = model if isinstance(model, SignModel) and model.mean is not None else None
        if self._model is not None and metric != ("l2" if self._model.normalize else "cosine"):
            self._model = None
        self._sums = (0, 0.0, 0.0)  # rows, the sum of their lengths, that of the squares

    def check(self, batch: Batch, name: str) -> None:
        """Count rows in, and raise where all rows so far differ too much in length."""
        if self._model is None or self._model.mean is None:
            return
        squares = batch.multiply(batch).sum(axis=1) if issparse(batch) else _squares(batch)
        squares = np.asarray(squares, dtype=np.float64).reshape(-1)
        squares = squares[squares > 0]  # zeros have no direction
        n, total, energy = self._sums
        n, total, energy = n + len(squares), total + np.sqrt(squares).sum(), energy + squares.sum()
        if n >= _FEWEST_ROWS:
            length = total / n
            spread = np.sqrt(max(0.0, energy / n - length**2)) / length
            shift = np.linalg.norm(self._model.mean) / (1.0 if self._model.normalize else length)
            if spread * shift > _MOST:
                raise InvalidInputError(_message(name, spread, normalize=self._model.normalize))
        self._sums = (n, float(total), float(energy))


def _squares(batch: Any) -> Any:
    # in float64: squares of float32 numbers leave its range
    return np.einsum("ij,ij->i", batch, batch, dtype=np.float64)


def _message(name: str, spread: float, *, normalize: bool) -> str:
    differ = f"{name} must have rows of like length, got a standard deviation of {spread:.0%}"
    if normalize:
        return (
            f"{differ}: metric='l2' depends on lengths, and codes of a hasher with normalize=True "
            "do not, so that many neighbours would be missed. Fit it with normalize=False, or use "
            "metric='cosine'."
        )
    return (
        f"{differ}: metric='cosine' does not depend on lengths, and codes of a hasher with "
        "normalize=False do, so that many neighbours would be missed. Fit it with normalize=True."
    )
