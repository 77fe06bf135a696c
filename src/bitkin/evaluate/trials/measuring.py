"""Measure a method on a trial: fit it, encode the rows, and see where the true neighbours stand."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse

from bitkin import interrupts, threads
from bitkin.arrays import Batch, FloatRows, Floats, Ids
from bitkin.collection.collection import Collection
from bitkin.errors import InvalidInputError
from bitkin.evaluate.trials.measurement import Measurement
from bitkin.evaluate.trials.methods import CodeMethod
from bitkin.evaluate.trials.ranks import NearRanks, rank_near_rows, recalls_of_ranks
from bitkin.evaluate.trials.trial import Trial
from bitkin.hashers.base import Hasher
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.sign_hash.sign_hash import SignHash

EXACT_OVERSAMPLE = 10  # a collection's own
_TIMED_QUERIES, _TIMED_ROUNDS = 100, 3
_ROWS_TO_WARM_UP, _QUERIES_TO_WARM_UP = 600, 40
_NUMBERS_AT_ONCE = 1 << 22  # of near rows, as float64


class CpuClock:
    """CPU seconds of the calling thread, which works alone meanwhile."""

    seconds = 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Time a block."""
        with threads.alone():
            start = time.thread_time()
            yield
            self.seconds = time.thread_time() - start


def time_per_query(queries: Batch, search: Callable[[Batch], object]) -> float:
    """Return the CPU µs per query of a batch of the first hundred."""
    queries = queries[:_TIMED_QUERIES]
    clock, times = CpuClock(), []
    for _ in range(_TIMED_ROUNDS):
        with clock.measure():
            search(queries)
        times.append(clock.seconds)
    return float(min(times) / queries.shape[0] * 1e6)


@dataclass(frozen=True, eq=False)
class KeptKind:
    """How vectors may be kept, with what that costs and changes."""

    name: str
    bytes_per_vector: float
    order: Ids
    """int64 (q, m): the near rows by their distance as kept, nearest first."""


class FittedMethod:
    """A method that has learned from a trial's sample and encoded its rows."""

    def __init__(self, trial: Trial, method: CodeMethod) -> None:
        self.trial = trial
        self.method = method
        clock = CpuClock()
        with clock.measure():
            self.hasher = method.fit(trial.rows)
        self.fit_seconds = clock.seconds
        with clock.measure():
            self.hasher.encode(trial.rows)
        self.encode_us = clock.seconds / trial.rows.shape[0] * 1e6
        self.take(trial)

    def take(self, trial: Trial) -> None:
        """Encode the rows of a trial with what was learned."""
        self.trial = trial
        with threads.alone():
            self.collection = new_collection(trial, self.hasher, None)
            self.collection.add(trial.rows)
            self.collection.compact()
            self.code_bytes = self.collection.nbytes / trial.rows.shape[0]
            missing = trial.near_in_sample < 0
            if missing.any():
                self.collection.add(trial.near_rows[missing])
        self._ranks: dict[str, NearRanks] = {}

    def on(self, trial: Trial) -> FittedMethod:
        """Return this method as it has learned, with the rows and queries of another trial."""
        other = copy.copy(self)
        other.take(trial)
        return other

    @property
    def n_bits(self) -> int:
        """Of a code as it came out."""
        return self.hasher.spec_.n_bits

    @cached_property
    def best_stage(self) -> str:
        """The last stage that is possible without vectors."""
        return self.collection.stage

    @property
    def stage_before_exact(self) -> str:
        """What chooses the rows that are measured: "scan" where all rows are estimated."""
        # what ranks only is as rough in a scan as elsewhere, and keeps as many rows as codes
        estimates = self.best_stage == "estimate" and isinstance(
            self.hasher, (ProjectionHash, SignHash)
        )
        return "scan" if estimates else self.best_stage

    def ranks(self, stage: str) -> NearRanks:
        """Return the ranks of near rows in the order of a stage, found once."""
        if stage not in self._ranks:
            with threads.alone():
                self._ranks[stage] = rank_near_rows(self.trial, self.collection, stage)
        return self._ranks[stage]

    def recalls(self, stage: str, kept: KeptKind | None = None) -> Floats:
        """Return the recall of every query at each of `OVERSAMPLES`, as `measure` has it, without
        a clock.
        """
        before = self.stage_before_exact
        if stage == "exact":
            order = None if kept is None else kept.order
            measured = self.collection.rows_measured(self.trial.k, 1)
            return recalls_of_ranks(self.ranks(before), order, measured)
        scanned = self.ranks(before) if (stage, before) == ("estimate", "scan") else None
        return recalls_of_ranks(self.ranks(stage), kept_by=scanned)

    def measure(self, stage: str, kept: KeptKind | None = None) -> Measurement:
        """Return what a search with this last stage finds: "exact" of vectors as they are kept,
        after the best stage without them.
        """
        oversample = EXACT_OVERSAMPLE if stage == "exact" else 1
        search_us, us_per_oversample = self._time_search(stage, kept, oversample)
        return Measurement(
            method=self.method.name,
            n_bits=self.n_bits,
            stage=stage,
            vectors=None if kept is None else kept.name,
            bytes_per_vector=self.code_bytes + (0.0 if kept is None else kept.bytes_per_vector),
            oversample=oversample,
            recalls=self.recalls(stage, kept),
            fit_seconds=self.fit_seconds,
            encode_us=self.encode_us,
            search_us=search_us,
            us_per_oversample=us_per_oversample,
        )

    def _time_search(
        self, stage: str, kept: KeptKind | None, oversample: int
    ) -> tuple[float, float]:
        """Return the µs per query of a batch on the sample, and those per further oversample."""
        k = self.trial.k
        searched = self.collection
        if kept is not None:
            with threads.alone():
                searched = new_collection(self.trial, self.hasher, kept.name)
                searched.add(self.trial.rows)

        def time_at(oversample: int) -> float:
            return time_per_query(
                self.trial.queries,
                lambda q: searched.search(q, k, stage=stage, oversample=oversample),
            )

        taken = time_at(oversample)
        if oversample == 1:
            return taken, 0.0
        return taken, max(0.0, (taken - time_at(1)) / (oversample - 1))


def new_collection(trial: Trial, hasher: Hasher, vectors: str | None) -> Collection:
    """Return an empty collection for the rows of a trial."""
    # codes of sets are compared without a metric, and nothing else is done with them
    metric = "l2" if trial.metric == "jaccard" else trial.metric
    return Collection.create(None, hasher, vectors=vectors, metric=metric, index="flat")


def warm_up(trial: Trial, method: CodeMethod, kept: Sequence[KeptKind] = ()) -> None:
    """Compile or load what a method needs, by few rows, so that no clock counts it."""
    few = trial.with_sample(_ROWS_TO_WARM_UP).with_queries(slice(0, _QUERIES_TO_WARM_UP))
    orders = np.tile(np.arange(few.near.shape[1]), (len(few.near), 1))
    # what fails here fails again where it is measured, and is told there
    with suppress(Exception):
        fitted = FittedMethod(few, method)
        for stage in ("codes", fitted.best_stage):
            fitted.measure(stage)
        for kind in kept:
            fitted.measure("exact", KeptKind(kind.name, kind.bytes_per_vector, orders))


def possible_kinds(*, sparse: bool, metric: str) -> tuple[str, ...]:
    """Return how vectors can be kept for the exact stage."""
    if metric == "jaccard":  # which no collection measures
        return ()
    return ("csr",) if sparse else ("float32", "float16", "int8")


def kept_kinds(trial: Trial, names: Sequence[str] | None = None) -> dict[str, KeptKind]:
    """Return the kinds in which vectors may be kept; one that cannot hold them is left out."""
    kinds = {}
    for name in names or possible_kinds(sparse=trial.sparse, metric=trial.metric):
        if name == "csr" and scipy.sparse.issparse(trial.rows):
            # float32, as they are measured for the truth but for its last bits
            entries = trial.rows.nnz / max(1, trial.rows.shape[0])
            order = np.tile(np.arange(trial.near.shape[1]), (len(trial.near), 1))
            kinds[name] = KeptKind(name, 8.0 * entries + 8.0, order)
            continue
        n_bytes = {"float32": 4 * trial.n_features, "float16": 2 * trial.n_features}
        try:
            order = _order_as_kept(trial, name)
        except InvalidInputError:  # numbers that are too large or too small for it
            continue
        kinds[name] = KeptKind(name, float(n_bytes.get(name, trial.n_features + 4)), order)
    return kinds


def _order_as_kept(trial: Trial, kind: str) -> Ids:
    """Return the near rows of every query by their distances as kept."""
    if kind == "float32":
        return np.tile(np.arange(trial.near.shape[1]), (len(trial.near), 1))
    kept = new_collection(trial, SignHash(trial.n_features).fit(), kind)
    kept.add(trial.near_rows)
    vectors = kept.get(np.arange(trial.near_rows.shape[0])).vectors
    order = np.empty(trial.near.shape, dtype=np.int64)
    step = max(1, _NUMBERS_AT_ONCE // (trial.near.shape[1] * trial.n_features))
    for start in range(0, len(order), step):
        near = trial.near[start : start + step]
        distances = _distances(vectors[near], trial.queries[start : start + step], trial.metric)
        # where there are fewer rows, what is not there comes last
        distances[near < 0] = np.inf
        order[start : start + step] = np.argsort(distances, axis=1, kind="stable")
    return order


def _distances(rows: FloatRows, queries: Batch, metric: str) -> Floats:
    """Return what ranks (q, m, d) rows by their distance from (q, d) queries, float64 (q, m)."""
    those, asked = rows.astype(np.float64), np.asarray(queries, dtype=np.float64)[:, None, :]
    if metric == "l2":
        return np.asarray(((those - asked) ** 2).sum(axis=2))
    products = (those * asked).sum(axis=2)
    if metric == "cosine":
        lengths = np.sqrt((those**2).sum(axis=2))
        # a row of zeros has no direction: its cosine is 0
        np.divide(products, lengths, out=products, where=lengths > 0)
    return np.asarray(-products)


def measure_method(
    trial: Trial,
    method: CodeMethod,
    stages: Sequence[str],
    kinds: dict[str, KeptKind],
    check: Callable[[], None] = interrupts.check,
) -> list[Measurement]:
    """Return a measurement per stage, and for "exact" one per kind of kept vectors; where the
    method fails, what was measured by then and one that says why there is no more.

    `check` is called between steps; what it raises, if it is no `Exception`, ends the work.
    """
    results: list[Measurement] = []
    stage, kept = stages[-1], None  # of what is measured next
    try:
        warm_up(trial, method, list(kinds.values()) if "exact" in stages else ())
        check()
        fitted = FittedMethod(trial, method)
        for stage, kept in _list_ways(stages, kinds):
            if stage == "estimate" and fitted.best_stage != "estimate":
                continue
            check()
            results.append(fitted.measure(stage, kept))
    except Exception as error:  # noqa: BLE001  # whatever it is, the other methods are measured
        vectors = None if kept is None else kept.name
        results.append(failed(method.name, method.n_bits, stage, error, vectors=vectors))
    return results


def _list_ways(
    stages: Sequence[str], kinds: dict[str, KeptKind]
) -> Iterator[tuple[str, KeptKind | None]]:
    """Give every stage, "exact" once per kind of kept vectors."""
    for stage in stages:
        if stage == "exact":
            yield from ((stage, kept) for kept in kinds.values())
        else:
            yield stage, None


def failed(
    method: str,
    n_bits: int,
    stage: str,
    error: Exception,
    *,
    ours: bool = True,
    vectors: str | None = None,
) -> Measurement:
    """Return a measurement that says why there is none."""
    reason = str(error).strip().splitlines()
    said = reason[0] if reason else type(error).__name__
    return Measurement(method, n_bits, stage, vectors, error=said, ours=ours)
