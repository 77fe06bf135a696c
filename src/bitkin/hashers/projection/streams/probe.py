"""A few recent vectors, kept to see what a moving model does to their bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bitkin.hashers.projection.statistics.row_sample import row_hashes

PROBE_ROWS = 16
# one vector of every 64 takes the place of another: a vector stays for about 16 · 64 = 1,024
_BLOCK = 64


class Probe:
    """16 vectors of about the last 1,000; which ones depends on their positions alone, however the
    stream is cut.

    The first 16 vectors fill it. After that one vector of each 64, at a place drawn by hash,
    replaces one drawn so too.

    Parameters
    ----------
    n_features : int
    n_seen : int, default 0
        How many vectors have passed by already.
    rows : float32 (min(n_seen, 16), n_features), optional
        What was kept of them.
    """

    def __init__(
        self, n_features: int, n_seen: int = 0, rows: npt.NDArray[np.float32] | None = None
    ) -> None:
        self._rows = np.zeros((PROBE_ROWS, n_features), dtype=np.float32)
        self._n_seen = n_seen
        if rows is not None:
            self._rows[: len(rows)] = rows
        self._due = _next_change(n_seen)

    @property
    def rows(self) -> npt.NDArray[np.float32]:
        """The vectors kept, in no particular order."""
        return self._rows[: min(self._n_seen, PROBE_ROWS)]

    def update(self, rows: npt.NDArray[np.float32]) -> None:
        """See the next vectors of the stream."""
        first = self._n_seen
        self._n_seen += len(rows)
        if self._due < self._n_seen:
            for position, slot in zip(*_changes(first, self._n_seen), strict=True):
                self._rows[slot] = rows[position - first]
            self._due = _next_change(self._n_seen)


def _changes(first: int, stop: int) -> tuple[list[int], list[int]]:
    """Return the positions from `first` to `stop` whose vectors are kept, in order, and the slots
    they take.
    """
    filling = list(range(first, min(stop, PROBE_ROWS)))
    # what is left of the first block has no part
    blocks = np.arange(max(1, first // _BLOCK), -(-stop // _BLOCK))
    # one hash per block: its low bits choose the vector within the block, its high ones the slot
    drawn = row_hashes(blocks, 0)
    positions = blocks * _BLOCK + (drawn % np.uint64(_BLOCK)).astype(np.int64)
    slots = (drawn >> np.uint64(32)) % np.uint64(PROBE_ROWS)
    within = (positions >= first) & (positions < stop)
    return filling + positions[within].tolist(), filling + slots[within].tolist()


def _next_change(position: int) -> int:
    """Return the first position from `position` on whose vector is kept: within two blocks there is
    one.
    """
    return _changes(position, max(position, _BLOCK) + 2 * _BLOCK)[0][0]
