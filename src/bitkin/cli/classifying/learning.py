"""Reading all that is to be learned, and showing how far learning is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

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
    return (vstack(batches, format="csr") if issparse(batches[0]) else np.concatenate(batches)), truths


@contextmanager
def learning_bars(total: int, *, chooses_alpha: bool) -> Iterator[Callable[[int, int], None]]:
    """Show that something goes on while alpha is chosen, then how far learning is."""
    learning: Callable[[int], None] | None = None
    with ExitStack() as bars:
        if chooses_alpha:
            bars.enter_context(progress_bar("choosing alpha", None))

        def told(learned: int, _: int) -> None:
            nonlocal learning
            if learning is None:
                bars.close()
                learning = bars.enter_context(progress_bar("learning", total))
            learning(learned)

        yield told
