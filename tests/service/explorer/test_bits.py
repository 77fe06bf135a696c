"""Balance, correlation and entropy of bits against NumPy's."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bitkin import Collection, MinHash, ProjectionHash, SignHash, WTAHash
from bitkin.errors import InvalidInputError
from bitkin.service.explorer import describe_bits

RNG = np.random.default_rng(6)
X = (RNG.standard_normal((203, 70)) + RNG.standard_normal(70) / 2).astype(np.float32)
SIGNS = SignHash(70).fit(X)


def filled(vectors: Any = X, hasher: Any = SIGNS, **settings: Any) -> Any:
    collection = Collection.create(None, hasher, metric="cosine", **settings)
    collection.add(vectors)
    return collection


def test_balance_entropy_and_correlation_are_those_of_the_bits() -> None:
    about = describe_bits(filled())
    bits = X > 0
    ones = bits.mean(axis=0)
    np.testing.assert_allclose(about["balance"], ones, atol=6e-5)
    entropy = -(ones * np.log2(ones) + (1 - ones) * np.log2(1 - ones)).sum()
    assert about["entropy"] == pytest.approx(entropy, abs=1e-3)
    shown = about["correlation"]["bits"]
    assert shown == [i * 70 // 64 for i in range(64)]
    want = np.corrcoef(bits[:, shown].T.astype(float))
    np.testing.assert_allclose(about["correlation"]["matrix"], want, atol=6e-4)
    assert (about["n_bits"], about["n_symbols"], about["bits_per_symbol"]) == (70, 70, 1)
    assert (about["sample"], about["empty"], about["note"]) == (203, 0, None)
    assert json.loads(json.dumps(about)) == about


def test_symbols_of_several_bits_are_counted_plane_after_plane() -> None:
    hasher = WTAHash(10, window=4).fit(X)
    collection = filled(X, hasher)
    symbols = collection.get(collection.ids).codes.symbols()
    about = describe_bits(collection)
    want = np.concatenate([symbols & 1, symbols >> 1], axis=1).mean(axis=0)
    np.testing.assert_allclose(about["balance"], want, atol=6e-5)
    assert about["correlation"]["bits"] == list(range(20))
    assert "10 symbols of 2 bits" in about["note"]


def test_rows_with_nothing_to_hash_are_left_out() -> None:
    collection = Collection.create(None, MinHash(8).fit(), vectors=None)
    collection.add([["a"], [], ["b"], []])
    about = describe_bits(collection)
    assert (about["sample"], about["empty"]) == (2, 2)
    assert set(about["balance"]) <= {0.0, 0.5, 1.0}


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows_have_bits(n: int) -> None:
    about = describe_bits(filled(X[:n]))
    assert about["sample"] == n
    assert len(about["balance"]) == 70
    assert np.isfinite(about["correlation"]["matrix"]).all()
    if n < 2:
        assert about["entropy"] == 0


def test_bits_that_never_change_have_no_correlation() -> None:
    about = describe_bits(filled(np.repeat(X[:1], 9, axis=0)))
    assert np.count_nonzero(about["correlation"]["matrix"]) == 0
    assert about["entropy"] == 0


def test_a_sample_of_many_rows_is_as_large_as_asked_for() -> None:
    collection = filled()
    assert describe_bits(collection, n=50)["sample"] == 50
    assert describe_bits(collection, n=50) == describe_bits(collection, n=50)


@pytest.mark.parametrize("vectors", ["float32", None])
def test_rows_of_several_epochs_are_said_to_be(vectors: Any) -> None:
    hasher = ProjectionHash(8, projection="opast", epochs="request").fit(X)
    collection = Collection.create(None, hasher, vectors=vectors)
    collection.add(X[:100])
    collection.learn(np.roll(X, 9, axis=1))
    assert collection.new_epoch()
    collection.add(X[100:])
    about = describe_bits(collection)
    assert about["sample"] == 203
    assert "Rows are of 2 epochs" in about["note"]
    assert ("what the current hasher makes" in about["note"]) is (vectors is not None)


@pytest.mark.parametrize("n", [0, 20_001, 1.5])
def test_bad_samples_are_named(n: Any) -> None:
    with pytest.raises(InvalidInputError, match="n must be"):
        describe_bits(filled(X[:2]), n=n)
