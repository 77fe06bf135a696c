"""A lone query takes shorter ways than a batch, and finds the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bitkin import Collection, ProjectionHash
from bitkin.collection.memory import CollectionSnapshot
from bitkin.errors import InvalidInputError
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.estimate import project_row_into

X = np.random.default_rng(0).standard_normal((700, 13)).astype(np.float32)
HASHER = ProjectionHash(11, random_state=0).fit(X)


def nothing(snapshot: CollectionSnapshot, row_ids: object) -> None:
    """Stands for a store whose rows are not in one array."""


@pytest.mark.parametrize("vectors", ["float32", "float16", "int8"])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_rows_are_the_same_where_they_stand_and_gathered(
    metric: str, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = Collection.create(None, HASHER, metric=metric, vectors=vectors)
    items.add(X[:600], ids=np.arange(600)[::-1])
    items.remove(np.arange(0, 600, 7))
    items.upsert(X[600:], ids=np.arange(50, 150))  # slots are no longer in the order of ids
    items.compact()
    items.upsert(X[:30] + 1, ids=np.arange(100, 130))
    stages = [(stage, over) for stage in ("estimate", "exact") for over in (1, 3, 90)]

    def found() -> list[tuple[bytes, bytes]]:
        hits = [
            items.search(X[q : q + 1], 5, stage=stage, oversample=over)
            for stage, over in stages
            for q in range(9)
        ]
        return [(hit.ids.tobytes(), hit.distances.tobytes()) for hit in hits]

    in_place = found()
    monkeypatch.setattr(CollectionSnapshot, "coded_in_place", nothing)
    monkeypatch.setattr(CollectionSnapshot, "vectors_in_place", nothing)
    assert found() == in_place


@pytest.mark.parametrize("n_features", [1, 3, 4, 5, 130])
@pytest.mark.parametrize("n_bits", [1, 63, 65])
def test_a_row_is_projected_as_by_a_matrix_product(n_features: int, n_bits: int) -> None:
    rng = np.random.default_rng(n_bits)
    row = rng.standard_normal(n_features).astype(np.float32)
    components = rng.standard_normal((n_features, n_bits)).astype(np.float32)
    offset, mean = rng.standard_normal(n_bits).astype(np.float32), rng.standard_normal(n_features)
    out = np.empty(n_bits, dtype=np.float32)
    inputs = read_only(row), read_only(components), read_only(offset), read_only(mean)
    square = project_row_into(*inputs, out)
    truth = row.astype(np.float64) @ components - offset
    np.testing.assert_allclose(out, truth, rtol=1e-5, atol=1e-4)
    assert square == pytest.approx(((row - mean) ** 2).sum())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_lone_query_finds_what_it_finds_in_a_batch(dtype: npt.DTypeLike) -> None:
    items = Collection.create(None, HASHER)
    items.add(X)
    queries: npt.NDArray[Any] = (X[:20] + np.float32(0.01)).astype(dtype)
    batch = items.search(queries, 4)
    for q in range(20):
        for lone in (items.search(queries[q : q + 1], 4), items.search(queries[q], 4)):
            assert lone.ids[0].tolist() == batch.ids[q].tolist()
            assert lone.distances[0].tolist() == batch.distances[q].tolist()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (np.full((1, 13), np.nan, np.float32), "queries: NaN at row 0"),
        (np.full((1, 13), np.inf), "queries: infinity at row 0"),
        (np.ones((1, 12), np.float32), "queries has 12 features"),
        (np.full((1, 13), 3e38, np.float32), "queries must have smaller numbers"),
    ],
)
def test_a_bad_lone_query_is_refused(query: npt.NDArray[Any], words: str) -> None:
    items = Collection.create(None, HASHER)
    items.add(X[:5])
    with pytest.raises(InvalidInputError, match=words):
        items.search(query, 2)
