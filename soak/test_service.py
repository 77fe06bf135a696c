"""A service under mixed load: its memory stays, nothing fails, and `kill -9` takes no write that it
acknowledged. And under requests that are bent, or made from what it says of itself.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median

import numpy as np
import pytest

import bitkin
from bitkin.service import running
from tests.service.hostile.attacking import attack, describe
from tests.service.hostile.documented import Documented
from tests.service.hostile.kinds import KINDS, new_app
from tests.service.mixed_load import D, LoadThread, Searcher, Writer, rows_of
from tests.service.process import Served, served

_STEADY_SECONDS, _KILLED_SECONDS = 480.0, 120.0
_BENT, _EXAMPLES = 2000, 40  # requests to each kind of collection; to each operation of it
_N_WRITERS, _N_SEARCHERS = 2, 2
_MB = 1 << 20
_GROWTH = 1.1
_ALLOWANCE = 16 * _MB  # of what allocators keep


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).standard_normal((2000, D)).astype(np.float32)
    hasher = bitkin.ProjectionHash(64, random_state=0).fit(X)
    path = tmp_path / "rows"
    bitkin.Collection.create(path, hasher, fields={"year": int}).close()
    return path


def test_mixed_load_leaves_memory_as_it_is_and_every_acknowledged_write_in_place(
    folder: Path, share: float
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    pick, statuses = random.Random(seed), Counter[str]()
    writers = [Writer(i, _N_WRITERS, seed + i) for i in range(_N_WRITERS)]
    n_kills = n_inside = n_unsaid = n_written = 0
    until = time.monotonic() + (_STEADY_SECONDS + _KILLED_SECONDS) * share
    while n_kills < 2 or time.monotonic() < until:
        with _serve(folder) as service:
            if n_kills:
                n_unsaid += _settle(writers, service)
            # as new threads, which know what was acknowledged before
            writers = [one.again(seed + 100 * n_kills + one.number) for one in writers]
            threads = _begin(service, writers, seed + n_kills)
            if n_kills:
                time.sleep(pick.uniform(0.2, 2.0))
            else:
                _require_flat(_watch(service, threads, _STEADY_SECONDS * share))
            for thread in threads:
                assert thread.is_alive(), f"{thread.name} ended by itself: {thread.fault!r}"
            service.process.kill()
            service.process.wait()
            _end(threads, statuses)
        n_kills += 1
        n_inside += sum(writer.after is not None for writer in writers)
        n_written += sum(writer.n_acknowledged for writer in writers)
    with _serve(folder) as service:
        n_unsaid += _settle(writers, service)
        assert service.end(signal.SIGTERM) == (0, "")
    with bitkin.Collection.open(folder) as collection:
        collection.verify()
        assert len(collection) == sum(len(writer.rows) for writer in writers)
        print(
            f"{n_kills} kills; {n_written} writes acknowledged, all of them there each time; of "
            f"{n_inside} that were under way {n_unsaid} were done; {len(collection)} rows at last"
        )
    print(f"{statuses.total()} requests, no error: {dict(sorted(statuses.items()))}")


def _serve(folder: Path) -> AbstractContextManager[Served]:
    return served("serve", folder, "--log", "none")


def _begin(service: Served, writers: Iterable[Writer], seed: int) -> list[LoadThread]:
    searchers = [Searcher(i, seed + 1000 + i) for i in range(_N_SEARCHERS)]
    threads: list[LoadThread] = [*writers, *searchers]
    for thread in threads:
        thread.begin(service.url)
    return threads


def _end(threads: list[LoadThread], statuses: Counter[str]) -> None:
    for thread in threads:
        thread.join()
        statuses.update(thread.statuses)
        if thread.fault is not None:
            raise AssertionError(f"{thread.name} failed") from thread.fault


def _settle(writers: list[Writer], service: Served) -> int:
    """Require what was acknowledged, and return how many last writes were done without a word."""
    found = rows_of(service)
    n_unsaid = sum(writer.settle(found) for writer in writers)
    assert len(found) == sum(len(writer.rows) for writer in writers)
    return n_unsaid


def _watch(service: Served, threads: list[LoadThread], seconds: float) -> list[tuple[int, int]]:
    """Return the bytes that a service has of its own and in all, while the load goes on."""
    seen = []
    until = time.monotonic() + seconds
    while time.monotonic() < until and all(thread.is_alive() for thread in threads):
        time.sleep(min(1.0, seconds / 20))
        seen.append((service.bytes_of("RssAnon"), service.bytes_of("VmRSS")))
    return seen


def _require_flat(seen: list[tuple[int, int]]) -> None:
    """Fail where a service has more memory at the end than in the middle."""
    n = len(seen)
    own = [one for one, _ in seen]
    middle, end = median(own[n // 3 : n // 2]), median(own[-n // 6 :])
    marks = [seen[0], seen[n // 2], seen[-1]]
    told = ", ".join(f"{one / _MB:.0f} ({both / _MB:.0f})" for one, both in marks)
    print(f"MB of its own (and in all) at start, middle and end: {told}; most {max(own) / _MB:.0f}")
    assert end <= _GROWTH * middle + _ALLOWANCE, (middle, end)


@pytest.mark.filterwarnings("ignore:n_bits=.* is more than the:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_bent_requests_are_no_faults_and_leave_what_was_accepted(
    tmp_path: Path, share: float, kind: str
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    statuses = attack(kind, tmp_path, n_requests=max(100, round(_BENT * share)), seed=seed)
    print(f"{kind}: {describe(statuses)}")


@pytest.mark.filterwarnings("ignore:n_bits=.* is more than the:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_the_service_does_what_its_description_says_however_it_is_asked(
    tmp_path: Path, share: float, kind: str
) -> None:
    with running(new_app(kind, tmp_path)) as url:
        documented = Documented(url, kind)
        documented.attack(n_examples=max(2, round(_EXAMPLES * share)), same=False)
    print(f"{kind}: {dict(sorted(documented.statuses.items()))}")
