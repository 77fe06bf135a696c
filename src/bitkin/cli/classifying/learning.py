"""Reading all that is to be learned, and showing how far learning is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from bitkin.cli.classifying.inputs import Input, Truths
from bitkin.cli.output import progress_bar
from bitkin.errors import InvalidInputError


def read_all(rows: Input) -> tuple[Any, Truths]:
    """Return all rows at once."""
    import numpy as np
    from scipy.sparse import issparse, vstack

    with progress_bar("reading", rows.total, rows.unit) as done:
        parts = list(rows.batches(done))
    truths = [truth for _, part in parts for truth in part]
    if not truths:
        raise InvalidInputError("there are no rows to learn. Give files with at least one row.")
    batches = [batch for batch, _ in parts]
    return (
        vstack(batches, format="csr") if issparse(batches[0]) else np.concatenate(batches)
    ), truths


class LearningBars:
    """The `progress` of a classifier: a bar for every trial while alpha is chosen, then one for
    learning.
    """

    def __init__(self) -> None:
        self._bar = ExitStack()
        self._shown = ""
        self._done: Callable[[int], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()

    def choosing_alpha(self, trial: int, learned: int, total: int) -> None:
        """Show how far a trial is."""
        self._show(f"choosing alpha, trial {trial}", learned, total)

    def __call__(self, learned: int, total: int) -> None:
        """Show how far learning is."""
        self._show("learning", learned, total)

    def _show(self, what: str, learned: int, total: int) -> None:
        if self._done is None or what != self._shown:
            self._bar.close()
            self._done, self._shown = self._bar.enter_context(progress_bar(what, total)), what
        self._done(learned)
