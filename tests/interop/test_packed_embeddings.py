from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin.errors import InvalidInputError
from bitkin.interop import from_sentence_transformers


def quantized(embeddings: npt.NDArray[Any], precision: str) -> npt.NDArray[Any]:
    """What sentence-transformers' `quantize_embeddings` returns."""
    packed = np.packbits(embeddings > 0, axis=1)
    return packed if precision == "ubinary" else (packed - np.uint8(128)).astype(np.int8)


@pytest.mark.parametrize("precision", ["ubinary", "binary"])
@pytest.mark.parametrize(("n", "dimension"), [(0, 8), (1, 8), (5, 384), (65, 1024)])
def test_codes_are_the_signs_of_the_embeddings(precision: str, n: int, dimension: int) -> None:
    embeddings = np.random.default_rng(0).standard_normal((n, dimension))
    for n_bits in (None, dimension):
        codes = from_sentence_transformers(quantized(embeddings, precision), n_bits)
        assert codes.spec == bitkin.CodeSpec(dimension)
        assert np.array_equal(codes.symbols(), embeddings > 0)
        assert codes.fingerprint is None


def test_every_byte_comes_back() -> None:
    every = np.arange(256, dtype=np.uint8)[:, None]
    signed = (every.astype(np.int64) - 128).astype(np.int8)
    assert np.array_equal(from_sentence_transformers(signed).to_bytes(), every)
    assert np.array_equal(from_sentence_transformers(every).to_bytes(), every)


def test_any_layout_and_a_list_of_rows_are_taken() -> None:
    packed = np.random.default_rng(0).integers(-128, 128, (9, 6)).astype(np.int8)
    codes = from_sentence_transformers(packed)
    assert from_sentence_transformers(np.asfortranarray(packed)) == codes
    assert from_sentence_transformers(list(packed)) == codes
    assert from_sentence_transformers(packed[:, ::2]).spec.n_bits == 24


def test_both_kinds_compare() -> None:
    embeddings = np.random.default_rng(0).standard_normal((20, 64))
    a, b = (
        from_sentence_transformers(quantized(embeddings, kind)) for kind in ("ubinary", "binary")
    )
    assert (bitkin.distances(a, b).diagonal() == 0).all()


def test_the_array_may_change_afterwards() -> None:
    packed = np.zeros((2, 8), dtype=np.uint8)
    codes = from_sentence_transformers(packed)
    packed[:] = 255
    assert not codes.symbols().any()


@pytest.mark.parametrize(
    ("embeddings", "n_bits", "words"),
    [
        (np.zeros((2, 8)), None, r"must be uint8 \(precision='ubinary'\) or int8 .*, got float64"),
        (np.zeros((2, 8), dtype=np.int64), None, "got int64"),
        ([[1], [2, 3]], None, "rows of different lengths"),
        (np.zeros(8, dtype=np.uint8), None, r"must have shape \(n, bytes a row\), got \(8,\)"),
        (np.zeros((2, 0), dtype=np.uint8), None, r"got \(2, 0\)"),
        (
            np.zeros((2, 384), dtype=np.int8),
            384,
            "384 bits must have 48 bytes a row, got 384. Rows with a byte a dim",
        ),
        (np.zeros((2, 8), dtype=np.uint8), 0, "n_bits must be at least 1, got 0"),
        (np.zeros((2, 8), dtype=np.uint8), 2.5, "n_bits must be a whole number"),
        (np.full((2, 1), 255, dtype=np.uint8), 5, "must have zeros beyond the 5 bits of a row"),
    ],
)
def test_what_is_no_packed_array_is_named(embeddings: Any, n_bits: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        from_sentence_transformers(embeddings, n_bits)
