"""Where a stream begins or continues: its files, what a state remembers of them, and its outputs
opened and cut back to what the state knows of.
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bitkin.arguments import ArgumentSpelling
from bitkin.errors import ArgumentError, BitkinError, InvalidInputError
from bitkin.hashers.projection.projections import OPAST
from bitkin.hashers.projection.registry import (
    PROJECTIONS,
    ROTATIONS,
    describe,
    projection_for,
    rotation_for,
)
from bitkin.io.growing import GrowingFile, has_content
from bitkin.io.writer import lock, remove_leftovers
from bitkin.stream_files.epoch_folder import EpochFolder, is_begun, rows_file
from bitkin.stream_files.outputs import CodesOut, CorrectionsOut, PipeOut
from bitkin.stream_files.state import (
    AUTO,
    SavedStream,
    StreamPosition,
    load_state,
    remove_start,
    require_same_settings,
    save_start,
)
from bitkin.stream_files.taken import TakenInputs

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash

_OUTPUTS = ("--out", "--epochs-to", "--corrections")


class StreamPlaces(NamedTuple):
    """The files of a stream; None where there is none."""

    out: Path | None
    """None where codes leave through a pipe."""
    state: Path | None
    epochs: Path | None
    corrections: Path | None

    @classmethod
    def from_arguments(cls, out: Any, state: Any, epochs_to: Any, corrections: Any) -> StreamPlaces:
        """Return the places that arguments name; `out` may be a binary file, or None for one.

        Without `epochs_to`, models go beside the codes or, of a pipe, beside the state.
        """
        if isinstance(out, io.TextIOBase):
            raise InvalidInputError("out must be open in binary mode, as by open(path, 'wb').")
        out_path = None if hasattr(out, "write") else _path_or_none(out, "out")
        state_path = _path_or_none(state, "state")
        folder = _path_or_none(epochs_to, "epochs_to")
        beside = state_path if out_path is None else out_path
        if folder is None and beside is not None:
            folder = beside.with_name(f"{beside.name}.epochs")
        return cls(out_path, state_path, folder, _path_or_none(corrections, "corrections"))

    def require_different(self, spelling: ArgumentSpelling, model: Path | None = None) -> None:
        """Raise where two files are one; `model` is the file that the hasher came from."""
        seen: dict[Path, str] = {}
        files = {
            "hasher": model,
            "out": self.out,
            "state": self.state,
            "epochs_to": self.epochs,
            "corrections": self.corrections,
        }
        for argument, path in files.items():
            if path is None:
                continue
            if path.resolve() in seen:
                other = spelling.name(seen[path.resolve()])
                raise ArgumentError(f"{path} is also given to {other}.", argument)
            seen[path.resolve()] = argument

    def settings(self, metric: str, output_format: str) -> dict[str, Any]:
        """Return what a state remembers of the output."""
        settings: dict[str, Any] = {
            "--output-format": output_format,
            "--out": "stdout" if self.out is None else self.seen_from_state(self.out),
            "--epochs-to": None if self.epochs is None else self.seen_from_state(self.epochs),
        }
        if self.corrections is not None:
            settings["--corrections"] = self.seen_from_state(self.corrections)
            settings["--metric"] = metric
        return settings

    def seen_from_state(self, path: Path) -> str:
        """Return the path as the state knows it: all of a stream may be moved together, but no
        other file is cut back.
        """
        start = None if self.state is None else self.state.resolve().parent
        try:
            return os.path.relpath(path.resolve(), start)
        except ValueError:  # on another drive
            return str(path.resolve())


def hasher_settings(hasher: ProjectionHash) -> dict[str, Any]:
    """Return what a state remembers of the hasher that a stream began with: which fitted one it
    was, or all parameters of a new one.
    """
    if hasattr(hasher, "n_features_in_"):
        return {"--model": hasher.fingerprint_}
    projection = projection_for(hasher.projection)
    projection.require_parameters()
    if isinstance(hasher.rotation, str) and hasher.rotation == AUTO:
        rotation_name = AUTO
    else:
        rotation = rotation_for(hasher.rotation, projection)
        rotation_name = "none" if rotation is None else _slot_name(rotation, ROTATIONS)
    forgetting = projection.forgetting if isinstance(projection, OPAST) else None
    settings = {
        "--bits": hasher.n_bits,
        "--projection": _slot_name(projection, PROJECTIONS, apart="forgetting"),
        "--rotation": rotation_name,
        "--forgetting": forgetting if forgetting in (AUTO, None) else float(forgetting),
        "--refresh": hasher.refresh,
        "--epochs": hasher.epochs,
        "--center": hasher.center,
        "--normalize": hasher.normalize,
        "--seed": hasher.random_state,
    }
    return {
        key: value.item() if isinstance(value, np.generic) else value
        for key, value in settings.items()
    }


def _slot_name(slot: Any, known: dict[str, Any], apart: str = "") -> str:
    """Return the name of a projection or rotation, and the parameters that are not its defaults but
    for the one that stands `apart`.
    """
    description, usual = describe(slot), describe(type(slot)())
    name = next(name for name, kind in known.items() if kind is type(slot))
    if description is None or usual is None:
        return name
    other = [
        f"{key}={value!r}"
        for key, value in description["parameters"].items()
        if key != apart and value != usual["parameters"][key]
    ]
    return f"{name}({', '.join(other)})" if other else name


class OpenStream(NamedTuple):
    """A stream that is ready to begin or to continue."""

    begin: SavedStream
    """What it continues from; no vectors where it has not begun."""
    resumed: bool
    out: CodesOut
    epochs: EpochFolder | None
    corrections: CorrectionsOut | None
    undo: ExitStack
    """Closing it takes away the files that were made here, for a stream that does not begin."""


class StreamOpener(NamedTuple):
    """Opens the files of one stream, all of them or none."""

    places: StreamPlaces
    settings: dict[str, Any]
    fresh: bool
    """Whether to begin again, whatever is there."""
    spelling: ArgumentSpelling

    def open(self, pipe: Any, closing: ExitStack) -> OpenStream:
        """Open the outputs, cut back to the state; without a state nothing may be there, unless the
        start is `fresh`.

        Nothing is cut or replaced before everything is open, ours alone, and found to be as the
        state says; where anything fails, files that were made for it are taken away. `pipe` is
        where codes go if not to a file.
        """
        _, resumed = self._find_begin()  # what is refused leaves no files behind
        if not resumed and self.places.state is not None:
            _require_idle(self.places.state)
        with ExitStack() as undo:
            opened = self._open_files(pipe, closing, undo)
            return opened._replace(undo=undo.pop_all())

    def _open_files(self, pipe: Any, closing: ExitStack, undo: ExitStack) -> OpenStream:
        places = self.places
        out: CodesOut = PipeOut(pipe) if places.out is None else GrowingFile(places.out)
        closing.callback(out.close)
        undo.callback(out.remove_if_new)
        epochs = None
        if places.epochs is not None:
            epochs = EpochFolder(places.epochs)
            closing.callback(epochs.close)
            undo.callback(epochs.remove_if_new)
        corrections = None
        if places.corrections is not None:
            corrections = CorrectionsOut(places.corrections, self.settings["--metric"])
            closing.callback(corrections.close)
            undo.callback(corrections.remove_if_new)
        # again: a run that had the files may just have ended
        begin, resumed = self._find_begin()
        position = begin.position
        out.require_length(position.output_bytes)
        if epochs is not None:
            epochs.require_epochs(position.n_epochs, position.rows_bytes, begin.hasher)
        if corrections is not None:
            corrections.require_vectors(position.n_vectors)
        if places.state is not None:
            if not resumed:
                if not places.state.exists():
                    undo.callback(remove_start, places.state)
                # before the cut: what an old one says of the output will not be so
                save_start(places.state, self.settings)
            with contextlib.suppress(OSError):  # they are in nobody's way
                remove_leftovers(places.state.parent, glob.escape(places.state.name[:64]))
        out.cut(position.output_bytes)
        if epochs is not None:
            epochs.cut(position.n_epochs, position.rows_bytes)
        if corrections is not None:
            corrections.cut(position.n_vectors)
        return OpenStream(begin, resumed, out, epochs, corrections, undo)

    def _find_begin(self) -> tuple[SavedStream, bool]:
        """Return what a stream continues from, and whether it does."""
        state = self.places.state
        if not self.fresh and state is not None and state.exists():
            saved = load_state(state, self.spelling)
            if saved.hasher is not None or not self._may_begin_otherwise(state, saved.settings):
                require_same_settings(state, saved.settings, self.settings, self.spelling)
                return saved, True
        elif not self.fresh:
            self._require_nothing_there()
        return SavedStream(None, StreamPosition(), self.settings, TakenInputs()), False

    def _may_begin_otherwise(self, state: Path, then: dict[str, Any]) -> bool:
        """Tell whether a stream that has not begun may begin with other settings: those of the
        outputs are the same, or nothing is in either.
        """
        if all(then.get(key) == self.settings.get(key) for key in _OUTPUTS):
            return then != self.settings
        if any(has_content(path) for path in _outputs_in(state, then)):
            return False
        self._require_nothing_there()
        return True

    def _require_nothing_there(self) -> None:
        places = self.places
        begun = [
            path
            for path in (places.out, places.corrections)
            if path is not None and has_content(path)
        ]
        if places.epochs is not None and is_begun(places.epochs):
            begun.append(places.epochs)
        for path in begun:
            raise InvalidInputError(
                f"{path} is there already, and no state to continue from. Give the "
                f"{self.spelling.name('state')} of the run that began it, or "
                f"{self.spelling.given('fresh')} to replace it."
            )


def _require_idle(state: Path) -> None:
    """Raise where a stream is running that will save the state at this path: it has its own files
    locked.
    """
    try:
        settings = load_state(state).settings
    except BitkinError:
        return  # none, or one that nobody continues from
    for path in _outputs_in(state, settings):
        if path.is_file() and os.access(path, os.R_OK):
            with path.open("rb") as file:
                lock(file, path)


def _outputs_in(state: Path, settings: dict[str, Any]) -> list[Path]:
    """Return the files that a state says are written."""
    names = [settings.get("--out"), settings.get("--corrections")]
    if settings.get("--epochs-to") is not None:
        names.append(rows_file(Path(str(settings["--epochs-to"]))))
    return [state.resolve().parent / str(name) for name in names if name is not None]


def _path_or_none(value: Any, argument: str) -> Path | None:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        or_file = " or a binary file" if argument == "out" else ""
        raise InvalidInputError(f"{argument} must be a path{or_file}, got {type(value).__name__}.")
    return Path(value)
