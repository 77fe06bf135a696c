"""`EpochIndex.follow`: codes of a stream join their epochs as they are made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import bitkin
from bitkin import Codes, EpochIndex, ProjectionHash
from bitkin.errors import DuplicateIdError, InvalidInputError
from tests.hashers.streams.data import everything, live, turning

FIRST = turning(240, seed=8)[:120]  # before the turn; the drift is looked at when X is nearly over
X = turning(400)
Q = turning(14, seed=3)


def fitted(**options: Any) -> ProjectionHash:
    return live(**options).fit(FIRST)


def by_hand(hasher: ProjectionHash, metric: str = "l2", rows: Any = X) -> EpochIndex:
    """Sketch a vector at a time, and compute each correction by the snapshot that made the code."""
    index = EpochIndex(metric)
    snapshots: dict[str | None, ProjectionHash] = {}
    for x in rows:
        codes = hasher.sketch(x)
        # after the last vector of an epoch: the next
        snapshots.setdefault(hasher.epoch_.fingerprint_, hasher.epoch_)
        snapshot = snapshots[codes.fingerprint]
        index.begin(snapshot)
        index.add_codes(codes, bitkin.corrections(snapshot, x[None], metric))
    return index


def same(a: EpochIndex, b: EpochIndex) -> bool:
    mine, theirs = a.search(Q, 9), b.search(Q, 9)
    return (
        a.epochs == b.epochs
        and np.array_equal(a.ids, b.ids)
        and np.array_equal(mine.ids, theirs.ids)
        and np.allclose(mine.distances, theirs.distances, rtol=1e-4)
    )


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize(
    "options", [{"epochs": 90}, {"epochs": 0.05}, {"epochs": 70, "normalize": True}], ids=repr
)
def test_following_is_sketching_and_keeping_corrections(
    metric: str, options: dict[str, Any]
) -> None:
    index, hasher, other = EpochIndex(metric), fitted(**options), fitted(**options)
    rows = X
    if metric == "l2" and hasher.normalize:  # lengths must differ little
        lengths = np.linspace(1, 1.1, len(X))[:, None]
        rows = X * lengths / np.linalg.norm(X, axis=1, keepdims=True)
    ids = index.follow(hasher, rows)
    assert ids.tolist() == list(range(400))
    assert same(index, by_hand(other, metric, rows))
    assert len(index.epochs) > 1
    assert everything(hasher) == everything(other)
    index.verify()


@settings(max_examples=15)
@given(st.lists(st.integers(0, 400), max_size=6))
def test_any_cut_of_a_stream_gives_the_same_index_and_hasher(cuts: list[int]) -> None:
    whole, hasher = EpochIndex(), fitted(epochs=90)
    whole.follow(hasher, X)
    index, other = EpochIndex(), fitted(epochs=90)
    for part in np.split(X, sorted(cuts)):
        if len(part):
            index.follow(other, part)
    assert same(index, whole)
    assert everything(other) == everything(hasher)


@pytest.mark.parametrize("rotation", [None, "random", "unifdiag"])
def test_epochs_shorter_than_what_it_takes_to_learn_lose_no_row_beside_one_that_is_skipped(
    rotation: Any,
) -> None:
    rows = X[:60].copy()
    rows[20] = np.nan
    index = EpochIndex()
    hasher = fitted(projection="frequent-directions", rotation=rotation, epochs=7)
    with pytest.warns(UserWarning, match="skipped"):
        ids = index.follow(hasher, rows)
    assert ids.tolist() == list(range(60))
    assert (hasher.n_seen_, hasher.n_skipped_) == (179, 1)
    # nothing was learned meanwhile: one model made them all
    assert [epoch.n_rows for epoch in index.epochs] == [60]
    assert sorted(index.search(rows[:1], 60).ids[0].tolist()) == [-1, *range(20), *range(21, 60)]


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(lambda: csr_array(X), id="csr"),
        pytest.param(lambda: X.astype(np.float64), id="float64"),
        pytest.param(lambda: np.asfortranarray(X), id="fortran"),
        pytest.param(lambda: iter(X), id="vectors"),
        pytest.param(lambda: [X[:7], X[7:]], id="batches"),
        pytest.param(lambda: bitkin.io.open_vectors(X, batch_rows=33), id="source"),
    ],
)
def test_vectors_come_in_any_form(form: Callable[[], Any]) -> None:
    whole, index = EpochIndex(), EpochIndex()
    whole.follow(fitted(epochs=90), X)
    index.follow(fitted(epochs=90), form())
    assert same(index, whole)


def test_ids_may_be_given_and_other_rows_may_be_there() -> None:
    index = EpochIndex()
    hasher = live(epochs=90).fit(X[:100])
    first = index.add(hasher.epoch_, X[:5])
    given_ids = np.arange(50)[::-1] + 1000
    assert np.array_equal(index.follow(hasher, X[:50], given_ids), given_ids)
    assert index.follow(hasher, X[50:52]).tolist() == [1050, 1051]
    assert len(index.epochs) == 1
    assert len(index) == len(first) + 52
    found = index.search(X[:3], 2, oversample=100)
    assert {1049, 0} == set(found.ids[0].tolist())


def test_a_vector_that_is_not_finite_gets_an_id_and_is_never_found() -> None:
    rows = X.copy()
    rows[[0, 89, 90, 255]] = np.nan
    index, hasher = EpochIndex(), fitted(epochs=90)
    with pytest.warns(UserWarning, match="their ids are never found"):
        ids = index.follow(hasher, rows)
    assert len(index) == len(ids) == 400
    assert hasher.n_skipped_ == 4
    found = index.search(Q, 400, oversample=10)
    assert not {0, 89, 90, 255} & set(found.ids.ravel().tolist())
    assert (found.ids[:, 395] >= 0).all()
    before = everything(hasher)
    with pytest.raises(InvalidInputError, match="NaN at row 0"):
        index.follow(hasher, rows[:3], strict=True)
    assert everything(hasher) == before
    old = index.epochs[0]
    of_old = index.epoch_ids(old)
    for vectors in (rows[of_old], rows[of_old[1:]][:1]):
        with pytest.raises(
            InvalidInputError, match="no code; remove them first, by their ids: 0, "
        ):
            index.retire(old, into=hasher.epoch_, vectors=vectors)
    index.remove(of_old[np.isnan(rows[of_old]).any(axis=1)])
    index.retire(old, into=hasher.epoch_, vectors=rows[index.epoch_ids(old)])
    assert old.fingerprint not in [epoch.fingerprint for epoch in index.epochs]


def broken(rows: Any) -> Iterator[Any]:
    yield rows[:200]
    raise OSError("the stream broke")


@pytest.mark.parametrize(
    "call, error, message",
    [
        pytest.param(
            lambda i, h: i.follow(h, X, [1]),
            InvalidInputError,
            "one a row, got 1 for 400",
            id="too few ids",
        ),
        pytest.param(
            lambda i, h: i.follow(h, X, np.arange(400)),
            DuplicateIdError,
            "already in",
            id="known ids",
        ),
        pytest.param(
            lambda i, h: i.follow(h, X[:2], [9, 9]),
            DuplicateIdError,
            "more than once: 9",
            id="twice",
        ),
        pytest.param(
            lambda i, h: i.follow(h, broken(X)), OSError, "the stream broke", id="broken stream"
        ),
        pytest.param(
            lambda i, h: i.follow(h, X[:, :12]), InvalidInputError, "features", id="another length"
        ),
        pytest.param(
            lambda i, h: i.follow(h, X * 1e19),
            InvalidInputError,
            "smaller numbers.*of row",
            id="too large",
        ),
        pytest.param(
            lambda i, h: i.follow(h, 5),
            InvalidInputError,
            "vectors must be an array",
            id="no vectors",
        ),
    ],
)
def test_after_an_error_index_and_hasher_are_as_before(
    call: Callable[[EpochIndex, ProjectionHash], Any], error: type[Exception], message: str
) -> None:
    index, hasher = EpochIndex(), fitted(epochs=90)
    index.add(live().fit(X).snapshot(), X[:3])
    index.follow(hasher, X[:150])
    state, then, names = index._state, everything(hasher), set(hasher.__dict__)
    with pytest.raises(error, match=message):
        call(index, hasher)
    assert index._state is state
    assert set(hasher.__dict__) == names
    assert everything(hasher) == then


def test_vectors_that_write_to_the_index_while_they_are_read_lose_nothing() -> None:
    index, hasher = EpochIndex(), fitted()
    snapshot = live().fit(X).snapshot()

    def writing() -> Iterator[Any]:
        yield X[:9]
        index.add(snapshot, X[:2])
        yield X[9:20]

    new = index.follow(hasher, writing())
    assert new.tolist() == list(range(2, 22)), "what was written meanwhile came first"
    assert index.epoch_ids(snapshot.fingerprint_).tolist() == [0, 1]
    assert len(index) == 22
    index.verify()


def test_a_warning_that_is_an_error_leaves_everything_as_before() -> None:
    index, hasher = EpochIndex(), fitted()
    before = everything(hasher)
    with pytest.raises(UserWarning, match="not finite"):  # pytest makes errors of warnings
        index.follow(hasher, np.full((3, 13), np.nan))
    assert len(index) == 0
    assert everything(hasher) == before


@pytest.mark.parametrize("n_learned", [0, 7, 32 * 5 - 1])
def test_a_hasher_that_still_codes_by_random_directions_is_not_followed(n_learned: int) -> None:
    index, hasher = EpochIndex(), live(epochs=90)
    if n_learned:
        hasher.partial_fit(X[:n_learned])
    with pytest.raises(
        InvalidInputError, match="must have learned directions before it is followed"
    ):
        index.follow(hasher, X)
    assert index.epochs == []
    assert n_learned == (hasher.n_seen_ if hasattr(hasher, "stream_") else 0), "nothing was learned"
    hasher.partial_fit(X[n_learned : 32 * 5])
    index.add(hasher.epoch_, X[: 32 * 5])
    index.follow(hasher, X[32 * 5 :])
    assert len(index) == 400


def test_codes_and_corrections_of_batches_that_straddle_epochs_are_those_of_following() -> None:
    index, followed, hasher = EpochIndex(), EpochIndex(), fitted(epochs=90)
    followed.follow(fitted(epochs=90), X)
    for first in range(0, 400, 37):
        snapshots, at = {hasher.epoch_.fingerprint_: hasher.epoch_}, first
        for codes in hasher.sketch_stream(X[first : first + 37]):
            snapshots.setdefault(hasher.epoch_.fingerprint_, hasher.epoch_)
            snapshot = snapshots[str(codes.fingerprint)]
            index.begin(snapshot)
            index.add_codes(codes, bitkin.corrections(snapshot, X[at : at + len(codes)]))
            at += len(codes)
    assert len(index.epochs) == 5
    assert same(index, followed)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: ProjectionHash(5), "must be a ProjectionHash that goes on learning"),
        (lambda: live(epochs=None), "must have epochs, got epochs=None"),
        (lambda: live().fit(X).snapshot(), "goes on learning"),
        (lambda: bitkin.MinHash(), "goes on learning"),
    ],
    ids=["pca", "no epochs", "a snapshot", "another hasher"],
)
def test_a_hasher_that_cannot_be_followed_is_refused(make: Callable[[], Any], message: str) -> None:
    hasher = make()
    with pytest.raises(InvalidInputError, match=message):
        EpochIndex().follow(hasher, X)


def test_threads_that_search_meanwhile_see_whole_calls_only() -> None:
    index, hasher = EpochIndex(), fitted(epochs=90)
    index.follow(hasher, X[:40])
    stop, sizes = threading.Event(), set()

    def search() -> None:
        while not stop.is_set():
            sizes.add(int((index.search(Q[:1], 600).ids >= 0).sum()))

    searcher = threading.Thread(target=search)
    searcher.start()
    for first in range(40, 400, 40):
        index.follow(hasher, X[first : first + 40])
        assert first + 39 in index.search(X[first + 39 :][:1], 400, oversample=2).ids
    stop.set()
    searcher.join()
    assert sizes
    assert all(size % 40 == 0 for size in sizes)


def test_codes_of_a_followed_stream_are_those_that_the_hasher_emits() -> None:
    index, hasher = EpochIndex(), fitted(epochs=90)
    index.follow(hasher, X)
    emitted = Codes.concatenate(
        [codes.with_fingerprint(None) for codes in fitted(epochs=90).sketch_stream(X)]
    )
    held = [epoch.rows.codes(epoch.rows.ids()).words for epoch in index._state.epochs]
    assert np.array_equal(np.concatenate(held), emitted.words)
