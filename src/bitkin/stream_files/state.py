"""What a stream run saves: the live hasher, how far it is in the stream, and how long its output
was then.

It is the hasher's own file with one parameter more, so that `bitkin.load` opens it too.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bitkin.arguments import PYTHON, ArgumentSpelling
from bitkin.checks import whole_number
from bitkin.errors import BitkinError, CorruptFileError, InvalidInputError
from bitkin.io.layout import damaged
from bitkin.io.reader import read_file
from bitkin.io.writer import write_file
from bitkin.stream_files.taken import TakenInputs, TakenVectors
from bitkin.stream_files.vectors_in import NPY

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash

_VERSION = 3
_READ_VERSIONS = (2, 3)  # 2: without what was taken
_KEY = "stream"
AUTO = "auto"
"""What a setting is where nobody chose: a stream that has begun continues with what it began
with.
"""
_START = "StreamStart"
_FORM = re.compile(rf"|f32|jsonl|{NPY}[<>|](b1|[iu][1248]|f(2|4|8|16))")

# A state has always named settings as the command line does; these have other names in Python.
_ARGUMENTS = {"--bits": "n_bits", "--seed": "random_state", "--model": "hasher"}


@dataclass(slots=True)
class StreamPosition:
    """How far a stream is, and what had been written of it by then.

    Examples
    --------
    >>> import bitkin
    >>> bitkin.StreamPosition.from_state("no-such-state.bitkin").n_vectors
    0
    """

    n_vectors: int = 0
    """Vectors taken, skipped ones included."""
    input_bytes: int = 0
    """Bytes of input that they took, the header of an .npy included."""
    output_bytes: int = 0
    """Length of the codes."""
    rows_bytes: int = 0
    """Length of `rows.jsonl`."""
    n_epochs: int = 0
    """Models kept."""
    form: str = ""
    """What the input was: "f32", "jsonl", or "npy " and the dtype; empty before the first
    vector.
    """

    @classmethod
    def from_state(cls, path: str | os.PathLike[str]) -> StreamPosition:
        """Return how far the stream with this state is; at the start where there is no file."""
        return load_state(Path(path)).position if Path(path).exists() else cls()

    @property
    def byte(self) -> int | None:
        """From where to feed again; None where the rest of the input could not be read without its
        header.
        """
        headless = self.form.startswith(NPY) and self.form != f"{NPY}<f4"
        return None if headless else self.input_bytes

    def describe(self, spelling: ArgumentSpelling = PYTHON) -> str:
        """Say from where to feed again."""
        if self.form.startswith(NPY):
            raw = spelling.given("format", "f32")
            rest = "" if self.byte is None else f", or from byte {self.byte:,} with {raw}"
            return f"vector {self.n_vectors:,} (the whole .npy again{rest})"
        return f"vector {self.n_vectors:,} (byte {self.input_bytes:,})"

    def __str__(self) -> str:
        return self.describe()


class SavedStream(NamedTuple):
    """What a state holds."""

    hasher: ProjectionHash | None
    """None where the stream has not begun."""
    position: StreamPosition
    settings: dict[str, Any]
    """Of the run that saved it."""
    taken: TakenInputs


def save_start(path: Path, settings: dict[str, Any]) -> None:
    """Put the state of a stream that has not begun at `path`: from here on its output is known to
    be ours.
    """
    write_file(path, _START, _record(StreamPosition(), settings, TakenInputs()), None, {})


def remove_start(path: Path) -> None:
    """Take the state of a stream that has not begun away again."""
    with contextlib.suppress(OSError):  # it is in nobody's way
        path.unlink(missing_ok=True)


def save_state(
    path: Path,
    hasher: ProjectionHash,
    position: StreamPosition,
    settings: dict[str, Any],
    taken: TakenInputs,
) -> None:
    """Put the state at `path` in one step."""
    from bitkin.hashers.projection.files import save_hasher

    save_hasher(hasher, path, _record(position, settings, taken))


def is_state(path: Path) -> bool:
    """Tell whether a file is the state of a stream; whether it can be continued is not known."""
    try:
        stored = read_file(path, mmap=True)
    except BitkinError:
        return False
    return (
        stored.class_name in (_START, "ProjectionHash")
        and stored.optional_parameter(_KEY) is not None
    )


def load_state(path: Path, spelling: ArgumentSpelling = PYTHON) -> SavedStream:
    """Return what the state at `path` holds."""
    stored = read_file(path)
    kept = stored.optional_parameter(_KEY)
    if stored.class_name not in (_START, "ProjectionHash") or kept is None:
        raise InvalidInputError(
            f"{path} holds {stored.class_name}, not the state of a stream. To begin with a model, "
            f"give it by {spelling.name('hasher')}."
        )
    version = kept.get("version") if isinstance(kept, dict) else None
    if version not in _READ_VERSIONS:
        raise CorruptFileError(
            f"{path} is a state of version {version!r}, and this bitkin reads {_VERSION}. Continue "
            f"with the bitkin that wrote it, or begin again with {spelling.given('fresh')}."
        )
    try:
        counts, settings = kept["position"], kept["options"]
        checked = {
            f.name: whole_number(counts[f.name], f.name, low=0)
            for f in fields(StreamPosition)
            if f.name != "form"
        }
        position = StreamPosition(**checked, form=counts["form"])
        if not isinstance(settings, dict) or not _FORM.fullmatch(position.form):
            raise TypeError("settings are an object, and a form is one of few words")
        taken = _taken_in(kept, position)
    except (KeyError, TypeError, ValueError):
        raise damaged(str(path), "has a position that cannot be") from None
    if stored.class_name == _START:
        return SavedStream(None, position, settings, taken)
    from bitkin.hashers.projection.projection_hash import ProjectionHash

    return SavedStream(ProjectionHash.from_stored(stored), position, settings, taken)


def _record(
    position: StreamPosition, settings: dict[str, Any], taken: TakenInputs
) -> dict[str, Any]:
    kept = {"position": asdict(position), "options": settings, "taken": taken.to_record()}
    return {_KEY: {"version": _VERSION, **kept}}


def _taken_in(kept: dict[str, Any], position: StreamPosition) -> TakenInputs:
    """Return what a state says was taken; raise TypeError or ValueError where that cannot be."""
    if kept["version"] == 2:
        return TakenInputs(None if position.n_vectors else TakenVectors())
    taken = TakenInputs.from_record(kept["taken"])
    counts = [part.n_vectors for part in (taken.stream, taken.last) if part is not None]
    if max(counts, default=0) > position.n_vectors or (
        taken.stream is not None and taken.stream.n_vectors != position.n_vectors
    ):
        raise ValueError("all vectors of the position were taken")
    return taken


def require_same_settings(
    path: Path, then: dict[str, Any], now: dict[str, Any], spelling: ArgumentSpelling
) -> None:
    """Raise where a run that continues differs from the one that began in what was chosen."""
    keys = list(dict.fromkeys([*then, *now]))
    other = [key for key in keys if then.get(key) != now.get(key) and now.get(key) != AUTO]
    if other:
        said = "; ".join(
            f"{spelling.name(_argument_of(key))} was {_shown(then.get(key))}, now it is "
            f"{_shown(now.get(key))}"
            for key in other
        )
        raise InvalidInputError(
            f"{path} is the state of another stream: {said}. Give the same arguments, another "
            f"{spelling.name('state')}, or {spelling.given('fresh')}."
        )


def _argument_of(key: str) -> str:
    """Return the Python argument that a key of the settings stands for."""
    return _ARGUMENTS.get(key, key.removeprefix("--").replace("-", "_"))


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)
