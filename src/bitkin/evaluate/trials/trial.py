"""A trial: rows of a sample, queries that were held out, and their true neighbours among all rows.

A code is tried on a sample, but what counts is its recall on all rows. So the true neighbours of
every query are found among all of them, in one exact pass, and put beside a random sample. Each row
of the sample stands for `N / n` others: a true neighbour that has c rows of the sample before it
has about c · N / n rows before it when all are searched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from bitkin.arrays import Batch, Floats, Ids
from bitkin.checks import one_of, whole_number
from bitkin.choices import TRUTH_METRICS
from bitkin.errors import InvalidInputError
from bitkin.evaluate.truth import nearest
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.vectors.columns import require_columns
from bitkin.io.vectors.rows import lone_as_row
from bitkin.randomness import Draws, resolve_seed

SAMPLE_ROWS = 20_000
QUERIES = 1_000
_NEAR_PER_NEIGHBOR = 3
_MOST_HELD_OUT = 0.2  # share of the rows that may become queries


@dataclass(frozen=True, eq=False)
class Trial:
    """What every method is measured on."""

    rows: Batch
    """The sample, without held-out rows: methods learn from it."""
    queries: Batch
    near: Ids
    """int64 (q, m), into `near_rows`: the nearest of all rows, nearest first; the first k are what
    a search should find. −1 where there are fewer rows.
    """
    near_distances: Floats
    near_rows: Batch
    near_in_sample: Ids
    """int64 per row of `near_rows`: its place in `rows`, or −1."""
    n_rows: int
    """Of all the data, without held-out rows."""
    k: int
    metric: str
    row_numbers: Ids
    """Of `rows`, in X."""
    near_numbers: Ids
    """Of `near_rows`, in X."""
    query_numbers: Ids
    """Of `queries`, in X or in the queries that were given."""
    query_ids: Ids | None = None
    """Row numbers of held-out queries; None where the queries were given."""

    @property
    def sparse(self) -> bool:
        """Whether rows are CSR."""
        return bool(scipy.sparse.issparse(self.rows))

    @property
    def n_features(self) -> int:
        """Columns."""
        return int(self.rows.shape[1])

    def with_sample(self, n: int) -> Trial:
        """Return this trial on the first n rows of its sample, which is in random order."""
        if n >= self.rows.shape[0]:
            return self
        inside = np.where(self.near_in_sample < n, self.near_in_sample, -1)
        numbers = self.row_numbers[:n]
        return self._changed(rows=self.rows[:n], near_in_sample=inside, row_numbers=numbers)

    def with_queries(self, chosen: slice) -> Trial:
        """Return this trial with some of its queries, which are in random order, and with their
        near rows alone.
        """
        near = self.near[chosen]
        used = np.unique(near[near >= 0])
        return self._changed(
            queries=self.queries[chosen],
            near=np.where(near >= 0, np.searchsorted(used, near), -1),
            near_distances=self.near_distances[chosen],
            near_rows=self.near_rows[used],
            near_in_sample=self.near_in_sample[used],
            near_numbers=self.near_numbers[used],
            query_ids=None if self.query_ids is None else self.query_ids[chosen],
            query_numbers=self.query_numbers[chosen],
        )

    def _changed(self, **parts: Any) -> Trial:
        names = self.__dataclass_fields__
        return Trial(**{name: parts.get(name, getattr(self, name)) for name in names})


def draw_trial(
    X: Any,
    *,
    k: int = 10,
    metric: str = "l2",
    queries: Any = None,
    n_queries: int = QUERIES,
    sample_rows: int = SAMPLE_ROWS,
    random_state: Any = 0,
) -> Trial:
    """Draw a sample and queries from X, and find the true neighbours among all rows.

    Parameters
    ----------
    X : array, SciPy sparse matrix, data frame, path, list of paths or VectorSource
        All rows; a file is read four times.
    k : int
        True neighbours per query.
    metric : {"l2", "cosine", "ip", "jaccard"}
        By which they are the nearest; "jaccard" takes CSR rows as sets of their columns.
    queries : the same as X, optional
        Your own; by default rows of X, which are held out: no method sees them, and no query finds
        one. Of more than `n_queries`, as many are drawn.
    n_queries, sample_rows : int
        At most so many queries, and rows that methods learn from.
    random_state : int or None
        The seed of both draws.
    """
    k, metric = whole_number(k, "k", low=1), one_of(metric, "metric", TRUTH_METRICS)
    n_queries = whole_number(n_queries, "n_queries", low=1)
    sample_rows = whole_number(sample_rows, "sample_rows", low=1)
    draws = Draws(resolve_seed(random_state), "trial")
    source = open_vectors(X, name="X")
    n = _count_rows(source)
    require_sets(metric, sparse=source.sparse)
    held_out = np.empty(0, dtype=np.int64)
    if queries is None:
        n_asked = min(n_queries, int(n * _MOST_HELD_OUT))
        if n_asked == 0:
            raise InvalidInputError(
                f"X must have at least {int(1 / _MOST_HELD_OUT)} rows, some of which are held out "
                f"as queries, got {n}. Give queries=... of your own."
            )
        held_out = numbers = draws.choice(n, n_asked)
        asked = source.gather(held_out)
    else:
        asked, numbers = _given_queries(queries, source, n_queries, draws)
    if n - len(held_out) < 1:
        raise InvalidInputError(f"X must have rows to search, got {n}.")
    found, distances = _near(X, asked, min(k * _NEAR_PER_NEIGHBOR, n - len(held_out)), held_out, n,
                             metric)  # fmt: skip
    sampled = draws.choice(n, min(n, sample_rows + len(held_out)))
    sampled = sampled[~np.isin(sampled, held_out)][:sample_rows]
    distinct = np.unique(found[found >= 0])
    near = np.where(found >= 0, np.searchsorted(distinct, found), -1)
    order = np.argsort(sampled)
    at = np.minimum(np.searchsorted(sampled[order], distinct), len(sampled) - 1)
    inside = np.where(sampled[order][at] == distinct, order[at], -1)
    return Trial(
        rows=source.gather(sampled),
        queries=asked,
        near=near,
        near_distances=distances,
        near_rows=source.gather(distinct),
        near_in_sample=inside,
        n_rows=n - len(held_out),
        k=k,
        metric=metric,
        query_ids=held_out if queries is None else None,
        row_numbers=sampled,
        near_numbers=distinct,
        query_numbers=numbers,
    )


def require_sets(metric: str, *, sparse: bool) -> None:
    """Raise where rows are to be compared as sets and are none."""
    if metric == "jaccard" and not sparse:
        raise InvalidInputError(
            "metric='jaccard' compares sets of columns: X must be CSR, got dense rows. Give "
            "scipy.sparse.csr_array(X), whose entries that are not 0 are the sets."
        )


def _count_rows(source: VectorSource) -> int:
    if source.shape[0] is None:
        raise InvalidInputError(
            "X must be read more than once, got an iterator. Give an array, a file or a list of "
            "files."
        )
    return source.shape[0]


def _given_queries(
    queries: Any, source: VectorSource, n_queries: int, draws: Draws
) -> tuple[Batch, Ids]:
    """Return the user's own queries, at most `n_queries` of them, and their row numbers."""
    own = open_vectors(lone_as_row(queries), name="queries")
    n = _count_rows(own) if own.shape[0] is not None else 0
    if n == 0:
        raise InvalidInputError("queries must have at least one row that can be read again.")
    if own.shape[1] != source.shape[1]:
        raise InvalidInputError(
            f"queries must have the {source.shape[1]} columns of X, got {own.shape[1]}."
        )
    require_columns(own.feature_names, source.feature_names, "queries", "X")
    chosen = draws.choice(n, min(n, n_queries))
    return own.gather(chosen), chosen


def _near(X: Any, queries: Batch, m: int, held_out: Ids, n: int, metric: str) -> tuple[Ids, Floats]:
    """Return the m nearest rows of X that are not held out, and their distances."""
    # a query finds itself and now and then another one: three times as many as are to be expected
    spare = 0 if len(held_out) == 0 else 8 + 3 * m * len(held_out) // n
    ids, distances = nearest(X, queries, min(n, m + spare), metric)
    drop = np.isin(ids, held_out) | (ids < 0)
    kept = np.argsort(drop, axis=1, kind="stable")[:, :m]
    ids, distances = np.take_along_axis(ids, kept, 1), np.take_along_axis(distances, kept, 1)
    dropped = np.take_along_axis(drop, kept, 1)
    return np.where(dropped, -1, ids), np.where(dropped, np.inf, distances)
