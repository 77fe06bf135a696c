"""Collections held by workers: the answers of one collection of all rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import bitkin
from bitkin import Collection
from bitkin.distributed import ShardedCollection, ShardedIndex
from bitkin.errors import (
    CodeMismatchError,
    DuplicateIdError,
    FileAccessError,
    InvalidInputError,
)

N = 700


def rows_with_ties(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 12)).astype(np.float32)
    X[rng.integers(0, N, 200)] = X[rng.integers(0, N, 200)]  # equal rows have equal distances
    return X


def build(
    folder: Path, X: Any, hasher: Any, names: Any, n_shards: int, **settings: Any
) -> tuple[Collection, list[Path]]:
    """One collection of all rows in memory, and folders that share them out."""
    metadata = [{"year": 2000 + i % 9, "n": i} for i in range(len(X))]
    one = Collection.create(None, hasher, **settings)
    one.add(X, ids=names, metadata=metadata)
    folders = []
    for i, rows in enumerate(np.array_split(np.arange(len(X)), n_shards)):
        folders.append(folder / f"part-{i}")
        with Collection.create(folders[-1], hasher, **settings) as part:
            if len(rows):
                some = [names[row] for row in rows]
                part.add(X[rows], ids=some, metadata=[metadata[row] for row in rows])
    return one, folders


def assert_same_hits(found: Any, truth: Any) -> None:
    assert found.ids.dtype == truth.ids.dtype
    assert found.distances.dtype == truth.distances.dtype
    np.testing.assert_array_equal(found.ids, truth.ids)
    np.testing.assert_allclose(found.distances, truth.distances, rtol=1e-6)
    assert found.metadata == truth.metadata


@pytest.mark.parametrize("kind", ["int", "str"])
def test_it_answers_as_one_collection_of_all_rows(here: Client, tmp_path: Path, kind: str) -> None:
    X = rows_with_ties(1)
    hasher = bitkin.ProjectionHash(12, rotation="random").fit(X)
    numbers = np.random.default_rng(2).permutation(5000)[:N].tolist()
    ids = numbers if kind == "int" else [f"row {number}" for number in numbers]
    one, folders = build(tmp_path, X, hasher, ids, 5, ids=kind)
    with ShardedIndex.from_collections(folders, here) as many:
        assert isinstance(many, ShardedCollection)
        assert len(many) == N
        assert many.metric == "l2"
        assert many.count({"year": 2003}) == one.count({"year": 2003})
        queries = X[:23]
        searches: list[dict[str, Any]] = [
            {"stage": "exact", "oversample": N},
            {"stage": "exact", "oversample": N, "where": {"year": [2001, 2004]}},
            {"stage": "exact", "oversample": N, "allow": ids[::7]},
            {"stage": "codes"},
            {"stage": "estimate", "oversample": N, "first": "codes"},
            {"stage": "exact", "allow": []},
        ]
        for asked in searches:
            for k in (1, 8):
                found, truth = many.search(queries, k, **asked), one.search(queries, k, **asked)
                assert_same_hits(found, truth)
        lone = many.search(X[5], 3, oversample=N)
        assert_same_hits(lone, one.search(X[5], 3, oversample=N))
        all_of_it = many.search(queries[:2], N + 5, oversample=2)
        assert_same_hits(all_of_it, one.search(queries[:2], N + 5, oversample=2))
        assert many.search(X[:0], 4).ids.shape == (0, 4)
        codes = hasher.encode(queries)
        assert_same_hits(
            many.search(codes, 4, stage="codes"), one.search(queries, 4, stage="codes")
        )


def test_no_less_is_found_than_in_one_collection(here: Client, tmp_path: Path) -> None:
    X = rows_with_ties(3)
    hasher = bitkin.ProjectionHash(10, rotation="random").fit(X)
    one, folders = build(tmp_path, X, hasher, list(range(N)), 4)
    truth = one.search(X, 10, oversample=N)
    with ShardedIndex.from_collections(folders, here) as many:
        few: dict[str, Any] = {"oversample": 1, "first": "codes"}
        mine = bitkin.evaluate.recall(many.search(X, 10, **few).ids, truth.ids)
        theirs = bitkin.evaluate.recall(one.search(X, 10, **few).ids, truth.ids)
    assert theirs < 1
    assert mine >= theirs


def test_sets_are_searched_by_their_codes(here: Client, tmp_path: Path) -> None:
    sets = [[i, i + 1, i // 3, 7] for i in range(60)]
    hasher = bitkin.MinHash(16, bits_per_symbol=4).fit(sets)
    one = Collection.create(None, hasher, vectors=None)
    one.add(sets)
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, first in zip(folders, (0, 30), strict=True):
        with Collection.create(folder, hasher, vectors=None) as part:
            part.add(sets[first : first + 30], ids=range(first, first + 30))
    with ShardedIndex.from_collections(folders, here) as many:
        found, truth = many.search(sets[:9], 5), one.search(sets[:9], 5)
        np.testing.assert_array_equal(found.ids, truth.ids)
        np.testing.assert_array_equal(found.distances, truth.distances)


def test_what_is_written_meanwhile_is_seen_and_shards_are_added(
    two_workers: Client, tmp_path: Path
) -> None:
    X = rows_with_ties(4)
    hasher = bitkin.ProjectionHash(12, rotation="random").fit(X)
    _, folders = build(tmp_path, X[:100], hasher, list(range(100)), 2)
    with ShardedIndex.from_collections(folders, two_workers) as many:
        with Collection.open(folders[0]) as part:
            part.add(X[100:101], ids=[5000])
        assert many.search(X[100], 1).ids.tolist() == [[5000]]
        with Collection.create(tmp_path / "more", hasher) as part:
            part.add(X[200:300], ids=range(200, 300))
        many.add_shards(tmp_path / "more")
        assert many.search(X[250], 1, oversample=N).distances[0, 0] == 0
        assert len(many) == 201
        many.verify()
        assert len(many.info()) == 2
        # rows of one shard have metadata, those of the other have none
        some = many.search(X[[5, 250]], 150, oversample=N)
        assert some.metadata is not None
        for row, known in zip(some.ids.tolist(), some.metadata, strict=True):
            for id, document in zip(row, known, strict=True):
                assert document == ({} if id >= 200 else {"year": 2000 + id % 9, "n": id})


@pytest.mark.parametrize("kind", ["int", "str"])
def test_ids_that_two_collections_share_are_refused(
    here: Client, tmp_path: Path, kind: str
) -> None:
    X = rows_with_ties(5)[:60]
    hasher = bitkin.ProjectionHash(12, rotation="random").fit(X)
    name = int if kind == "int" else "n{}".format
    _, folders = build(tmp_path, X, hasher, [name(i) for i in range(60)], 2, ids=kind)
    with Collection.create(tmp_path / "again", hasher, ids=kind) as part:
        part.add(X[:2], ids=[name(31), name(900)])
    with pytest.raises(DuplicateIdError, match=rf"part-1 and .*again both hold {name(31)!r}"):
        ShardedIndex.from_collections([*folders, tmp_path / "again"], here)


def test_collections_that_differ_are_refused_by_name(here: Client, tmp_path: Path) -> None:
    X = rows_with_ties(6)[:50]
    hasher = bitkin.ProjectionHash(12, rotation="random").fit(X)
    other = bitkin.ProjectionHash(12, rotation="random", random_state=9).fit(X)
    for name, made_by in (("l2", hasher), ("cosine", hasher), ("other", other)):
        metric = "cosine" if name == "cosine" else "l2"
        Collection.create(tmp_path / name, made_by, metric=metric).close()
    with pytest.raises(CodeMismatchError, match=r"l2 has metric 'l2', .*cosine 'cosine'"):
        ShardedIndex.from_collections([tmp_path / "l2", tmp_path / "cosine"], here)
    with pytest.raises(CodeMismatchError, match=r"shards must come from one hasher: that of .*l2"):
        ShardedIndex.from_collections([tmp_path / "l2", tmp_path / "other"], here)


def test_bad_folders_and_arguments_are_refused(here: Client, tmp_path: Path) -> None:
    X = rows_with_ties(7)[:50]
    hasher = bitkin.ProjectionHash(12, rotation="random").fit(X)
    _, folders = build(tmp_path, X, hasher, list(range(50)), 1)
    with pytest.raises(FileAccessError, match=r"nowhere cannot be read: .* worker inproc:"):
        ShardedIndex.from_collections(tmp_path / "nowhere", here)
    with pytest.raises(InvalidInputError, match="paths must name at least one folder"):
        ShardedIndex.from_collections([], here)
    with ShardedIndex.from_collections(folders, here) as many:
        with pytest.raises(InvalidInputError, match="k must be between 1"):
            many.search(X, 0)
        with pytest.raises(InvalidInputError, match="queries has 5 features, but"):
            many.search(X[:, :5], 1)
        with pytest.raises(InvalidInputError, match="stage must be one of"):
            many.search(X, 1, stage="exactly")
        with pytest.raises(InvalidInputError, match="above"):
            many.search(X, 1, where={"year": {"above": 3}})
    with pytest.raises(InvalidInputError, match="the ShardedCollection is closed"):
        many.search(X, 1)


@pytest.mark.parametrize("names", [False, True], ids=["int", "str"])
def test_queries_of_zeros_are_warned_of_here_though_workers_are_elsewhere(
    two_workers: Client, tmp_path: Path, names: bool
) -> None:
    rows = np.random.default_rng(21).standard_normal((60, 8)).astype(np.float32)
    hasher = bitkin.ProjectionHash(8, normalize=True).fit(rows)
    with bitkin.Collection.create(
        tmp_path / "rows", hasher, metric="cosine", ids="str" if names else "int"
    ) as collection:
        collection.add(rows, ids=[f"row {i}" for i in range(60)] if names else None)
    hasher.encode(rows).save(tmp_path / "codes.bitkin")
    np.save(tmp_path / "rows.npy", rows)
    queries = rows[:5].copy()
    queries[3] = 0
    of_collections = ShardedIndex.from_collections(tmp_path / "rows", two_workers)
    of_codes = ShardedIndex.from_codes(
        tmp_path / "codes.bitkin",
        two_workers,
        hasher=hasher,
        vectors=tmp_path / "rows.npy",
        metric="cosine",
    )
    for search in (of_collections.search, of_codes.search_vectors):
        with pytest.warns(UserWarning, match=r"queries should not be all zeros.* in row 3"):
            search(queries, 2)
