"""StreamRun: vectors are coded and learned from, codes written, and the state saved where it is
whole.
"""

from __future__ import annotations

import copy
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arguments import PYTHON, ArgumentSpelling
from bitkin.checks import one_of, whole_number
from bitkin.choices import METRICS
from bitkin.closing import Closes
from bitkin.errors import ArgumentError, InvalidInputError
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.notices import warn_caller
from bitkin.stream_files.opening import StreamOpener, StreamPlaces, hasher_settings
from bitkin.stream_files.outputs import CODE_FORMATS, StreamWriter, WritesBytes
from bitkin.stream_files.resuming import Resuming
from bitkin.stream_files.state import StreamPosition, save_state
from bitkin.stream_files.taken import source_of
from bitkin.stream_files.vectors_in import (
    FORMATS,
    ByteStream,
    StreamBlock,
    StreamFormat,
    array_blocks,
    file_reader,
    open_bytes,
)

_SAVE_EVERY = 10_000
_MOST_FEATURES = 2**31 - 1


class EpochRequest(NamedTuple):
    """What became of a request for a new epoch."""

    begun: bool
    row: int
    """The vector that it begins with, or would have."""
    reason: str | None
    """Why it does not begin: "no vectors", "no epochs" or "nothing learned"."""


class StreamRun(Closes):
    """Turns a stream of vectors into a file of codes, by a model that keeps learning; can be
    stopped, or killed, at any time and continued.

    Each code is written before the model learns from its vector. Codes of one epoch can be compared
    with each other; the model of every epoch is kept in a folder beside the codes, with
    `rows.jsonl`, which says which rows it made. With `state`, the live model, the position and the
    length of the output are saved in one step; the same call cuts the output back to the last state
    and continues. Feed it from the vector that `position` names, or all vectors again, or those of
    the last input again: where the first vectors are those that were taken, all that were taken are
    compared by a checksum and passed over, with a warning unless it is the very file that was read.
    Input that differs from them on the way is refused, and so is a file that was read before and
    has other vectors now, and a repetition of fewer than 16 vectors, or of hardly any different
    ones, from elsewhere: `from_start` says what those are. However often a run is continued,
    codes, corrections and models are byte for byte those of a run in peace. `bitkin stream` is this
    class on stdin, and either continues what the other began.

    Parameters
    ----------
    hasher : ProjectionHash
        What the stream begins with, new or fitted, with a projection that follows streams ("opast",
        "frequent-directions"). It is copied: the one that learns is the attribute `hasher`. Where
        the stream continues, that comes from `state`.
    out : path or binary file
        Where codes go. What was written to a binary file, a pipe for one, cannot be cut back: its
        reader drops what comes after `position.output_bytes`.
    state : path, optional
        Where the model and the position are saved, and continued from if it is there. Without it a
        run that ends cannot be continued.
    save_every : int, default 10,000
        Vectors between two saved states. It is saved at the end in any case.
    epochs_to : path, optional
        The folder that keeps the model of every epoch. By default it is `out` with ".epochs", or
        `state` with ".epochs" where `out` is no path; without either, models are not kept.
    corrections : path, optional
        Also write two float32 per vector here, by which `EpochIndex.add_codes` scores codes without
        the vectors.
    metric : {"l2", "cosine", "ip"}, default "l2"
        Of the distances that the corrections are for.
    output_format : {"raw", "jsonl"}, default "raw"
        Codes as `Codes.to_bytes` packs them, or a JSON object per line.
    fresh : bool, default False
        Begin again, and replace what is there.
    strict : bool, default False
        Whether a vector that is not finite is an error. Otherwise it is skipped: an empty code is
        in its place.
    progress : callable, optional
        Called with the number of vectors that were just written, after every block. It may call
        `begin_epoch`, or end the run by an exception.
    on_skip : callable, optional
        Called with the number and the description of the first vector that is skipped. By default
        it is a warning.
    on_repeat : callable, optional
        Called with the number and the description of vectors that were passed over because they
        seemed to come again, though nothing but themselves told so. By default it is a warning.
    spelling : ArgumentSpelling, optional
        How messages name arguments; the command line has its own way.

    Attributes
    ----------
    hasher : ProjectionHash
        The live model.
    position : StreamPosition
        How far the stream is: from where to feed.
    saved : StreamPosition
        How far it was when the state was saved last.
    resumed : bool
        Whether the run continues an earlier one.
    n_repeated : int
        Vectors of the input that were passed over, since the state had taken them.
    n_awaited : int
        Vectors that must come again before any is new, where the input repeats what was taken.
    whole : bool
        Whether all that was learned from was written too; where writing failed, open the run again.

    Notes
    -----
    A run that fails before its first vector takes the files that it made away again when it is
    closed, so that the next one may begin with other settings.

    Examples
    --------
    >>> import numpy as np, bitkin, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> X = np.random.default_rng(0).standard_normal((1000, 24), dtype=np.float32)
    >>> hasher = bitkin.ProjectionHash(16, projection="opast", rotation="unifdiag", epochs=200)
    >>> with bitkin.StreamRun(hasher, folder / "codes", state=folder / "state") as run:
    ...     run.encode(X[:600])
    600
    >>> with bitkin.StreamRun(hasher, folder / "codes", state=folder / "state") as run:
    ...     run.encode(X, from_start=True)  # all again; or the rest, X[run.position.n_vectors :]
    400
    >>> (folder / "codes").stat().st_size, run.hasher.n_epochs_
    (2000, 4)
    """

    def __init__(
        self,
        hasher: ProjectionHash,
        out: str | os.PathLike[str] | WritesBytes,
        *,
        state: str | os.PathLike[str] | None = None,
        save_every: int | None = None,
        epochs_to: str | os.PathLike[str] | None = None,
        corrections: str | os.PathLike[str] | None = None,
        metric: str | None = None,
        output_format: str = "raw",
        fresh: bool = False,
        strict: bool = False,
        progress: Callable[[int], None] | None = None,
        on_skip: Callable[[int, str], None] | None = None,
        on_repeat: Callable[[int, str], None] | None = None,
        spelling: ArgumentSpelling = PYTHON,
    ) -> None:
        if out is None:
            raise InvalidInputError("out must be a path or a binary file, got None.")
        places = StreamPlaces.from_arguments(out, state, epochs_to, corrections)
        _require_learning(hasher)
        one_of(output_format, "output_format", CODE_FORMATS)
        require_with("state", state, {"save_every": save_every}, spelling)
        require_with("corrections", corrections, {"metric": metric}, spelling)
        metric = one_of("l2" if metric is None else metric, "metric", METRICS)
        places.require_different(spelling)
        if corrections is not None and hasher.epochs is None:
            raise ArgumentError(
                "needs epochs: codes of a model that moves cannot be scored. Leave out "
                f"{spelling.given('epochs', None)}.",
                "corrections",
            )
        self._every = (
            _SAVE_EVERY if save_every is None else whole_number(save_every, "save_every", low=1)
        )
        self._settings = hasher_settings(hasher) | places.settings(metric, output_format)
        self._places = places
        self._spelling = spelling
        self._strict = strict
        self._progress = progress
        self._on_skip = _warn_of_skipped if on_skip is None else on_skip
        self._has_skipped = False
        self._on_repeat = _warn_of_repeated if on_repeat is None else on_repeat
        with ExitStack() as closing:
            opener = StreamOpener(places, self._settings, fresh, spelling)
            opened = opener.open(out, closing)
            self._closing = closing.pop_all()
        if opened.begin.hasher is not None:
            self._settings = opened.begin.settings  # what "auto" was when the stream began
        self._undo = opened.undo
        self._failed = False
        begin = opened.begin
        self.hasher = copy.deepcopy(hasher) if begin.hasher is None else begin.hasher
        self.saved = replace(begin.position)
        self.resumed = opened.resumed
        self._closed = False
        self._writer = StreamWriter(
            self.hasher,
            begin.position,
            begin.taken,
            opened.out,
            opened.epochs,
            opened.corrections,
            output_format,
        )
        self._resuming = Resuming(self._writer, places, spelling)

    @property
    def position(self) -> StreamPosition:
        """How far the stream is: from where to feed."""
        return self._writer.position

    @property
    def whole(self) -> bool:
        """Whether all that was learned from was written too."""
        return self._writer.whole

    @property
    def keeps_models(self) -> bool:
        """Whether the models of epochs are kept, without which codes cannot be searched."""
        return self._writer.keeps_models

    @property
    def n_repeated(self) -> int:
        """Vectors of the input that were passed over, since the state had taken them."""
        return self._resuming.n_repeated

    @property
    def n_awaited(self) -> int:
        """Vectors that must come again before any is new, where what came so far repeats what the
        state has taken; else 0.
        """
        return self._resuming.n_awaited

    def describe_awaited(self, name: str = "the input") -> str:
        """Say that the input ended before anything new came; see `n_awaited`."""
        return self._resuming.describe_awaited(name)

    def encode(self, vectors: Any, *, from_start: bool | None = None) -> int:
        """Code, learn from and write vectors, and return how many.

        Parameters
        ----------
        vectors : array, sparse matrix, VectorSource, or iterable of vectors or batches
            What comes next in the stream, as float32; of an iterable, each item is written before
            the next one is asked for.
        from_start : bool, optional
            Whether `vectors` is the stream from its beginning, so that those that the state has
            taken are skipped, or continues it. By default the first of them tell, see `StreamRun`.
        """
        with self._noting_failure():
            return self._take_all(array_blocks(vectors), "vectors", from_start)

    def encode_file(
        self,
        file: str | os.PathLike[str] | BinaryIO,
        *,
        format: str = "auto",
        dim: int | None = None,
        field: str = "vector",
        from_start: bool | None = None,
        name: str | None = None,
    ) -> int:
        """Code, learn from and write all vectors of a file or a pipe until it ends, and return how
        many; each as soon as it has come.

        Parameters
        ----------
        file : path or binary file
            Raw little-endian float32, an .npy stream of any numbers in C order, or JSON lines with
            one list of numbers per line, or an object that has it in a field.
        format : {"auto", "f32", "npy", "jsonl"}, default "auto"
            "auto" knows .npy by its first bytes and JSON by its first character; with `dim`
            anything else is raw.
        dim : int, optional
            Numbers per vector: raw float32, unless the model knows already.
        field : str, default "vector"
            The field of JSON objects that holds the vector.
        from_start : bool, optional
            Whether the file holds the stream from its beginning, so that vectors that the state has
            taken are skipped, or continues it. By default its first vectors tell, see `StreamRun`.
        name : str, optional
            What messages call the input; by default the path, or "file".
        """
        layout = StreamFormat(
            one_of(format, "format", FORMATS),
            None if dim is None else whole_number(dim, "dim", low=1, high=_MOST_FEATURES),
            field,
        )
        before = "" if from_start else self.position.form
        with self._noting_failure(), ExitStack() as closing:
            opened: Any = file
            if isinstance(file, (str, os.PathLike)):
                opened = closing.enter_context(open_bytes(file))
            called = name or (str(file) if opened is not file else "file")
            source = source_of(opened)
            stream = ByteStream(
                file_reader(opened, called),
                layout,
                self._width,
                before,
                name=called,
                spelling=self._spelling,
            )
            return self._take_all(stream.blocks(), called, from_start, source)

    def begin_epoch(self) -> EpochRequest:
        """Begin an epoch at the next vector and save the state, so that a run that continues from
        there has begun it too.

        It does not begin where nothing was learned since the last one.
        """
        self._require_usable()
        row = self.position.n_vectors
        if self.hasher.epochs is None:
            return EpochRequest(False, row, "no epochs")
        if not hasattr(self.hasher, "n_features_in_"):
            return EpochRequest(False, row, "no vectors")
        before = self.hasher.epoch_.fingerprint_
        if self.hasher.snapshot().fingerprint_ == before:
            return EpochRequest(False, row, "nothing learned")
        self.hasher.new_epoch()
        self._save_state()
        return EpochRequest(True, row, None)

    def save(self) -> None:
        """Save the state now, if there is one and anything was taken since; the output is on disk
        before.
        """
        self._require_usable()
        if self.saved != self.position:
            self._save_state()

    def close(self) -> None:
        """Save the state where all is whole, and let go of the files. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        with self._closing:
            if self._failed and self.position.n_vectors == 0 and not self.resumed:
                self._undo.close()  # a stream that did not begin leaves nothing behind
            elif self.whole and self.saved != self.position:
                self._save_state()
        if self.n_awaited and sys.exc_info()[0] is None:
            warnings.warn(self.describe_awaited(), UserWarning, stacklevel=3)

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._failed = True
            raise

    @property
    def _width(self) -> int | None:
        """The length of vectors, if the model knows it."""
        return getattr(self.hasher, "n_features_in_", None)

    def _require_usable(self) -> None:
        if self._closed:
            raise InvalidInputError("this run is closed. Open it again with StreamRun.")
        if not self.whole:
            raise InvalidInputError(
                "this run has learned from vectors whose codes could not be written. Open it "
                "again with StreamRun, which continues from the last state."
            )

    def _take_all(
        self,
        blocks: Iterator[StreamBlock],
        name: str,
        from_start: bool | None,
        source: str | None = None,
    ) -> int:
        """Take all blocks of an input that messages call `name`; return how many vectors."""
        self._require_usable()
        require_with(
            "state", self._places.state, {"from_start": from_start or None}, self._spelling
        )
        before = self.position.n_vectors
        for block in self._resuming.new_blocks(blocks, name, from_start, source):
            self._take(block, name)
        if self._resuming.is_guess:
            self._resuming.is_guess = False
            self._on_repeat(self.n_repeated, self._resuming.describe_guess(name))
        return self.position.n_vectors - before

    def _take(self, block: StreamBlock, name: str) -> None:
        """Code, learn from and write a block, and save the state where that is due."""
        n, d = block.rows.shape
        if self._width is not None and d != self._width:
            raise InvalidInputError(
                f"{name} must be vectors of {self._width} numbers, as the model has, got {d}."
            )
        flaw = _first_not_finite(self._writer.mark_unusable(block.rows)) if self._strict else n
        done, done_bytes = 0, 0
        while done < flaw:
            # up to where the next state is due, so that states are the same however blocks are cut
            stop = min(flaw, done + self._vectors_to_next_save())
            end = int(block.ends[stop - 1])
            n_written = stop - done
            rows = block.rows[done:stop]
            skipped = self._writer.write(rows, end - done_bytes, block.form, name)
            done, done_bytes = stop, end
            if self._places.state is not None and self.position.n_vectors % self._every == 0:
                self._save_state()
            if skipped is not None:
                self._report_skipped(skipped)
            if self._progress is not None:
                self._progress(n_written)
        if flaw < n:
            raise InvalidInputError(
                f"{name}: vector {self.position.n_vectors:,} of the stream is {self._writer.flaw}. "
                "Those before it are coded. Drop it, or leave out "
                f"{self._spelling.given('strict')} to have such vectors skipped."
            )

    def _save_state(self) -> None:
        if self._places.state is None:
            return
        self._writer.sync()  # what the state says of the output must be so
        save_state(
            self._places.state, self.hasher, self.position, self._settings, self._writer.taken
        )
        self.saved = replace(self.position)

    def _vectors_to_next_save(self) -> int:
        if self._places.state is None:
            return sys.maxsize
        return self._every - self.position.n_vectors % self._every

    def _report_skipped(self, row: int) -> None:
        """Report the first vector that was skipped."""
        if not self._has_skipped:
            self._has_skipped = True
            self._on_skip(
                row,
                f"vector {row:,} is {self._writer.flaw}. Such vectors are skipped, with empty "
                f"codes in their place, and counted; {self._spelling.given('strict')} makes them "
                "an error.",
            )


def require_with(
    needed: str, value: object, given: Mapping[str, object], spelling: ArgumentSpelling
) -> None:
    """Raise for arguments that mean nothing where the one that they are about is absent."""
    for argument, other in given.items():
        if value is None and other is not None:
            raise ArgumentError(f"means nothing without {spelling.name(needed)}.", argument)


def _require_learning(hasher: Any) -> None:
    if not isinstance(hasher, ProjectionHash) or not hasattr(hasher, "partial_fit"):
        raise InvalidInputError(
            "hasher must be a ProjectionHash that keeps learning, with projection='opast' or "
            f"'frequent-directions' and any rotation but 'auto' and 'itq', got {hasher!r}."
        )


def _first_not_finite(rows: npt.NDArray[np.float32]) -> int:
    """Return the first row that is not finite, or the number of rows."""
    flaws = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    return int(flaws[0]) if len(flaws) else len(rows)


def _warn_of_skipped(row: int, message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=6)


def _warn_of_repeated(n_vectors: int, message: str) -> None:
    warn_caller(message)
