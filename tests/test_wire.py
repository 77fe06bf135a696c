"""Vectors as text, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array, issparse

from bitkin.errors import InvalidInputError, UnknownIdError
from bitkin.wire import error_named, pack_vectors, rows_from_bytes, unpack_vectors

Rows = arrays(
    np.float32,
    st.tuples(st.integers(1, 7), st.integers(1, 9)),
    elements=st.floats(width=32, allow_nan=False),
)


@given(Rows)
def test_vectors_come_back_to_the_last_bit(rows: Any) -> None:
    back = unpack_vectors(pack_vectors(rows), rows.shape[1])
    np.testing.assert_array_equal(back, rows)


@given(Rows)
def test_sparse_vectors_come_back_sparse(rows: Any) -> None:
    back = unpack_vectors(pack_vectors(csr_array(rows)), rows.shape[1])
    assert issparse(back)
    np.testing.assert_array_equal(back.toarray(), rows)


def csr(**parts: Any) -> dict[str, Any]:
    packed = pack_vectors(csr_array(np.eye(3, dtype=np.float32)))
    return {**packed, "csr": {**packed["csr"], **parts}}


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        ({}, "must be an object of 'float32' or 'csr'"),
        ({"float32": "", "csr": {}}, "must be an object of"),
        ({"float32": "", "more": 1}, "must be an object of"),
        ({"float32": 3}, "must be base64 text, got 3"),
        ({"float32": "AAA"}, "base64"),
        ({"float32": ""}, "whole rows of 3 float32 numbers, 12 bytes each, got 0 bytes"),
        ({"float32": "AAAA", "n_features": 4}, "must have 3 columns, got 4"),
        ({"float32": "AAAA", "n_features": True}, "must have 3 columns, got True"),
        (csr(indptr="AAAA"), "whole numbers of 8 bytes, got 3 bytes"),
        (csr(indptr=""), "parts of a CSR matrix of 3 columns"),
        (csr(values=""), "parts of a CSR matrix"),
        (csr(indices="/////wEAAAACAAAA"), "parts of a CSR matrix"),
        (csr(more="AAAA"), "an object of 'indptr', 'indices' and 'values'"),
    ],
)
def test_what_is_packed_badly_is_refused(packed: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        unpack_vectors(packed, 3)


def test_bytes_are_rows_or_an_error() -> None:
    rows = np.arange(6, dtype="<f4").reshape(2, 3)
    np.testing.assert_array_equal(rows_from_bytes(rows.tobytes(), 3, "the body"), rows)
    with pytest.raises(InvalidInputError, match="the body must be whole rows"):
        rows_from_bytes(b"1234", 3, "the body")


def test_errors_are_found_by_name() -> None:
    assert isinstance(error_named("UnknownIdError", "no"), UnknownIdError)
    for name in ("ValueError", "BaseException", "", None, 3, "annotations"):
        assert error_named(name, "no") is None
