"""WrittenStream: what a stream run wrote, read again to be searched."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.checks import one_of
from bitkin.choices import METRICS
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError
from bitkin.io.reader import read_file
from bitkin.stream_files.epoch_folder import is_begun, rows_file
from bitkin.stream_files.state import is_state, load_state

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash

    Corrections = npt.NDArray[np.float32]


BYTES_PER_CORRECTION = 8  # two float32 per vector


class StreamPart(NamedTuple):
    """The rows that one model coded."""

    model: ProjectionHash
    first_row: int
    codes: Codes
    """Empty where a vector was skipped."""
    corrections: Corrections | None
    """float32 (n, 2); None where the run wrote none."""


class WrittenStream:
    """The codes of a stream with the models that made them and, where they were wanted, the
    corrections. Parameters are those of `EpochIndex.from_stream`, except for `vectors`.

    Attributes
    ----------
    metric : str
    n_rows : int
        As many as the state knows of, or else as there are codes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        corrections: str | os.PathLike[str] | None = None,
        metric: str | None = None,
        epochs_to: str | os.PathLike[str] | None = None,
    ) -> None:
        given = Path(path)
        out, folder = given, given.with_name(f"{given.name}.epochs")
        kept = None if corrections is None else Path(corrections)
        form, n_rows, made_for = None, None, None
        rows_bytes, output_bytes = None, None
        if is_state(given):
            state = load_state(given)
            settings, n_rows = state.settings, state.position.n_vectors
            # a state of the start does not say which model made the rows that came since
            rows_bytes = state.position.rows_bytes or None
            output_bytes = state.position.output_bytes
            form, made_for = settings.get("--output-format"), settings.get("--metric")
            if settings.get("--out") == "stdout":
                raise InvalidInputError(
                    f"{given} is of a stream whose codes went to stdout. Give the file that they "
                    "are in, with the folder of models beside it as NAME.epochs (in Python, "
                    "epochs_to may name another folder)."
                )
            out = _beside(given, settings["--out"])
            if settings.get("--epochs-to") is not None:
                folder = _beside(given, settings["--epochs-to"])
            if kept is None and settings.get("--corrections") is not None:
                kept = _beside(given, settings["--corrections"])
        if epochs_to is not None:
            folder = Path(epochs_to)
        if metric is not None and made_for is not None and metric != made_for and kept is not None:
            raise InvalidInputError(
                f"metric must be {made_for!r}, for which {given} has corrections, got {metric!r}."
            )
        self.metric = one_of(metric or made_for or "l2", "metric", METRICS)
        self.path = given
        self._folder = folder
        # A run may be writing: models before their rows, corrections before their codes. So what
        # there is of codes comes first, and all of it has its model and its corrections.
        there = _size_of(out)
        if output_bytes is not None:
            there = min(there, output_bytes)
        self._models, self._empty = _read_rows(folder, out, rows_bytes)
        self._codes = _read_codes(out, self._first_spec(), form, there)
        self.n_rows = len(self._codes) if n_rows is None else n_rows
        if len(self._codes) < self.n_rows:
            raise CorruptFileError(
                f"{out} has {len(self._codes):,} codes where {given} knows of {self.n_rows:,}: it "
                "was changed since. Restore it from a copy."
            )
        self._corrections = None if kept is None else _read_corrections(kept, self.n_rows)

    @property
    def has_corrections(self) -> bool:
        """Whether the run wrote corrections."""
        return self._corrections is not None

    @property
    def spec(self) -> CodeSpec:
        """Of the codes."""
        return self._first_spec()

    @property
    def n_skipped(self) -> int:
        """How many vectors have no code, since they were not finite."""
        return sum(row < self.n_rows for row in self._empty)

    def parts(self) -> Iterator[StreamPart]:
        """Yield the rows of one epoch after another."""
        starts = [row for row, _ in self._models if row < self.n_rows]
        starts[:1] = [0] * bool(starts)  # skipped vectors before the first code are in no epoch
        for (_, name), first, stop in zip(
            self._models, starts, [*starts[1:], self.n_rows], strict=False
        ):
            model = self._load(name)
            rows = slice(first, stop)
            empty = np.isin(np.arange(first, stop), self._empty)
            codes = Codes.from_bytes(
                self._codes[rows],
                model.spec_,
                empty=empty if empty.any() else None,
                fingerprint=model.fingerprint_,
            )
            kept = None if self._corrections is None else np.array(self._corrections[rows])
            yield StreamPart(model, first, codes, kept)

    def _first_spec(self) -> CodeSpec:
        return self._load(self._models[0][1]).spec_

    def _load(self, name: str) -> ProjectionHash:
        from bitkin.hashers.projection.projection_hash import ProjectionHash

        path = self._folder / name
        try:
            return ProjectionHash.from_stored(read_file(path))
        except FileAccessError as error:
            raise CorruptFileError(f"{self._folder} lacks the model {name}: {error}") from error


def is_stream(path: Path) -> bool:
    """Tell whether a file is the state of a stream, or codes with a folder of models beside
    them.
    """
    return is_state(path) or is_begun(path.with_name(f"{path.name}.epochs"))


def _beside(state: Path, name: Any) -> Path:
    return state.resolve().parent / str(name)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise FileAccessError(f"{path} cannot be read: {error.strerror or error}.") from error


def _whole_lines(data: bytes) -> list[bytes]:
    """Return lines without the last one where it is half-written."""
    return data[: data.rfind(b"\n") + 1].splitlines()


def _read_rows(
    folder: Path, out: Path, n_bytes: int | None
) -> tuple[list[tuple[int, str]], list[int]]:
    """Return the first row and the model of every epoch, and the rows that are empty; of so many
    bytes that a state knows of, or all.
    """
    path = rows_file(folder)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileAccessError(
            f"{path} cannot be read: {error.strerror or error}. It says which model made which "
            f"rows of {out}; put the folder that it is in beside the codes as {out.name}.epochs, "
            "or in Python give it as epochs_to."
        ) from error
    models, empty = [], []
    try:
        for line in map(json.loads, _whole_lines(data[:n_bytes])):
            if "model" in line:
                name = str(line["model"])
                if Path(name).name != name:
                    raise ValueError("a model is in the same folder")
                models.append((int(line["row"]), name))
            else:
                empty.append(int(line["row"]))
        rows = [row for row, _ in models]
        if rows != sorted(set(rows)) or min([*rows, *empty], default=0) < 0:
            raise ValueError("epochs begin one after another")
    except (ValueError, TypeError, KeyError, AttributeError):
        raise CorruptFileError(f"{path} has lines that are not those of a stream.") from None
    if n_bytes is not None and len(data) < n_bytes:
        raise CorruptFileError(
            f"{path} has {len(data):,} bytes where the state knows of {n_bytes:,}: it was changed "
            "since. Restore it from a copy."
        )
    if not models:
        raise InvalidInputError(
            f"{out} cannot be searched: {path} names no models. Codes of a stream without epochs "
            "are made by a model that moves, and no query can be compared with them."
        )
    return models, empty


def _read_codes(path: Path, spec: Any, form: str | None, n_bytes: int) -> npt.NDArray[np.uint8]:
    """Return packed codes, uint8 (n, bytes per code), of the first so many bytes."""
    size: int = spec.n_bytes
    try:
        if form == "jsonl" or (form is None and _are_lines(path)):
            with path.open("rb") as file:
                lines = _whole_lines(file.read(n_bytes))
            codes = [json.loads(line)["code"] for line in lines]
            packed = b"".join(
                bytes(size) if code is None else bytes.fromhex(code) for code in codes
            )
            return np.frombuffer(packed, dtype=np.uint8).reshape(len(codes), size)
        n_rows = n_bytes // size  # what comes after is half a code
        if n_rows == 0:
            return np.empty((0, size), dtype=np.uint8)
        return np.memmap(path, np.uint8, "r", 0, (n_rows, size))
    except OSError as error:
        raise FileAccessError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, TypeError, KeyError):
        raise CorruptFileError(f"{path} has lines that are not codes of a stream.") from None


def _are_lines(path: Path) -> bool:
    """Tell whether codes are JSON lines."""
    with path.open("rb") as file:
        return file.read(8) == b'{"row": '


def _read_corrections(path: Path, n_rows: int) -> npt.NDArray[np.float32]:
    there = _size_of(path) // BYTES_PER_CORRECTION
    if there < n_rows:
        raise CorruptFileError(
            f"{path} has corrections of {there:,} vectors, and there are {n_rows:,} codes. Give "
            "the file that the same stream wrote."
        )
    if n_rows == 0:
        return np.empty((0, 2), dtype=np.float32)
    return np.memmap(path, "<f4", "r", 0, (n_rows, 2))
