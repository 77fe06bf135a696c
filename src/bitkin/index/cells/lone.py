"""Lone queries of a CellIndex: all but the query is made ready once, which takes longer than the
search itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.index.cells.search import CellSearch, ReadyRows
from bitkin.index.results import Neighbors
from bitkin.index.rows.snapshot import Snapshot
from bitkin.kernels._kernel import entry_of
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.cells import nearest_in_cells_into

_IDS, _DISTANCES = np.dtype(np.int64), np.dtype(np.int32)


class LoneSearch:
    """The search of all rows of a snapshot for one query after the other, always with the same k
    and probes.
    """

    __slots__ = (
        "_calls", "_k", "_probes", "_rooms", "_search", "_shape", "_snapshot", "_spec",
    )  # fmt: skip

    def __init__(self, snapshot: Snapshot, ready: ReadyRows, k: int, probes: int) -> None:
        spec = snapshot.spec
        no_words = np.empty((0, spec.bits_per_symbol, spec.plane_words), dtype=np.uint64)
        self._snapshot, self._k, self._probes, self._shape = snapshot, k, probes, (1, k)
        self._search = CellSearch(ready.segments, spec, ready.n_rows, probes, no_words)
        self._spec = spec  # or an equal one, of the last query
        # taken out while they are used, so that every thread has its own
        self._rooms = [self._search.rooms(slice(0, 1), 1, k)]
        words = read_only(np.zeros((1, *no_words.shape[1:]), dtype=np.uint64))
        self._calls = [
            (entry_of(nearest_in_cells_into, *told, words, *room, *self._answer()), told)
            for told, room in zip(self._search.calls(k), self._rooms[0], strict=True)
        ]

    def answers(self, snapshot: Snapshot, queries: Any, k: Any, probes: Any) -> bool:
        """Whether a search is for one query of those that this is ready for; all others have to be
        looked at more closely.
        """
        return (
            snapshot is self._snapshot
            and type(k) is type(probes) is int
            and k == self._k
            and probes == self._probes
            and type(queries) is Codes
            and len(queries.words) == 1
            and queries.words.flags.aligned
            and queries.empty is None
            and (queries.spec is self._spec or self._is_same(queries.spec))
            and (
                queries.fingerprint == snapshot.fingerprint
                or None in (queries.fingerprint, snapshot.fingerprint)
            )
        )

    def _is_same(self, spec: CodeSpec) -> bool:
        if spec != self._spec:
            return False
        self._spec = spec
        return True

    def nearest(self, query: Codes) -> Neighbors | None:
        """Return the k nearest rows in the nearest cells, or None where they are fewer."""
        try:
            rooms = self._rooms.pop()
        except IndexError:
            rooms = self._search.rooms(slice(0, 1), 1, self._k)
        answer = self._answer()
        words, fewest = read_only(query.words), 0
        for number, (entry, told) in enumerate(self._calls):
            fewest = entry(*told, words, *rooms[number], *answer)
        self._rooms.append(rooms)
        return answer if fewest == self._k else None

    def _answer(self) -> Neighbors:
        return Neighbors(np.empty(self._shape, _IDS), np.empty(self._shape, _DISTANCES))
