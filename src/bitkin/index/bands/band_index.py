"""BandIndex: nearest codes among those that share a band with the query, in a time that grows
slower than the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import one_of, whole_number
from bitkin.choices import MOST_NEIGHBORS
from bitkin.code_spec import CodeSpec, require_spec
from bitkin.codes import Codes
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.index.bands.layout import BandLayout
from bitkin.index.bands.search import BandSearch, candidates_within
from bitkin.index.bands.tables import band_tables, require_row_numbers
from bitkin.index.base import RowIndex
from bitkin.index.flat import scan_nearest
from bitkin.index.results import Neighbors, RaggedNeighbors, no_neighbors, require_fitting
from bitkin.index.rows.growth import FEW_ROWS, with_tables
from bitkin.index.rows.snapshot import Snapshot
from bitkin.io.reader import StoredFile

if TYPE_CHECKING:
    from bitkin.index.bands.tuning import BandTuning

USUAL_BITS = 16
_SCORES = ("distance", "hits")


class BandIndex(RowIndex):
    """The nearest codes among candidates: those with at least one band equal to the query's, or
    nearly so.

    Codes are cut into bands of neighbouring symbols, each with an inverted table from its key to
    the rows that have it. A query looks its own keys up, and with `probes` keys near them; what it
    finds there is scored. The chance that a row with a share s of equal symbols is found is
    `bitkin.theory.band_probability`, a curve shaped like an S: near rows are found almost surely
    and far ones are hardly ever looked at, but rows may be missed. `tune` chooses settings for a
    recall that is wanted; `FlatIndex` misses nothing. A query with fewer than k candidates is
    scanned, so k rows come back whenever there are as many.

    Any number of threads may search while others add and remove, as in every index.

    Parameters
    ----------
    spec : CodeSpec
        The shape of the codes.
    band_bits : int
        Bits a band, up to 64, in whole symbols: `band_bits // bits_per_symbol` of them, at least
        one. Symbols left over at the end are in no band. Narrow bands find more and look at more.
        The usual 16 are fewer for shorter codes.
    probes : int
        Keys looked up a band beside its own: those with one symbol changed, then two, and so on.
    budget : int, optional
        The most rows of tables that a query looks at, the same row again where several bands hold
        it. Own keys come before changed ones, small buckets before large ones. Of symbols of 8 bits
        and more, one bit each is compared first, and a fifth of the rows that are looked at, at
        least 16·k, are compared wholly. None looks at all.
    score : "distance" or "hits"
        What is reported and orders the results: the symbols that differ, or the number of bands
        that the query did not find the row in, as in the paper on WTA (section 5.1); then only
        candidates are returned.

    Notes
    -----
    Without a budget, two indexes with the same settings and rows give the same answers, however the
    rows came in. With one, rows that were added since the tables were built do not count, and
    segments share it.

    Tables take 4 bytes per row and band, and up to 4 more; codes longer than 64 bits are there a
    second time, row after row, and symbols of 8 bits and more take one bit each beside. They are
    not saved: loading builds them again.

    Examples
    --------
    >>> import bitkin
    >>> symbols = [[0, 1, 2, 3], [0, 1, 0, 0], [3, 3, 2, 3], [3, 1, 0, 0]]
    >>> codes = bitkin.Codes.from_symbols(symbols, bits_per_symbol=2)
    >>> index = bitkin.BandIndex(codes.spec, band_bits=4)
    >>> index.add(codes).tolist()
    [0, 1, 2, 3]
    >>> ids, distances = index.search(codes[:1], k=3)
    >>> ids.tolist(), distances.tolist(), index.count_candidates(codes[:1]).tolist()
    ([[0, 1, 2]], [[0, 2, 2]], [3])
    """

    def __init__(
        self,
        spec: CodeSpec,
        band_bits: int = USUAL_BITS,
        *,
        probes: int = 0,
        budget: int | None = None,
        score: str = "distance",
    ) -> None:
        if band_bits == USUAL_BITS:
            band_bits = min(USUAL_BITS, require_spec(spec).n_bits)
        self._layout = BandLayout(require_spec(spec), band_bits, probes)
        self._budget = (
            None if budget is None else whole_number(budget, "budget", low=1, high=MOST_NEIGHBORS)
        )
        self._score = one_of(score, "score", _SCORES)
        super().__init__(spec)

    @classmethod
    def tune(
        cls,
        codes: Codes,
        recall: float = 0.9,
        *,
        k: int = 10,
        queries: Codes | None = None,
        sample: int = 100_000,
        random_state: int | None = 0,
    ) -> BandTuning:
        """Choose settings that find a share `recall` of the true k nearest, and say what to expect
        of them.

        Up to `sample` of `codes` are searched, with up to 1,000 `queries`; by default, rows of
        `codes` that are then not searched. The truth comes from `FlatIndex`. Of all settings that
        reach the recall on one half of the queries, the one that looks at the fewest rows is
        chosen; recall, its interval, candidates and time are those of the other half. Settings
        depend on the codes and `random_state` alone, never on times. Where nothing reaches the
        recall, a warning says so and the best is returned. It takes some seconds. In an index of
        more rows than the sample the nearest rows are nearer, so recall is rather higher; `budget`
        is scaled to all of `codes`.

        Examples
        --------
        >>> import bitkin, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> families = rng.integers(0, 2, (40, 64))[rng.integers(0, 40, 2000)]
        >>> noise = rng.random((2000, 64)) < 0.1
        >>> codes = bitkin.Codes.from_symbols(families ^ noise, bits_per_symbol=1)
        >>> tuning = bitkin.BandIndex.tune(codes, recall=0.8)
        >>> tuning.recall > 0.7, tuning.candidates < 0.2
        (True, True)
        >>> index = tuning.build()
        >>> len(index.add(codes))
        2000
        """
        from bitkin.index.bands.tuning import tune_bands

        return tune_bands(codes, recall, k, queries, sample, random_state)

    @property
    def band_bits(self) -> int:
        """Bits a band, as they were asked for."""
        return self._layout.band_bits

    @property
    def probes(self) -> int:
        """Keys looked up a band beside its own."""
        return self._layout.probes

    @property
    def budget(self) -> int | None:
        """The most rows of tables that a query looks at; None is no limit."""
        return self._budget

    @property
    def score(self) -> str:
        """What orders the results, "distance" or "hits"."""
        return self._score

    @property
    def n_bands(self) -> int:
        """Bands of a code."""
        return self._layout.bands

    @property
    def band_symbols(self) -> int:
        """Symbols of a band."""
        return self._layout.r

    def search(self, queries: Codes, k: int, *, allow: npt.ArrayLike | None = None) -> Neighbors:
        """Return the k nearest candidates of every query, nearest first, ties by lower id.

        A query that has fewer than k is answered by a scan of all rows; with `score="hits"`, where
        distances are the bands that the row was not found in, the rest is id −1 with distance
        `n_symbols + 1` instead. Empty rows are never returned and empty queries find nothing.
        `allow` lists the ids that may be returned: others are passed over while buckets are looked
        into, so they take no candidate's place; ids in it that are not in the index are passed
        over.
        """
        k = whole_number(k, "k", low=1, high=MOST_NEIGHBORS)
        snapshot, allowed = self.check_queries(queries, allow)
        require_fitting(len(queries), k)
        return self.nearest_in(
            snapshot, queries, k, allowed, least=k if self._score == "distance" else 0
        )

    def search_radius(
        self, queries: Codes, radius: int, *, allow: npt.ArrayLike | None = None
    ) -> RaggedNeighbors:
        """Return all candidates at most `radius` away from every query, nearest first, ties by
        lower id.
        """
        return super().search_radius(queries, radius, allow=allow)

    def count_candidates(
        self, queries: Codes, *, allow: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.int64]:
        """Return how many rows are candidates of every query, each counted once: int64
        (n_queries,).
        """
        snapshot, allowed = self.check_queries(queries, allow)
        asked, search = self._asked(snapshot, queries, allowed)
        counts = np.zeros(len(queries), dtype=np.int64)
        counts[asked] = [
            sum(len(ids) for ids, _ in search.candidates(i)) for i in range(len(asked))
        ]
        return counts

    def nearest_in(
        self, snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None, least: int
    ) -> Neighbors:
        """Return the k nearest candidates of every query; the scan helps where they are fewer than
        `least`.
        """
        return self.nearest_and_counts(snapshot, queries, k, allow, least)[0]

    def nearest_and_counts(
        self, snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None, least: int
    ) -> tuple[Neighbors, Ids]:
        """Return the nearest, and how many rows of tables were looked at for every query."""
        asked, search = self._asked(snapshot, queries, allow)
        ids, distances = no_neighbors(len(queries), k, self.spec.n_symbols + 1, np.int32)
        looked = np.zeros(len(queries), dtype=np.int64)
        (ids[asked], distances[asked]), looked[asked] = search.nearest(k)
        short = asked[ids[asked, min(k, least) - 1] < 0] if least else asked[:0]
        if len(short):
            scanned = scan_nearest(snapshot, queries[short], k, allow)
            if self._score == "distance":
                ids[short], distances[short] = scanned
            else:
                for query, rows in zip(short, scanned.ids, strict=True):
                    self._fill_up(ids[query], distances[query], rows)
            looked[short] += len(snapshot)
        return Neighbors(ids, distances), looked

    def count_compared(
        self, snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None, least: int
    ) -> int:
        """Return how many rows are looked at for all of these queries, each as often as a band
        holds it; all that there are for a query that finds too few.
        """
        if self._score == "hits":
            return int(self.count_candidates(queries, allow=allow).sum())
        outside = sum(s.n - (0 if s.tables is None else s.tables.n) for s in snapshot.segments)
        looked = self.nearest_and_counts(snapshot, queries, k, allow, least)[1]
        return int(looked.sum()) + outside * int((~queries.empty_rows()).sum())

    def _fill_up(self, ids: Ids, distances: npt.NDArray[np.int32], rows: Ids) -> None:
        """Put the nearest rows behind the candidates of a query, all of which are there: no band
        found them.
        """
        n_found = int(np.count_nonzero(ids >= 0))
        others = rows[(rows >= 0) & ~np.isin(rows, ids[:n_found])][: len(ids) - n_found]
        ids[n_found : n_found + len(others)] = others
        distances[n_found : n_found + len(others)] = self.n_bands

    def within_radius_in(
        self, snapshot: Snapshot, queries: Codes, radius: int, allow: Ids | None
    ) -> RaggedNeighbors:
        """Return all candidates within `radius` of every query."""
        asked, search = self._asked(snapshot, queries, allow)
        return candidates_within(search, asked, len(queries), radius)

    def _asked(
        self, snapshot: Snapshot, queries: Codes, allow: Ids | None
    ) -> tuple[Ids, BandSearch]:
        """Return the queries that are not empty, and their search."""
        asked = np.flatnonzero(~queries.empty_rows())
        if len(asked) < len(queries):
            queries = queries[asked]
        by_hits = self._score == "hits"
        return asked, BandSearch.begin(
            snapshot, self._layout, self._budget, by_hits, queries, allow
        )

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._settings().items())
        return f"BandIndex({len(self):,} codes, {self.spec}, {settings})"

    def prepare(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with bands over nearly all rows."""
        require_row_numbers(snapshot)
        return with_tables(snapshot, lambda segment: band_tables(segment, self._layout), FEW_ROWS)

    def _settings(self) -> dict[str, Any]:
        settings = {"band_bits": self.band_bits, "probes": self.probes, "score": self.score}
        return settings if self.budget is None else {**settings, "budget": self.budget}

    @classmethod
    def _from_settings(cls, stored: StoredFile, spec: CodeSpec) -> Self:
        try:
            return cls(
                spec,
                stored.parameter("band_bits"),
                probes=stored.parameter("probes"),
                budget=stored.optional_parameter("budget"),
                score=stored.parameter("score"),
            )
        except InvalidInputError as error:
            raise CorruptFileError(
                f"{stored.name} has impossible settings of bands: {error}"
            ) from None
