"""One run over a stream: vectors are coded and learned from, codes written, and the state saved
where it is whole.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bitkin.cli.streaming.codes_out import CodesOut, formatter
from bitkin.cli.streaming.corrections_out import CorrectionsOut, without_too_long
from bitkin.cli.streaming.epochs_kept import EpochsKept
from bitkin.cli.streaming.news import News
from bitkin.cli.streaming.state import Position, save_state
from bitkin.cli.streaming.vectors_in import NAME, Block
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.epoch_codes import EpochCodes

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash


class Saving(NamedTuple):
    """Where and how often the state is saved, and the options that it keeps."""

    path: Path
    every: int
    options: dict[str, Any]


class StreamRun:
    """Takes vectors one block after another.

    Parameters
    ----------
    hasher : ProjectionHash
        Goes on from where it is.
    position : Position
        What was taken and written before; moves on.
    out : CodesOut
    code_format : str
        "raw" or "jsonl".
    kept : EpochsKept or None
        Where the models of epochs go, if they are kept.
    corrections : CorrectionsOut or None
        Where the corrections of codes go, if they are wanted.
    saving : Saving or None
        None: nothing is saved.
    strict : bool
        Whether a vector that is not finite is an error.
    news : News
    """

    def __init__(
        self,
        hasher: ProjectionHash,
        position: Position,
        out: CodesOut,
        code_format: str,
        kept: EpochsKept | None,
        corrections: CorrectionsOut | None,
        saving: Saving | None,
        strict: bool,
        news: News,
    ) -> None:
        self.hasher = hasher
        self.position = position
        self.whole = True
        """Whether all that was learned from was written too: between the two nothing may be saved.
        """
        self._codes = EpochCodes(hasher)
        self._out = out
        self._formatted = formatter(code_format)
        self._kept = kept
        self._corrections = corrections
        self._saving = saving
        self._strict = strict
        self._news = news
        self.saved = replace(position)
        """What the state knows of."""
        self._has_skipped = False

    def take(self, block: Block, between: Callable[[], None]) -> None:
        """Code, learn from and write a block; `between` is called where the run may end."""
        if self._corrections is not None:
            block = block._replace(rows=without_too_long(block.rows))
        n, done, done_bytes = len(block.rows), 0, 0
        flaw = self._first_flaw(block) if self._strict else n
        while done < flaw:
            stop = min(flaw, done + self._vectors_to_next_save())
            end = int(block.ends[stop - 1])
            self._pass_on(block.rows[done:stop], end - done_bytes, block.form)
            done, done_bytes = stop, end
            if self._saving is not None and self.position.n_vectors % self._saving.every == 0:
                self.save()
            between()
        if flaw < n:
            raise InvalidInputError(
                f"{NAME}: vector {self.position.n_vectors:,} of the stream is {self._flaw}. Those "
                "before it are coded. "
                "Drop it, or leave out --strict to have such vectors skipped."
            )

    def begin_epoch(self) -> None:
        """Begin an epoch and save the state, so that a run that goes on from there has begun it
        too.
        """
        row = self.position.n_vectors
        if not hasattr(self.hasher, "n_features_in_") or self.hasher.epochs is None:
            why = (
                "no vector has come yet"
                if self.hasher.epochs is not None
                else "the run has --epochs none"
            )
            self._news.say("epoch", f"no epoch begins: {why}.", vector=row, begun=False)
            return
        before = self.hasher.epoch_.fingerprint_
        begun = self.hasher.snapshot().fingerprint_ != before
        if begun:
            self.hasher.new_epoch()
            self._save()
        said = (
            "a new epoch begins"
            if begun
            else "no epoch begins, since nothing was learned since the last one,"
        )
        self._news.say("epoch", f"{said} at vector {row:,}.", vector=row, begun=begun)

    def save(self) -> None:
        """Save the state, if anything was taken since; the output is on disk before."""
        if self.saved != self.position:
            self._save()

    def _save(self) -> None:
        if self._saving is None:
            return
        for written in (self._out, self._corrections, self._kept):
            if written is not None:
                written.sync()
        save_state(self._saving.path, self.hasher, self.position, self._saving.options)
        self.saved = replace(self.position)

    @property
    def _flaw(self) -> str:
        """What keeps a vector from being used."""
        too_long = (
            ""
            if self._corrections is None
            else ", or longer than 1e18, whose corrections float32 cannot hold"
        )
        return f"not finite in float32{too_long}"

    def _vectors_to_next_save(self) -> int:
        if self._saving is None:
            return sys.maxsize
        return self._saving.every - self.position.n_vectors % self._saving.every

    def _first_flaw(self, block: Block) -> int:
        """Return the first row that is not finite, or the number of rows."""
        flaws = np.flatnonzero(~np.isfinite(block.rows).all(axis=1))
        return int(flaws[0]) if len(flaws) else len(block.rows)

    def _pass_on(self, rows: Any, n_bytes: int, form: str) -> None:
        self.whole = False
        row = self.position.n_vectors
        for snapshot, codes, coded in self._codes.of(rows):
            if codes.empty is not None:
                self._say_skipped(row + int(np.argmax(codes.empty)))
            if self._kept is not None:
                self._kept.note(row, codes, snapshot)  # codes without their model would be lost
            if self._corrections is not None and snapshot is not None:
                self._corrections.append(snapshot, codes, coded)
            self._out.append(self._formatted(codes, row))
            row += len(codes)
        self.position.n_vectors = row
        self.position.input_bytes += n_bytes
        self.position.form = form
        self.position.output_bytes = self._out.length
        if self._kept is not None:
            self.position.n_epochs, self.position.rows_bytes = (
                self._kept.n_epochs,
                self._kept.rows_bytes,
            )
        self.whole = True
        self._news.count(len(rows), self.hasher)

    def _say_skipped(self, row: int) -> None:
        if not self._has_skipped:
            self._has_skipped = True
            self._news.say(
                "skipped",
                f"warning: vector {row:,} is {self._flaw}. Such vectors are skipped, with empty "
                "codes in their place, "
                "and counted; --strict makes them an error.",
                vector=row,
            )
