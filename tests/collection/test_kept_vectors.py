"""Vectors as they are kept, against the arrays they came from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array, issparse

from bitkin.collection.vectors import KINDS, KeptVectors, StagedVectors, no_vectors

X = (
    np.random.default_rng(0).standard_normal((65, 7))
    * (np.random.default_rng(1).random((65, 7)) < 0.5)
).astype("f4")


def put(kept: KeptVectors, *batches: Any) -> KeptVectors:
    """Return a store with more batches."""
    staged, first = StagedVectors(), 0
    for batch in batches:
        staged.append(kept.accept(batch, "vectors", first))
        first += batch.shape[0]
    return kept.with_rows(staged)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_gathered_is_what_was_put(kind: str, sparse: bool) -> None:
    kept = no_vectors(kind, 7)
    older = kept
    for first in range(0, 65, 13):
        batch = csr_array(X[first : first + 13]) if sparse else X[first : first + 13]
        kept = put(kept, batch[:6], batch[6:])
        if first == 26:
            older = kept
    slots = np.array([64, 0, 3, 3, 17])
    found = kept.gather(slots)
    dense = found.toarray() if issparse(found) else found
    assert kept.sparse == issparse(found) == (kind == "csr")
    assert (kept.n_features, kept.dtype) == (7, found.dtype)
    wanted = {"float32": 0.0, "csr": 0.0, "float16": 0.002, "int8": np.abs(X).max() / 250}[kind]
    assert np.abs(dense - X[slots]).max() <= wanted
    taken = kept.take(slots)
    same = taken.gather(np.arange(5)) != found
    assert not (same.nnz if issparse(same) else same.any())
    assert taken.nbytes < kept.nbytes
    early = older.gather(np.arange(39))
    assert np.abs((early.toarray() if issparse(early) else early) - X[:39]).max() <= wanted
    assert kept.gather(slots[:0]).shape == (0, 7)


def test_no_batches_change_nothing() -> None:
    for kind in KINDS:
        assert put(no_vectors(kind, 7)).gather(np.empty(0, dtype=np.int64)).shape == (0, 7)


@given(arrays(np.float32, (3, 5), elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_scaled_numbers_are_within_half_a_step(rows: np.ndarray) -> None:
    largest = np.abs(rows).max(axis=1)
    assume(((largest == 0) | (largest >= 2.0**-133)).all())  # others are refused
    kept = put(no_vectors("int8", 5), rows)
    step = np.abs(rows).max(axis=1) / 127
    wrong = np.abs(kept.gather(np.arange(3)).astype(np.float64) - rows).max(axis=1)
    assert (wrong <= 0.5 * step * 1.001 + 1e-40).all()
