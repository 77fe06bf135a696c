"""What exact neighbours tell: copies that are nearly equal, ties, and hubs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from bitkin.arrays import Batch, Flags, Floats, Ids
from bitkin.evaluate.truth import nearest
from bitkin.io.vectors import VectorSource
from bitkin.randomness import Draws

K = 10
_ASKED = 500  # rows whose neighbours are looked for
_MOST_NUMBERS = 1_000_000_000  # of rows among which they are: a second or two per 100 million
_HUB_ROWS = 4_000
_LITTLE_SKEW, _TIMES_NORMAL = 5.0, 2.0
_NORMAL_COLUMNS = 1024
_EQUAL = 1e-12  # relative: what rounding in float64 may change


@dataclass(frozen=True, eq=False)
class NearRows:
    """The neighbours of some rows, themselves left out."""

    distances: Floats
    """(q, K + 1), nearest first; of cosine the length of the chord, √(2c); infinity where there
    are fewer rows.
    """
    scaled: Flags
    """(q,): whether another row is the same but for its length, at cosine distance 0."""
    n_searched: int
    """Rows among which they were found."""
    sparse: bool

    def near_share(self, distance: float) -> float:
        """Return the share of rows with another one at most so far, but not equal."""
        found = ((self.distances > 0) & (self.distances <= distance)).any(axis=1) | self.scaled
        return float(found.mean()) if len(found) else 0.0

    def tied_share(self) -> float:
        """Return the share of rows whose K-th neighbour is as far as the one behind it."""
        last, behind = self.distances[:, K - 1], self.distances[:, K]
        with np.errstate(invalid="ignore"):
            tied = np.isfinite(behind) & (behind - last <= _EQUAL * behind)
        return float(tied.mean()) if len(tied) else 0.0


def find_near_rows(
    source: VectorSource, rows: Batch, numbers: Ids, metric: str, seed: int
) -> NearRows:
    """Find the neighbours of some rows of a sample: among all rows where that is quick and they can
    be read again, else among the sample.
    """
    chosen = np.sort(Draws(seed, "asked").choice(rows.shape[0], min(_ASKED, rows.shape[0])))
    queries, own = rows[chosen], numbers[chosen]
    n_all, width = source.shape
    if issparse(rows):
        width = max(1, rows.nnz // max(1, rows.shape[0]))
    metric = "cosine" if metric == "cosine" else "l2"
    searched: VectorSource | Batch = source
    if n_all is None or n_all * width > _MOST_NUMBERS:
        searched, n_all, own = rows, rows.shape[0], chosen
    found = nearest(searched, queries, K + 2, metric)
    distances = _without_own(found.ids, found.distances, own)
    scaled = np.zeros(len(distances), dtype=bool)
    if metric == "cosine":
        distances = np.sqrt(2 * np.maximum(distances, 0.0))
        # A row at cosine distance 0 is a copy, or one but for its length: then fewer are at l2
        # distance 0.
        n_same = (distances == 0).sum(axis=1)
        some = np.flatnonzero(n_same)
        if some.size:
            equal = nearest(searched, queries[some], K + 2, "l2")
            copies = _without_own(equal.ids, equal.distances, own[some]) == 0
            scaled[some] = copies.sum(axis=1) < n_same[some]
    return NearRows(distances, scaled, n_all, bool(issparse(rows)))


@dataclass(frozen=True, eq=False)
class Hubs:
    """How often rows are among the nearest of others."""

    skew: float
    """Of the counts; 0 where all are found equally often."""
    largest_share: float
    """Share of rows that have the most frequent row among their nearest."""
    never_share: float
    """Share of rows that nobody has among the nearest."""


@dataclass(frozen=True, eq=False)
class HubSurvey:
    """Hubs of rows, and what to compare them with where they are many."""

    own: Hubs | None
    """None where there are too few rows."""
    normal: Hubs | None = None
    """Of normal rows with the same spectrum: many directions alone bring hubs with them."""
    by_cosine: Hubs | None = None

    @property
    def unusual(self) -> bool:
        """Whether there are more hubs than normal rows would have."""
        if self.own is None or self.normal is None:
            return False
        return self.own.skew > _TIMES_NORMAL * self.normal.skew + _LITTLE_SKEW


def survey_hubs(rows: Batch, shares: Floats, metric: str, seed: int) -> HubSurvey:
    """Count hubs among some rows of a sample, exactly, and where they are many also among normal
    rows of the same spectrum, and by cosine.
    """
    n = min(_HUB_ROWS, rows.shape[0])
    if n < 10 * K:
        return HubSurvey(None)
    some = rows[np.sort(Draws(seed, "hubs").choice(rows.shape[0], n))]
    own = count_hubs(some, metric)
    if own.skew <= _LITTLE_SKEW:
        return HubSurvey(own)
    scales = np.sqrt(shares[:_NORMAL_COLUMNS])
    made = (Draws(seed, "normal rows").normals((n, len(scales))) * scales).astype(np.float32)
    by_cosine = None if metric == "cosine" else count_hubs(some, "cosine")
    return HubSurvey(own, count_hubs(made, metric), by_cosine)


def count_hubs(rows: Batch, metric: str) -> Hubs:
    """Count how often each row is among the K nearest of the others."""
    n = rows.shape[0]
    ids = nearest(rows, rows, K + 1, metric).ids
    ids = np.where(ids == np.arange(n)[:, None], -1, ids)
    # where a row does not find itself, its last neighbour is one too many
    ids[(ids >= 0).all(axis=1), -1] = -1
    counts = np.bincount(ids[ids >= 0], minlength=n).astype(np.float64)
    off = counts - counts.mean()
    spread = float(np.sqrt(np.mean(off**2)))
    skew = float(np.mean(off**3)) / spread**3 if spread > 0 else 0.0
    return Hubs(skew, float(counts.max() / n), float((counts == 0).mean()))


def _without_own(ids: Ids, distances: Floats, own: Ids) -> Floats:
    """Return distances without that of each row to itself, one column fewer."""
    is_own = ids == own[:, None]
    # where equal rows push a row out of its own list, the last one is left out instead
    is_own[~is_own.any(axis=1), -1] = True
    return np.asarray(distances[~is_own].reshape(len(ids), -1))
