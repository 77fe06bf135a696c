"""An interrupt at any line of a write or a search: what was there stays right, and everything works
afterwards.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin import Codes, EpochIndex, ProjectionHash
from bitkin.index.rows import segment
from bitkin.kernels.blocks import BLOCK
from tests import truth
from tests.epochs.epochs import turned
from tests.index.snapshots import KINDS
from tests.interruptions import (
    in_another_thread,
    interrupted_at,
    moments_of,
    require_nothing_left_behind,
)
from tests.truth import random_codes

pytestmark = pytest.mark.usefixtures("few_threads", "always_cut")

_RNG = np.random.default_rng(7)
_FIRST, _MORE, _LAST = (random_codes(_RNG, n, 40) for n in (700, 3 * BLOCK + 5, 2 * BLOCK))
_QUERIES = random_codes(_RNG, 9, 40)
_X = turned(200, 13, 3)


@pytest.fixture(autouse=True)
def several_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let even a small write be cut into pieces for the pool."""
    monkeypatch.setattr(segment, "ROWS_PER_PIECE", BLOCK)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    bitkin.set_threads(3)
    yield
    signal.signal(signal.SIGINT, before)


def _started(name: str) -> Any:
    index = getattr(bitkin, name)(_FIRST.spec, **KINDS[name].settings)
    index.add(_FIRST)
    return index


def _rows_of(index: Any) -> tuple[list[int], bytes]:
    ids = index.ids
    return ids.tolist(), index.codes(ids).words.tobytes()


_WRITES: dict[str, Callable[[Any], Any]] = {
    "add": lambda index: index.add(_MORE),
    "add with ids": lambda index: index.add(_MORE, np.arange(5000, 5000 + len(_MORE))),
    "upsert": lambda index: index.upsert(_MORE, np.arange(100, 100 + len(_MORE))),
    "remove": lambda index: index.remove(np.arange(0, 600, 2)),
    "remove most": lambda index: index.remove(np.arange(650)),
    "compact": lambda index: index.compact(),
}


@pytest.mark.parametrize("write", _WRITES)
@pytest.mark.parametrize("name", KINDS)
def test_an_interrupted_write_happened_or_did_not(name: str, write: str) -> None:
    act = _WRITES[write]
    index = _started(name)
    before = _rows_of(index)
    moments = moments_of(act, index)
    after = _rows_of(index)
    outcomes = set()
    for moment in moments:
        index = _started(name)
        interrupted = interrupted_at(moment, act, index)
        require_nothing_left_behind()
        happened = _rows_of(index)
        assert happened in (before, after)
        assert interrupted or happened == after
        outcomes.add((interrupted, happened == after))
        # What another thread writes next is kept, whatever was under way.
        new = in_another_thread(index.add, _LAST)
        assert index.codes(new) == _LAST
        kept = np.array(happened[0])
        assert index.codes(kept).words.tobytes() == happened[1]
        index.verify()
    assert before == after or (True, False) in outcomes, "some interrupts came in time"


@pytest.mark.parametrize("name", KINDS)
def test_an_interrupted_search_leaves_the_index_searchable(name: str) -> None:
    index = _started(name)
    ids = np.arange(len(_FIRST))
    expected = index.search(_QUERIES, 5)
    if KINDS[name].exact:
        assert np.array_equal(expected.ids, truth.nearest(_FIRST, ids, _QUERIES, 5)[0])
    for act in (
        lambda: index.search(_QUERIES, 5),
        lambda: index.search(_QUERIES, 5, allow=ids[::2]),
        lambda: index.search_radius(_QUERIES, 12),
    ):
        for moment in moments_of(act):
            interrupted_at(moment, act)
            require_nothing_left_behind()
        again = in_another_thread(lambda: index.search(_QUERIES, 5))
        assert np.array_equal(again.ids, expected.ids)
        assert np.array_equal(again.distances, expected.distances)


def _state_of(index: EpochIndex, hasher: Any) -> tuple[Any, ...]:
    codes = [epoch.rows.codes(epoch.rows.ids()).words.tobytes() for epoch in index._state.epochs]
    return index.ids.tolist(), index.epochs, codes, hasher.n_seen_, hasher.snapshot().fingerprint_


_EPOCH_WRITES: dict[str, Callable[[EpochIndex, Any], Any]] = {
    "add": lambda index, hasher: index.add(hasher.epoch_, _X[:40]),
    "remove": lambda index, hasher: index.remove(np.arange(0, 20)),
    "follow": lambda index, hasher: index.follow(hasher, _X[:30]),
    "retire": lambda index, hasher: index.retire(
        index.epochs[0], into=hasher.snapshot(), vectors=_X[:50]
    ),
}


def _started_epochs() -> tuple[EpochIndex, Any]:
    hasher = ProjectionHash(5, projection="opast", rotation="unifdiag", epochs="request").fit(_X)
    index = EpochIndex()
    index.add(hasher.epoch_, _X[:50])
    hasher.partial_fit(_X[50:60])
    return index, hasher


@pytest.mark.parametrize("write", _EPOCH_WRITES)
def test_an_interrupted_write_of_epochs_happened_or_did_not(write: str) -> None:
    act = _EPOCH_WRITES[write]
    index, hasher = _started_epochs()
    started = pickle.dumps((index, hasher))  # to read it takes a tenth of what to make it takes
    before = _state_of(index, hasher)
    moments = moments_of(act, index, hasher)
    after = _state_of(index, hasher)
    assert len(moments) > 100
    for moment in moments:
        index, hasher = pickle.loads(started)
        interrupted = interrupted_at(moment, act, index, hasher)
        require_nothing_left_behind()
        happened = _state_of(index, hasher)
        assert happened in (before, after)
        assert interrupted or happened == after
        n = len(index)
        in_another_thread(index.add, hasher.epoch_, _X[:3])
        assert len(index) == n + 3
        index.verify()


class _Reentrant:
    """Ids that, when they are read, write to the index they are for."""

    def __init__(self, write: Callable[[], Any], ids: npt.NDArray[np.int64]) -> None:
        self._write = write
        self._ids = ids

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[np.int64]:
        write, self._write = self._write, lambda: None
        write()
        return self._ids

    def __len__(self) -> int:
        return len(self._ids)


@pytest.mark.parametrize("name", KINDS)
def test_ids_that_write_when_they_are_read_lose_no_rows(name: str) -> None:
    index = _started(name)
    index.add(_MORE, _Reentrant(lambda: index.add(_LAST), np.arange(9000, 9000 + len(_MORE))))
    assert len(index) == len(_FIRST) + len(_LAST) + len(_MORE)
    assert index.codes(np.arange(700, 700 + len(_LAST))) == _LAST
    index.verify()


@pytest.mark.parametrize("name", KINDS)
def test_ids_that_are_taken_while_they_are_read_are_refused(name: str) -> None:
    index = _started(name)
    wanted = np.arange(9000, 9000 + len(_LAST))
    with pytest.raises(bitkin.errors.DuplicateIdError, match="already in the index"):
        index.add(_LAST, _Reentrant(lambda: index.add(_LAST, wanted), wanted))
    assert len(index) == len(_FIRST) + len(_LAST)
    index.verify()


def test_a_signal_handler_that_writes_to_the_index_being_written_is_refused() -> None:
    index = _started("FlatIndex")
    refused: list[str] = []

    def write(number: int, frame: Any) -> None:
        try:
            index.add(_LAST)
        except bitkin.errors.InvalidInputError as error:
            refused.append(str(error))

    moments = moments_of(_started("FlatIndex").add, _MORE)[::10]
    before = signal.signal(signal.SIGINT, write)
    n_sent, n = 0, len(index)
    try:
        for moment in moments:
            n_sent += interrupted_at(moment, index.add, _MORE) is False
    finally:
        signal.signal(signal.SIGINT, before)
    assert "must not begin inside another one" in refused[0]
    assert len(index) == n + len(moments) * len(_MORE) + (n_sent - len(refused)) * len(_LAST)
    index.verify()


def test_codes_added_after_an_interrupt_are_theirs() -> None:
    words: list[Codes] = []
    index = _started("FlatIndex")
    for moment in moments_of(_started("FlatIndex").add, _MORE):
        interrupted_at(moment, index.add, _MORE)
        ids = index.add(_LAST)
        words.append(index.codes(ids))
    assert all(codes == _LAST for codes in words)
