"""MultiIndex: exact search among very many codes without looking at most of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import whole_number
from bitkin.choices import MOST_NEIGHBORS
from bitkin.codes import Codes
from bitkin.index.base import RowIndex
from bitkin.index.multi import search as multi_search
from bitkin.index.multi.record import LookupRecord
from bitkin.index.multi.search import Lookups, lookups_in
from bitkin.index.multi.tables import MultiTables, build_tables
from bitkin.index.results import Neighbors, RaggedNeighbors, require_fitting
from bitkin.index.rows.growth import with_tables
from bitkin.index.rows.segment import Segment
from bitkin.index.rows.snapshot import Snapshot

_FEW_ROWS = 1 << 16  # are scanned in less time than it takes to look into tables


class MultiIndex(RowIndex):
    """Exact nearest neighbours among millions of codes, by multi-index hashing.

    Returns what FlatIndex returns, ties by id included. Every code is cut into chunks of about
    log2(n) bits, and rows are kept by the value of each chunk. A row near a query is nearer still
    in some chunk, so it is found under a value that differs from the query's in few symbols; a
    search looks up such values, the cheapest first, until no row that it has not met can be among
    the best. It pays where neighbours are near: clustered codes of 64 to 256 bits, from hundreds of
    thousands of rows on. Elsewhere queries are scanned: at once where there are few rows or few are
    allowed; otherwise a few of them are looked up first, which gives up early, and where that took
    longer than a scan, lookups are tried again ever more rarely. So an index that is searched more
    than some ten times takes about the time of FlatIndex, or less. What either takes is measured on
    this machine, for batches of each size; no result depends on it.

    Tables take 8 bytes per row and chunk, or 12 beyond 64 bits, and 4 bytes per value that a chunk
    may have, up to another 5 per row and chunk: `nbytes` counts them. Among 600,000 rows a vector
    takes 50 bytes at 64 bits, 133 at 128, 257 at 256 and 320 at 512, ids included; in FlatIndex 16,
    24, 40 and 72. Tables are built when rows are added, a sixteenth of the rows at most being left
    to the scan meanwhile. They are not in files: a loaded index builds them first, in about 0.2
    seconds per million rows of 64 bits and thread.

    Parameters
    ----------
    spec : CodeSpec
        The shape of the codes.

    References
    ----------
    Norouzi, Punjani, Fleet: Fast exact search in Hamming space with multi-index hashing. PAMI 2014.
    The paper's m is the number of chunks, its s their bits. For symbols of several bits the
    argument is the same. That chunks may be looked up to different depths is from Qin et al.: GPH.
    ICDE 2018.

    Examples
    --------
    >>> import bitkin
    >>> codes = bitkin.Codes.from_symbols([[0, 0, 1], [0, 1, 1], [1, 1, 0]], bits_per_symbol=1)
    >>> index = bitkin.MultiIndex(codes.spec)
    >>> index.add(codes).tolist()
    [0, 1, 2]
    >>> ids, distances = index.search(codes[:1], k=2)
    >>> ids.tolist(), distances.tolist()
    ([[0, 1]], [[0, 1]])

    So few rows are scanned:

    >>> index.explain(codes[:1], k=2).fell_back.tolist()
    [True]
    """

    def adopt(self, snapshot: Snapshot) -> None:
        """Hold these rows, and know nothing yet of how long searches take."""
        self._record = LookupRecord()
        super().adopt(snapshot)

    def explain(self, queries: Codes, k: int, *, allow: npt.ArrayLike | None = None) -> Lookups:
        """Search as `search` does, and return how much was looked up for every query instead of
        what was found.
        """
        k = whole_number(k, "k", low=1, high=MOST_NEIGHBORS)
        snapshot, allowed = self.check_queries(queries, allow)
        require_fitting(len(queries), k)
        account = multi_search.k_nearest(snapshot, queries, k, allowed, self._record)[1]
        return lookups_in(account, len(queries))

    def prepare(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with tables over nearly all rows."""

        def build(segment: Segment) -> MultiTables:
            return build_tables(segment, snapshot.spec)

        return with_tables(snapshot, build, _FEW_ROWS)

    def nearest_in(
        self, snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None, least: int
    ) -> Neighbors:
        """Return the k nearest rows of every query, by tables where that is faster than a scan."""
        return multi_search.k_nearest(snapshot, queries, k, allow, self._record)[0]

    def count_compared(
        self, snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None, least: int
    ) -> int:
        """Return how many codes are compared for all of these queries: all that are allowed where a
        query is scanned, and rows behind the tables for each.
        """
        account = multi_search.k_nearest(snapshot, queries, k, allow, self._record)[1]
        lookups = lookups_in(account, len(queries))
        scanned = queries[np.flatnonzero(lookups.fell_back)]
        looked_up = int(lookups.compared[~lookups.fell_back].sum())
        outside = sum(s.n - (0 if s.tables is None else s.tables.n) for s in snapshot.segments)
        looked_up += outside * (len(queries) - len(scanned))
        return looked_up + super().count_compared(snapshot, scanned, k, allow, least)

    def within_radius_in(
        self, snapshot: Snapshot, queries: Codes, radius: int, allow: Ids | None
    ) -> RaggedNeighbors:
        """Return all rows within `radius` of every query, by tables where that is faster."""
        return multi_search.within_radius(snapshot, queries, radius, allow, self._record)
