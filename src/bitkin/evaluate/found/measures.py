"""Figures of what a search found, one for every query where that is possible.

Rows that were not found count as never found: they add nothing to a precision, an average precision
or a gain, and are missing from a recall. Rows at one distance have no order of their own, as
everywhere in `bitkin.evaluate`; only the recall of true neighbours takes rows as they come, as
`recall` does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bitkin.arrays import Floats, Ids
from bitkin.errors import InvalidInputError
from bitkin.evaluate.agreement import kendall_values, spearman_values
from bitkin.evaluate.found.relevance import FoundRelevance
from bitkin.evaluate.found.results import FoundRows
from bitkin.evaluate.gain import ndcg
from bitkin.evaluate.metrics import (
    error_at_recall,
    least_count,
    mean_average_precision,
    precision_recall,
)
from bitkin.evaluate.per_query import PerQuery, mean_of_queries

_STEPS = (1, 2, 5)  # of ranks: 1, 2, 5, 10, 20, 50, …


class Figure(NamedTuple):
    """One figure, such as recall@10."""

    name: str
    mean: float
    interval: tuple[float, float] | None
    """Of 95 %, by the bootstrap over queries; None for one query, and for what is no mean over
    queries.
    """
    per_query: PerQuery | None


def measure_recall(found: FoundRelevance, k: int | None, most: int) -> list[Figure]:
    """Return the share of relevant rows among the first k found, 2k, 5k, … and among all."""
    name = "recall" if k is None else f"recall@{k}"
    figures = []
    for rank in ranks_up_to(most, 1 if k is None else k):
        values = _shares(found.relevant[:, :rank].sum(axis=1), found.n_relevant)
        place = "" if rank == k else f" in the first {rank}"
        figures.append(_figure(f"{name}{place}", values))
    return figures


def measure_precision_recall(rows: FoundRows, found: FoundRelevance) -> list[Figure]:
    """Return precision and recall of the first 1, 2, 5, … rows."""
    ranks = ranks_up_to(rows.most, 1)
    hits = np.zeros((rows.n_queries, len(ranks)))
    some = found.relevant.any(axis=1)
    if some.any():
        curve = precision_recall(rows.ranks[some], found.relevant[some], ranks=ranks, details=True)
        hits[some] = curve.precision * ranks
    figures = []
    for column, rank in enumerate(ranks):
        own = hits[:, column]
        figures.append(
            _figure(
                f"precision of the first {rank}", np.where(found.n_relevant > 0, own / rank, np.nan)
            )
        )
        figures.append(_figure(f"recall of the first {rank}", _shares(own, found.n_relevant)))
    return figures


def measure_average_precision(rows: FoundRows, found: FoundRelevance) -> list[Figure]:
    """Return the mean average precision: precision at the rank of every relevant row, 0 for one
    that was not found.
    """
    values = np.zeros(rows.n_queries)
    some = found.relevant.any(axis=1)
    if some.any():
        # the mean over those found becomes one over all that are relevant
        of_found = mean_average_precision(rows.ranks[some], found.relevant[some], details=True)
        values[some] = of_found.values * found.relevant[some].sum(axis=1)
    return [_figure(f"map@{rows.most}", _shares(values, found.n_relevant))]


def measure_gain(rows: FoundRows, found: FoundRelevance) -> list[Figure]:
    """Return the normalized discounted cumulative gain of the rows found."""
    values = np.zeros(rows.n_queries)
    some = found.relevant.any(axis=1)
    # the sum of discounts of the first ranks: the best gain of so many relevant rows
    most = max(1, rows.most)
    best = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, most + 2)))])
    if some.any():
        of_found = ndcg(rows.ranks[some], found.relevant[some], details=True)
        values[some] = of_found.values * best[found.relevant[some].sum(axis=1)]
    of_all = best[np.minimum(found.n_relevant, most)]
    return [_figure(f"ndcg@{rows.most}", _shares(values, of_all))]


def measure_agreement(name: str, rows: FoundRows, true_distances: Floats) -> list[Figure]:
    """Return how well distances as found rank the rows found, against their true distances; one
    line per query, as long as it has rows.
    """
    measure = {"kendall": kendall_values, "spearman": spearman_values}[name]
    values = np.full(rows.n_queries, np.nan)
    ranks, counts = rows.ranks, (rows.ids >= 0).sum(axis=1)
    for n in np.unique(counts[counts > 1]).tolist():
        own = np.flatnonzero(counts == n)
        values[own] = measure(ranks[own, :n], true_distances[own, :n])
    nothing = (
        f"{name} must have queries with two rows at different distances, by both rankings, got "
        f"none in {rows.n_queries}."
    )
    return [_figure(name, values, nothing)]


def measure_error_at_recall(rows: FoundRows, found: FoundRelevance, recall: float) -> list[Figure]:
    """Return the share of irrelevant pairs that are accepted by the one distance that accepts a
    share of the relevant ones.

    Every pair up to that distance must be known: all rows, or all within a radius, must have been
    searched for.
    """
    n_rows = found.n_rows or 0
    n_relevant = int(found.n_relevant.sum())
    n_other = rows.n_queries * n_rows - n_relevant
    if n_relevant == 0 or n_other <= 0:
        raise InvalidInputError(
            "error-at-recall must have pairs of both kinds, got "
            f"{n_relevant} that match and {max(0, n_other)} that do not."
        )
    if not rows.within_radius and int((rows.ids >= 0).sum()) < rows.n_queries * n_rows:
        raise InvalidInputError(
            "error-at-recall must know every pair up to one distance, got the nearest rows of "
            f"every query alone. Search with --radius, or for all {n_rows:,} rows."
        )
    if rows.distances is None:
        raise InvalidInputError("error-at-recall must have distances, got ids alone.")
    needed = least_count(recall, n_relevant)
    n_hits = int(found.relevant.sum())
    if n_hits < needed:
        raise InvalidInputError(
            f"error-at-recall must have found {recall:g} of the relevant pairs, got "
            f"{math.floor(1000 * n_hits / n_relevant) / 1000:g}. Search by a larger radius."
        )
    is_row = rows.ids >= 0
    distances, flags = rows.distances[is_row], found.relevant[is_row]
    n_found_other = int((~flags).sum())
    share = 0.0
    if n_found_other:
        of_found = error_at_recall(distances, flags, recall=needed / n_hits)
        share = of_found * n_found_other / n_other
    return [Figure(f"error at recall {recall:g}", share, None, None)]


def ranks_up_to(most: int, first: int) -> Ids:
    """Return the ranks first · (1, 2, 5, 10, …) up to `most`, and `most` itself."""
    scale = 10 ** np.arange(len(str(most)))
    ranks = first * np.outer(scale, _STEPS).reshape(-1)
    return np.unique(np.append(ranks[ranks < most], max(1, most)))


def _shares(parts: Floats | Ids, wholes: Floats | Ids) -> Floats:
    """Return parts of wholes, NaN of nothing."""
    out: Floats = np.full(len(wholes), np.nan)
    np.divide(parts, wholes, out=out, where=np.asarray(wholes) > 0)
    return out


def _figure(name: str, values: Floats, nothing: str | None = None) -> Figure:
    """Return the mean of a figure over the queries that count."""
    per_query = mean_of_queries(
        values,
        nothing or f"the truth must name at least one row, got none in {len(values)} queries.",
    )
    several = len(values) - per_query.n_left_out > 1
    return Figure(name, per_query.mean, per_query.interval() if several else None, per_query)
