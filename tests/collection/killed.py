"""A collection in a folder under kills, and beside a writer: what is done to it can be made again
from a seed, so that the parent of a killed process knows what must be there.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import Collection, ProjectionHash
from tests.collection.model import rows_like
from tests.truth import exact_distances, symbol_distances

D = 16
# What float16 keeps exactly.
POOL = rows_like(4001, D).astype(np.float16).astype(np.float32)
QUERIES = rows_like(3, D, seed=1)
HASHER = ProjectionHash(40, rotation="random", projection="random", random_state=0).fit(POOL)
FIELDS = {"year": int}
_MOST_ROWS = 12_000
# Another hasher, which takes over and gives way in turn.
OTHER = ProjectionHash(24, rotation="random", projection="random", random_state=1).fit(POOL)
_HASHERS = {one.fingerprint_: one for one in (HASHER, OTHER)}
_KINDS = ["add", "add", "upsert", "remove", "metadata", "compact", "checkpoint", "backup"]
_KINDS += ["replace_hasher", "reencode"]
_PATIENCE = 120.0  # seconds: only what hangs takes so long


class Row(NamedTuple):
    """What is known of a row."""

    place: int
    """Of its vector in the pool."""
    metadata: dict[str, Any]


Rows = dict[Any, Row]


class Operation(NamedTuple):
    """One call: what it changes, by id."""

    kind: str
    ids: list[Any]
    places: list[int]
    metadata: list[dict[str, Any]]

    def after(self, rows: Rows) -> Rows:
        """Return what rows become."""
        changed = dict(rows)
        if self.kind in ("add", "upsert"):
            for name, place, one in zip(self.ids, self.places, self.metadata, strict=True):
                changed[name] = Row(place, one)
        elif self.kind == "remove":
            for name in self.ids:
                del changed[name]
        elif self.kind == "metadata":
            for name, one in zip(self.ids, self.metadata, strict=True):
                place, before = changed[name]
                merged = {**before, **one}
                changed[name] = Row(place, {k: v for k, v in merged.items() if v is not None})
        return changed

    def run(self, collection: Collection, backup: Path) -> None:
        """Make the call."""
        if self.kind in ("add", "upsert"):
            put = collection.add if self.kind == "add" else collection.upsert
            put(POOL[self.places], ids=self.ids, metadata=self.metadata)
        elif self.kind == "remove":
            collection.remove(self.ids)
        elif self.kind == "metadata":
            collection.update_metadata(self.ids, self.metadata)
        elif self.kind == "backup":
            collection.backup(backup)
        elif self.kind == "replace_hasher":
            now = collection.hasher.fingerprint_
            collection.replace_hasher(OTHER if now == HASHER.fingerprint_ else HASHER)
        elif self.kind == "reencode":
            collection.reencode(batch_rows=500)
        else:
            getattr(collection, self.kind)()


def operation(seed: int, number: int, rows: Rows, id_kind: str) -> Operation:
    """Return the call of that number, for a collection that has these rows."""
    rng = np.random.default_rng([seed, number])
    kind = str(rng.choice(_KINDS))
    if len(rows) > _MOST_ROWS:
        kind = "remove"
    elif not rows and kind in ("remove", "metadata"):
        kind = "add"
    n = int(rng.choice([1, 2, 65, int(rng.integers(1, 3001)), 3000]))
    names: list[Any] = []
    if kind == "add":
        first = int(rng.integers(0, 2**40)) * 4096  # never twice
        names = list(range(first, first + n))
    elif kind == "upsert":
        names = rng.permutation(6000)[:n].tolist()
    if id_kind == "str":
        names = [f"'ä{name}" for name in names]
    if kind in ("remove", "metadata"):
        there = list(rows)
        names = [there[i] for i in rng.permutation(len(there))[: n if len(there) < 9000 else 3000]]
    metadata: list[dict[str, Any]] = [
        {"year": int(year), "note": f"{number} {year}", "deep": {"by": [number]}}
        for year in rng.integers(1900, 1930, len(names))
    ]
    for one in metadata[::3]:
        del one["year"]
    if kind == "metadata":
        metadata = [{**one, "deep": None} for one in metadata]
    places = rng.integers(0, len(POOL), len(names)).tolist()
    return Operation(kind, names, places, metadata)


def new_folder(path: Path, id_kind: str) -> Path:
    """Make a collection without rows."""
    Collection.create(path, HASHER, vectors="float16", ids=id_kind, fields=FIELDS).close()
    return path


class Killer:
    """Runs operations in a process of their own, and kills it within one.

    Parameters
    ----------
    folder : path
        The collection, which nobody has open.
    id_kind : {"int", "str"}
    seed : int
        Of operations and of moments.
    """

    def __init__(self, folder: Path, id_kind: str, seed: int) -> None:
        self.folder = folder
        self.rows: Rows = {}
        self.n_kills = self.n_inside = self.n_kept = 0
        self.by_kind: dict[str, int] = {}
        """Kills inside an operation."""
        self._id_kind = id_kind
        self._seed = seed
        self._random = random.Random(seed)
        self._number = 0
        # Seconds within which a kill of an operation of that kind and size comes.
        self._usual: dict[tuple[str, int], float] = {}

    def kill_once(self) -> None:
        """Start a process on the folder, let it do some operations, kill it in the next, and see
        what it left.
        """
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._work(writing)
        os.close(writing)
        try:
            with os.fdopen(reading, "rb", buffering=0) as pipe:
                under_way = self._watch(child, pipe)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self.n_kills += 1
        if under_way is not None:
            self.n_inside += 1
            self.by_kind[under_way.kind] = self.by_kind.get(under_way.kind, 0) + 1
        self.check(under_way)
        self._number += 1  # what was under way is not done again

    def _work(self, pipe: int) -> None:
        """Do operations for ever: the child's part."""
        try:
            rows, number = self.rows, self._number
            collection = Collection.open(self.folder)
            while True:
                act = operation(self._seed, number, rows, self._id_kind)
                rows = act.after(rows)
                backup = self._backup(number)
                os.write(pipe, b"i%d\n" % number)
                act.run(collection, backup)
                os.write(pipe, b"a%d\n" % number)
                number += 1
        except BaseException:  # noqa: BLE001  # told to the parent
            os.write(pipe, b"e" + traceback.format_exc().replace("\n", "\t").encode() + b"\n")
        finally:
            os._exit(1)

    def _watch(self, child: int, pipe: Any) -> Operation | None:
        """Take note of what is acknowledged, kill, and return what was under way by then."""
        left = self._random.choice((0, 0, 1, 1, 2, 3))
        act: Operation | None = None
        killed: tuple[str, int] | None = None
        began, first = time.monotonic(), self._number
        if self._random.random() < 0.04:  # while it opens the folder
            time.sleep(self._random.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
            left = -1
        for line in _lines(pipe):
            assert line[:1] != b"e", line[1:].decode().replace("\t", "\n")
            assert int(line[1:]) == self._number
            if line[:1] == b"i":
                began = time.monotonic()
                act = operation(self._seed, self._number, self.rows, self._id_kind)
                usual = (act.kind, max(len(act.ids), len(self.rows) // 8).bit_length())
                if left == 0:
                    limit = self._usual.setdefault(usual, 0.001)
                    wait = began + self._random.uniform(0, limit) - time.monotonic()
                    time.sleep(max(0.0, wait))
                    os.kill(child, signal.SIGKILL)
                    killed = usual
                left -= 1
            else:
                assert act is not None
                self.rows = act.after(self.rows)
                if act.kind == "backup":
                    self._check_backup(self._number)
                if killed is None:
                    self._usual[usual] = 0.8 * (time.monotonic() - began)
                act = None
                self._number += 1
        assert left < 0, f"the child ended by itself after operation {first}"
        if killed is not None:  # nine of ten are to come in time
            self._usual[killed] *= 0.7 if act is None else 1.03
        return act

    def check(self, under_way: Operation | None) -> None:
        """Fail unless the folder holds what was acknowledged, or one whole operation more."""
        # A process that only reads leaves the folder to the next child as it is.
        with Collection.open(self.folder, read_only=self._random.random() < 0.5) as collection:
            found = _found_rows(collection)
            if under_way is not None:
                after = under_way.after(self.rows)
                if _is_same(found, after) and not _is_same(found, self.rows):
                    self.rows = after
                    self.n_kept += 1
            require_rows(collection, self.rows)
        self._check_backup(self._number)

    def _backup(self, number: int) -> Path:
        return self.folder.with_name(f"backup {number}")

    def _check_backup(self, number: int) -> None:
        """A backup that is there is whole; what is left of another one does not bear its name."""
        path = self._backup(number)
        if path.exists():
            with Collection.open(path, read_only=self._random.random() < 0.5) as collection:
                require_rows(collection, self.rows)
            shutil.rmtree(path)
        for aside in path.parent.glob(f".{path.name}.*.tmp"):
            shutil.rmtree(aside)


def _lines(pipe: Any) -> Iterator[bytes]:
    """Yield what was written, line by line, as soon as it is there."""
    rest = b""
    while some := pipe.read(65536):
        *whole, rest = (rest + some).split(b"\n")
        yield from whole


def _found_rows(collection: Collection) -> dict[Any, tuple[bytes, dict[str, Any]]]:
    records = collection.get()
    assert records.metadata is not None
    vectors = np.asarray(records.vectors, dtype=np.float32)
    return {
        name: (vector.tobytes(), metadata)
        for name, vector, metadata in zip(
            records.ids.tolist(), vectors, records.metadata, strict=True
        )
    }


def _is_same(found: dict[Any, tuple[bytes, dict[str, Any]]], rows: Rows) -> bool:
    return found.keys() == rows.keys() and all(
        found[name] == (POOL[place].tobytes(), metadata) for name, (place, metadata) in rows.items()
    )


def require_rows(collection: Collection, rows: Rows) -> None:
    """Fail unless a collection has these rows, is sound, and finds what is nearest."""
    found = _found_rows(collection)
    assert found.keys() == rows.keys(), f"{len(found)} rows, not {len(rows)}"
    assert _is_same(found, rows)
    assert len(collection) == len(rows)
    collection.verify()
    conditions: list[tuple[Any, Callable[[dict[str, Any]], bool]]] = [
        (None, lambda one: True),
        ({"year": {"gte": 1920}}, lambda one: one.get("year", 0) >= 1920),
        ({"note": {"contains": "7"}, "year": {"lt": 1915}}, _is_old_with_a_seven),
    ]
    for where, holds in conditions:
        names = [name for name, row in rows.items() if holds(row.metadata)]
        assert collection.count(where) == len(names)
        X = POOL[[rows[name].place for name in names]]
        live = [one.fingerprint for one in collection.epochs if one.n_rows]
        # codes of two hashers, left by one that was killed while it took over, do not compare
        for stage in ("codes", "exact") if len(live) == 1 else ("exact",):
            hits = collection.search(QUERIES, 7, stage=stage, where=where, oversample=_MOST_ROWS)
            if stage == "codes":
                hasher = _HASHERS[live[0]]
                truth: Any = symbol_distances(hasher.encode(QUERIES), hasher.encode(X))
            else:
                truth = exact_distances(QUERIES, X, "l2")
            _require_nearest(hits, names, truth, rows)


def _is_old_with_a_seven(one: dict[str, Any]) -> bool:
    return "7" in one["note"] and "year" in one and one["year"] < 1915


def _require_nearest(hits: Any, names: list[Any], truth: npt.NDArray[Any], rows: Rows) -> None:
    place = {name: i for i, name in enumerate(names)}
    for q, found in enumerate(hits):
        nearest = np.sort(truth[q])[:7]
        np.testing.assert_allclose([hit.distance for hit in found], nearest, rtol=1e-6, atol=1e-6)
        assert len({hit.id for hit in found}) == len(found)
        for i, hit in enumerate(found):
            np.testing.assert_allclose(hit.distance, truth[q, place[hit.id]], rtol=1e-6, atol=1e-6)
            assert hits.metadata[q][i] == rows[hit.id].metadata


# Beside a writer.
#
# Rows come in groups. Every write is one call on one whole group and has a number, which its rows
# carry as "batch"; a vector follows from id and "version".

_GROUP, _N_GROUPS = 50, 40


def _vectors_of(names: npt.NDArray[np.int64], version: int) -> npt.NDArray[np.float32]:
    return POOL[(names * 31 + version * 977) % len(POOL)]


class Board:
    """What the writer tells readers in all processes: by group, the number of the last write that
    was acknowledged, and of the last removal that was announced.
    """

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.acknowledged: Any = context.RawArray("q", _N_GROUPS)
        self.removed: Any = context.RawArray("q", _N_GROUPS)
        self.n_ready: Any = context.Value("i", 0)
        """Readers that have their kernels compiled."""
        self.writing: Any = context.RawValue("i", 0)
        self.stopped: Any = context.RawValue("i", 0)


class Latencies(NamedTuple):
    """Seconds of searches without and with a writer beside them."""

    alone: list[float]
    beside: list[float]

    def describe(self, who: str) -> str:
        """Return the median and the 99th percentile in words."""
        parts = []
        for name, some in (("without", self.alone), ("with", self.beside)):
            p50, p99 = np.percentile(some, [50, 99]) * 1e3
            parts.append(f"{name} the writer p50 {p50:.2f} p99 {p99:.2f} ms of {len(some)}")
        return f"{who}: " + ", ".join(parts)


def read_beside(collection: Collection, board: Board, seed: int) -> Latencies:
    """Search until the board says stop; fail at the first answer that no state can give."""
    rng = np.random.default_rng(seed)
    times = Latencies([], [])
    collection.search(QUERIES, 10, where={"group": 0}, oversample=1000)
    with board.n_ready.get_lock():
        board.n_ready.value += 1
    while not board.stopped.value:
        group = int(rng.integers(0, _N_GROUPS))
        since, kind = board.acknowledged[group], int(rng.integers(0, 6))
        query = rng.standard_normal((1, D), dtype=np.float32)
        where = {"group": group}
        if kind < 3:
            beside = board.writing.value
            began = time.perf_counter()
            hits = collection.search(query, 10)
            took = time.perf_counter() - began
            if beside == board.writing.value:
                (times.beside if beside else times.alone).append(took)
            _require_no_tear(query, hits)
        elif kind == 3:
            hits = collection.search(query, _GROUP + 1, where=where, oversample=1000)
            _require_no_tear(query, hits)
            assert hits.metadata is not None
            found = [one for one in hits.metadata[0] if one is not None]
            _require_whole(found, board, group, since)
        elif kind == 4:
            records = collection.get(where=where)
            assert records.metadata is not None
            _require_whole(records.metadata, board, group, since)
            if len(records.ids):
                version = records.metadata[0]["version"]
                assert np.array_equal(records.vectors, _vectors_of(records.ids, version)), "torn"
        else:
            assert collection.count() % _GROUP == 0, "half of a call"
            assert collection.count({"batch": {"gte": 0}}) % _GROUP == 0, "half of a call"
            n_there = collection.count(where)
            assert n_there in (0, _GROUP), "half of a call"
            assert n_there or board.removed[group] >= since, "an acknowledged write is not seen"
        time.sleep(0.002)
    return times


def _require_no_tear(query: npt.NDArray[np.float32], hits: Any) -> None:
    for i, hit in enumerate(hits[0]):
        vector = _vectors_of(np.array([hit.id]), hits.metadata[0][i]["version"])
        wanted = exact_distances(query, vector, "l2")[0, 0]
        np.testing.assert_allclose(hit.distance, wanted, rtol=1e-6)


def _require_whole(found: list[dict[str, Any]], board: Board, group: int, since: int) -> None:
    """Fail unless all rows of a group are there as one call left them, no older than `since`."""
    if not found:
        assert board.removed[group] >= since, "an acknowledged write is not seen"
        return
    assert len(found) == _GROUP, f"{len(found)} rows of {_GROUP} that one call wrote"
    assert len({(one["batch"], one["version"]) for one in found}) == 1, "half of a call"
    assert found[0]["batch"] >= since, "an acknowledged write is not seen"


def write_beside(collection: Collection, board: Board, seconds: float, aside: Path) -> int:
    """Write for so long, and return how many writes there were."""
    rng = np.random.default_rng(0)
    end, number = time.monotonic() + seconds, 0
    there = set(range(_N_GROUPS))
    while time.monotonic() < end:
        number += 1
        group, kind = int(rng.integers(0, _N_GROUPS)), int(rng.integers(0, 200))
        names = np.arange(group * _GROUP, (group + 1) * _GROUP)
        if kind == 0:
            collection.compact()
        elif kind == 1:
            collection.checkpoint()
        elif kind == 2:
            shutil.rmtree(collection.backup(aside / f"{number}"))
        elif kind < 30 and group in there:
            board.removed[group] = number
            collection.remove(names)
            there.discard(group)
        elif kind < 80 and group in there:
            collection.update_metadata(names, {"batch": number})
        else:
            metadata = {"group": group, "version": number, "batch": number}
            put = collection.upsert if group in there else collection.add
            put(_vectors_of(names, number), ids=names, metadata=[metadata] * _GROUP)
            there.add(group)
        if kind >= 3:
            board.acknowledged[group] = number
    return number


def _read_in_process(folder: Path, board: Board, seed: int, answer: Any) -> None:
    try:
        with Collection.open(folder, read_only=True) as collection:
            answer.send(read_beside(collection, board, seed))
    except BaseException:  # noqa: BLE001  # told to the parent
        answer.send(traceback.format_exc())


def read_and_write(folder: Path, n_threads: int, n_processes: int, seconds: float) -> list[str]:
    """Let threads and processes read, for a quarter of the time without a writer, then with one.

    Fails where any answer is one that no state between call and return gives. Returns latencies in
    words.
    """
    fields = {"group": int, "batch": int}
    Collection.create(folder, HASHER, vectors="float16", fields=fields).close()
    aside = folder.with_name("backups")
    board, context = Board(), multiprocessing.get_context("fork")
    answers, processes = [], []
    for seed in range(n_processes):
        here, there = context.Pipe(duplex=False)
        arguments = (folder, board, 100 + seed, there)
        processes.append(context.Process(target=_read_in_process, args=arguments))
        answers.append(here)
    with Collection.open(folder) as collection:
        _fill(collection)
    for process in processes:
        process.start()
    done: list[Any] = []
    with Collection.open(folder) as collection:

        def read(seed: int) -> None:
            try:
                done.append(read_beside(collection, board, seed))
            except BaseException:  # noqa: BLE001  # told to the main thread
                done.append(traceback.format_exc())

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(n_threads)]
        for thread in threads:
            thread.start()
        try:
            end = time.monotonic() + _PATIENCE
            while board.n_ready.value < n_threads + n_processes and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(seconds / 4)
            board.writing.value = 1
            n_writes = write_beside(collection, board, seconds, aside)
        finally:
            board.stopped.value = 1
            for thread in threads:
                thread.join()
        told: list[Any] = [
            one.recv() if one.poll(_PATIENCE) else "a process hangs" for one in answers
        ]
        for process in processes:
            process.join(_PATIENCE)
        for one in [*done, *told]:
            assert not isinstance(one, str), one
        collection.verify()
    return [
        f"{n_writes} writes in {seconds:.0f} s",
        _joined(done).describe(f"{n_threads} threads"),
        _joined(told).describe(f"{n_processes} processes"),
    ]


def _fill(collection: Collection) -> None:
    """Give every group rows of write 0."""
    for group in range(_N_GROUPS):
        names = np.arange(group * _GROUP, (group + 1) * _GROUP)
        metadata = {"group": group, "version": 0, "batch": 0}
        collection.add(_vectors_of(names, 0), ids=names, metadata=[metadata] * _GROUP)


def _joined(some: list[Latencies]) -> Latencies:
    return Latencies(
        [seconds for one in some for seconds in one.alone],
        [seconds for one in some for seconds in one.beside],
    )
