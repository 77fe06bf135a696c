"""What is said on stderr while a stream runs: one line that changes on a terminal, else a line
every few seconds.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from bitkin.cli.shared import is_quiet

if TYPE_CHECKING:
    from bitkin.hashers.projection.projection_hash import ProjectionHash

_SECONDS_ON_A_TERMINAL = 0.5
_SECONDS = 5.0
_WARNINGS = ("skipped", "warning")


class News:
    """Throughput and drift, from time to time.

    Parameters
    ----------
    as_json : bool
        Write JSON lines, each with an "event".
    """

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._rewrites = not as_json and sys.stderr.isatty()
        self._every = _SECONDS_ON_A_TERMINAL if self._rewrites else _SECONDS
        self._begun = self._start = self._said_at = time.perf_counter()
        self._start_vectors = self._said_vectors = 0
        self._vectors = 0
        self._reference: ProjectionHash | None = None
        self._open_line = False

    def count(self, n_vectors: int, hasher: ProjectionHash) -> None:
        """Note vectors done, and say something if it is time."""
        now = time.perf_counter()
        if not self._vectors:  # while the first ones were done, kernels were loaded or compiled
            self._start, self._start_vectors = now, n_vectors
        self._vectors += n_vectors
        if now - self._said_at >= self._every:
            rate = (self._vectors - self._said_vectors) / (now - self._said_at)
            self._say_figures("progress", rate, hasher)
            self._said_at, self._said_vectors = now, self._vectors

    def end(self, hasher: ProjectionHash | None) -> None:
        """Say what the whole run did; no hasher where no vector ever came."""
        # all came at once: there is no later time to measure
        if self._vectors == self._start_vectors:
            self._start, self._start_vectors = self._begun, 0
        seconds = max(time.perf_counter() - self._start, 1e-9)
        self._say_figures("end", (self._vectors - self._start_vectors) / seconds, hasher)

    def say(self, event: str, text: str, **values: Any) -> None:
        """Say one thing: `values` as JSON, or else `text`; in quiet, warnings alone."""
        if is_quiet() and event not in _WARNINGS:
            return
        self._close_line()
        line = (
            json.dumps({"event": event, **(values or {"message": text})})
            if self._json
            else f"bitkin: {text}"
        )
        print(line, file=sys.stderr, flush=True)

    def _say_figures(self, event: str, rate: float, hasher: ProjectionHash | None) -> None:
        values: dict[str, Any] = {"vectors": self._vectors, "vectors_per_second": round(rate, 1)}
        text = f"{self._vectors:,} vectors, {rate:,.0f}/s"
        if hasher is not None:
            values |= {"skipped": hasher.n_skipped_, "epochs": hasher.n_epochs_} | self._drift(
                hasher
            )
            plural = "" if hasher.n_epochs_ == 1 else "s"
            text += f", {hasher.n_epochs_:,} epoch{plural}" if hasher.epochs is not None else ""
            text += f", {hasher.n_skipped_:,} skipped" if hasher.n_skipped_ else ""
            if "variance_kept" in values:
                kept, flipped = values["variance_kept"], values["bits_flipped"]
                text += f"; {values['variance_captured']:.1%} of the variance captured"
                text += f", {kept:.1%} of the variance kept, {flipped:.1%} of bits flipped"
                text += (
                    " since the epoch began"
                    if hasher.epochs is not None
                    else " since the last report"
                )
        if self._rewrites and event == "progress" and not is_quiet():
            width = shutil.get_terminal_size().columns - 1  # a longer line could not be rewritten
            print(f"\r\x1b[K{_short(values)[:width]}", end="", file=sys.stderr, flush=True)
            self._open_line = True
        else:
            self.say(event, text, **values)

    def _drift(self, hasher: ProjectionHash) -> dict[str, float]:
        """Return how far the model is from the one that makes codes; without epochs, from that of
        the last report.
        """
        if hasher.epochs is None:
            since, self._reference = self._reference, hasher.snapshot()
        else:
            since = hasher.epoch_
        if since is None:
            return {}
        drift = hasher.drift(since)
        names = ("variance_kept", "variance_captured", "bits_flipped", "diagonal_spread")
        return {name: round(float(getattr(drift, name)), 4) for name in names}

    def _close_line(self) -> None:
        if self._open_line:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._open_line = False


def _short(values: dict[str, Any]) -> str:
    """Return the figures for one line of a terminal."""
    text = f"{values['vectors']:,} vectors, {values['vectors_per_second']:,.0f}/s"
    if "epochs" in values:
        text += f", epoch {values['epochs']:,}"
    if values.get("skipped"):
        text += f", {values['skipped']:,} skipped"
    if "variance_kept" in values:
        text += f"; variance {values['variance_captured']:.0%}"
        text += f", kept {values['variance_kept']:.0%}, flipped {values['bits_flipped']:.1%}"
    return text
