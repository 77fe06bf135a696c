"""What symbols lose against the winners of a row, by plain NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from bitkin import WTAHash
from tests.hashers import wta_truth

FLAGS: st.SearchStrategy[Any] = st.sampled_from(["auto", True, False])


def losses_of(row: npt.NDArray[Any], hasher: WTAHash) -> npt.NDArray[np.float64]:
    """The losses of one row: (n_hashes, alphabet)."""
    parts, alphabet = wta_truth.components(row, hasher), hasher.alphabet_size_
    table = np.full((len(parts), alphabet), np.inf)
    filled = (parts != 0).any(axis=1)
    if not row.any() or not filled.any():
        return np.zeros_like(table)
    raw = parts.max(axis=1, keepdims=True) - parts
    for window in range(len(parts)):
        for k, loss in enumerate(raw[window]):
            table[window, k % alphabet] = min(table[window, k % alphabet], loss)
    table[:, raw.shape[1] :] = raw.mean(axis=1, keepdims=True)
    largest = table[filled].max()
    table = table / largest if largest > 0 else 0 * table
    if hasher._donors.densify is None:
        table[~filled] = 0
        return table
    own = wta_truth.symbols(row, hasher)
    assert own is not None
    winners = parts.argmax(axis=1) % alphabet
    for i in np.flatnonzero(~filled):
        # the symbol is its donor's winner, moved: the losses of the donor are moved alike
        asked = [i, *hasher._donors.probes[:, i].tolist()]
        way = asked + [(asked[-1] + step) % len(parts) for step in range(1, len(parts) + 1)]
        donor = next(window for window in way if filled[window])
        table[i] = np.roll(table[donor], own[i] - winners[donor]) / 8
    return table


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_losses_are_those_of_numpy(data: st.DataObject) -> None:
    d = data.draw(st.integers(17, 40))
    hasher = WTAHash(
        data.draw(st.sampled_from([1, 7, 64])),
        data.draw(st.integers(17, d)),
        degree=data.draw(st.integers(1, 3)),
        coefficients=data.draw(st.booleans()),
        densify=data.draw(st.sampled_from([None, "rotation", "optimal", "auto"])),
        alphabet_size=data.draw(st.sampled_from([None, 2, 5, 16, 300])),
        center=data.draw(FLAGS),
        scale=data.draw(FLAGS),
        random_state=data.draw(st.integers(0, 3)),
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    share = data.draw(st.sampled_from([0.02, 0.3, 1.0]))
    X = np.where(rng.random((12, d)) < share, rng.integers(-2, 5, (12, d)), 0).astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hasher.fit(X)
    # rows that are nearly all zeros after a fit on full ones have windows of their own rules
    full = np.count_nonzero(X, axis=1) >= hasher._standardizer.fewest_nonzeros
    X = X[full]
    found = hasher.losses(X)
    expected = np.array([losses_of(row, hasher) for row in X]).reshape(found.shape)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.array_equal(hasher.losses(scipy.sparse.csr_array(X)), found)
    symbols = hasher.transform(X)
    own = np.take_along_axis(found, symbols[:, :, None].astype(np.int64), axis=2)
    assert (own == 0).all()


def test_products_that_overflow_lose_all() -> None:
    X = np.random.default_rng(0).random((20, 20)) + 0.5
    hasher = WTAHash(8, 20, degree=2, center=False, scale=False).fit(X)
    row = np.full((1, 20), 1e200)  # every product is infinite
    row[0, 3] = 1.0
    losses = hasher.losses(row)
    assert np.isfinite(losses).all()
    assert set(np.unique(losses)) <= {0.0, 1.0}
    own = hasher.transform(row)[0]
    assert (losses[0, np.arange(8), own] == 0).all()


def test_losses_do_not_depend_on_the_scale_of_rows_that_are_not_centred() -> None:
    X = np.random.default_rng(0).random((20, 20))
    hasher = WTAHash(8, 20, center=False, scale=False).fit(X)
    assert np.array_equal(hasher.losses(X), hasher.losses(1024 * X))
    assert hasher.losses(X[0]).shape == (1, 8, 20)


def test_losses_need_a_fitted_hasher() -> None:
    with pytest.raises(NotFittedError):
        WTAHash(8).losses(np.ones((1, 5)))
