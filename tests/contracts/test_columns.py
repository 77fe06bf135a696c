"""Data frames: whatever was fitted on one refuses others with other columns, or the same in another
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
import pytest

import bitkin
from bitkin import (
    Collection,
    EpochIndex,
    HeshingClassifier,
    KernelMap,
    MinHash,
    ProjectionHash,
    WTAHash,
)
from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest, radius_truth
from bitkin.hashers.encoding import encode_to_file
from bitkin.io.vectors import open_vectors

NAMES = [f"f{i}" for i in range(12)]
LABELS = np.arange(60) % 3


def rows(n: int = 60) -> Any:
    mixing = np.linspace(0.2, 3.0, 12)
    return (np.random.default_rng(0).standard_normal((n, 12)) * mixing).astype(np.float32)


def frame(n: int = 60) -> Any:
    return pandas.DataFrame(rows(n), columns=NAMES)


def stream() -> ProjectionHash:
    return ProjectionHash(4, projection="opast", rotation="unifdiag", epochs=500).fit(frame())


def still() -> ProjectionHash:
    return ProjectionHash(8).fit(frame())


def filled(hasher: Any, **settings: Any) -> Collection:
    collection = Collection.create(None, hasher, **settings)
    collection.add(frame())
    return collection


def epochs() -> EpochIndex:
    index = EpochIndex()
    index.add(still(), frame())
    return index


def loaded_epochs(folder: Path) -> EpochIndex:
    epochs().save(folder / "epochs")
    return EpochIndex.load(folder / "epochs")


def rescored(hits: Any, queries: Any) -> Any:
    hasher = still()
    codes, numbers = hasher.encode(frame()), bitkin.corrections(hasher, rows())
    return bitkin.rescore(
        hits, queries, stage="estimate", hasher=hasher, codes=codes, corrections=numbers
    )


def every_row(X: Any) -> Any:
    return np.tile(np.arange(60), (len(X), 1))


def classifier() -> HeshingClassifier:
    return HeshingClassifier(n_buckets=64, loss="softmax", max_iter=1).fit(frame(), LABELS)


def called_on(hasher: Any, verb: str, X: Any) -> Any:
    return getattr(hasher.fit(frame().abs()), verb)(X)


def classified(verb: str, X: Any) -> Any:
    return getattr(classifier(), verb)(X)


class Meeting(NamedTuple):
    """Where something that was fitted on a data frame meets rows."""

    name: str
    call: Callable[[Any], Any]
    argument: str = "X"


MEETINGS = [
    *(
        Meeting(f"{type(hasher).__name__}.{verb}", partial(called_on, hasher, verb))
        for hasher in (ProjectionHash(8), WTAHash(8, window=4), MinHash(8))
        for verb in ("encode", "transform")
    ),
    Meeting("encode a source", lambda X: still().encode(open_vectors(X, name="X"))),
    Meeting("encode an iterator", lambda X: still().encode(open_vectors(iter([X, X]), name="X"))),
    Meeting(
        "encode to a file",
        lambda X: encode_to_file(still(), open_vectors(X, name="X"), "never written"),
    ),
    Meeting("project", lambda X: still().project(X)),
    Meeting("snapshot", lambda X: still().snapshot().encode(X)),
    Meeting("partial_fit", lambda X: stream().partial_fit(X)),
    Meeting("partial_fit a source", lambda X: stream().partial_fit(open_vectors(X, name="X"))),
    Meeting("sketch", lambda X: stream().sketch(X[:1])),
    Meeting("sketch_stream", lambda X: list(stream().sketch_stream([X[:30], X[30:]]))),
    Meeting(
        "sketch_stream a source", lambda X: list(stream().sketch_stream(open_vectors(X, name="X")))
    ),
    Meeting("a stream begun by a source", lambda X: begun_by_source().partial_fit(X)),
    Meeting("drift", lambda X: stream().drift(stream_of(X)), "since"),
    Meeting("fitted on a source", lambda X: ProjectionHash(8).fit(open_vectors(frame())).encode(X)),
    Meeting("KernelMap.transform", lambda X: KernelMap(anchors=5).fit(frame()).transform(X)),
    Meeting("KernelMap anchors", lambda X: KernelMap(anchors=X).fit(frame()), "anchors"),
    Meeting("corrections", lambda X: bitkin.corrections(still(), X), "vectors"),
    Meeting("rescore by estimate", lambda X: rescored(every_row(X), X), "queries"),
    Meeting(
        "rescore exactly",
        lambda X: bitkin.rescore(every_row(X), X, stage="exact", vectors=frame()),
        "queries",
    ),
    Meeting("Collection.add", lambda X: filled(still()).add(X), "vectors"),
    Meeting("Collection.add batches", lambda X: filled(still()).add(iter([X, X])), "vectors"),
    Meeting("Collection.upsert", lambda X: filled(still()).upsert(X, ids=range(len(X))), "vectors"),
    Meeting("Collection.search", lambda X: filled(still()).search(X, 1), "queries"),
    Meeting(
        "Collection.search of WTA",
        lambda X: filled(WTAHash(8, window=4).fit(frame())).search(X, 1),
        "queries",
    ),
    Meeting("EpochIndex.add", lambda X: epochs().add(still(), X), "vectors"),
    Meeting(
        "EpochIndex.add another", lambda X: epochs().add(ProjectionHash(8).fit(X), X), "snapshot"
    ),
    Meeting("EpochIndex.begin", lambda X: epochs().begin(ProjectionHash(8).fit(X)), "snapshot"),
    Meeting("EpochIndex.search", lambda X: epochs().search(X, 1), "queries"),
    Meeting("EpochIndex.follow", lambda X: EpochIndex().follow(stream(), X)),
    Meeting(
        "EpochIndex.follow a source",
        lambda X: EpochIndex().follow(stream(), open_vectors(X, name="X")),
    ),
    Meeting("EpochIndex.retire", lambda X: retired(epochs(), X), "vectors"),
    *(
        Meeting(f"HeshingClassifier.{verb}", partial(classified, verb))
        for verb in (
            "predict",
            "predict_path",
            "predict_proba",
            "decision_function",
            "empty_rows",
            "beam_gap",
        )
    ),
    Meeting("HeshingClassifier.predict_top", lambda X: classifier().predict_top(X, 1)),
    Meeting("HeshingClassifier.score", lambda X: classifier().score(X, LABELS[: len(X)])),
    Meeting(
        "HeshingClassifier.partial_fit", lambda X: classifier().partial_fit(X, LABELS[: len(X)])
    ),
    Meeting("evaluate.nearest", lambda X: nearest(frame(), X, 1), "Q"),
    Meeting("evaluate.radius_truth", lambda X: radius_truth(frame(), X, 5), "Q"),
]


def stream_of(X: Any) -> ProjectionHash:
    return ProjectionHash(4, projection="opast", rotation="unifdiag", epochs=500).fit(X)


def begun_by_source() -> ProjectionHash:
    hasher = ProjectionHash(4, projection="opast", rotation="unifdiag", epochs=500)
    return hasher.partial_fit(open_vectors(frame()))


def retired(index: EpochIndex, X: Any) -> None:
    into = ProjectionHash(8, random_state=1).fit(frame())
    index.retire(index.epochs[0], into=into, vectors=X)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


each_meeting = pytest.mark.parametrize("meeting", MEETINGS, ids=lambda meeting: meeting.name)


@each_meeting
def test_columns_in_another_order_are_refused(meeting: Meeting) -> None:
    words = rf"(?s)^{meeting.argument}: The feature names should match .*must be in the same order"
    with pytest.raises(InvalidInputError, match=words):
        meeting.call(frame()[NAMES[::-1]])


@each_meeting
def test_other_columns_are_named(meeting: Meeting) -> None:
    words = rf"(?s)^{meeting.argument}: .*unseen [^\n]*:\n- other\n.*yet now missing:\n- f3\n$"
    with pytest.raises(InvalidInputError, match=words):
        meeting.call(frame().rename(columns={"f3": "other"}))


def test_an_epoch_index_keeps_the_names_of_columns_in_its_file(tmp_path: Path) -> None:
    index = loaded_epochs(tmp_path)
    for mapped in (True, False):
        back = EpochIndex.load(tmp_path / "epochs", mmap=mapped)
        with pytest.raises(InvalidInputError, match=r"(?s)queries: The feature names.*same order"):
            back.search(frame()[NAMES[::-1]], 1)
    want = index.search(rows(), 2)
    for form in (frame(), rows(), pandas.DataFrame(rows())):
        assert np.array_equal(index.search(form, 2).ids, want.ids)


def test_the_same_columns_and_arrays_without_names_are_taken() -> None:
    collection, index = filled(still()), epochs()
    for form in (frame(), rows(), rows().tolist(), pandas.DataFrame(rows())):
        assert collection.search(form, 1).ids[:, 0].tolist() == list(range(60))
        assert index.search(form, 1).ids.shape == (60, 1)
        assert np.array_equal(
            bitkin.corrections(still(), form), bitkin.corrections(still(), rows())
        )
        assert nearest(frame(), form, 1).ids[:, 0].tolist() == list(range(60))
    unnamed = filled(ProjectionHash(8).fit(rows()))
    assert unnamed.search(frame()[NAMES[::-1]], 1).ids.shape == (60, 1)


def test_a_hasher_fitted_on_a_source_of_frames_knows_their_columns() -> None:
    for source in (open_vectors(frame()), open_vectors(iter([frame(), frame()]))):
        assert ProjectionHash(8).fit(source).feature_names_in_.tolist() == NAMES
    assert begun_by_source().feature_names_in_.tolist() == NAMES
    refitted = ProjectionHash(8).fit(open_vectors(frame())).fit(open_vectors(rows()))
    assert not hasattr(refitted, "feature_names_in_")


def test_a_stream_knows_its_columns_from_the_first_code_on() -> None:
    hasher = ProjectionHash(4, projection="opast", rotation="unifdiag", epochs=500)
    next(hasher.sketch_stream(open_vectors(frame())))
    assert hasher.feature_names_in_.tolist() == NAMES
    with pytest.raises(InvalidInputError, match="must be in the same order as they were in fit"):
        hasher.partial_fit(frame()[NAMES[::-1]])


def test_a_stream_that_cannot_begin_leaves_its_hasher_as_it_was() -> None:
    hasher = ProjectionHash(4, projection="opast", rotation="unifdiag", epochs=500)
    with pytest.raises(InvalidInputError, match="column names that are all strings"):
        next(hasher.sketch_stream(open_vectors(frame().rename(columns={"f3": 3}))))
    assert not hasattr(hasher, "n_features_in_")


def batches(*given: Any) -> Iterator[Any]:
    return iter(given)


def test_all_batches_of_an_iterator_have_the_columns_of_the_first() -> None:
    later = open_vectors(batches(frame(), rows(), frame()[NAMES[::-1]]), name="X")
    with pytest.raises(
        InvalidInputError,
        match=r"(?s)^X, batch 2: .* those of batch 0\..* same order as in batch 0",
    ):
        list(later.batches())
    later = open_vectors(batches(rows(), frame(), frame()[NAMES[::-1]]), name="X")
    with pytest.raises(
        InvalidInputError,
        match=r"(?s)^X, batch 2: .* those of batch 1\..* same order as in batch 1",
    ):
        list(later.batches())


def test_arrays_and_frames_of_an_iterator_may_come_in_any_order() -> None:
    for given in ((rows(), frame(), rows(), frame()), (frame(), rows(), frame())):
        read = [batch for _, batch in open_vectors(batches(*given)).batches()]
        np.testing.assert_array_equal(
            np.concatenate(read), np.concatenate([np.asarray(part) for part in given])
        )


def test_later_frames_of_an_iterator_must_have_the_columns_of_what_they_are_for() -> None:
    hasher, swapped = still(), frame()[NAMES[::-1]]
    index = EpochIndex()
    index.begin(hasher)
    index.add(hasher, frame())
    calls: list[Callable[[Any], Any]] = [
        hasher.encode,
        lambda source: bitkin.corrections(hasher, source),
        lambda source: index.search(source, 1),
        lambda source: bitkin.rescore(
            [[0]] * 2 * len(rows()), source, stage="exact", vectors=frame()
        ),
    ]
    for call in calls:
        call(open_vectors(batches(rows(), frame())))
        with pytest.raises(InvalidInputError, match=r"(?s)batch 1: .*must be in the same order as"):
            call(open_vectors(batches(rows(), swapped)))


def test_columns_of_which_only_some_have_names_cannot_be_fitted() -> None:
    mixed = frame().rename(columns={"f3": 3})
    for source in (mixed, open_vectors(mixed, name="X")):
        with pytest.raises(InvalidInputError, match=r"(?i)string"):
            ProjectionHash(8).fit(source)
    with pytest.raises(InvalidInputError, match=r"(?s)vectors: .*unseen at fit time:\n- 3\n"):
        filled(still()).add(mixed)


def test_a_message_about_columns_is_short_whatever_their_names() -> None:
    long = frame().rename(columns={name: name * 10**6 for name in NAMES})
    for call in (lambda: still().encode(long), lambda: filled(still()).add(long)):
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert len(str(caught.value)) < 2000
        assert "f0f0" in str(caught.value)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (
            pandas.date_range("2020-01-01", periods=60),
            r"{} must hold only numbers, got datetime64\[.*\] in column 'f3'",
        ),
        ([date(2020, 1, 1)] * 60, r"{} must hold only numbers, got object in column 'f3'"),
        (
            pandas.Series([pandas.NA] + [1.0] * 59, dtype=object),
            r"{} must hold only numbers, got object in column 'f3'",
        ),
        (["x" * 10**6] * 60, r"{} must hold only numbers, got .* in column 'f3'"),
        (
            pandas.array([None] + [1] * 59, dtype="Int64"),
            r"{}\b.* (NaN at row|nan in row) 0, column 3",
        ),
        (
            pandas.array([None] + [True] * 59, dtype="boolean"),
            r"{}\b.* (NaN at row|nan in row) 0, column 3",
        ),
    ],
    ids=["datetimes", "dates", "objects", "long texts", "missing integers", "missing flags"],
)
def test_a_column_without_numbers_is_named_and_a_missing_one_has_its_row(
    column: Any, words: str
) -> None:
    bad = frame().assign(f3=column)
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("X", lambda: ProjectionHash(8).fit(bad)),
        ("X", lambda: still().encode(bad)),
        ("X", lambda: classifier().predict(bad)),
        ("X", lambda: stream().partial_fit(bad, strict=True)),
        ("vectors", lambda: filled(still()).add(bad)),
        ("queries", lambda: epochs().search(bad, 1)),
        ("Q", lambda: nearest(frame(), bad, 1)),
    ]
    for argument, call in calls:
        with pytest.raises(InvalidInputError, match=words.format(argument)) as caught:
            call()
        assert len(str(caught.value)) < 1000
