"""What does a collection in a folder cost, and what do the stores cost that one would take instead?

    python bench/collection.py                      # both parts; half an hour and 6 GB of disk
    python bench/collection.py speed --rows 100000
    python bench/collection.py rivals --without chromadb lancedb

`speed` fills a folder with a million embeddings of 384 numbers, kept as float16 under codes of 128
bits, and compares with the goals: rows added a second in batches and one by one, opening with and
without a checkpoint, bytes of memory a row after that and after a search, without declared fields;
a search with its exact stage from disk; and filters that keep 1 %.

Rows lie between real ones, sentence embeddings of 18,265 job tasks: each is a mean of three by
chance of the ten nearest to a real one, with a fifth of the standard deviation as noise. Queries
are 200 others, as they are.

`rivals` fills one store after another with the same rows, by default a hundred thousand, under
cosine: rows added a second, index and model included; seconds until a process that has just opened
the store has answered a query; bytes on disk, and in memory after that; and queries a second, one
by one and all 200 in one call, at the cheapest setting whose recall@10 reaches 0.95, among all rows
and among the 1 % that a filter keeps.
chromadb, lancedb, sqlite-vec and usearch take part where they are installed (`pip install
'bitkin[rivals]'`; sqlite-vec needs `pysqlite3-binary` too where Python's own SQLite was built
without extensions).

Every store is filled in one process and asked in another. Before memory is read, that process has
opened and asked a small store of the same kind: libraries and compiled code are not counted. Memory
is the resident set, pages of mapped files included. Adding may take all processors; queries run on
one thread where a store lets itself be told, and `cpu_ms` is processor time, of all threads.
"""

# ruff: noqa: D102 - `Store` says what the methods of all stores do

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LANCE_CPU_THREADS", "1")
os.environ.setdefault("RAYON_NUM_THREADS", "1")
os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")

import argparse
import importlib
import importlib.util
import multiprocessing
import resource
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import bitkin
from _data import data_file
from _timing import report, report_machine
from _tiny import sized

Rows = npt.NDArray[np.float32]
Groups = npt.NDArray[np.int64]
Figures = dict[str, Any]

PARTS = ("speed", "rivals")
K, RECALL = 10, 0.95
N_FEATURES, N_BITS = sized((384, 128), (48, 16))
BATCH, LONE, SMALL = sized((10_000, 500, 40_000), (100, 5, 60))
N_GROUPS = sized(100, 4)
"""One in so many rows passes the filter."""
GROUP = 3
QUERIES, ROUNDS = sized((200, 3), (6, 1))
HELD_OUT = sized(1_000, 20)
"""Real rows that no row is made of; queries are some of these."""
MIXED = 10
"""Real rows near one, of which rows are made."""
FIELD_BYTES = 17
"""Of a declared int: the number, whether it is there, and the id of its row."""
SPEED_ROWS, RIVAL_ROWS = sized((1_000_000, 100_000), (500, 400))


def write_rows(folder: Path, n: int) -> None:
    """Write rows that lie between real ones, the group of each, and queries with their true
    neighbours, with and without the filter.
    """
    rng = np.random.default_rng(0)
    with np.load(data_file("onet_tasks_minilm384.npz")) as stored:
        real = stored["X"].astype(np.float32)
    real /= np.linalg.norm(real, axis=1, keepdims=True)
    real = real[rng.permutation(len(real))]
    queries, base = real[:QUERIES], real[HELD_OUT:]
    near = np.concatenate(
        [nearest_by_cosine(base, base[i : i + 1000], MIXED) for i in range(0, len(base), 1000)]
    )
    rows = np.lib.format.open_memmap(
        folder / "rows.npy", mode="w+", dtype=np.float32, shape=(n, N_FEATURES)
    )
    for first in range(0, n, BATCH):
        count = min(BATCH, n - first)
        own = rng.integers(0, len(base), count)
        rows[first : first + count] = between(base, near[own], rng)
    rows.flush()
    groups = rng.integers(0, N_GROUPS, n)
    kept = np.flatnonzero(groups == GROUP)
    np.save(folder / "groups.npy", groups)
    np.savez(
        folder / "queries.npz",
        queries=queries,
        truth=nearest_by_cosine(rows, queries),
        truth_filtered=kept[nearest_by_cosine(rows[kept], queries)],
    )


def between(base: Rows, near: Groups, rng: np.random.Generator) -> Rows:
    """Return a row for each list of near ones: a mean of three of these, by chance, with noise."""
    chosen = np.argsort(rng.random(near.shape), axis=1)[:, :3]
    weights = rng.dirichlet(np.ones(3), len(near)).astype(np.float32)
    picked = base[np.take_along_axis(near, chosen, axis=1)]
    rows = np.einsum("nj,njd->nd", weights, picked)
    rows += 0.2 * base.std() * rng.standard_normal(rows.shape, dtype=np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def nearest_by_cosine(rows: Rows, queries: Rows, k: int = K) -> Groups:
    """Return the k nearest rows of every query, in blocks of rows."""
    queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    ids = np.zeros((len(queries), 0), dtype=np.int64)
    cosines = np.zeros((len(queries), 0), dtype=np.float32)
    for first in range(0, len(rows), 50_000):
        block = rows[first : first + 50_000]
        more = (queries @ block.T) / np.linalg.norm(block, axis=1)
        some = np.arange(len(block))[None]
        if len(block) > k:
            some = np.argpartition(more, -k, axis=1)[:, -k:]
            more = np.take_along_axis(more, some, axis=1)
        cosines = np.hstack([cosines, more])
        ids = np.hstack([ids, first + np.broadcast_to(some, more.shape)])
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        ids = np.take_along_axis(ids, best, axis=1)
        cosines = np.take_along_axis(cosines, best, axis=1)
    return ids


def batches(
    folder: Path, n: int | None = None, size: int = BATCH
) -> Iterator[tuple[int, Rows, Groups]]:
    """Yield rows and their groups, in memory, with the number of the first."""
    rows, groups = np.load(folder / "rows.npy", mmap_mode="r"), np.load(folder / "groups.npy")
    n = len(rows) if n is None else n
    for first in range(0, n, size):
        last = min(first + size, n)
        yield first, np.array(rows[first:last]), groups[first:last]


class Store:
    """Rows in a folder, as one library keeps them."""

    name: ClassVar[str]
    needs: ClassVar[str]
    note: ClassVar[str] = ""
    efforts: ClassVar[Sequence[Any]]
    """Settings of a search, cheapest first."""
    filtered_efforts: ClassVar[Sequence[Any]]

    @classmethod
    def lacking(cls) -> str | None:
        """Return what the store needs and is not here."""
        return None if importlib.util.find_spec(cls.needs) else f"no {cls.needs}"

    def fill(self, data: Path, folder: Path, n: int) -> float:
        """Write the first `n` rows to a new folder; return the seconds that adding them took."""
        raise NotImplementedError

    def open(self, folder: Path) -> None:
        """Open what `fill` wrote."""
        raise NotImplementedError

    def search(self, query: Rows, effort: Any, group: int | None) -> Any:
        """Return the ids of the K nearest rows, of a group alone if one is given."""
        raise NotImplementedError

    def search_together(self, queries: Rows, effort: Any) -> Any:
        """Return the ids of the K nearest rows of many queries, asked for in one call; None where
        there is none.
        """
        return None

    def close(self) -> None:
        """Let go of what is open."""


class Bitkin(Store):
    """A collection that scans all codes."""

    name, needs = "bitkin flat", "bitkin"
    index: ClassVar[str] = "flat"
    efforts = tuple((oversample, None) for oversample in (2, 3, 5, 7, 10, 15, 20, 30, 50, 100))
    filtered_efforts = efforts

    def fill(self, data: Path, folder: Path, n: int, metadata: bool = True) -> float:
        sample = next(batches(data, size=sized(20_000, 200)))[1]
        start = time.perf_counter()
        hasher = bitkin.ProjectionHash(N_BITS, rotation="random", random_state=0).fit(sample)
        seconds = time.perf_counter() - start
        with bitkin.Collection.create(
            folder,
            hasher,
            vectors="float16",
            metric="cosine",
            index=self.index,
            fields={"topic": int} if metadata else None,
        ) as collection:
            self.slowest_add, self.log_bytes = 0.0, 0
            for _, rows, groups in batches(data, n):
                given = [{"topic": group} for group in groups.tolist()] if metadata else None
                start = time.perf_counter()
                collection.add(rows, metadata=given)
                taken = time.perf_counter() - start
                seconds, self.slowest_add = seconds + taken, max(taken, self.slowest_add)
                log = folder / "collection.db-wal"
                self.log_bytes = max(self.log_bytes, log.stat().st_size)
            start = time.perf_counter()
        return seconds + time.perf_counter() - start

    def open(self, folder: Path) -> None:
        bitkin.set_threads(1)
        self.collection = bitkin.Collection.open(folder)

    def search(self, query: Rows, effort: Any, group: int | None) -> Any:
        oversample, probes = effort
        where = None if group is None else {"topic": group}
        hits = self.collection.search(query, K, oversample=oversample, probes=probes, where=where)
        return hits.ids[0]

    def search_together(self, queries: Rows, effort: Any) -> Any:
        oversample, probes = effort
        return self.collection.search(queries, K, oversample=oversample, probes=probes).ids

    def close(self) -> None:
        self.collection.close()


class BitkinCells(Bitkin):
    """A collection that looks into the cells near a query."""

    name, index = "bitkin cells", "cells"
    efforts = tuple(
        (oversample, probes)
        for probes, oversample in ((4, 5), (8, 5), (8, 10), (16, 5), (16, 10), (32, 10), (64, 20))
    )
    filtered_efforts = efforts


class Chroma(Store):
    """chromadb's HNSW in a folder."""

    name, needs = "chromadb", "chromadb"
    efforts = (10, 20, 40, 80, 120, 160, 240, 320, 500, 1000)
    filtered_efforts = efforts

    def _client(self, folder: Path) -> Any:
        import chromadb
        from chromadb.config import Settings

        return chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))

    def fill(self, data: Path, folder: Path, n: int) -> float:
        client = self._client(folder)
        collection = client.create_collection(
            "rows",
            configuration={"hnsw": {"space": "cosine", "ef_search": self.efforts[0]}},
            embedding_function=None,
        )
        size = min(BATCH, client.get_max_batch_size())
        seconds = 0.0
        for first, rows, groups in batches(data, n, size):
            ids = [str(number) for number in range(first, first + len(rows))]
            given = [{"topic": group} for group in groups.tolist()]
            start = time.perf_counter()
            collection.add(ids, embeddings=rows, metadatas=given)
            seconds += time.perf_counter() - start
        client.close()  # or a server of the same folder would wait for this process to end
        return seconds

    def open(self, folder: Path) -> None:
        self.folder, self.effort = folder, self.efforts[0]
        self.collection = self._client(folder).get_collection("rows", embedding_function=None)

    def search(self, query: Rows, effort: Any, group: int | None) -> Any:
        return self._ask(query[None], effort, None if group is None else {"topic": group})[0]

    def search_together(self, queries: Rows, effort: Any) -> Any:
        return self._ask(queries, effort, None)

    def _ask(self, queries: Rows, effort: Any, where: Any) -> Any:
        if effort != self.effort:
            from chromadb.api.shared_system_client import SharedSystemClient

            self.collection.modify(configuration={"hnsw": {"ef_search": effort, "num_threads": 1}})
            SharedSystemClient.clear_system_cache()  # what is open goes on as before
            self.open(self.folder)
            self.effort = effort
        found = self.collection.query(
            query_embeddings=queries, n_results=K, where=where, include=["distances"]
        )
        return np.array([[int(id) for id in ids] for ids in found["ids"]])


class Lance(Store):
    """lancedb with the index that its documentation begins with: IVF_PQ, and a bitmap for the
    filter. `refine` reads whole vectors.
    """

    name, needs = "lancedb IVF_PQ", "lancedb"
    kind: ClassVar[str] = "IVF_PQ"
    efforts = tuple(
        {"nprobes": probes, "refine_factor": refine}
        for probes, refine in ((10, 5), (20, 5), (20, 10), (20, 30), (40, 10), (40, 30), (80, 50))
    )
    filtered_efforts = efforts

    def fill(self, data: Path, folder: Path, n: int) -> float:
        import lancedb
        import pyarrow

        schema = pyarrow.schema(
            [
                ("id", pyarrow.int64()),
                ("topic", pyarrow.int64()),
                ("vector", pyarrow.list_(pyarrow.float32(), N_FEATURES)),
            ]
        )
        table = lancedb.connect(str(folder)).create_table("rows", schema=schema)
        seconds = 0.0
        for first, rows, groups in batches(data, n):
            start = time.perf_counter()
            flat = pyarrow.array(rows.reshape(-1))
            vectors = pyarrow.FixedSizeListArray.from_arrays(flat, N_FEATURES)
            numbers = pyarrow.array(np.arange(first, first + len(rows)))
            columns = [numbers, pyarrow.array(groups), vectors]
            table.add(pyarrow.Table.from_arrays(columns, schema=schema))
            seconds += time.perf_counter() - start
        start = time.perf_counter()
        if n >= 256:  # fewer rows train no index
            table.create_index(metric="cosine", index_type=self.kind)
            table.create_scalar_index("topic", index_type="BITMAP")
        table.optimize()
        return seconds + time.perf_counter() - start

    def open(self, folder: Path) -> None:
        import lancedb

        self.table = lancedb.connect(str(folder)).open_table("rows")

    def search(self, query: Rows, effort: Any, group: int | None) -> Any:
        asked = (
            self.table.search(query).distance_type("cosine").limit(K).select(["id", "_distance"])
        )
        if group is not None:
            asked = asked.where(f"topic = {group:d}", prefilter=True)
        for setting, value in effort.items():
            asked = getattr(asked, setting)(value)
        return asked.to_arrow()["id"].to_numpy()


class LanceGraph(Lance):
    """lancedb's HNSW of bytes within partitions."""

    name, kind = "lancedb IVF_HNSW_SQ", "IVF_HNSW_SQ"
    efforts = tuple(
        {"nprobes": probes, "ef": ef, "refine_factor": refine}
        for probes, ef, refine in ((1, 50, 1), (1, 100, 2), (1, 200, 3), (4, 300, 5), (20, 500, 5))
    )
    filtered_efforts = efforts


def extensible_sqlite() -> Any:
    """Return Python's own SQLite, or another one where that was built without extensions."""
    loads = hasattr(sqlite3.Connection, "enable_load_extension")
    if loads or importlib.util.find_spec("pysqlite3") is None:
        return sqlite3
    return importlib.import_module("pysqlite3")


class SqliteVec(Store):
    """sqlite-vec's scan of all float32 vectors: exact."""

    name, needs = "sqlite-vec float", "sqlite_vec"
    columns: ClassVar[str] = f"vector float[{N_FEATURES}] distance_metric=cosine"
    values: ClassVar[str] = "?"
    efforts: ClassVar[Sequence[Any]] = (K,)
    filtered_efforts: ClassVar[Sequence[Any]] = (K,)
    query: ClassVar[str] = (
        "SELECT rowid FROM rows WHERE vector MATCH :query AND k = :effort {filter} "
        "ORDER BY distance"
    )

    @classmethod
    def lacking(cls) -> str | None:
        if not hasattr(extensible_sqlite().Connection, "enable_load_extension"):
            return "this Python's sqlite3 loads no extensions, and there is no pysqlite3-binary"
        return super().lacking()

    def _connect(self, folder: Path) -> Any:
        import sqlite_vec

        folder.mkdir(exist_ok=True)
        db = extensible_sqlite().connect(folder / "rows.db", isolation_level=None)
        db.enable_load_extension(True)
        sqlite_vec.load(db)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        return db

    def fill(self, data: Path, folder: Path, n: int) -> float:
        db = self._connect(folder)
        db.execute(f"CREATE VIRTUAL TABLE rows USING vec0({self.columns}, topic integer)")
        n_vectors = self.values.count("?")
        seconds = 0.0
        columns = [name.split()[0] for name in [*self.columns.split(", "), "topic"]]
        statement = f"INSERT INTO rows(rowid, {', '.join(columns)}) VALUES (?, {self.values}, ?)"
        for first, rows, groups in batches(data, n):
            start = time.perf_counter()
            db.execute("BEGIN")
            db.executemany(
                statement,
                (
                    (first + i, *[row.tobytes()] * n_vectors, group)
                    for i, (row, group) in enumerate(zip(rows, groups.tolist(), strict=True))
                ),
            )
            db.execute("COMMIT")
            seconds += time.perf_counter() - start
        start = time.perf_counter()
        db.close()
        return seconds + time.perf_counter() - start

    def open(self, folder: Path) -> None:
        self.db = self._connect(folder)

    def search(self, query: Rows, effort: Any, group: int | None) -> Any:
        statement = self.query.format(filter="" if group is None else "AND topic = :group")
        values = {"query": query.tobytes(), "effort": effort, "group": group, "k": K}
        return np.array([row for (row,) in self.db.execute(statement, values)])

    def close(self) -> None:
        self.db.close()


class SqliteVecBits(SqliteVec):
    """sqlite-vec's scan of signs, and the nearest of those by their float32 vectors."""

    name = "sqlite-vec bit, rescored"
    columns = f"vector float[{N_FEATURES}] distance_metric=cosine, signs bit[{N_FEATURES}]"
    values = "?, vec_quantize_binary(?)"
    efforts = (50, 100, 200, 400, 800, 1600, 4000)
    filtered_efforts = efforts
    query = (
        "WITH near AS (SELECT rowid, vector FROM rows WHERE signs MATCH vec_quantize_binary(:query)"
        " AND k = :effort {filter}) "
        "SELECT rowid FROM near ORDER BY vec_distance_cosine(vector, :query) LIMIT :k"
    )


class Usearch(Store):
    """usearch's HNSW of float16 vectors, viewed in its file."""

    name, needs = "usearch view", "usearch"
    view: ClassVar[bool] = True
    note = "no filter in its Python interface: the nearest are asked for until 10 of the group come"
    efforts = (10, 20, 40, 80, 120, 160, 240, 320, 500, 1000)
    filtered_efforts = (1000, 1500, 2000, 3000, 5000)

    def fill(self, data: Path, folder: Path, n: int) -> float:
        from usearch.index import Index

        folder.mkdir()
        index = Index(ndim=N_FEATURES, metric="cos", dtype="f16")
        seconds = 0.0
        for first, rows, _ in batches(data, n):
            start = time.perf_counter()
            index.add(np.arange(first, first + len(rows)), rows)
            seconds += time.perf_counter() - start
        start = time.perf_counter()
        index.save(str(folder / "rows.usearch"))
        seconds += time.perf_counter() - start
        np.save(folder / "groups.npy", np.load(data / "groups.npy")[:n])
        return seconds

    def open(self, folder: Path) -> None:
        from usearch.index import Index

        self.index = Index.restore(str(folder / "rows.usearch"), view=self.view)
        self.groups = np.load(folder / "groups.npy")

    def search(self, query: Rows, effort: Any, group: int | None) -> Any:
        if group is None:
            self.index.expansion_search = effort
            return self.index.search(query, K, threads=1).keys
        effort = min(effort, len(self.groups))
        self.index.expansion_search = effort
        keys = self.index.search(query, effort, threads=1).keys.astype(np.int64)
        return keys[self.groups[keys] == group][:K]

    def search_together(self, queries: Rows, effort: Any) -> Any:
        self.index.expansion_search = effort
        return self.index.search(queries, K, threads=1).keys


class UsearchLoaded(Usearch):
    """The same, read into memory."""

    name, view = "usearch load", False


STORES = {
    store.name: store
    for store in (
        Bitkin, BitkinCells, Chroma, Lance, LanceGraph, SqliteVec, SqliteVecBits, Usearch,
        UsearchLoaded,
    )
}  # fmt: skip


def apart(job: Callable[..., Figures], *arguments: Any) -> Figures:
    """Run a job in a process of its own, unless the run is tiny."""
    if sized(False, True):
        return job(*arguments)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(job, arguments)


def resident() -> int:
    """Return the bytes of memory that this process has, pages of mapped files included."""
    statm = Path("/proc/self/statm")
    if not statm.exists():  # the most that it had
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(statm.read_text().split()[1]) * resource.getpagesize()


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def fill_store(name: str, data: Path, folder: Path, n: int) -> Figures:
    """Write a small store, which compiles, and the large one."""
    store = STORES[name]()
    store.fill(data, folder / "small", min(SMALL, n))
    before = time.process_time()
    seconds = store.fill(data, folder / "large", n)
    return {
        "adds_per_second": n / seconds,
        "add_cpu_us": 1e6 * (time.process_time() - before) / n,
        "disk_bytes_per_row": bytes_in(folder / "large") / n,
    }


def ask_store(name: str, data: Path, folder: Path, n: int) -> Figures:
    """Open a store and search it, at the cheapest effort that reaches the recall."""
    with np.load(data / "queries.npz") as stored:
        queries, truth, filtered = (stored[key] for key in ("queries", "truth", "truth_filtered"))
    store = STORES[name]()
    store.open(folder / "small")
    for group in (None, GROUP):
        store.search(queries[0], store.efforts[0], group)
    store.close()
    before = resident()
    start = time.perf_counter()
    store.open(folder / "large")
    opened = time.perf_counter() - start
    store.search(queries[0], store.efforts[0], None)
    answered = time.perf_counter() - start
    figures = {
        "open_ms": 1e3 * opened,
        "first_answer_ms": 1e3 * answered,
        "memory_bytes_per_row": (resident() - before) / n,
    }
    figures |= searched(store, queries, truth, None, store.efforts)
    figures["memory_bytes_per_row_searched"] = (figures.pop("resident") - before) / n
    some = searched(store, queries, filtered, GROUP, store.filtered_efforts)
    del some["resident"]
    figures |= {f"filtered_{key}": value for key, value in some.items()}
    store.close()
    return figures


def searched(
    store: Store, queries: Rows, truth: Groups, group: int | None, efforts: Sequence[Any]
) -> Figures:
    """Time lone queries at the first effort that reaches the recall, or at the last."""
    for effort in efforts:
        found = [store.search(query, effort, group) for query in queries]
        recall = float(
            np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(found, truth, strict=True)])
        )
        if recall >= RECALL:
            break
    wall, cpu = best_of(lambda: [store.search(query, effort, group) for query in queries])
    figures = {
        "queries_per_second": len(queries) / wall,
        "cpu_ms": 1e3 * cpu / len(queries),
        "recall": recall,
        "effort": effort,
        "resident": resident(),  # before many queries take room of their own for a moment
    }
    if group is None and store.search_together(queries, effort) is not None:
        wall, cpu = best_of(lambda: store.search_together(queries, effort))
        figures["together_per_second"] = len(queries) / wall
        figures["together_cpu_ms"] = 1e3 * cpu / len(queries)
    return figures


def best_of(job: Callable[[], Any]) -> tuple[float, float]:
    """Return the least time and processor time that a job took, in seconds."""
    wall, cpu = [], []
    for _ in range(ROUNDS):
        start, cpu_start = time.perf_counter(), time.process_time()
        job()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
    return min(wall), min(cpu)


def rivals(folder: Path, n: int, without: Sequence[str]) -> None:
    """Fill and ask every store that is here."""
    data = folder / "data"
    data.mkdir()
    write_rows(data, n)
    for name, store in STORES.items():
        if any(part in name for part in without):
            report("left out", store=name, reason="asked for")
            continue
        lacking = store.lacking()
        if lacking is not None:
            report("left out", store=name, reason=lacking)
            continue
        place = folder / "store"
        place.mkdir()
        figures: Figures = {}
        for job in (fill_store, ask_store):
            try:
                figures |= apart(job, name, data, place, n)
            except Exception as error:  # noqa: BLE001 - a store that fails is a figure too
                figures["failed"] = f"{job.__name__}: {type(error).__name__}: {error}"[:300]
                break
        load = os.getloadavg()[0]
        report("rival", store=name, rows=n, **figures, load=load, note=store.note)
        shutil.rmtree(place)


def fill_speed(data: Path, folder: Path, n: int) -> Figures:
    """Add rows in batches, with a field and without, and one by one."""
    store = Bitkin()
    store.fill(data, folder / "small", min(SMALL, n))
    few = min(n, sized(100_000, 200))
    plain = store.fill(data, folder / "plain", few, metadata=False)
    cpu = time.process_time()
    seconds = store.fill(data, folder / "large", n)
    cpu = time.process_time() - cpu
    shutil.rmtree(folder / "plain")
    figures = {
        "adds_per_second": n / seconds,
        "add_cpu_us": 1e6 * cpu / n,
        "adds_per_second_without_metadata": few / plain,
        "slowest_add_ms": 1e3 * store.slowest_add,
        "largest_log_mb": store.log_bytes / 1e6,
        "disk_bytes_per_row": bytes_in(folder / "large") / n,
    }
    rows = next(batches(data, LONE))[1]
    with bitkin.Collection.open(folder / "large") as collection:
        collection.add(rows[0], metadata=[{"topic": 0}])
        start, cpu = time.perf_counter(), time.process_time()
        for row in rows:
            collection.add(row, metadata=[{"topic": 0}])
        figures["lone_adds_per_second"] = len(rows) / (time.perf_counter() - start)
        figures["lone_add_cpu_us"] = 1e6 * (time.process_time() - cpu) / len(rows)
        start = time.perf_counter()
        collection.checkpoint()
        figures["checkpoint_ms"] = 1e3 * (time.perf_counter() - start)
    return figures


def open_speed(data: Path, folder: Path, n: int) -> Figures:
    """Open the folder once."""
    with np.load(data / "queries.npz") as stored:
        queries = stored["queries"]
    with bitkin.Collection.open(folder / "small") as collection:
        collection.search(queries[0], K)
    before = resident()
    start, cpu = time.perf_counter(), time.process_time()
    collection = bitkin.Collection.open(folder / "large", read_only=True)
    declared = FIELD_BYTES * n
    figures = {
        "open_ms": 1e3 * (time.perf_counter() - start),
        "open_cpu_ms": 1e3 * (time.process_time() - cpu),
        "nbytes_per_row": collection.nbytes / n,
        "memory_bytes_per_row": (resident() - before - declared) / n,
    }
    start = time.perf_counter()
    collection.search(queries[0], K)
    figures["first_search_ms"] = 1e3 * (time.perf_counter() - start)
    figures["memory_bytes_per_row_searched"] = (resident() - before - declared) / n
    collection.close()
    return figures


def search_speed(data: Path, folder: Path, n: int) -> Figures:
    """Search the folder, with a warm cache, with and without a filter."""
    with np.load(data / "queries.npz") as stored:
        queries, truth = stored["queries"], stored["truth"]
    figures: Figures = {}
    where = {"topic": GROUP}
    with bitkin.Collection.open(folder / "large", read_only=True) as collection:
        jobs: dict[str, Callable[[Rows], Any]] = {
            "search": lambda query: collection.search(query, K),
            "count": lambda query: collection.count(where),
            "filtered_search": lambda query: collection.search(query, K, where=where),
        }
        for name, job in jobs.items():
            found = [job(query) for query in queries]
            taken = []
            cpu = time.process_time()
            for query in queries:
                start = time.perf_counter()
                job(query)
                taken.append(time.perf_counter() - start)
            figures[f"{name}_cpu_ms"] = 1e3 * (time.process_time() - cpu) / len(queries)
            figures[f"{name}_ms"] = 1e3 * float(np.median(taken))
            figures[f"{name}_p99_ms"] = 1e3 * float(np.quantile(taken, 0.99))
            if name == "search":
                ids = np.concatenate([hits.ids for hits in found])
                figures["recall"] = float(bitkin.evaluate.recall(ids, truth))
        figures["rows_kept_by_filter"] = collection.count(where)
        wall, cpu = best_of(lambda: collection.search(queries, K))
        figures["together_per_second"] = len(queries) / wall
        figures["together_cpu_ms"] = 1e3 * cpu / len(queries)
    return figures


def filter_speed(data: Path, folder: Path, n: int) -> Figures:
    """Count the rows that filters keep, 1 % but for the last: declared fields, and others."""
    size = sized(50_000, 100)
    rows = next(batches(data, size=size))[1]
    rng = np.random.default_rng(0)
    hasher = bitkin.ProjectionHash(sized(32, 16), projection="random", random_state=0).fit(rows)
    kinds = {"int": int, "float": float, "str": str, "id": str}
    with bitkin.Collection.create(
        folder / "filtered", hasher, vectors=None, metric="cosine", fields=kinds
    ) as collection:
        for first in range(0, n, size):
            count = min(size, n - first)
            groups, shares = rng.integers(0, N_GROUPS, count), rng.random(count)
            given = [
                {"int": g, "float": f, "str": f"of {g}", "id": f"row {first + i}"}
                | {"other int": g, "other str": f"of {g}"}
                for i, (g, f) in enumerate(zip(groups.tolist(), shares.tolist(), strict=True))
            ]
            collection.add(rows[:count], metadata=given)
        figures: Figures = {}
        for name, where in FILTERS.items():
            collection.count(where)
            taken = []
            for _ in range(sized(9, 1)):
                start = time.process_time()
                figures[f"{name}, rows"] = collection.count(where)
                taken.append(time.process_time() - start)
            figures[f"{name}, cpu ms"] = 1e3 * float(np.median(taken))
    figures["declared_ms"] = max(
        value for name, value in figures.items() if name.startswith("declared") and "ms" in name
    )
    return figures


FILTERS: dict[str, dict[str, Any]] = {
    "declared int": {"int": GROUP},
    "declared int, range": {"int": {"gte": N_GROUPS - 1}},
    "declared float, range": {"float": {"lt": 1 / N_GROUPS}},
    "declared str": {"str": f"of {GROUP}"},
    "declared str, part": {"str": {"contains": f"f {N_GROUPS // 3}"}},
    "part of a str that differs in every row": {"id": {"contains": "9999"}},
    "other int": {"other int": GROUP},
    "other str": {"other str": f"of {GROUP}"},
}


def speed(folder: Path, n: int) -> None:
    """Compare a collection with its goals."""
    data, place = folder / "data", folder / "store"
    data.mkdir()
    place.mkdir()
    write_rows(data, n)

    def tell(question: str, figures: Figures, **goals: float) -> None:
        met = {}
        for key, goal in goals.items():
            higher = key.endswith("_per_second")
            met[key] = bool(figures[key] >= goal if higher else figures[key] < goal)
        report(
            question, rows=n, features=N_FEATURES, bits=N_BITS, **figures, goals=goals, met=met,
            load=os.getloadavg()[0],
        )  # fmt: skip

    added = apart(fill_speed, data, place, n)
    tell("adding", added, adds_per_second=40_000, lone_adds_per_second=500)
    opened = apart(open_speed, data, place, n)
    goals = {"memory_bytes_per_row": 80, "memory_bytes_per_row_searched": 80}
    tell("opening with a checkpoint", opened, open_ms=2_000, **goals)
    found = apart(search_speed, data, place, n)
    tell("searching", found, search_ms=10, count_ms=5)
    tell("filters", apart(filter_speed, data, place, n), declared_ms=5)
    for path in (place / "large").glob("checkpoint*"):
        path.unlink()
    opened = apart(open_speed, data, place, n)
    tell("opening without a checkpoint", opened, open_ms=15_000, **goals)
    shutil.rmtree(data)
    shutil.rmtree(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="[default: all]")
    parser.add_argument("--rows", type=int, default=None, help="of every part")
    parser.add_argument("--without", nargs="*", default=[], help="stores, by a part of their name")
    parser.add_argument("--folder", type=Path, default=None, help="for the stores [default: /tmp]")
    given = parser.parse_args()
    report_machine(processors=os.cpu_count(), load=os.getloadavg()[0])
    for part in given.parts or PARTS:
        with tempfile.TemporaryDirectory(prefix="bitkin-bench-", dir=given.folder) as made:
            if part == "speed":
                speed(Path(made), given.rows or SPEED_ROWS)
            else:
                rivals(Path(made), given.rows or RIVAL_ROWS, given.without)


if __name__ == "__main__":
    main()
