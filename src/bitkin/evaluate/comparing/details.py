"""What a report shows beside figures: the spectrum of the rows, the bits of the best code, and the
queries of which it loses most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from bitkin import threads
from bitkin.arrays import Batch, Floats, Ids
from bitkin.evaluate.reporting.page import CodeStatistics, HardQuery, ShownRow, show_rows
from bitkin.evaluate.trials.measurement import Measurement
from bitkin.evaluate.trials.measuring import new_collection
from bitkin.evaluate.trials.methods import CodeMethod
from bitkin.evaluate.trials.trial import Trial
from bitkin.evaluate.truth import nearest
from bitkin.hashers.base import Hasher

HARD_QUERIES = 8
_MOST_ROWS = 2_000  # of a matrix of products of rows


@dataclass(frozen=True)
class ShownAs:
    """How rows are shown: as pictures, as texts, or by their numbers.

    Attributes
    ----------
    picture_shape : tuple of int or None
    texts : sequence of str or None
        Of all rows of X.
    """

    picture_shape: tuple[int, ...] | None = None
    texts: Sequence[str] | None = None

    def show(
        self, numbers: Ids, distances: Any, vectors: Batch, *, of_x: bool = True
    ) -> tuple[ShownRow, ...]:
        """Return rows as a report shows them; those that are not `of_x` have no text."""
        texts = None
        if self.texts is not None and of_x:
            texts = [str(self.texts[int(number)]) for number in numbers]
        values = None if self.picture_shape is None else vectors
        return show_rows(numbers, distances, values, self.picture_shape, texts)


def find_spectrum(rows: Batch) -> Floats | None:
    """Return the shares of the variance along principal directions, largest first: of all rows, or
    of some where there are more columns than that.
    """
    with threads.alone():
        if rows.shape[1] <= _MOST_ROWS and not scipy.sparse.issparse(rows):
            centred = np.asarray(rows, dtype=np.float32) - np.mean(rows, axis=0, dtype=np.float64)
            products = centred.T @ centred
        else:
            some = rows[:_MOST_ROWS]
            products = some @ some.T
            if scipy.sparse.issparse(products):
                products = products.toarray()
            products = np.asarray(products, dtype=np.float64)
            # H (A Aᵀ) H with H = 1 − 1/n: the products of rows less their mean
            products -= products.mean(axis=0)
            products -= products.mean(axis=1, keepdims=True)
        values = np.linalg.eigvalsh(products)[::-1]
    values = np.maximum(values[: min(rows.shape)], 0.0)
    return values / values.sum() if values.sum() > 0 else None


class BestCode:
    """The code whose bits and whose losses a report shows."""

    def __init__(self, trial: Trial, method: CodeMethod, measured: Measurement) -> None:
        self.trial = trial
        self.measured = measured
        with threads.alone():
            self.hasher: Hasher = method.fit(trial.rows)

    def statistics(self) -> CodeStatistics:
        """Return how its bits are used."""
        name = f"{self.measured.method}, {self.measured.n_bits} bits"
        return CodeStatistics.from_codes(name, self.hasher.encode(self.trial.rows))

    def hard_queries(self, shown: ShownAs) -> tuple[HardQuery, ...]:
        """Return the queries of which most is lost, with their neighbours, and what a search of the
        sample and of all near rows finds instead.
        """
        trial, recalls = self.trial, self.measured.per_query
        order = np.argsort(np.where(np.isnan(recalls), np.inf, recalls), kind="stable")
        hardest = [int(q) for q in order[:HARD_QUERIES] if recalls[q] < 1.0]
        if not hardest:
            return ()
        missing = trial.near_in_sample < 0
        rows = _stacked(trial.rows, trial.near_rows[missing])
        numbers = np.concatenate([trial.row_numbers, trial.near_numbers[missing]])
        with threads.alone():
            collection = new_collection(trial, self.hasher, self.measured.vectors)
            collection.add(rows)
            hits = collection.search(
                trial.queries[hardest],
                trial.k,
                stage=self.measured.stage,
                oversample=self.measured.oversample,
            )
        return tuple(
            self._describe(query, found[found >= 0], rows, numbers, shown)
            for query, found in zip(hardest, hits.ids, strict=True)
        )

    def _describe(
        self, query: int, found: Ids, rows: Batch, numbers: Ids, shown: ShownAs
    ) -> HardQuery:
        trial = self.trial
        asked = trial.queries[query : query + 1]
        own = trial.near[query, : trial.k]
        own = own[own >= 0]
        distances = np.empty(len(found))
        if len(found):
            measured = nearest(rows[found], asked, len(found), trial.metric)
            distances[measured.ids[0]] = measured.distances[0]
        return HardQuery(
            query=shown.show(
                trial.query_numbers[query : query + 1],
                None,
                asked,
                of_x=trial.query_ids is not None,
            )[0],
            recall=float(self.measured.per_query[query]),
            neighbors=shown.show(
                trial.near_numbers[own],
                trial.near_distances[query, : len(own)],
                trial.near_rows[own],
            ),
            found=shown.show(numbers[found], distances, rows[found]),
        )


def _stacked(first: Batch, second: Batch) -> Batch:
    if scipy.sparse.issparse(first):
        return scipy.sparse.vstack([first, second], format="csr")
    return np.concatenate([first, second])
