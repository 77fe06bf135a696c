"""Arrays, sparse matrices, data frames and lists: what is accepted, and what each refusal says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bitkin.errors import InvalidInputError
from bitkin.io.vectors import open_vectors
from bitkin.io.vectors.batch import first_not_finite


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">f4", ">i8"]
)
def test_every_plain_number_type_is_kept_in_native_byte_order(dtype: str) -> None:
    source = open_vectors(np.arange(6, dtype=dtype).reshape(3, 2))
    assert source.dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(source.gather([2, 0]), [[4, 5], [0, 1]])


def test_bools_become_bytes_dense_or_sparse() -> None:
    truth = np.array([[True, False], [False, True]])
    for given_as in (truth, scipy.sparse.csr_matrix(truth)):
        source = open_vectors(given_as)
        assert source.dtype == np.uint8
        (_, batch), *_ = source.batches()
        np.testing.assert_array_equal(batch.toarray() if source.sparse else batch, truth)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.array([[1, "a"]], dtype=object), "Python objects"),
        (np.array([["a", "b"]]), "text"),
        (np.array([[b"a"]]), "text"),
        (np.array([[1j]]), "complex"),
        (scipy.sparse.csr_matrix(np.array([[1j]])), "complex"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "dates"),
        (np.zeros((2, 2), dtype=[("a", "f4")]), "records"),
        ([[1, 2], [3]], "ragged"),
        (np.zeros(3), r"shape \(n, d\).*got \(3,\).*Wrap a single vector"),
        ([], r"shape \(n, d\).*got \(0,\).*np.empty"),
        (np.zeros((2, 3, 4)), r"shape \(n, d\).*got \(2, 3, 4\)"),
        (np.float32(1), r"got \(\)"),
        ([], r"got \(0,\)"),
        (np.zeros((4, 0)), "1 to 2147483647 columns"),
        (scipy.sparse.csr_matrix((4, 2**31)), "1 to 2147483647 columns"),
        (scipy.sparse.coo_array(np.ones(3)), r"shape \(n, d\)"),
        (3, "got int"),
        ({"a": 1}, "got dict"),
        (b"abc", "got bytes"),
        (None, "got NoneType"),
    ],
)
def test_what_cannot_be_vectors_is_refused_by_name(value: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"^queries\b.*{words}"):
        open_vectors(value, name="queries")


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long doubles are doubles here")
def test_long_doubles_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="up to 64 bits"):
        open_vectors(np.zeros((2, 2), dtype=np.longdouble))


def test_masked_entries_are_refused_and_an_empty_mask_is_fine() -> None:
    with pytest.raises(InvalidInputError, match="masked entries"):
        open_vectors(np.ma.masked_equal([[1.0, 2.0]], 2.0))
    assert open_vectors(np.ma.masked_equal([[1.0, 2.0]], 3.0)).gather([0]).tolist() == [[1.0, 2.0]]


def test_an_object_that_turns_into_an_array_is_enough() -> None:
    class Tensor:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones((2, 3))

    assert open_vectors(Tensor()).shape == (2, 3)


def test_a_data_frame_with_text_names_the_column() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidInputError, match="column 'title'"):
        open_vectors(pandas.DataFrame({"x": [1.0], "title": ["a"]}))


def test_a_missing_number_of_a_data_frame_is_reported_with_its_row() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1, 2], "y": pandas.array([3, None], dtype="Int64")})
    with pytest.raises(InvalidInputError, match="NaN at row 1, column 1, batch 0"):
        list(open_vectors(frame).batches())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_value_that_is_not_finite_is_reported_with_batch_row_and_column(
    value: float, dtype: str, sparse: bool
) -> None:
    truth = np.ones((65, 7), dtype=dtype)
    truth[41, 3] = truth[64, 0] = value
    word = {"nan": "NaN", "inf": "infinity", "-inf": "-infinity"}[str(value)]
    source = open_vectors(
        scipy.sparse.csr_matrix(truth.astype("f4")) if sparse else truth, name="queries"
    )
    with pytest.raises(
        InvalidInputError,
        match=f"queries: {word} at row 41, column 3, batch 3. Every value must be",
    ):
        list(source.batches(rows=10, start=5))
    with pytest.raises(InvalidInputError, match=f"queries: {word} at row 64, column 0. Every"):
        source.gather([0, 64])
    assert source.gather([40, 42]).shape == (2, 7)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_large_numbers_whose_sum_overflows_are_no_false_alarm(dtype: Any) -> None:
    truth = np.full((50, 4), np.finfo(dtype).max, dtype=dtype)
    truth[::2] *= -1
    (_, batch), *_ = open_vectors(truth).batches()
    np.testing.assert_array_equal(batch, truth)


@given(
    arrays(
        np.float32,
        (9, 4),
        elements=st.sampled_from([0.0, 1.0, 3e38, -3e38, np.nan, np.inf, -np.inf]),
    )
)
def test_the_search_for_bad_values_agrees_with_isfinite(batch: Any) -> None:
    bad = np.argwhere(~np.isfinite(batch))
    found = first_not_finite(batch)
    assert (found is None) == (len(bad) == 0)
    if found is not None:
        assert list(found[:2]) == bad[0].tolist()
    matrix = scipy.sparse.csr_array(batch)
    found_sparse = first_not_finite(matrix)
    assert (found_sparse and found_sparse[:2]) == (found and found[:2])


def test_sparse_indices_out_of_range_are_refused_before_any_loop_sees_them() -> None:
    for make in (scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        matrix = make(np.eye(3))
        matrix.indices[1] = 7
        with pytest.raises(InvalidInputError, match="not a valid sparse matrix"):
            open_vectors(matrix)
    matrix = scipy.sparse.csr_matrix(np.eye(3))
    matrix.indptr[:] = [0, 3, 1, 3]
    with pytest.raises(InvalidInputError, match="indptr must be a non-decreasing"):
        open_vectors(matrix)


def test_reading_leaves_an_unsorted_matrix_of_the_caller_as_it_was() -> None:
    matrix = scipy.sparse.csr_matrix(
        (np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3)
    )
    ((_, batch),) = open_vectors(matrix).batches()
    np.testing.assert_array_equal(batch.toarray(), [[2, 0, 4]])
    assert matrix.indices.tolist() == [2, 0, 2]


def test_the_default_batch_is_about_eight_megabytes_and_never_empty() -> None:
    assert open_vectors(np.zeros((1, 1000), dtype=np.float32)).batch_rows == 2000
    assert open_vectors(np.broadcast_to(np.float64(0), (2, 2_000_000))).batch_rows == 1
    assert open_vectors(np.zeros((3, 2)), batch_rows=2).batch_rows == 2
    rare = scipy.sparse.eye(1000, 2_000_000, format="csr")
    assert open_vectors(rare).batch_rows > 100_000


def test_an_open_source_is_returned_as_it_is_and_takes_no_options() -> None:
    source = open_vectors(np.ones((2, 2)))
    assert open_vectors(source) is source
    with pytest.raises(InvalidInputError, match="batch_rows means nothing"):
        open_vectors(source, batch_rows=3)


@pytest.mark.parametrize(
    "option", [{"column": "a"}, {"dataset": "a"}, {"n_features": 2}, {"zero_based": True}]
)
def test_options_of_files_are_refused_for_arrays(option: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="means nothing for vectors in memory"):
        open_vectors(np.ones((2, 2)), **option)


def test_a_source_shows_what_it_is() -> None:
    assert repr(open_vectors(np.ones((2, 3)))) == "<ArraySource source: 2 × 3 dense float64>"
