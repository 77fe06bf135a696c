"""An interrupt at any line of a collection's writes and searches, and vectors and ids that write
when they are read.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin import Collection, ProjectionHash
from bitkin.collection import changes
from bitkin.index.rows import segment
from bitkin.kernels.blocks import BLOCK
from tests.interruptions import (
    in_another_thread,
    interrupted_at,
    moments_of,
    require_nothing_left_behind,
)

pytestmark = pytest.mark.usefixtures("few_threads", "always_cut")

_X = np.random.default_rng(3).standard_normal((900, 12), dtype=np.float32)
_HASHER = ProjectionHash(8, rotation="random").fit(_X)
_KINDS = [("int", "flat"), ("str", "flat"), ("int", "multi"), ("int", "bands")]


@pytest.fixture(autouse=True)
def several_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let even a small write be cut into pieces for the pool, and removed rows be given up
    early.
    """
    monkeypatch.setattr(segment, "ROWS_PER_PIECE", BLOCK)
    monkeypatch.setattr(changes, "_FEW_DEAD_ROWS", 30)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    bitkin.set_threads(2)
    yield
    signal.signal(signal.SIGINT, before)


def _named(numbers: npt.NDArray[np.int64], ids: str) -> Any:
    return numbers if ids == "int" else [f"row {number}" for number in numbers]


def _started(ids: str, index: str) -> Collection:
    made = bitkin.BandIndex(_HASHER.spec_, band_bits=4) if index == "bands" else index
    collection = Collection.create(None, _HASHER, ids=ids, index=made)
    collection.add(_X[:100], ids=_named(np.arange(100), ids))
    return collection


def _rows_of(collection: Collection) -> tuple[list[Any], bytes, bytes]:
    ids = collection.ids
    kept = collection.get(ids)
    return ids.tolist(), kept.vectors.tobytes(), kept.codes.words.tobytes()


def _add_last(collection: Collection, new: Any) -> Any:
    return collection.add(_X[700:], ids=new)


def _writes(ids: str) -> dict[str, Callable[[Collection], Any]]:
    return {
        "add": lambda c: c.add(_X[100:700], ids=_named(np.arange(100, 700), ids)),
        "upsert": lambda c: c.upsert(_X[100:700], ids=_named(np.arange(50, 650), ids)),
        "remove": lambda c: c.remove(_named(np.arange(90), ids)),
    }


@pytest.mark.parametrize("write", ["add", "upsert", "remove"])
@pytest.mark.parametrize(("ids", "index"), _KINDS)
def test_an_interrupted_write_happened_or_did_not(ids: str, index: str, write: str) -> None:
    act = _writes(ids)[write]
    collection = _started(ids, index)
    before = _rows_of(collection)
    moments = moments_of(act, collection)
    after = _rows_of(collection)
    for moment in moments:
        collection = _started(ids, index)
        interrupted = interrupted_at(moment, act, collection)
        require_nothing_left_behind()
        happened = _rows_of(collection)
        assert happened in (before, after)
        assert interrupted or happened == after
        new = _named(np.arange(5000, 5200), ids)
        in_another_thread(_add_last, collection, new)
        assert np.array_equal(collection.get(new).vectors, _X[700:])
        assert collection.get(happened[0]).vectors.tobytes() == happened[1]
        collection.verify()


@pytest.mark.parametrize("stage", ["codes", "estimate", "exact"])
@pytest.mark.parametrize(("ids", "index"), _KINDS)
def test_an_interrupted_search_leaves_the_collection_searchable(
    ids: str, index: str, stage: str
) -> None:
    collection = _started(ids, index)

    def act() -> bitkin.Hits:
        return collection.search(_X[:7], 3, stage=stage)

    expected = act()
    moments = moments_of(act)
    for moment in moments:
        interrupted_at(moment, act)
        require_nothing_left_behind()
    again = in_another_thread(act)
    assert again.ids.tolist() == expected.ids.tolist()
    assert np.array_equal(again.distances, expected.distances)


class _WritingIds(list[Any]):
    """Ids that, when they are read, add to the collection they are for."""

    def __init__(self, ids: Any, write: Callable[[], Any]) -> None:
        super().__init__(ids)
        self._write = write

    def __iter__(self) -> Iterator[Any]:
        write, self._write = self._write, lambda: None
        write()
        return super().__iter__()


@pytest.mark.parametrize("replaces", [False, True])
def test_ids_that_write_when_they_are_read_lose_no_rows(replaces: bool) -> None:
    collection = _started("str", "flat")
    names = _named(np.arange(300, 500), "str")
    writing = _WritingIds(names, lambda: collection.add(_X[:3], ids=["x", "y", "z"]))
    (collection.upsert if replaces else collection.add)(_X[300:500], ids=writing)
    assert len(collection) == 303
    assert np.array_equal(collection.get(["x", "y", "z"]).vectors, _X[:3])
    assert np.array_equal(collection.get(names).vectors, _X[300:500])
    collection.verify()


def test_ids_taken_while_they_are_read_are_refused() -> None:
    collection = _started("str", "flat")
    writing = _WritingIds(["x", "y"], lambda: collection.add(_X[:2], ids=["x", "y"]))
    with pytest.raises(bitkin.errors.DuplicateIdError, match="already in the collection: 'x', 'y'"):
        collection.add(_X[5:7], ids=writing)
    assert np.array_equal(collection.get(["x", "y"]).vectors, _X[:2])
    assert len(collection) == 102


def test_vectors_that_write_when_they_are_read_lose_no_rows() -> None:
    collection = _started("int", "flat")

    def batches() -> Iterator[npt.NDArray[np.float32]]:
        yield _X[100:200]
        collection.add(_X[500:510])
        yield _X[200:300]

    ids = collection.add(batches())
    assert ids.tolist() == list(range(110, 310))
    assert np.array_equal(collection.get(np.arange(100, 110)).vectors, _X[500:510])
    assert np.array_equal(collection.get(ids).vectors, _X[100:300])
    collection.verify()
