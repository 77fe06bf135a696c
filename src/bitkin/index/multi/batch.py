"""A batch of queries at one snapshot: what its scan should take, and what became of its lookups."""

from __future__ import annotations

from bitkin.index.multi.costs import ScanCosts
from bitkin.index.multi.lookup import ScanBudget, scan_time, snapshot_scan_costs
from bitkin.index.multi.record import BatchKind, LookupRecord
from bitkin.index.rows.snapshot import Snapshot


class SearchBatch:
    """Queries that are searched together; what they take goes into the record of their index."""

    def __init__(self, record: LookupRecord, snapshot: Snapshot, kind: BatchKind) -> None:
        self.record, self.kind = record, kind
        self.choice = record.choice(kind)
        self._costs = snapshot_scan_costs(snapshot)
        self._n_words = sum(segment.n * segment.words_per_row for segment in snapshot.segments)

    @property
    def budget(self) -> ScanBudget:
        """What lookups have to be faster than."""
        factor = self.record.scan_factor(self.kind)
        costs = ScanCosts(self._costs.compare * factor, self._costs.read * factor)
        return ScanBudget(costs, self.kind.n_queries)

    def scan_time(self, n_queries: int) -> float:
        """Return the nanoseconds of a scan for so many of the queries."""
        some = self.kind._replace(n_queries=n_queries)
        return self._expected(n_queries) * self.record.scan_factor(some, like=self.kind)

    def note_lookups(self, n_queries: int, n_gave_up: int, nanoseconds: float) -> None:
        """Learn how long so many of the queries took to look up, of which some are yet to be
        scanned.
        """
        # as if all queries had been looked up, with the same share of them giving up
        times = self.kind.n_queries / n_queries
        in_all = nanoseconds * times + self.scan_time(round(n_gave_up * times))
        self.choice.note(in_all / max(1.0, self.scan_time(self.kind.n_queries)))

    def note_scan(self, n_queries: int, nanoseconds: float) -> None:
        """Learn how long a scan for so many of the queries took."""
        some = self.kind._replace(n_queries=n_queries)
        self.record.note_scan(some, nanoseconds, self._expected(n_queries))

    def _expected(self, n_queries: int) -> float:
        return scan_time(self._n_words, n_queries, self._costs)
