"""Codes held by workers: the answers of one FlatIndex of all rows, and errors that name shards."""

from __future__ import annotations

import pydoc
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.array
import numpy as np
import pytest
from distributed import Client

import bitkin
from bitkin import Codes, FlatIndex
from bitkin.distributed import ShardedIndex
from bitkin.distributed.searching.placement import ShardGroup
from bitkin.errors import (
    ClusterError,
    CodeMismatchError,
    CorruptFileError,
    DuplicateIdError,
    FileAccessError,
    InvalidInputError,
)
from tests.distributed.clusters import ANY_PORT


def random_codes(
    rng: np.random.Generator, n: int, n_bits: int, alike: int = 5, fingerprint: str | None = None
) -> Codes:
    """Codes with many ties: some rows near a few centres, some of them empty."""
    centres = rng.integers(0, 2, (alike, n_bits))
    symbols = centres[rng.integers(0, alike, n)] ^ (rng.random((n, n_bits)) < 0.1)
    return Codes.from_symbols(
        symbols.astype(np.uint8), 1, empty=rng.random(n) < 0.1, fingerprint=fingerprint
    )


def save_parts(codes: Codes, cuts: list[int], folder: Path) -> None:
    """Save rows between the cuts, some parts of which may be empty."""
    folder.mkdir()
    ends = [0, *cuts, len(codes)]
    for i, (first, last) in enumerate(pairwise(ends)):
        codes[first:last].save(folder / f"part-{i:05d}.bitkin")


def assert_same(found: Any, truth: Any) -> None:
    assert type(found) is type(truth)
    for mine, theirs in zip(found, truth, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("seed", range(8))
def test_it_answers_as_one_flat_index_of_all_rows(here: Client, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, n_bits = int(rng.integers(1, 1500)), int(rng.choice([7, 64, 100]))
    codes = random_codes(rng, n, n_bits)
    cuts = sorted(rng.integers(0, n + 1, int(rng.integers(0, 9))).tolist())
    save_parts(codes, cuts, tmp_path / "codes")
    flat = FlatIndex(codes.spec)
    flat.add(codes)
    queries = random_codes(rng, 9, n_bits)
    with ShardedIndex.from_codes(tmp_path / "codes", here) as index:
        assert len(index) == n
        assert index.n_shards == len(cuts) + 1
        for k in (1, 10, n + 3):
            assert_same(index.search(queries, k), flat.search(queries, k))
        for allow in ([], rng.integers(0, n + 50, 1 + n // 3), [0], np.arange(n)):
            assert_same(index.search(queries, 6, allow=allow), flat.search(queries, 6, allow=allow))
            assert_same(
                index.search_radius(queries, 4, allow=allow),
                flat.search_radius(queries, 4, allow=allow),
            )
        for radius in (0, 5, 10**9):
            assert_same(index.search_radius(queries, radius), flat.search_radius(queries, radius))
        assert_same(index.search(queries[:0], 3), flat.search(queries[:0], 3))
        assert_same(index.search_radius(queries[:0], 3), flat.search_radius(queries[:0], 3))


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("kind", [bitkin.FlatIndex, bitkin.MultiIndex])
def test_indexes_keep_their_own_ids(here: Client, tmp_path: Path, kind: Any, mmap: bool) -> None:
    rng = np.random.default_rng(3)
    codes = random_codes(rng, 900, 64)
    ids = rng.permutation(3000)[:900]
    flat = FlatIndex(codes.spec)
    paths = []
    for i, rows in enumerate(np.array_split(np.arange(900), 4)):
        part = kind(codes.spec)
        part.add(codes[rows], ids[rows])
        flat.add(codes[rows], ids[rows])
        gone = ids[rows][:40]
        part.remove(gone)
        flat.remove(gone)
        paths.append(tmp_path / f"{i}.bitkin")
        part.save(paths[-1])
    # rows without ids come after all ids so far
    codes[:70].save(tmp_path / "more.bitkin")
    flat.add(codes[:70], np.arange(int(ids.max()) + 1, int(ids.max()) + 71))
    queries = random_codes(rng, 20, 64)
    allow = rng.integers(0, 3100, 300)
    with ShardedIndex.from_codes([*paths, tmp_path / "more.bitkin"], here, mmap=mmap) as index:
        assert_same(index.search(queries, 12), flat.search(queries, 12))
        assert_same(index.search(queries, 12, allow=allow), flat.search(queries, 12, allow=allow))
        index.verify()


def test_processes_answer_as_threads_do(two_workers: Client, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    codes = random_codes(rng, 5000, 128)
    save_parts(codes, [10, 700, 700, 2600, 3000, 3100, 3200, 3300, 3400, 3500], tmp_path / "codes")
    flat = FlatIndex(codes.spec)
    flat.add(codes)
    with ShardedIndex.from_codes(tmp_path / "codes", two_workers) as index:
        held = index.info()
        assert len(held) == 2
        assert sum(one.n_rows for one in held) == 5000
        assert max(one.n_rows for one in held) <= 2600
        assert all(one.n_bytes >= 24 * one.n_rows for one in held)
        queries = random_codes(rng, 301, 128)
        assert_same(index.search(queries, 40), flat.search(queries, 40))
        assert_same(index.search_radius(queries, 20), flat.search_radius(queries, 20))


def test_many_queries_are_searched_in_pieces(
    here: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bitkin.distributed.searching import merging, shard_set, sharded_index

    monkeypatch.setattr(sharded_index, "_QUERIES_AT_ONCE", 7)
    monkeypatch.setattr(shard_set, "_BYTES_IN_TASKS", 0)
    monkeypatch.setattr(sharded_index.ShardedIndex, "_group", one_group_per_shard)
    monkeypatch.setattr(merging, "_BYTES_TO_CLIENT", 0)
    rng = np.random.default_rng(5)
    codes = random_codes(rng, 700, 64)
    save_parts(codes, list(range(20, 400, 20)), tmp_path / "codes")
    flat = FlatIndex(codes.spec)
    flat.add(codes)
    queries = random_codes(rng, 64, 64)
    with ShardedIndex.from_codes(tmp_path / "codes", here) as index:
        assert_same(index.search(queries, 30), flat.search(queries, 30))
        assert_same(index.search_radius(queries, 6), flat.search_radius(queries, 6))


def one_group_per_shard(index: Any, shards: Any) -> list[Any]:
    return [ShardGroup([shard], None) for shard in shards]


def test_codes_that_dask_computes_are_shards(here: Client) -> None:
    codes = random_codes(np.random.default_rng(6), 300, 64)
    flat = FlatIndex(codes.spec)
    flat.add(codes)
    parts = [dask.delayed(codes[i : i + 70]) for i in range(0, 300, 70)]
    queries = codes[:11]
    with ShardedIndex.from_codes(parts, here) as index:
        assert index.n_shards == 5
        assert_same(index.search(queries, 9), flat.search(queries, 9))
        index.verify()
        index.rebalance()
        assert_same(index.search(queries, 9), flat.search(queries, 9))


def test_what_is_computed_must_be_codes(here: Client) -> None:
    with pytest.raises(InvalidInputError, match="part 1 must compute Codes, got int"):
        ShardedIndex.from_codes(
            [dask.delayed(random_codes(np.random.default_rng(0), 3, 8)), dask.delayed(7)], here
        )


def test_shards_are_added_while_it_serves(here: Client, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    codes = random_codes(rng, 600, 64)
    save_parts(codes[:400], [100, 200], tmp_path / "codes")
    codes[400:].save(tmp_path / "later.bitkin")
    queries = random_codes(rng, 5, 64)
    before, after = FlatIndex(codes.spec), FlatIndex(codes.spec)
    before.add(codes[:400])
    after.add(codes)
    with ShardedIndex.from_codes(tmp_path / "codes", here) as index:
        assert_same(index.search(queries, 20), before.search(queries, 20))
        index.add_shards(tmp_path / "later.bitkin")
        assert_same(index.search(queries, 20), after.search(queries, 20))
        random_codes(rng, 3, 32).save(tmp_path / "other.bitkin")
        with pytest.raises(CodeMismatchError, match="shards must hold codes of one spec"):
            index.add_shards(tmp_path / "other.bitkin")
        assert_same(index.search(queries, 20), after.search(queries, 20))


def test_ids_that_two_shards_share_are_refused(here: Client, tmp_path: Path) -> None:
    codes = random_codes(np.random.default_rng(8), 100, 16)
    names = ["even", "odd", "both"]
    for name, ids in zip(names, (range(0, 200, 2), range(1, 201, 2), [7, 300]), strict=True):
        part = FlatIndex(codes.spec)
        part.add(codes[: len(ids)], list(ids))
        part.save(tmp_path / f"{name}.bitkin")
    paths = [tmp_path / f"{name}.bitkin" for name in names]
    with ShardedIndex.from_codes(paths[:2], here) as index:  # ranges overlap, and ids do not
        assert len(index) == 200
        with pytest.raises(DuplicateIdError, match=r"odd.bitkin and .*both.bitkin both hold 7"):
            index.add_shards(paths[2])
        assert index.n_shards == 2


def test_shared_ids_are_found_in_chunks_too(
    here: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bitkin.distributed.searching import overlaps

    monkeypatch.setattr(overlaps, "_IDS_AT_ONCE", 13)
    codes = random_codes(np.random.default_rng(8), 100, 16)
    for name, start in (("a", 0), ("b", 1)):
        part = FlatIndex(codes.spec)
        part.add(codes[:50], np.arange(start, start + 100, 2))
        part.save(tmp_path / f"{name}.bitkin")
    paths = [tmp_path / "a.bitkin", tmp_path / "b.bitkin"]
    ShardedIndex.from_codes(paths, here).close()
    last = FlatIndex(codes.spec)
    last.add(codes[:2], [98, 1000])
    last.save(tmp_path / "c.bitkin")
    with pytest.raises(DuplicateIdError, match=r"a.bitkin and .*c.bitkin both hold 98"):
        ShardedIndex.from_codes([*paths, tmp_path / "c.bitkin"], here)


def test_shards_of_different_models_are_refused_by_name(here: Client, tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    for name, made_by in (("a", None), ("b", "one"), ("c", None), ("d", "two")):
        random_codes(rng, 5, 16, fingerprint=made_by).save(tmp_path / f"{name}.bitkin")
    with pytest.raises(
        CodeMismatchError, match=r"that of .*b.bitkin has fingerprint one, that of .*d.bitkin two"
    ):
        ShardedIndex.from_codes(tmp_path, here)
    with ShardedIndex.from_codes([tmp_path / "a.bitkin", tmp_path / "b.bitkin"], here) as index:
        assert index.fingerprint == "one"
        with pytest.raises(CodeMismatchError, match="queries must come from the hasher with"):
            index.search(random_codes(rng, 1, 16, fingerprint="two"), 1)
        with pytest.raises(CodeMismatchError, match="queries must be 16 × 1-bit codes"):
            index.search(random_codes(rng, 1, 17), 1)


def test_what_cannot_be_read_is_named_with_the_worker(here: Client, tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match=r"nowhere.bitkin cannot be read: .* worker inproc:"):
        ShardedIndex.from_codes(tmp_path / "nowhere.bitkin", here)
    with pytest.raises(FileAccessError, match=r"end in .bitkin.*none on worker inproc"):
        ShardedIndex.from_codes(tmp_path, here)
    bitkin.SignHash().fit(np.eye(3)).save(tmp_path / "model.bitkin")
    with pytest.raises(InvalidInputError, match=r"model.bitkin holds SignHash, neither codes nor"):
        ShardedIndex.from_codes(tmp_path, here)


def test_bad_arguments_are_refused_at_the_door(here: Client, tmp_path: Path) -> None:
    codes = random_codes(np.random.default_rng(10), 9, 16)
    codes.save(tmp_path / "codes.bitkin")
    with pytest.raises(InvalidInputError, match="paths must name at least one file, got none"):
        ShardedIndex.from_codes([], here)
    with pytest.raises(InvalidInputError, match="paths must name a file, got 7"):
        ShardedIndex.from_codes([7], here)
    with pytest.raises(InvalidInputError, match="paths must be files, a folder, or parts"):
        ShardedIndex.from_codes(7, here)
    with pytest.raises(InvalidInputError, match="must all be files or all parts"):
        ShardedIndex.from_codes([dask.delayed(codes), "codes.bitkin"], here)
    with pytest.raises(InvalidInputError, match="mmap must be True or False"):
        ShardedIndex.from_codes(tmp_path, here, mmap=1)
    with ShardedIndex.from_codes(tmp_path, here) as index:
        with pytest.raises(InvalidInputError, match="k must be between 1 and"):
            index.search(codes, 0)
        with pytest.raises(InvalidInputError, match="queries must be Codes, got ndarray"):
            index.search(np.eye(3), 1)
        with pytest.raises(InvalidInputError, match="allow must be whole numbers"):
            index.search(codes, 1, allow=["a"])
        with pytest.raises(InvalidInputError, match="radius must be at least 0"):
            index.search_radius(codes, -1)


def test_after_it_is_closed_it_says_so(tmp_path: Path) -> None:
    codes = random_codes(np.random.default_rng(11), 9, 16)
    codes.save(tmp_path / "codes.bitkin")
    with Client(processes=False, n_workers=1, dashboard_address=ANY_PORT) as client:
        with ShardedIndex.from_codes(tmp_path, client) as closed:
            pass
        assert repr(closed) == "ShardedIndex(closed)"
        closed.close()
        with pytest.raises(InvalidInputError, match="the ShardedIndex is closed"):
            closed.search(codes, 1)
        index = ShardedIndex.from_codes(tmp_path)  # by the client that Dask knows
    with pytest.raises(ClusterError, match=r"client of this ShardedIndex is closed\. Make a new"):
        index.search(codes, 1)


def test_a_damaged_file_is_found_before_and_after(here: Client, tmp_path: Path) -> None:
    codes = random_codes(np.random.default_rng(12), 900, 64)
    path = tmp_path / "codes.bitkin"
    codes.save(path)
    whole = path.read_bytes()
    with ShardedIndex.from_codes(path, here) as index:
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(CorruptFileError):
            index.verify()
        codes[:800].save(path)
        with pytest.raises(CorruptFileError, match="holds something else than when it was opened"):
            index.verify()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CorruptFileError):
        ShardedIndex.from_codes(path, here)


@pytest.mark.parametrize("how", ["parts", "save", "parquet"])
def test_what_a_cluster_encodes_is_searched_as_it_is(
    here: Client, tmp_path: Path, how: str
) -> None:
    X = np.random.default_rng(15).standard_normal((240, 8)).astype(np.float32)
    hasher = bitkin.ProjectionHash(8, rotation="random").fit(X)
    codes = bitkin.distributed.encode(hasher, dask.array.from_array(X, chunks=(20, -1)))
    source: Any = codes if how == "parts" else tmp_path / "codes"
    if how == "save":  # twelve files: part-10 comes after part-9
        codes.save(source)
    elif how == "parquet":
        codes.to_parquet(source)
    flat = FlatIndex(hasher.spec_)
    flat.add(hasher.encode(X))
    with ShardedIndex.from_codes(source, here) as index:
        assert index.n_shards == 12
        assert_same(index.search(hasher.encode(X), 9), flat.search(hasher.encode(X), 9))
        index.verify()


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_with_vectors_beside_codes_the_workers_measure(
    here: Client, tmp_path: Path, metric: str
) -> None:
    rng = np.random.default_rng(13)
    X = rng.standard_normal((600, 12)).astype(np.float32)
    X[rng.integers(0, 600, 90)] = X[5]  # ties
    hasher = bitkin.ProjectionHash(12, rotation="random").fit(X)
    for name, rows in (("b", X[250:400]), ("a", X[:250]), ("c", X[400:])):
        np.save(tmp_path / f"{name}.npy", rows)
        hasher.encode(rows).save(tmp_path / f"{name}.bitkin")
    queries = rng.standard_normal((17, 12)).astype(np.float32)
    one = bitkin.Collection.create(None, hasher, metric=metric)
    one.add(X[:550])
    arguments: Any = {"hasher": hasher, "vectors": tmp_path, "metric": metric}
    with ShardedIndex.from_codes(tmp_path, here, **arguments) as index:
        allow = np.arange(0, 550, 2)
        for k in (1, 9):
            some: Any = {"oversample": 600, "allow": np.arange(550)}
            truth = one.search(queries, k, stage="exact", oversample=600)
            found = index.search_vectors(queries, k, **some)
            np.testing.assert_array_equal(found.ids, truth.ids)
            np.testing.assert_allclose(found.distances, truth.distances, rtol=1e-9)
            truth = one.search(queries, k, stage="exact", oversample=600, allow=allow)
            found = index.search_vectors(queries, k, oversample=600, allow=allow)
            np.testing.assert_array_equal(found.ids, truth.ids)
        assert index.search_vectors(queries[3], 700).ids.shape == (1, 700)
        assert (index.search_vectors(queries[3], 700).ids[0] >= 0).sum() == 600
        assert index.search_vectors(queries[:0], 4).ids.shape == (0, 4)
        assert (index.search_vectors(queries, 4, allow=[]).ids == -1).all()
        assert_same(
            index.search_vectors(queries, 5, stage="codes"), index.search(hasher.encode(queries), 5)
        )
        np.save(tmp_path / "d.npy", X[:9])
        hasher.encode(X[:9]).save(tmp_path / "d.bitkin")
        with pytest.raises(InvalidInputError, match="vectors must be given to an index"):
            index.add_shards(tmp_path / "d.bitkin")
        index.add_shards(tmp_path / "d.bitkin", vectors=tmp_path / "d.npy")
        assert 602 in index.search_vectors(X[2], 600, oversample=2).ids


def test_vectors_that_do_not_fit_are_refused(here: Client, tmp_path: Path) -> None:
    X = np.random.default_rng(14).standard_normal((30, 6)).astype(np.float32)
    hasher = bitkin.ProjectionHash(6, rotation="random").fit(X)
    hasher.encode(X).save(tmp_path / "codes.bitkin")
    np.save(tmp_path / "few.npy", X[:20])
    codes = tmp_path / "codes.bitkin"
    with pytest.raises(InvalidInputError, match=r"codes.bitkin has 30 rows, .*few.npy 20"):
        ShardedIndex.from_codes(codes, here, hasher=hasher, vectors=tmp_path / "few.npy")
    with pytest.raises(InvalidInputError, match="vectors must be in as many files as codes, got 2"):
        ShardedIndex.from_codes(codes, here, hasher=hasher, vectors=[tmp_path / "few.npy"] * 2)
    with pytest.raises(InvalidInputError, match="hasher must be given with vectors"):
        ShardedIndex.from_codes(codes, here, vectors=tmp_path / "few.npy")
    with pytest.raises(InvalidInputError, match="metric must be one of"):
        ShardedIndex.from_codes(codes, here, metric="l1")
    with pytest.raises(InvalidInputError, match=r"metric is for vectors: .*got 'cosine'"):
        ShardedIndex.from_codes(codes, here, hasher=hasher, metric="cosine")
    with pytest.raises(InvalidInputError, match="hasher must be a hasher, got str"):
        ShardedIndex.from_codes(codes, here, hasher="model.bitkin")
    np.save(tmp_path / "wide.npy", np.ones((30, 7), dtype=np.float32))
    with pytest.raises(
        InvalidInputError, match=r"vectors must have 6 columns.* got 7 in .*wide.npy"
    ):
        ShardedIndex.from_codes(codes, here, hasher=hasher, vectors=tmp_path / "wide.npy")
    other = bitkin.ProjectionHash(6, rotation="random", random_state=5).fit(X)
    with pytest.raises(CodeMismatchError, match="hasher must come from the hasher with"):
        ShardedIndex.from_codes(codes, here, hasher=other)
    with ShardedIndex.from_codes(codes, here) as index:
        with pytest.raises(InvalidInputError, match="hasher must be given to from_codes"):
            index.search_vectors(X, 2)
        with pytest.raises(InvalidInputError, match="vectors must be None for an index"):
            index.add_shards(codes, vectors=tmp_path / "few.npy")
    with ShardedIndex.from_codes(codes, here, hasher=hasher) as index:
        assert_same(index.search_vectors(X, 3), index.search(hasher.encode(X), 3))
        with pytest.raises(InvalidInputError, match="stage must be one of 'codes', got 'exact'"):
            index.search_vectors(X, 2, stage="exact")


def test_vectors_whose_lengths_spoil_codes_are_refused_as_in_a_collection(
    here: Client, tmp_path: Path
) -> None:
    rng = np.random.default_rng(15)
    unlike = rng.standard_normal((300, 10)) + 2
    unlike *= rng.uniform(0.3, 3, (300, 1))  # lengths tell nothing of the direction
    alike = unlike / np.linalg.norm(unlike, axis=1, keepdims=True)
    hasher = bitkin.ProjectionHash(8, normalize=False).fit(unlike)
    for name, rows in (("unlike", unlike), ("alike", alike)):
        for i, part in enumerate(np.array_split(rows.astype(np.float32), 3)):
            np.save(tmp_path / f"{name}-{i}.npy", part)
            hasher.encode(part).save(tmp_path / f"{name}-{i}.bitkin")

    def files(name: str, suffix: str) -> list[Path]:
        return sorted(tmp_path.glob(f"{name}-*{suffix}"))

    given: Any = {"client": here, "hasher": hasher, "metric": "cosine"}
    with pytest.raises(InvalidInputError, match="vectors must have rows of like length"):
        bitkin.Collection.create(None, hasher, metric="cosine").add(unlike)
    with pytest.raises(InvalidInputError, match=r"like length.*Fit it with normalize=True"):
        ShardedIndex.from_codes(
            files("unlike", ".bitkin"), vectors=files("unlike", ".npy"), **given
        )
    with ShardedIndex.from_codes(
        files("alike", ".bitkin"), vectors=files("alike", ".npy"), **given
    ) as index:
        with pytest.warns(UserWarning, match="vectors must have rows of like length"):
            index.add_shards(files("unlike", ".bitkin"), vectors=files("unlike", ".npy"))
        assert len(index) == 600
    given["metric"] = "l2"  # which does depend on lengths
    ShardedIndex.from_codes(
        files("unlike", ".bitkin"), vectors=files("unlike", ".npy"), **given
    ).close()


def test_an_index_closed_while_shards_are_added_stays_closed(
    here: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = random_codes(np.random.default_rng(16), 40, 64)
    save_parts(codes, [20], tmp_path / "codes")
    index = ShardedIndex.from_codes(tmp_path / "codes", here)
    home = "bitkin.distributed.searching.sharded_index.describe_codes"
    describe = pydoc.locate(home)
    assert callable(describe)

    def close_meanwhile(*arguments: Any) -> Any:
        described = describe(*arguments)
        index.close()
        return described

    monkeypatch.setattr(home, close_meanwhile)
    with pytest.raises(InvalidInputError, match="the ShardedIndex is closed"):
        index.add_shards(tmp_path / "codes")
    assert repr(index) == "ShardedIndex(closed)"
