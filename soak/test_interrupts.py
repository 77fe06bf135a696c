"""Interrupts at random moments, and searches where threads cannot be started."""

from __future__ import annotations

import faulthandler
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin import Codes, Collection, ProjectionHash
from bitkin.collection import changes
from bitkin.index import scan_parts
from bitkin.index.rows import segment
from bitkin.kernels.blocks import BLOCK
from tests import truth
from tests.index.snapshots import KINDS
from tests.interruptions import in_another_thread, require_nothing_left_behind
from tests.truth import random_codes

_INTERRUPTS = 100_000
_LONGEST = 900  # seconds without an end: only what hangs takes so long


class Interruption(BaseException):
    """What the handler of our timer raises."""


class Timer:
    """Interrupts whatever runs in `during`, after a random time of about as long as that takes."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._armed = False
        self._usual = 1e-3
        self.n_interrupts = 0

    def _fire(self, number: int, frame: Any) -> None:
        if self._armed:
            self._armed = False
            self.n_interrupts += 1
            raise Interruption

    def during(self, act: Callable[[], Any]) -> bool:
        """Run `act` under the timer; return whether it was interrupted."""
        try:
            self._armed = True
            signal.setitimer(signal.ITIMER_REAL, float(self._rng.uniform(1e-6, self._usual)))
            act()
            self._armed = False
        except Interruption:
            self._usual *= 1.02  # about half of all interrupts are to come in time
            return True
        finally:
            self._armed = False
        self._usual = max(2e-5, self._usual * 0.98)
        return False


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Timer]:
    """A timer whose signal is ours, with work cut small for three threads."""
    monkeypatch.setattr(scan_parts, "_WORDS_PER_PART", 1)
    monkeypatch.setattr(segment, "ROWS_PER_PIECE", BLOCK)
    monkeypatch.setattr(changes, "_FEW_DEAD_ROWS", 30)
    bitkin.set_threads(3)
    clock = Timer(seed=1)
    report = sys.unraisablehook

    def report_others(unraisable: sys.UnraisableHookArgs) -> None:
        # Python ignores, and says so, what a handler raises inside a weak reference's callback: no
        # caller is there.
        if not issubclass(unraisable.exc_type, Interruption):
            report(unraisable)

    monkeypatch.setattr(sys, "unraisablehook", report_others)
    before = signal.signal(signal.SIGALRM, clock._fire)
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.dump_traceback_later(_LONGEST, exit=True)
    yield clock
    faulthandler.cancel_dump_traceback_later()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    signal.signal(signal.SIGINT, interrupt)


def _check_index(
    index: Any, rows: dict[int, int], codes: Codes, queries: Codes, exact: bool
) -> None:
    ids = np.array(sorted(rows), dtype=np.int64)
    there = codes[np.array([rows[i] for i in ids.tolist()], dtype=np.int64)]
    assert np.array_equal(index.ids, ids)
    assert index.codes(ids) == there
    index.verify()
    require_nothing_left_behind()
    found = in_another_thread(lambda: index.search(queries, 5))
    if exact:
        assert np.array_equal(found.ids, truth.nearest(there, ids, queries, 5)[0])


@pytest.mark.parametrize("name", KINDS)
def test_interrupts_of_an_index_lose_nothing(name: str, share: float, timer: Timer) -> None:
    rng = np.random.default_rng(5)
    codes, queries = random_codes(rng, 4000, 40), random_codes(rng, 4, 40)
    index = getattr(bitkin, name)(codes.spec, **KINDS[name].settings)
    rows: dict[int, int] = {}
    n_acts = 0
    while timer.n_interrupts < _INTERRUPTS * share / 5:
        n_acts += 1
        some = rng.integers(0, len(codes), int(rng.integers(1, 1300)))
        kind, after = int(rng.integers(0, 4)), dict(rows)
        if kind == 0 and rows:
            gone = rng.choice(sorted(rows), min(len(rows), len(some)), replace=False)
            for number in gone.tolist():
                del after[number]
            act: Callable[[], Any] = partial(index.remove, gone)
        elif kind == 1 or len(rows) > 4000:
            ids = rng.permutation(5000)[: len(some)]
            if len(rows) > 4000:
                ids, some = rng.permutation(sorted(rows))[: len(some)], some[: len(rows)]
            after.update(zip(ids.tolist(), some.tolist(), strict=True))
            act = partial(index.upsert, codes[some], ids)
        elif kind == 2:
            act = partial(index.search, queries, 5)
        else:
            first = index.snapshot.next_id
            after.update(zip(range(first, first + len(some)), some.tolist(), strict=True))
            act = partial(index.add, codes[some])
        interrupted = timer.during(act)
        ids_now = index.ids.tolist()
        if not interrupted or (ids_now == sorted(after) and _agrees(index, after, codes)):
            rows = after
        else:
            assert ids_now == sorted(rows)
        if n_acts % 50 == 0 or len(rows) > 20_000:
            _check_index(index, rows, codes, queries, KINDS[name].exact)
        if len(rows) > 20_000:
            index.remove(np.array(sorted(rows)))
            rows = {}
    _check_index(index, rows, codes, queries, KINDS[name].exact)


def _agrees(index: Any, rows: dict[int, int], codes: Codes) -> bool:
    ids = np.array(sorted(rows), dtype=np.int64)
    there = codes[np.array([rows[i] for i in ids.tolist()], dtype=np.int64)]
    return bool(np.array_equal(index.codes(ids).words, there.words))


def test_interrupts_of_a_collection_lose_nothing(share: float, timer: Timer) -> None:
    rng = np.random.default_rng(6)
    X: npt.NDArray[np.float32] = rng.standard_normal((3000, 12), dtype=np.float32)
    hasher = ProjectionHash(12, rotation="random").fit(X)
    collection = Collection.create(None, hasher, ids="str")
    rows: dict[str, int] = {}
    n_acts = 0
    while timer.n_interrupts < _INTERRUPTS * share / 5:
        n_acts += 1
        some, after = rng.permutation(len(X))[: int(rng.integers(1, 700))], dict(rows)
        kind = int(rng.integers(0, 3))
        if kind == 0 and rows:
            gone = rng.choice(sorted(rows), min(len(rows), len(some)), replace=False).tolist()
            for name in gone:
                del after[name]
            act: Callable[[], Any] = partial(collection.remove, gone)
        elif kind == 1:
            act = partial(collection.search, X[some[:5]], 3)
        else:
            names = [f"{number}" for number in rng.permutation(2000)[: len(some)]]
            after.update(zip(names, some.tolist(), strict=True))
            act = partial(collection.upsert, X[some], ids=names)
        interrupted = timer.during(act)
        if not interrupted or _holds(collection, after, X):
            rows = after
        else:
            assert _holds(collection, rows, X)
        if n_acts % 100 == 0:
            assert _holds(collection, rows, X)
            collection.verify()
            require_nothing_left_behind()
    assert _holds(collection, rows, X)


def _holds(collection: Collection, rows: dict[str, int], X: npt.NDArray[np.float32]) -> bool:
    if set(collection.ids.tolist()) != set(rows):
        return False
    names = list(rows)
    return bool(np.array_equal(collection.get(names).vectors, X[[rows[name] for name in names]]))


def test_interrupts_of_a_stream_leave_a_model_between_two_vectors(
    share: float, timer: Timer
) -> None:
    rng = np.random.default_rng(7)
    X = rng.standard_normal((2000, 24), dtype=np.float32)

    def start() -> ProjectionHash:
        return ProjectionHash(8, projection="opast", rotation="unifdiag", epochs=300).fit(X[:100])

    truths, hasher = start(), start()
    while timer.n_interrupts < _INTERRUPTS * share / 5:
        if hasher.n_seen_ >= len(X):
            truths, hasher = start(), start()
        n = hasher.n_seen_
        interrupted = timer.during(partial(hasher.sketch, X[n]))
        assert hasher.n_seen_ in (n, n + 1)
        assert interrupted or hasher.n_seen_ == n + 1
        if hasher.n_seen_ > n:
            truths.sketch(X[n])
        if hasher.n_seen_ % 97 == 0:
            timer.during(partial(hasher.encode, X[:300]))
            assert in_another_thread(hasher.snapshot).fingerprint_ == truths.snapshot().fingerprint_
            require_nothing_left_behind()


_FEW_THREADS = """
import resource, sys, threading
import numpy as np
import bitkin
from bitkin import threads
from bitkin.index import scan_parts
scan_parts._WORDS_PER_PART = 1
rng = np.random.default_rng(0)
codes = bitkin.Codes.from_symbols(rng.integers(0, 2, (3000, 64)), 1)
index = bitkin.FlatIndex(codes.spec)
index.add(codes)
queries = codes[:200]
expected = index.search(queries, 3).ids
bitkin.set_threads(6)
wrong, answers, begin = [], [], threading.Event()
def ask():
    begin.wait()
    for _ in range(int(sys.argv[1])):
        answers.append(1)
        if not np.array_equal(index.search(queries, 3).ids, expected):
            wrong.append(1)
callers = [threading.Thread(target=ask) for _ in range(8)]
for caller in callers:
    caller.start()
# The limit leaves room for two such stacks: the third helper cannot be started.
threading.stack_size(1 << 30)
status = open("/proc/self/status")
held = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (held + (5 << 29), held + (5 << 29)))
begin.set()
for caller in callers:
    caller.join()
helpers = sum(thread.name.startswith("bitkin") for thread in threading.enumerate())
print(len(answers), len(wrong), helpers)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits the address space as Linux does"
)
def test_searches_where_threads_cannot_be_started_are_right(share: float) -> None:
    n = round(2000 * share)
    done = subprocess.run(
        [sys.executable, "-c", _FEW_THREADS, str(n)],
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST,
    )
    assert done.returncode == 0, done.stderr
    answers, wrong, helpers = map(int, done.stdout.split())
    assert (answers, wrong) == (8 * n, 0)
    assert 0 < helpers < 5, "some helpers could be started, not all"
