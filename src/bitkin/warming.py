"""Compile kernels before anybody waits for them: for images of containers, CI, and services."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from bitkin.checks import one_of, whole_number
from bitkin.choices import FIRST_STAGES, METRICS, STAGES, WARMUP_TASKS
from bitkin.code_spec import MAX_SYMBOLS
from bitkin.codes import Codes
from bitkin.collection.collection import Collection
from bitkin.dedup.finder import find_duplicates
from bitkin.epochs.epoch_index import EpochIndex
from bitkin.errors import InvalidInputError
from bitkin.hashers.minhash.minhash import MinHash
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.wta import WTAHash
from bitkin.index.bands.band_index import BandIndex
from bitkin.index.base import RowIndex
from bitkin.index.cells.cell_index import CellIndex
from bitkin.index.flat import FlatIndex
from bitkin.index.multi.multi_index import MultiIndex
from bitkin.index.rows.growth import FEW_ROWS
from bitkin.kernels._kernel import count_compilations
from bitkin.learn.heshing.heshing_classifier import HeshingClassifier
from bitkin.learn.taxonomy.taxonomy import Taxonomy
from bitkin.sets.shingles import shingles

_ROWS, _FEATURES = 1100, 16  # three blocks of 512 lanes, the last one not full
_MOST_NUMBERS = 1 << 22  # of rows that are made up: 16 MB
_STORED = ("float32", "float16", "int8")
_warmed: set[tuple[Any, ...]] = set()


class WarmUp(NamedTuple):
    """What one task of `warmup` did."""

    task: str
    kernels: int
    """Compiled now; 0 where all were in the cache."""
    seconds: float


def warmup(
    tasks: str | Iterable[str] | None = None,
    bits: int | Sequence[int] = 256,
    report: Callable[[WarmUp], None] | None = None,
) -> list[WarmUp]:
    """Compile the kernels of some tasks and keep them, so that no later first call waits.

    Small amounts of made-up data go through the library itself. What is in the cache already is
    only loaded, so a second call takes little time. Kernels are compiled for this processor: an
    image that is warmed up on another kind compiles again where it runs.

    Parameters
    ----------
    tasks : str or list of str, optional
        Among "search", "collection", "multi", "bands", "cells", "wta", "minhash", "stream", "dedup"
        and "classify"; all of them if not given.
    bits : int or list of int, default 256
        Lengths of the codes that will be searched: kernels are made for a number of 64-bit words.
    report : callable, optional
        Called with what was done after every task.

    Returns
    -------
    list of WarmUp
        Per task its name, how many kernels were compiled, and the seconds it took.

    Examples
    --------
    >>> import bitkin
    >>> [done.task for done in bitkin.warmup("search", bits=64)]
    ['search']
    """
    if isinstance(tasks, str):
        tasks = [tasks]
    chosen = [one_of(task, "tasks", tuple(_TASKS)) for task in (_TASKS if tasks is None else tasks)]
    lengths = [bits] if isinstance(bits, int) else list(bits)
    if not lengths:
        raise InvalidInputError("bits must hold at least one length, got none.")
    lengths = [whole_number(n, "bits", low=1, high=MAX_SYMBOLS) for n in lengths]
    rows = np.random.default_rng(0).standard_normal((_ROWS, _FEATURES)).astype(np.float32)
    done = []
    for task in dict.fromkeys(chosen):
        start = time.perf_counter()
        with count_compilations() as count:
            _TASKS[task](rows, lengths)
        done.append(WarmUp(task, count(), time.perf_counter() - start))
        if report is not None:
            report(done[-1])
    return done


def warm_searches(collection: Collection) -> None:
    """Compile what searches of a collection need, however many rows it has or will have, by a small
    one in memory that is like it. A hasher of sets has no rows that could be made up.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> hasher = bitkin.ProjectionHash(n_bits=8).fit(np.eye(9, dtype=np.float32))
    >>> warm_searches(bitkin.Collection.create(None, hasher))
    """
    n_features = collection.row_target.n_features
    if n_features is None:
        return
    about, hasher = collection.stats(), collection.hasher
    in_cells = about["index"].startswith("CellIndex")
    kind = type(hasher).__name__, hasher.spec_, about["vectors"], about["metric"], in_cells
    if kind in _warmed:  # in this process, which has loaded what it needs
        return
    rows = _rows_like(n_features, sparse=about["vectors"] == "csr")
    n_cells = min(64, rows.shape[0] // 4)
    index: Any = CellIndex(hasher.spec_, n_cells, probes=min(4, n_cells)) if in_cells else "flat"
    twin = Collection.create(
        None, hasher, vectors=about["vectors"], metric=about["metric"], index=index
    )
    _search_collection(twin, rows)
    _warmed.add(kind)


def _rows_like(n_features: int, *, sparse: bool) -> Any:
    """Return rows of length 1, which any metric takes; few where they are very wide."""
    rng = np.random.default_rng(0)
    if not sparse:
        n_rows = min(_ROWS, max(8, _MOST_NUMBERS // n_features))
        return _lengths_alike(rng.standard_normal((n_rows, n_features), dtype=np.float32))
    n_values = min(_FEATURES, n_features)
    columns = rng.integers(0, n_features, (_ROWS, 1)) + np.arange(n_values)
    columns = np.sort(columns % n_features, axis=1)
    values = _lengths_alike(rng.random((_ROWS, n_values), dtype=np.float32))
    ends = np.arange(0, columns.size + 1, n_values)
    return csr_array((values.ravel(), columns.ravel(), ends), shape=(_ROWS, n_features))


def _codes_of(n_bits: int, n: int = _ROWS) -> Codes:
    n_bytes = -(-n_bits // 8)
    random_bytes = np.random.default_rng(0).integers(0, 256, (n, n_bytes), dtype=np.uint8)
    random_bytes[:, -1] &= 0xFF >> (8 * n_bytes - n_bits)
    return Codes.from_bytes(random_bytes, n_bits)


def _search_all_ways(index: RowIndex, codes: Codes) -> None:
    """A lone query, several, among some rows, for many neighbours, and within a radius."""
    index.add(codes)
    some, few = np.arange(0, len(codes), 3), np.arange(0, len(codes), 99)
    for queries in (codes[:1], codes[:5], codes[:99]):
        index.search(queries, 10)
        index.search(queries, 10, allow=some)
        index.search(queries, 10, allow=few)
    index.search(codes[:2], 500)
    index.search_radius(codes[:2], 1)
    index.remove([0])
    index.search(codes[:1], 10)
    index.compact()


def _warm_search(rows: Any, lengths: list[int]) -> None:
    for n_bits in lengths:
        codes = _codes_of(n_bits)
        _search_all_ways(FlatIndex(codes.spec), codes)


def _scan_for_many(n_bits: int) -> None:
    """Keep many of many rows, as codes do for the next stage of a collection."""
    codes = _codes_of(n_bits, 2 * FEW_ROWS)
    index = FlatIndex(codes.spec)
    index.add(codes)
    for queries in (codes[:1], codes[:5]):
        index.search(queries, 500)


def _warm_multi(rows: Any, lengths: list[int]) -> None:
    for n_bits in lengths:
        codes = _codes_of(n_bits, 2 * FEW_ROWS)  # fewer get no tables
        _search_all_ways(MultiIndex(codes.spec), codes)


def _warm_bands(rows: Any, lengths: list[int]) -> None:
    for n_bits in lengths:
        codes = _codes_of(n_bits, 2 * FEW_ROWS)
        _search_all_ways(BandIndex(codes.spec), codes)


def _warm_cells(rows: Any, lengths: list[int]) -> None:
    for n_bits in lengths:
        codes = _codes_of(n_bits, 2 * FEW_ROWS)
        _search_all_ways(CellIndex(codes.spec, n_cells=64), codes)
        _scan_for_many(n_bits)
        for collection, wide in _collections(rows, n_bits, (*_STORED, None), n_cells=64):
            _search_collection(collection, wide)


def _warm_collection(rows: Any, lengths: list[int]) -> None:
    for n_bits in lengths:
        _scan_for_many(n_bits)
        for collection, wide in _collections(rows, n_bits, _STORED):
            _search_collection(collection, wide)


def _collections(
    rows: Any, n_bits: int, stored: Sequence[str | None], n_cells: int | None = None
) -> Iterator[tuple[Collection, Any]]:
    """Yield an empty collection of every metric and every kind of vectors, and rows for it; with
    `n_cells` it has cells.
    """
    wide = np.tile(rows, (1, -(-n_bits // _FEATURES)))
    for metric in METRICS:
        hasher = ProjectionHash(
            n_bits, projection="random", rotation=None, normalize=metric == "cosine"
        ).fit(wide)
        for kind in stored:
            index: Any = "flat"
            if n_cells is not None:
                index = CellIndex(hasher.spec_, n_cells, probes=4)
            yield Collection.create(None, hasher, metric=metric, vectors=kind, index=index), wide


def _search_collection(collection: Collection, rows: Any) -> None:
    """Add rows, and search them by every stage: a lone query, several, among some rows, and for
    many neighbours; change some and search again.
    """
    ids = collection.add(rows)
    possible = STAGES[1 : STAGES.index(collection.stage) + 1]
    for queries in (rows[:1], rows[:5]):
        collection.search(queries, 10, stage="codes")
        for stage, first in product(possible, FIRST_STAGES):
            collection.search(queries, 10, stage=stage, first=first)
        collection.search(queries, 10, allow=ids[::3])
        collection.search(queries, 10, allow=ids[:-3])
        collection.search(queries, 300)
    collection.upsert(rows[:2], ids=ids[:2])
    collection.remove(ids[3:4])
    collection.search(rows[:5], 10)
    collection.compact()


def _warm_wta(rows: Any, lengths: list[int]) -> None:
    bags = np.maximum(rows, 0.0) * (np.arange(_FEATURES) % 3 == 0)  # few of them are not zero
    for X in (_lengths_alike(rows), csr_array(_lengths_alike(bags))):
        hasher = WTAHash().fit(X)
        codes = Codes.concatenate([hasher.encode(X)] * 8)  # few rows are searched in another way
        _search_all_ways(FlatIndex(codes.spec), codes)
        vectors = "csr" if issparse(X) else "float32"
        for index in (FlatIndex(hasher.spec_), CellIndex(hasher.spec_, n_cells=64, probes=4)):
            _search_collection(Collection.create(None, hasher, vectors=vectors, index=index), X)


def _lengths_alike(rows: Any) -> Any:
    """Return rows of length 1; rows of zeros stay."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


def _warm_minhash(rows: Any, lengths: list[int]) -> None:
    texts = ["the rain in Spain stays mainly in the plain", "the rain in Spain"]
    MinHash().fit(texts).encode(shingles(texts))
    MinHash().fit(texts).encode([["a", "rainy", "day"], ["a", "sunny", "day"]])


def _warm_stream(rows: Any, lengths: list[int]) -> None:
    for rotation in ("auto", "unifdiag"):
        hasher = ProjectionHash(8, projection="opast", rotation=rotation)
        hasher.partial_fit(rows)
        hasher.new_epoch()
        hasher.encode(rows)
        index = EpochIndex("l2")
        index.follow(hasher, rows)
        for queries in (rows[:1], rows[:5]):
            index.search(queries, 10)


def _warm_dedup(rows: Any, lengths: list[int]) -> None:
    find_duplicates(["the rain in Spain stays mainly in the plain"] * 3 + ["another text"])


def _warm_classify(rows: Any, lengths: list[int]) -> None:
    classes = ["insect.ant", "insect.bee", "pet.cat", "pet.dog"]
    labels = np.array(classes)[np.arange(_ROWS) % 4]
    for X in (rows, csr_array(rows)):
        classifier = HeshingClassifier(Taxonomy.from_labels(classes), n_buckets=2**10, max_iter=1)
        classifier.fit(X, labels).predict(X)


_TASKS: dict[str, Callable[[Any, list[int]], None]] = dict(
    zip(
        WARMUP_TASKS,
        (
            _warm_search,
            _warm_collection,
            _warm_multi,
            _warm_bands,
            _warm_cells,
            _warm_wta,
            _warm_minhash,
            _warm_stream,
            _warm_dedup,
            _warm_classify,
        ),
        strict=True,
    )
)
