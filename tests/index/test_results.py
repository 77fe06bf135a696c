"""What searches return, query by query and as a data frame; and a lone vector as the only query."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import bitkin
from bitkin.errors import MissingExtraError
from bitkin.io.vectors.rows import lone_as_row

X = np.random.default_rng(0).standard_normal((40, 9)).astype(np.float32)
HASHER = bitkin.ProjectionHash(8, projection="random", rotation=None).fit(X)


def collection(**options: Any) -> bitkin.Collection:
    made = bitkin.Collection.create(None, HASHER, **options)
    names = [f"row {i}" for i in range(40)] if options.get("ids") == "str" else None
    made.add(X, ids=names)
    return made


def flat_index() -> bitkin.FlatIndex:
    index = bitkin.FlatIndex(HASHER.spec_)
    index.add(HASHER.encode(X))
    return index


def test_hits_are_iterated_by_query_without_padding() -> None:
    hits = collection(ids="str").search(X[:3], k=50)
    assert len(hits) == 3
    found = list(hits)
    for q in range(3):
        assert [hit.id for hit in found[q]] == hits.ids[q, :40].tolist()
        assert [hit.distance for hit in found[q]] == hits.distances[q, :40].tolist()
        assert hits[q] == found[q]
    assert hits[-1] == found[2]
    assert isinstance(found[0][0].id, str)
    assert type(collection().search(X[:3], k=2)[0][0].id) is int
    with pytest.raises(IndexError):
        hits[3]


def test_neighbours_of_indexes_are_listed_by_query() -> None:
    index, queries = flat_index(), HASHER.encode(X[:3])
    nearest = index.search(queries, k=45)
    for q, found in enumerate(nearest.by_query()):
        assert found == list(zip(nearest.ids[q, :40], nearest.distances[q, :40], strict=True))
    near = index.search_radius(queries, 2)
    by_query = list(near.by_query())
    assert [len(found) for found in by_query] == np.diff(near.offsets).tolist()
    assert [hit.id for found in by_query for hit in found] == near.ids.tolist()
    assert by_query[0][0] == (0, 0)


def test_results_of_indexes_are_shown_in_one_line() -> None:
    index, queries = flat_index(), HASHER.encode(X[:3])
    assert repr(index.search(queries, k=45)) == "Neighbors(3 queries × 45, int32 distances)"
    near = index.search_radius(queries, 2)
    assert repr(near) == (f"RaggedNeighbors(3 queries, {len(near.ids):,} found, int32 distances)")


def test_results_become_data_frames() -> None:
    pytest.importorskip("pandas")
    index, queries = flat_index(), HASHER.encode(X[:3])
    for result in (index.search(queries, k=45), index.search_radius(queries, 2)):
        frame = result.to_pandas()
        assert list(frame.columns) == ["query", "rank", "id", "distance"]
        rows = [
            (q, rank, *hit) for q, found in enumerate(result.by_query())
            for rank, hit in enumerate(found)
        ]  # fmt: skip
        assert list(frame.itertuples(index=False, name=None)) == rows
    hits = collection(ids="str").search(X[:3], k=50)
    frame = hits.to_pandas()
    assert frame.id.tolist() == [hit.id for found in hits for hit in found]
    assert frame.distance.dtype == hits.distances.dtype


def test_without_pandas_a_data_frame_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_pandas(name: str, *arguments: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(MissingExtraError, match="pip install pandas"):
        collection().search(X[:3], k=2).to_pandas()


LONE = {
    "array": X[5],
    "float64": X[5].astype(np.float64),
    "list": X[5].tolist(),
    "tuple": tuple(X[5].tolist()),
    "sparse": csr_array(X[5:6]),
}


@pytest.mark.parametrize("form", LONE)
def test_a_lone_vector_is_one_query_everywhere(form: str) -> None:
    lone = LONE[form]
    assert HASHER.encode(lone) == HASHER.encode(X[5:6])
    hits = collection().search(lone, k=3)
    assert hits.ids.tolist() == collection().search(X[5:6], k=3).ids.tolist()
    assert hits.ids.shape == (1, 3)
    index = bitkin.EpochIndex()
    index.add(HASHER, X)
    assert index.search(lone, k=3).ids.tolist() == index.search(X[5:6], k=3).ids.tolist()
    truth = bitkin.evaluate.nearest(X, X[5:6], 3)
    assert bitkin.evaluate.nearest(X, lone, 3).ids.tolist() == truth.ids.tolist()
    found = flat_index().search(HASHER.encode(X)[5], k=20)
    exact = bitkin.rescore(found, lone, stage="exact", k=3, vectors=X)
    assert exact.ids.tolist() == truth.ids.tolist()


def test_a_series_is_one_query_and_a_column_of_arrays_is_not() -> None:
    pandas = pytest.importorskip("pandas")
    assert lone_as_row(pandas.Series(X[5])).shape == (1, 9)
    column = pandas.Series(list(X[:3]))
    assert lone_as_row(column) is column
    assert lone_as_row([]) == []
    masked = np.ma.masked_less(X[5], 0)
    assert lone_as_row(masked).mask.shape == (1, 9)


def test_a_lone_vector_in_a_file_is_one_query(tmp_path: Path) -> None:
    flat_index().save(tmp_path / "index")
    HASHER.save(tmp_path / "model")
    np.save(tmp_path / "lone.npy", X[5])
    np.save(tmp_path / "vectors.npy", X)
    found = bitkin.search_files(
        tmp_path / "index",
        tmp_path / "lone.npy",
        model=tmp_path / "model",
        vectors=tmp_path / "vectors.npy",
        k=3,
    )
    assert found.ids.shape == (1, 3)
    assert found.ids[0, 0] == 5
