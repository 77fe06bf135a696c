"""What a stream run writes for every vector: its code and, where they are wanted, its corrections;
and `StreamWriter`, which writes them together with the models of epochs.

Codes go to a file that can be cut back, or to a pipe, which cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from bitkin.hashers.projection.epoch_codes import EpochCodes
from bitkin.io.growing import GrowingFile
from bitkin.stream_files.epoch_folder import EpochFolder
from bitkin.stream_files.state import StreamPosition
from bitkin.stream_files.taken import TakenInputs

if TYPE_CHECKING:
    from bitkin.codes import Codes
    from bitkin.hashers.projection.projection_hash import ProjectionHash
    from bitkin.rescoring.estimate import Scorer

CODE_FORMATS = ("raw", "jsonl")

_CORRECTION_BYTES = 8  # per vector: two float32
_TOO_LONG = 1e18  # ‖x − mean‖² of anything shorter is within float32


class CodesOut(Protocol):
    """Where codes go: a `GrowingFile`, or a `PipeOut`."""

    @property
    def length(self) -> int:
        """Bytes written."""

    def require_length(self, length: int) -> None:
        """Raise CorruptFileError where fewer bytes are known to be there."""

    def cut(self, length: int) -> None:
        """Continue after so many bytes."""

    def append(self, data: bytes) -> None:
        """Hand bytes on at once."""

    def sync(self) -> None:
        """Make sure that what was written survives a power cut, where that can be made sure."""

    def remove_if_new(self) -> None:
        """Take the file away where it was made here."""

    def close(self) -> None:
        """Let go."""


class WritesBytes(Protocol):
    """A binary file as far as it is needed here."""

    def write(self, data: memoryview, /) -> int | None:
        """Write some of it and return how many bytes, or all of it and return None."""


class PipeOut:
    """A binary file that is only written to, such as a pipe or a socket; its owner closes it.

    Parameters
    ----------
    file : binary file
    """

    def __init__(self, file: WritesBytes) -> None:
        self._file = file
        self.length = 0

    def require_length(self, length: int) -> None:
        """Do nothing: what became of bytes that left is not known."""

    def cut(self, length: int) -> None:
        """Count from here on: what left cannot be cut."""
        self.length = length

    def append(self, data: bytes) -> None:
        """Write all of it."""
        rest = memoryview(data)
        while rest:
            written = self._file.write(rest)
            rest = rest[len(rest) if written is None else written :]
        flush = getattr(self._file, "flush", None)
        if flush is not None:
            flush()
        self.length += len(data)

    def sync(self) -> None:
        """Do nothing: what is in a pipe is its reader's."""

    def remove_if_new(self) -> None:
        """Do nothing: the file is not ours."""

    def close(self) -> None:
        """Do nothing: the file is not ours to close."""


def code_formatter(form: str) -> Callable[[Codes, int], bytes]:
    """Return how codes become bytes: a function of codes and the number of their first row."""
    return _format_raw if form == "raw" else _format_json_lines


def _format_raw(codes: Codes, first_row: int) -> bytes:
    """Return `to_bytes` of one row after another; an empty row is zeros."""
    return codes.to_bytes().tobytes()


def _format_json_lines(codes: Codes, first_row: int) -> bytes:
    """Return an object per row; an empty row has neither code nor epoch."""
    text, size = codes.to_bytes().tobytes().hex(), 2 * codes.spec.n_bytes
    epoch = "null" if codes.fingerprint is None else f'"{codes.fingerprint}"'
    empty = codes.empty_rows()
    lines = [
        f'{{"row": {first_row + i}, "code": null, "epoch": null}}\n'
        if empty[i]
        else f'{{"row": {first_row + i}, "code": "{text[i * size : (i + 1) * size]}", "epoch": '
        f"{epoch}}}\n"
        for i in range(len(codes))
    ]
    return "".join(lines).encode()


class CorrectionsOut:
    """The two numbers per vector that make its code comparable with those of other epochs.

    The file is little-endian float32, two per vector in the order of the stream, zeros where a code
    is empty; see `bitkin.corrections`. It stays as it is until it is `cut`.

    Parameters
    ----------
    path : Path
    metric : str
        "l2", "cosine" or "ip".
    """

    def __init__(self, path: Path, metric: str) -> None:
        self._file = GrowingFile(path)
        self._metric = metric
        self._snapshot: ProjectionHash | None = None
        self._scorer: Scorer | None = None

    def require_vectors(self, n_vectors: int) -> None:
        """Raise CorruptFileError where the corrections of fewer vectors are there."""
        self._file.require_length(_CORRECTION_BYTES * n_vectors)

    def cut(self, n_vectors: int) -> None:
        """Drop what comes after the corrections of so many vectors."""
        self._file.cut(_CORRECTION_BYTES * n_vectors)

    def append(
        self, snapshot: ProjectionHash, codes: Codes, rows: npt.NDArray[np.float32], name: str
    ) -> None:
        """Write the corrections of rows, which this snapshot has coded so."""
        from bitkin.rescoring.corrections import scorer_for

        if self._scorer is None or self._snapshot is not snapshot:
            self._scorer = scorer_for(snapshot, self._metric)
            self._snapshot = snapshot
        corrections = np.zeros((len(codes), 2), dtype="<f4")
        usable = np.flatnonzero(~codes.empty_rows())
        corrections[usable] = self._scorer.corrections(rows[usable], name)
        self._file.append(corrections.tobytes())

    def sync(self) -> None:
        """Make sure that all of it survives a power cut."""
        self._file.sync()

    def remove_if_new(self) -> None:
        """Take the file away where it was made here."""
        self._file.remove_if_new()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def without_too_long(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return rows with NaN in the place of those whose corrections would be beyond float32."""
    wide: npt.NDArray[Any] = rows.astype(np.float64)
    with np.errstate(invalid="ignore"):
        too_long = ~(np.square(wide).sum(axis=1) < _TOO_LONG**2)
    return np.where(too_long[:, None], np.float32(np.nan), rows) if too_long.any() else rows


class StreamWriter:
    """Codes and learns from rows and writes what is made of them, and knows how far that is.

    Parameters
    ----------
    hasher : ProjectionHash
        The live model.
    position : StreamPosition
        How far the stream is; moves on.
    taken : TakenInputs
        What was taken of it; moves on.
    out : CodesOut
    epochs : EpochFolder or None
        Where the models of epochs go, if they are kept.
    corrections : CorrectionsOut or None
        Where the corrections of codes go, if they are wanted.
    output_format : str
        One of `CODE_FORMATS`.
    """

    def __init__(
        self,
        hasher: ProjectionHash,
        position: StreamPosition,
        taken: TakenInputs,
        out: CodesOut,
        epochs: EpochFolder | None,
        corrections: CorrectionsOut | None,
        output_format: str,
    ) -> None:
        self.position = position
        self.taken = taken
        self.whole = True
        """Whether all that was learned from was written too: between the two nothing may be saved.
        """
        self.keeps_models = epochs is not None
        self._sketches = EpochCodes(hasher)
        self._out = out
        self._epochs = epochs
        self._corrections = corrections
        self._format_codes = code_formatter(output_format)

    @property
    def flaw(self) -> str:
        """What keeps a vector from being used."""
        too_long = (
            ""
            if self._corrections is None
            else ", or longer than 1e18, whose corrections float32 cannot hold"
        )
        return f"not finite in float32{too_long}"

    def mark_unusable(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return rows, those that cannot be written with NaN in them."""
        return rows if self._corrections is None else without_too_long(rows)

    def write(
        self, rows: npt.NDArray[np.float32], n_bytes: int, form: str, name: str
    ) -> int | None:
        """Code, learn from and write rows, which took `n_bytes` of an input of this form and name.

        Return the number of the first vector that was skipped, None if all could be used.
        """
        self.whole = False
        came, rows = rows, self.mark_unusable(rows)
        position = self.position
        row, skipped = position.n_vectors, None
        for snapshot, codes, coded in self._sketches.sketch(rows):
            if codes.empty is not None and skipped is None:
                skipped = row + int(np.argmax(codes.empty))
            if self._epochs is not None:
                self._epochs.add(row, codes, snapshot)  # codes without their model would be lost
            if self._corrections is not None and snapshot is not None:
                self._corrections.append(snapshot, codes, coded, name)
            self._out.append(self._format_codes(codes, row))
            row += len(codes)
        self.taken.add(came)
        position.n_vectors = row
        position.input_bytes += n_bytes
        position.form = form
        position.output_bytes = self._out.length
        if self._epochs is not None:
            position.n_epochs = self._epochs.n_epochs
            position.rows_bytes = self._epochs.rows_bytes
        self.whole = True
        return skipped

    def sync(self) -> None:
        """Make sure that all that was written survives a power cut."""
        for written in (self._out, self._corrections, self._epochs):
            if written is not None:
                written.sync()
