"""Measure an index of FAISS on a trial, as our own methods are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Batch, Floats, Ids
from bitkin.evaluate.comparing.baselines import Baseline, import_faiss
from bitkin.evaluate.trials.measurement import OVERSAMPLES, Measurement
from bitkin.evaluate.trials.measuring import (
    EXACT_OVERSAMPLE,
    CpuClock,
    failed,
    time_per_query,
)
from bitkin.evaluate.trials.ranks import rank_in_order, recalls_of_ranks
from bitkin.evaluate.trials.trial import Trial
from bitkin.evaluate.truth import nearest

Rows = npt.NDArray[np.float32]

SAMPLE_ALONE = (
    "recall among the rows of the sample alone, since a graph of some rows says little about one "
    "of all; oversample is efSearch / k"
)


class FaissTrial:
    """A trial as FAISS takes it: dense float32 rows, of length 1 for cosine."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.by_product = trial.metric == "ip"
        self.rows = self._prepared(trial.rows)
        self.queries = self._prepared(trial.queries)
        self.near_rows = self._prepared(trial.near_rows)

    def _prepared(self, rows: Batch) -> Rows:
        dense = np.ascontiguousarray(rows, dtype=np.float32)
        if self.trial.metric != "cosine":
            return dense
        lengths = np.linalg.norm(dense, axis=1, keepdims=True)
        return np.asarray(dense / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)

    @cached_property
    def true_in_sample(self) -> Ids:
        """The k nearest rows of the sample, by their places in it; −1 where there are fewer."""
        with threads.alone():
            return nearest(self.trial.rows, self.trial.queries, self.trial.k, self.trial.metric).ids

    def measure(self, baseline: Baseline, check: Callable[[], None]) -> list[Measurement]:
        """Return what an index finds and costs, or why that could not be measured."""
        try:
            check()
            with threads.alone(), _in_one_thread() as faiss:
                built = _BuiltIndex(self, baseline, faiss)
                check()
                return [built.measure_scan() if baseline.scans else built.measure_graph()]
        except Exception as error:  # noqa: BLE001  # whatever FAISS says, the others are measured
            return [failed(baseline.name, baseline.n_bits, baseline.stage, error, ours=False)]


@contextmanager
def _in_one_thread() -> Iterator[Any]:
    """Give FAISS one thread for what the calling thread does, and then as many as before."""
    faiss = import_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield faiss
    finally:
        faiss.omp_set_num_threads(before)


class _BuiltIndex:
    """An index that holds the sample; it is also an order of rows, by the distances it gives."""

    def __init__(self, rows: FaissTrial, baseline: Baseline, faiss: Any) -> None:
        self.rows, self.baseline, self.faiss = rows, baseline, faiss
        self.trial = rows.trial
        self.index = baseline.make(faiss, rows.rows.shape[1], rows.by_product)
        clock = CpuClock()
        with clock.measure():
            self.index.train(rows.rows)
        self.fit_seconds = clock.seconds
        self.empty = faiss.serialize_index(self.index)
        with clock.measure():
            self.index.add(rows.rows)
        self.encode_us = clock.seconds / len(rows.rows) * 1e6
        added = faiss.serialize_index(self.index).nbytes - self.empty.nbytes
        self.bytes_per_vector = added / len(rows.rows)

    def search_sample(self, depth: int) -> tuple[Ids, npt.NDArray[Any]]:
        """Return the first rows of the sample."""
        return self._search(self.index, self.rows.queries, depth)

    def measure_near(self, some: slice) -> Floats:
        """Return the distances of the near rows of some queries, by an index of those alone."""
        near = self.trial.near[some]
        distinct, places = np.unique(near[near >= 0], return_inverse=True)
        distances = np.full(near.shape, np.inf)
        if distinct.size == 0:
            return distances
        index = self.faiss.deserialize_index(self.empty)
        index.add(self.rows.near_rows[distinct])
        ids, found = self._search(index, self.rows.queries[some], distinct.size)
        by_row = np.full((len(near), distinct.size), np.inf)
        query, place = np.nonzero(ids >= 0)
        by_row[query, ids[query, place]] = found[query, place]
        at = np.zeros(near.shape, dtype=np.int64)
        at[near >= 0] = places
        return np.where(near >= 0, np.take_along_axis(by_row, at, 1), np.inf)

    def _search(self, index: Any, queries: Rows, k: int) -> tuple[Ids, npt.NDArray[Any]]:
        found, ids = index.search(queries, k)
        # inner products: the largest is the nearest
        return ids, -found if self.rows.by_product else found

    def measure_scan(self) -> Measurement:
        """Return what a search of all rows finds, predicted as for our codes."""
        trial = self.trial
        ranks = rank_in_order(trial, self, trial.k * OVERSAMPLES[-1])
        return self._measured(recalls_of_ranks(ranks), self._time(trial.k))

    def measure_graph(self) -> Measurement:
        """Return what a search of the sample finds, at every efSearch."""
        trial = self.trial
        hnsw = self.index.hnsw
        recalls = np.full((len(self.rows.queries), len(OVERSAMPLES)), np.nan)
        truth = self.rows.true_in_sample
        n_true = (truth >= 0).sum(axis=1)
        for place, oversample in enumerate(OVERSAMPLES):
            hnsw.efSearch = trial.k * oversample
            ids = self.index.search(self.rows.queries, trial.k)[1]
            hit = (truth[:, :, None] == ids[:, None, :]).any(axis=2) & (truth >= 0)
            np.divide(hit.sum(axis=1), n_true, out=recalls[:, place], where=n_true > 0)
        hnsw.efSearch = trial.k
        once = self._time(trial.k)
        hnsw.efSearch = trial.k * EXACT_OVERSAMPLE
        often = self._time(trial.k)
        each = max(0.0, (often - once) / (EXACT_OVERSAMPLE - 1))
        return self._measured(recalls, often, each)

    def _time(self, k: int) -> float:
        return time_per_query(self.rows.queries, lambda q: self.index.search(q, k))

    def _measured(self, recalls: Floats, search_us: float, each: float = 0.0) -> Measurement:
        graph = not self.baseline.scans
        return Measurement(
            method=self.baseline.name,
            n_bits=self.baseline.n_bits,
            stage=self.baseline.stage,
            vectors=self.baseline.vectors,
            bytes_per_vector=self.bytes_per_vector,
            oversample=EXACT_OVERSAMPLE if graph else 1,
            recalls=recalls,
            fit_seconds=self.fit_seconds,
            encode_us=self.encode_us,
            search_us=search_us,
            us_per_oversample=each,
            ours=False,
            note=SAMPLE_ALONE if graph else None,
        )
