"""What `bitkin stream` saves: the live hasher, how far it is in the stream, and how long its output
was then.

It is the hasher's own file with one parameter more, so that `bitkin.load` opens it too.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitkin.checks import whole_number
from bitkin.cli.streaming.vectors_in import NPY
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.layout import damaged
from bitkin.io.reader import read_file
from bitkin.io.writer import write_file

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash

_VERSION = 2
_KEY = "stream"
_START = "StreamStart"
_FORM = re.compile(rf"|f32|jsonl|{NPY}[<>|](b1|[iu][1248]|f(2|4|8|16))")


@dataclass(slots=True)
class Position:
    """How far a stream is, and what had been written of it by then."""

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
    """What the input was, as `Block.form` says it; empty before the first vector."""

    @property
    def byte(self) -> int | None:
        """From where to feed again; None where the rest of the input could not be read without its
        header.
        """
        headless = self.form.startswith(NPY) and self.form != f"{NPY}<f4"
        return None if headless else self.input_bytes

    def __str__(self) -> str:
        if self.form.startswith(NPY):
            rest = "" if self.byte is None else f", or from byte {self.byte:,} with --format f32"
            return f"vector {self.n_vectors:,} (the whole .npy with --from-start{rest})"
        return f"vector {self.n_vectors:,} (byte {self.input_bytes:,})"


def save_start(path: Path, options: dict[str, Any]) -> None:
    """Put the state of a stream that has not begun at `path`: from here on its output is known to
    be ours.
    """
    write_file(path, _START, _record(Position(), options), None, {})


def save_state(
    path: Path, hasher: ProjectionHash, position: Position, options: dict[str, Any]
) -> None:
    """Put the state at `path` in one step."""
    from bitkin.hashers.projection.files import save_hasher

    save_hasher(hasher, path, _record(position, options))


def load_state(path: Path) -> tuple[ProjectionHash | None, Position, dict[str, Any]]:
    """Return the hasher, if the stream has begun, its position, and the options of the command that
    saved it.
    """
    stored = read_file(path)
    kept = stored.optional_parameter(_KEY)
    if stored.class_name not in (_START, "ProjectionHash") or kept is None:
        raise InvalidInputError(
            f"{path} holds {stored.class_name}, not the state of a stream. To begin with a model, "
            "give it by --model."
        )
    version = kept.get("version") if isinstance(kept, dict) else None
    if version != _VERSION:
        raise CorruptFileError(
            f"{path} is a state of version {version!r}, and this bitkin reads {_VERSION}. Go on "
            "with the bitkin that "
            "wrote it, or begin anew with --fresh."
        )
    try:
        numbers, options = kept["position"], kept["options"]
        counts = {
            f.name: whole_number(numbers[f.name], f.name, low=0)
            for f in fields(Position)
            if f.name != "form"
        }
        position = Position(**counts, form=numbers["form"])
        if not isinstance(options, dict) or not _FORM.fullmatch(position.form):
            raise TypeError("options are an object, and a form is one of few words")
    except (KeyError, TypeError, InvalidInputError):
        raise damaged(str(path), "has a position that cannot be") from None
    if stored.class_name == _START:
        return None, position, options
    from bitkin.hashers.projection.projection_hash import ProjectionHash

    return ProjectionHash.from_stored(stored), position, options


def _record(position: Position, options: dict[str, Any]) -> dict[str, Any]:
    return {_KEY: {"version": _VERSION, "position": asdict(position), "options": options}}


def require_same_options(path: Path, then: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise where a command that goes on differs from the one that began."""
    names = list(dict.fromkeys([*then, *now]))
    other = [name for name in names if then.get(name) != now.get(name)]
    if other:
        said = "; ".join(
            f"{name} was {_shown(then.get(name))}, now it is {_shown(now.get(name))}"
            for name in other
        )
        raise InvalidInputError(
            f"{path} is the state of another stream: {said}. Give the same options, another "
            "--state, or --fresh."
        )


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)
