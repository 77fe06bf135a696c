"""Where a stream begins or goes on: its state is looked for, and its output cut back to what the state knows of."""

from __future__ import annotations

import contextlib
import glob
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bitkin.cli.streaming.codes_out import CodesOut, StandardOut
from bitkin.cli.streaming.epochs_kept import EpochsKept, is_begun
from bitkin.cli.streaming.signals import StopRequests
from bitkin.cli.streaming.state import Position, load_state, require_same_options, save_start
from bitkin.errors import InvalidInputError
from bitkin.io.growing import GrowingFile, has_content
from bitkin.io.writer import remove_leftovers

if TYPE_CHECKING:
    from bitkin.hashers.projection_hash import ProjectionHash


class Places(NamedTuple):
    """The files of a stream; None where there is none."""

    out: Path | None
    state: Path | None
    epochs: Path | None


class Opened(NamedTuple):
    """A stream that is ready to go on."""

    hasher: ProjectionHash | None
    """As the state has it; None where the stream has not begun."""
    position: Position
    resumed: bool
    out: CodesOut
    kept: EpochsKept | None


def open_stream(places: Places, options: dict[str, Any], fresh: bool, stop: StopRequests, closing: ExitStack) -> Opened:
    """Open the outputs, cut back to the state; without a state nothing may be there, unless the start is `fresh`."""
    hasher, position, resumed = None, Position(), False
    if fresh and places.state is not None:
        save_start(places.state, options)  # first: what the old one says of the output will not be so
    elif places.state is not None and places.state.exists():
        hasher, position, then = load_state(places.state)
        require_same_options(places.state, then, options)
        resumed = True
    elif not fresh:
        _require_nothing_there(places)
    length = position.output_bytes
    out: CodesOut = StandardOut(stop, length) if places.out is None else GrowingFile(places.out, length)
    closing.callback(out.close)
    kept = None
    if places.epochs is not None:
        kept = EpochsKept(places.epochs, position.n_epochs, position.rows_bytes)
        closing.callback(kept.close)
    if places.state is not None:
        if not fresh and not resumed:
            save_start(places.state, options)
        with contextlib.suppress(OSError):  # they are in nobody's way
            remove_leftovers(places.state.parent, glob.escape(places.state.name[:64]))
    return Opened(hasher, position, resumed, out, kept)


def _require_nothing_there(places: Places) -> None:
    begun = [places.out] if places.out is not None and has_content(places.out) else []
    begun += [places.epochs] if places.epochs is not None and is_begun(places.epochs) else []
    for path in begun:
        raise InvalidInputError(
            f"{path} is there already, and no state to go on from. Give the --state of the run that began it, or "
            "--fresh to replace it."
        )
