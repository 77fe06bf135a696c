"""The door for vectors that a fitted estimator is asked about: `open_rows`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from scipy.sparse import csr_array, csr_matrix, issparse

from bitkin import MinHash, WTAHash
from bitkin.errors import InvalidInputError
from bitkin.io.vectors import VectorSource, open_vectors

X = np.random.default_rng(0).standard_normal((23, 7)).astype(np.float32)
NAMES = [f"f{column}" for column in range(7)]


def fitted(rows: Any = X) -> WTAHash:
    return WTAHash(8, 3).fit(rows)


@pytest.mark.parametrize("at_most", [None, 1, 5, 22, 23, 100])
@pytest.mark.parametrize(
    "hold",
    [
        lambda X: X,
        lambda X: X[:, ::-1][:, ::-1],
        np.asfortranarray,
        lambda X: X.tolist(),
        csr_matrix,
        csr_array,
        lambda X: pandas.DataFrame(X, columns=NAMES),
        lambda X: open_vectors(X, batch_rows=9),
        lambda X: iter([X[:10], X[10:]]),
    ],
)
def test_every_form_of_vectors_comes_as_the_same_rows_in_batches(
    hold: Callable[[Any], Any], at_most: int | None
) -> None:
    opened = fitted().open_rows(hold(X), "queries")
    assert opened.n_rows in (23, None)
    read: list[Any] = []
    for first, batch in opened.batches(at_most):
        assert first == sum(map(len, read))
        assert at_most is None or batch.shape[0] <= at_most
        assert issparse(batch) or batch.flags.c_contiguous
        read.append(batch.toarray() if issparse(batch) else batch)
    np.testing.assert_array_equal(np.concatenate(read), X)


def test_rows_in_memory_come_without_a_source_and_larger_ones_with_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hasher = fitted()
    assert np.shares_memory(hasher.open_rows(X, "queries").rows, X)
    assert hasher.open_rows(X, "queries").name == "queries"
    np.save(tmp_path / "x.npy", X)
    from_file = hasher.open_rows(tmp_path / "x.npy", "queries")
    assert isinstance(from_file.rows, VectorSource)
    assert from_file.name == str(tmp_path / "x.npy")
    monkeypatch.setattr("bitkin.io.vectors.batch.BATCH_BYTES", 7 * 4 * 10)
    large = hasher.open_rows(X, "queries")
    assert isinstance(large.rows, VectorSource)
    assert [first for first, _ in large.batches()] == [0, 10, 20]
    assert hasher.encode(X) == fitted().encode(X)


def test_no_rows_are_no_batches() -> None:
    opened = fitted().open_rows(X[:0], "queries")
    assert opened.n_rows == 0
    assert list(opened.batches()) == []
    assert list(opened.batches(3)) == []


def with_nan(row: int) -> Any:
    bad = X.copy()
    bad[row, 2] = np.nan
    return bad


@pytest.mark.parametrize("batch_bytes", [8_000_000, 7 * 4 * 10])
@pytest.mark.parametrize(
    ("vectors", "words"),
    [
        (X[:, :6], "queries has 6 features, but WTAHash is expecting 7 features as input"),
        (X[0], r"queries must have shape \(n, d\)"),
        (X + 1j, "queries must hold integers or floats up to 64 bits, got complex numbers"),
        (np.ma.masked_greater(X, 0), "queries has masked entries"),
        (with_nan(4), "queries: NaN at row 4, column 2, batch 0. Every value must be finite"),
        (
            pandas.DataFrame(X, columns=NAMES[::-1]),
            "queries: The feature names should match those that were passed during fit",
        ),
        ({"no": "vectors"}, "queries must be an array, a sparse matrix, a data frame"),
    ],
)
def test_what_an_estimator_was_not_fitted_on_is_refused_by_the_name_of_the_argument(
    vectors: Any, words: str, batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasher = fitted(pandas.DataFrame(X, columns=NAMES))
    monkeypatch.setattr("bitkin.io.vectors.batch.BATCH_BYTES", batch_bytes)
    with pytest.raises(InvalidInputError, match=words):
        list(hasher.open_rows(vectors, "queries").batches())


def test_a_minhash_fitted_without_a_matrix_takes_rows_of_any_width() -> None:
    hasher = MinHash(8).fit()
    for d in (3, 7):
        assert hasher.open_rows(X[:, :d], "vectors").n_rows == 23
    hasher.fit(X)
    with pytest.raises(InvalidInputError, match="vectors has 3 features"):
        hasher.open_rows(X[:, :3], "vectors")
