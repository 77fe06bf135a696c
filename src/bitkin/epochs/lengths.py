"""Whether the lengths of rows and queries of an index spoil its codes."""

from __future__ import annotations

from dataclasses import replace

from bitkin.arrays import Batch
from bitkin.epochs.state import State
from bitkin.hashers.lengths import NO_LENGTHS
from bitkin.notices import warn_caller
from bitkin.rescoring.estimate import Scorer
from bitkin.rescoring.row_lengths import LengthGuard


class NewLengths:
    """The lengths of vectors on their way into an index.

    The first rows of an index are refused where codes and metric see their lengths differently, and
    later ones taken with one warning.

    Parameters
    ----------
    scorer : Scorer
        That encodes them.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._guard = LengthGuard(scorer.model, scorer.metric)
        self._lengths = NO_LENGTHS
        self._warning: str | None = None

    def look_at(self, batch: Batch) -> None:
        """Take in the rows of a batch, all of them finite."""
        if self._guard.watches:
            self._lengths = self._lengths.with_rows(batch)

    def join(self, state: State) -> State:
        """Return the state that knows these lengths too, or raise."""
        if not any(map(len, state.epochs)):
            self._guard.require(self._lengths, "vectors")
            return replace(state, lengths=self._lengths)
        self._warning = self._guard.warning(state.lengths, self._lengths, "vectors")
        return replace(state, lengths=state.lengths.plus(self._lengths))

    def tell(self) -> None:
        """Warn of what `join` found, once the rows are in the index."""
        if self._warning is not None:
            warn_caller(self._warning)


class QueryLengths:
    """The lengths of all queries of an index whose rows came as codes, and showed none of their
    own: queries are like them. What they show is said once.
    """

    def __init__(self) -> None:
        self._lengths = NO_LENGTHS
        self._said = False

    def look_at(self, state: State, batch: Batch) -> None:
        """Take in a batch of queries, and warn where it shows that codes do not serve such rows."""
        if self._said or state.lengths.n:
            return
        guards = [LengthGuard(epoch.scorer.model, epoch.scorer.metric) for epoch in state.epochs]
        if not any(guard.watches for guard in guards):
            return
        self._lengths = self._lengths.with_rows(batch)
        complaints = (guard.complaint(self._lengths, "queries") for guard in guards)
        complaint = next((one for one in complaints if one is not None), None)
        if complaint is not None:
            self._said = True
            warn_caller(complaint)
