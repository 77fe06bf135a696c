from __future__ import annotations

import numpy as np
import pytest

from bitkin.hashers.projection.sign_model import pack_signs


@pytest.mark.parametrize("n_bits", [1, 7, 8, 63, 64, 65, 130, 256])
def test_packed_signs_are_what_packbits_makes_of_the_comparison(n_bits: int) -> None:
    rng = np.random.default_rng(n_bits)
    values = rng.integers(-2, 3, (9, n_bits)).astype(np.float32)
    offset = rng.integers(-1, 2, n_bits).astype(np.float32)
    words = np.zeros((9, -(-n_bits // 64)), dtype=np.uint64)
    assert pack_signs(values, offset, words)
    truth = np.packbits(values >= offset, axis=1)
    assert np.array_equal(words.view(np.uint8)[:, : truth.shape[1]], truth)
    assert not words.view(np.uint8)[:, truth.shape[1] :].any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 63, 64, 69])
def test_what_is_not_finite_is_noticed(value: float, place: int) -> None:
    values = np.full((3, 70), 3e38, dtype=np.float32)
    assert pack_signs(values, values[0], np.zeros((3, 2), dtype=np.uint64))
    values[1, place] = value
    assert not pack_signs(values, np.zeros(70, np.float32), np.zeros((3, 2), dtype=np.uint64))
