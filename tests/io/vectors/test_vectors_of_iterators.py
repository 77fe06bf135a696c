"""Iterators of batches: one pass, split but never joined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from bitkin.errors import InvalidInputError
from bitkin.io.vectors import open_vectors


def test_batches_come_as_they_are_given() -> None:
    truth = np.arange(20.0).reshape(10, 2)
    source = open_vectors(truth[i : i + 4] for i in (0, 4, 8))
    assert source.shape == (None, 2)
    assert source.dtype == np.float64
    assert [first for first, _ in source.batches()] == [0, 4, 8]


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    rows=st.integers(1, 10),
    data=st.data(),
    sparse=st.booleans(),
)
def test_any_split_gives_the_rows_from_the_start_on_in_order(
    sizes: list[int], rows: int, data: st.DataObject, sparse: bool
) -> None:
    truth = np.arange(3.0 * sum(sizes)).reshape(-1, 3)
    parts = np.split(truth, np.cumsum(sizes)[:-1])
    start = data.draw(st.integers(0, len(truth)))
    source = open_vectors(map(scipy.sparse.csr_matrix, parts) if sparse else iter(parts))
    at = start
    for first, batch in source.batches(rows=rows, start=start):
        assert first == at
        assert 1 <= batch.shape[0] <= rows
        at += batch.shape[0]
        np.testing.assert_array_equal(batch.toarray() if sparse else batch, truth[first:at])
    assert at == len(truth)


def test_a_second_pass_is_refused() -> None:
    source = open_vectors(iter([np.ones((2, 2))]))
    list(source.batches())
    with pytest.raises(InvalidInputError, match="iterator and was read already"):
        source.batches()


def test_rows_by_number_and_the_length_are_refused() -> None:
    source = open_vectors(iter([np.ones((2, 2))]))
    with pytest.raises(InvalidInputError, match="cannot be picked by number"):
        source.gather([0])
    with pytest.raises(InvalidInputError, match="is not known before its end"):
        len(source)


def test_only_the_first_batch_is_fetched_ahead() -> None:
    asked = []

    def stream() -> Iterator[Any]:
        for i in range(3):
            asked.append(i)
            yield np.ones((2, 2))

    batches = open_vectors(stream()).batches()
    assert asked == [0]
    next(batches)
    assert asked == [0]
    next(batches)
    assert asked == [0, 1]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (np.ones((2, 4)), "batch 1 must have 3 columns like batch 0, got 4"),
        (np.ones(3), r"batch 1 must have shape \(n, d\)"),
        (scipy.sparse.csr_matrix(np.ones((2, 3))), "batch 1 must be dense like batch 0"),
        (np.array([["a", "b", "c"]]), "batch 1 must hold integers or floats"),
        (np.full((1, 3), np.nan), "source: NaN at row 2, column 0, batch 1"),
        (np.full((1, 3), 1e300), "source: infinity at row 2, column 0, batch 1"),
    ],
)
def test_a_batch_unlike_the_first_is_refused_with_its_number(second: Any, words: str) -> None:
    source = open_vectors(iter([np.ones((2, 3), dtype=np.float32), second]))
    with pytest.raises(InvalidInputError, match=words):
        list(source.batches())


def test_fractions_after_whole_numbers_are_refused() -> None:
    source = open_vectors(iter([np.ones((2, 3), dtype=np.int32), np.ones((2, 3))]))
    with pytest.raises(
        InvalidInputError, match="batch 1 must fit int32, the type of batch 0, got float64"
    ):
        list(source.batches())


def test_an_iterator_without_batches_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="without a single batch"):
        open_vectors(iter([]))


def test_a_start_behind_the_end_is_reported_at_the_end() -> None:
    source = open_vectors(iter([np.ones((2, 3))]))
    with pytest.raises(InvalidInputError, match=r"start must be at most 2.* got 5"):
        list(source.batches(start=5))


def test_closing_ends_the_generator() -> None:
    ended = []

    def stream() -> Iterator[Any]:
        try:
            while True:
                yield np.ones((2, 2))
        finally:
            ended.append(True)

    with open_vectors(stream()) as source:
        next(source.batches())
    assert ended == [True]
    with pytest.raises(InvalidInputError, match="is closed"):
        source.batches()


def test_an_error_of_the_generator_reaches_the_caller_unchanged() -> None:
    def stream() -> Iterator[Any]:
        yield np.ones((2, 2))
        raise LookupError("the feed is gone")

    with pytest.raises(LookupError, match="the feed is gone"):
        list(open_vectors(stream()).batches())


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        (np.int8, np.array([[1, 300, -128]]), "300"),
        (np.int8, np.array([[1, -129, 2]], dtype=np.int16), "-129"),
        (np.int8, np.array([[1, 200, 2]], dtype=np.uint8), "200"),
        (np.int64, np.array([[1, 2**63, 2]], dtype=np.uint64), "9223372036854775808"),
        (np.float16, np.array([[1.0, 0.1, 2.0]], dtype=np.float32), "0.1"),
        (np.float32, np.array([[1.0, 0.1, 2.0]]), "0.1"),
        (np.float32, np.array([[1, 2**24 + 1, 2]], dtype=np.int32), "16777217"),
        (np.float32, np.array([[1, 2**31 - 1, 2]], dtype=np.int32), "2147483647"),
        (np.float64, np.array([[1, 2**53 + 1, 2]]), "9007199254740993"),
        (np.float64, np.array([[1, 2**63 - 1, 2]]), "9223372036854775807"),
        (np.float64, np.array([[1, 2**64 - 1, 2]], dtype=np.uint64), "18446744073709551615"),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_later_number_that_the_type_of_the_first_batch_would_change_is_refused(
    first: Any, second: Any, value: str, sparse: bool
) -> None:
    batches = [np.ones((2, 3), dtype=first), second]
    if first == np.float16 and sparse:
        pytest.skip("SciPy has no sparse float16")
    source = open_vectors(map(scipy.sparse.csr_array, batches) if sparse else iter(batches))
    name = np.dtype(first).name
    with pytest.raises(
        InvalidInputError, match=rf"batch 1 must fit {name}, .* got {value} at row 2, column 1"
    ):
        list(source.batches())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.int8, np.array([[1, 127, -128]])),
        (np.float16, np.array([[0.5, -2.0, 65504.0]])),
        (np.float32, np.array([[0.5, 2.0**100, -(2.0**-100)]])),
        (np.float32, np.array([[2**24, -(2**31), 2**30]])),
        (np.float64, np.array([[2**53, -(2**63), 2**62]])),
        (np.float64, np.array([[0.1, 0.2, 0.3]], dtype=np.float32)),
        (np.uint8, np.array([[True, False, True]])),
    ],
)
def test_later_numbers_that_fit_the_type_of_the_first_batch_stay_what_they_are(
    first: Any, second: Any
) -> None:
    source = open_vectors(iter([np.ones((2, 3), dtype=first), second]))
    rows = [batch for _, batch in source.batches()][-1]
    assert rows.dtype == first
    assert rows.tolist() == second.tolist()


def test_a_batch_stays_what_it_was_when_its_iterator_fills_the_same_array_again() -> None:
    truth = np.arange(24.0).reshape(8, 3)

    def dense(order: Any) -> Iterator[Any]:
        buffer = np.empty((2, 3), order=order)
        for first in range(0, 8, 2):
            buffer[:] = truth[first : first + 2]
            yield buffer

    def sparse() -> Iterator[Any]:
        buffer = scipy.sparse.csr_array(np.ones((2, 3)))
        for first in range(0, 8, 2):
            buffer.data[:] = truth[first : first + 2].ravel() + 1
            yield buffer

    for order in ("C", "F"):
        kept = [batch for _, batch in open_vectors(dense(order)).batches(rows=1)]
        np.testing.assert_array_equal(np.concatenate(kept), truth)
    kept = [batch.toarray() for _, batch in open_vectors(sparse()).batches()]
    np.testing.assert_array_equal(np.concatenate(kept), truth + 1)


@pytest.mark.parametrize(
    ("first", "second", "advice"),
    [
        (np.float32, np.full((1, 3), 0.1), "give all batches as float64 from the start"),
        (np.int8, np.full((1, 3), 300, dtype=np.int16), "give all batches as int16 from the start"),
        (np.int32, np.full((1, 3), 0.5), "give all batches as float64 from the start"),
        (
            np.float64,
            np.full((1, 3), 2**53 + 1),
            "as one type that holds all numbers from the start",
        ),
    ],
)
def test_a_batch_that_does_not_fit_says_which_type_to_begin_with(
    first: Any, second: Any, advice: str
) -> None:
    source = open_vectors(iter([np.ones((2, 3), dtype=first), second]))
    with pytest.raises(InvalidInputError, match=f"The first batch decides the type: .*{advice}"):
        list(source.batches())
