"""The two numbers a vector that make its code comparable with those of other epochs, beside the
codes.

A file of float32, little-endian, two a vector in the order of the stream; zeros where a code is
empty.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitkin.io.growing import GrowingFile

if TYPE_CHECKING:
    from bitkin.codes import Codes
    from bitkin.hashers.projection.projection_hash import ProjectionHash
    from bitkin.rescoring.estimate import Scorer

_BYTES_A_VECTOR = 8
_TOO_LONG = 1e18  # ‖x − mean‖² of anything shorter is within float32


class CorrectionsOut:
    """The file, which stays as it is until it is `cut`; see `bitkin.corrections`.

    Parameters
    ----------
    path : Path
    metric : str
        "l2", "cosine" or "ip".
    """

    def __init__(self, path: Path, metric: str) -> None:
        self._file = GrowingFile(path)
        self._metric = metric
        self._scorer: Scorer | None = None

    def require(self, n_vectors: int) -> None:
        """Raise CorruptFileError where the numbers of fewer vectors are there."""
        self._file.require_length(_BYTES_A_VECTOR * n_vectors)

    def cut(self, n_vectors: int) -> None:
        """Drop what comes after the numbers of so many vectors."""
        self._file.cut(_BYTES_A_VECTOR * n_vectors)

    def append(self, snapshot: ProjectionHash, codes: Codes, rows: npt.NDArray[np.float32]) -> None:
        """Write the numbers of rows, which this snapshot has coded so."""
        from bitkin.rescoring.corrections import scorer_for

        if self._scorer is None or self._scorer.model is not snapshot._model:
            self._scorer = scorer_for(snapshot, self._metric)
        numbers = np.zeros((len(codes), 2), dtype="<f4")
        usable = np.flatnonzero(~codes.empty_rows())
        numbers[usable] = self._scorer.corrections(rows[usable], "stdin")
        self._file.append(numbers.tobytes())

    def sync(self) -> None:
        """Make sure that all of it survives a power cut."""
        self._file.sync()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def without_too_long(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return rows with NaN in the place of those whose corrections would be beyond float32."""
    wide: npt.NDArray[Any] = rows.astype(np.float64)
    with np.errstate(invalid="ignore"):
        too_long = ~(np.square(wide).sum(axis=1) < _TOO_LONG**2)
    return np.where(too_long[:, None], np.float32(np.nan), rows) if too_long.any() else rows
