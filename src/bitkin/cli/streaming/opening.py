"""Where a stream begins or goes on: its state is looked for, and its output cut back to what the
state knows of.
"""

from __future__ import annotations

import contextlib
import glob
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bitkin.cli.streaming.codes_out import CodesOut, StandardOut
from bitkin.cli.streaming.corrections_out import CorrectionsOut
from bitkin.cli.streaming.epochs_kept import EpochsKept, is_begun, rows_file
from bitkin.cli.streaming.signals import StopRequests
from bitkin.cli.streaming.state import Position, load_state, require_same_options, save_start
from bitkin.errors import BitkinError, InvalidInputError
from bitkin.io.growing import GrowingFile, has_content
from bitkin.io.locks import lock
from bitkin.io.writer import remove_leftovers

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash


class Places(NamedTuple):
    """The files of a stream; None where there is none."""

    out: Path | None
    state: Path | None
    epochs: Path | None
    corrections: Path | None = None


class Opened(NamedTuple):
    """A stream that is ready to go on."""

    hasher: ProjectionHash | None
    """As the state has it; None where the stream has not begun."""
    position: Position
    resumed: bool
    out: CodesOut
    kept: EpochsKept | None
    corrections: CorrectionsOut | None


def open_stream(
    places: Places, options: dict[str, Any], fresh: bool, stop: StopRequests, closing: ExitStack
) -> Opened:
    """Open the outputs, cut back to the state; without a state nothing may be there, unless the
    start is `fresh`.

    Nothing is cut or replaced before everything is open, ours alone, and found to be as the state
    says.
    """
    _begin(places, options, fresh)  # what is refused leaves no files behind
    if fresh and places.state is not None:
        _require_idle(places.state)
    out: CodesOut = StandardOut(stop) if places.out is None else GrowingFile(places.out)
    closing.callback(out.close)
    kept = None
    if places.epochs is not None:
        kept = EpochsKept(places.epochs)
        closing.callback(kept.close)
    corrections = None
    if places.corrections is not None:
        corrections = CorrectionsOut(places.corrections, options["--metric"])
        closing.callback(corrections.close)
    # again: a run that had the files may just have ended
    hasher, position, resumed = _begin(places, options, fresh)
    out.require_length(position.output_bytes)
    if kept is not None:
        kept.require(position.n_epochs, position.rows_bytes, hasher)
    if corrections is not None:
        corrections.require(position.n_vectors)
    if places.state is not None:
        if not resumed:
            # before the cut: what an old one says of the output will not be so
            save_start(places.state, options)
        with contextlib.suppress(OSError):  # they are in nobody's way
            remove_leftovers(places.state.parent, glob.escape(places.state.name[:64]))
    out.cut(position.output_bytes)
    if kept is not None:
        kept.cut(position.n_epochs, position.rows_bytes)
    if corrections is not None:
        corrections.cut(position.n_vectors)
    return Opened(hasher, position, resumed, out, kept, corrections)


def _begin(
    places: Places, options: dict[str, Any], fresh: bool
) -> tuple[ProjectionHash | None, Position, bool]:
    """Return the hasher and the position that a stream goes on from, and whether it does."""
    if not fresh and places.state is not None and places.state.exists():
        hasher, position, then = load_state(places.state)
        require_same_options(places.state, then, options)
        return hasher, position, True
    if not fresh:
        _require_nothing_there(places)
    return None, Position(), False


def _require_idle(state: Path) -> None:
    """Raise where a stream is running that will save the state at this path: it has its own files
    locked.
    """
    try:
        options = load_state(state)[2]
    except BitkinError:
        return  # none, or one that nobody goes on from
    names = [options.get("--out"), options.get("--corrections")]
    if options.get("--epochs-to") is not None:
        names.append(rows_file(Path(str(options["--epochs-to"]))))
    for path in (state.resolve().parent / str(name) for name in names if name is not None):
        if path.is_file() and os.access(path, os.R_OK):
            with path.open("rb") as file:
                lock(file, path)


def _require_nothing_there(places: Places) -> None:
    begun = [
        path for path in (places.out, places.corrections) if path is not None and has_content(path)
    ]
    begun += [places.epochs] if places.epochs is not None and is_begun(places.epochs) else []
    for path in begun:
        raise InvalidInputError(
            f"{path} is there already, and no state to go on from. Give the --state of the run "
            "that began it, or "
            "--fresh to replace it."
        )
