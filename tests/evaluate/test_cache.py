"""Truths kept on disk: the same answers, found once."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import bitkin
from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.evaluate import clear_cache, nearest, radius_truth, truth
from bitkin.evaluate.exact import cache as cache_module
from bitkin.evaluate.exact.digests import digest_rows
from bitkin.evaluate.exact.rows import ComparedRows
from bitkin.io import open_vectors

RNG = np.random.default_rng(0)
X = RNG.standard_normal((203, 7)).round(1).astype(np.float32)
Q = RNG.standard_normal((9, 7)).round(1).astype(np.float32)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The exact searches that were really done."""
    done: list[str] = []

    def counted(name: str) -> None:
        find: Callable[..., Any] = getattr(truth, name)

        def count(*given: Any) -> Any:
            done.append(name)
            return find(*given)

        monkeypatch.setattr(truth, name, count)

    counted("_nearest_in")
    counted("_within_radius")
    return done


def require_same(found: bitkin.Neighbors, want: bitkin.Neighbors) -> None:
    assert found.ids.dtype == want.ids.dtype
    assert found.distances.dtype == want.distances.dtype
    np.testing.assert_array_equal(found.ids, want.ids)
    np.testing.assert_array_equal(found.distances, want.distances)


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip", "jaccard"])
def test_a_kept_truth_is_the_one_that_was_found(
    metric: str, tmp_path: Path, searches: list[str]
) -> None:
    want = nearest(X, Q, 20, metric)
    searches.clear()
    require_same(nearest(X, Q, 20, metric, cache=tmp_path), want)
    assert len(searches) == 1
    for k in (20, 7, 1):
        found = nearest(X, Q, k, metric, cache=str(tmp_path))
        require_same(found, bitkin.Neighbors(want.ids[:, :k], want.distances[:, :k]))
        found.ids[:], found.distances[:] = 0, 0  # the caller's own
    assert len(searches) == 1
    require_same(nearest(X, Q, 30, metric, cache=tmp_path), nearest(X, Q, 30, metric))
    searches.clear()
    require_same(nearest(X, Q, 20, metric, cache=tmp_path), want)
    assert not searches
    assert len(list(tmp_path.iterdir())) == 1


def test_all_rows_serve_any_k(tmp_path: Path, searches: list[str]) -> None:
    nearest(X, Q, 203, cache=tmp_path)
    searches.clear()
    found = nearest(X, Q, 300, cache=tmp_path)
    assert not searches
    require_same(found, nearest(X, Q, 300))
    for rows, queries in ((X[:0], Q), (X, Q[:0])):
        for _ in range(2):
            require_same(nearest(rows, queries, 3, cache=tmp_path), nearest(rows, queries, 3))


def test_what_differs_has_a_truth_of_its_own(tmp_path: Path, searches: list[str]) -> None:
    changed = X.copy()
    changed[-1, -1] += 1
    asked: list[tuple[Any, Any, str]] = [
        (X, Q, "l2"),
        (X, Q, "ip"),
        (changed, Q, "l2"),
        (X, Q[:8], "l2"),
        (X[:, :6], Q[:, :6], "l2"),
        (X.reshape(29, 49), Q.reshape(-1)[:49][None], "l2"),
        (X.astype(np.float64), Q, "l2"),
        (scipy.sparse.csr_matrix(X), Q, "l2"),
        (Q, X, "l2"),
    ]
    for rows, queries, metric in asked:
        require_same(
            nearest(rows, queries, 3, metric, cache=tmp_path), nearest(rows, queries, 3, metric)
        )
    assert len(list(tmp_path.iterdir())) == len(asked)
    searches.clear()
    for rows, queries, metric in asked:
        nearest(rows, queries, 3, metric, cache=tmp_path)
    assert not searches


def test_the_same_numbers_share_a_truth_wherever_they_are(
    tmp_path: Path, searches: list[str]
) -> None:
    pd = pytest.importorskip("pandas")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "a.npy", X[:100])
    np.save(tmp_path / "b.npy", X[100:])
    folder = tmp_path / "cache"
    want = nearest(X, Q, 5, cache=folder)
    searches.clear()
    forms: list[Any] = [
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        X.astype(">f4"),
        tmp_path / "x.npy",
        [tmp_path / "a.npy", tmp_path / "b.npy"],
        open_vectors(tmp_path / "x.npy", batch_rows=17),
        pd.DataFrame(X),
    ]
    for form in forms:
        require_same(nearest(form, pd.DataFrame(Q) if form is forms[-1] else Q, 5, cache=folder),
                     want)  # fmt: skip
    assert not searches
    sparse = scipy.sparse.csr_matrix(X)
    scipy.sparse.save_npz(tmp_path / "x.npz", sparse)
    shuffled = scipy.sparse.coo_array(sparse)
    nearest(sparse, Q, 5, cache=folder)
    searches.clear()
    for form in (scipy.sparse.csc_array(sparse), shuffled, tmp_path / "x.npz"):
        require_same(nearest(form, Q, 5, cache=folder), want)
    assert not searches


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_batches_and_pieces_do_not_change_a_digest(
    form: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = form(np.where(X > 0, X, 0))
    digests = {digest_rows(ComparedRows(rows, "X"))}
    for batch_rows in (1, 7, 64, 1000):
        digests.add(digest_rows(open_vectors(rows, batch_rows=batch_rows)))
    assert len(digests) == 1
    assert len(digests.pop()) == 64
    flags = form(X > 0)
    assert digest_rows(ComparedRows(flags, "X")) == digest_rows(open_vectors(flags))
    empty = {digest_rows(ComparedRows(form(np.zeros((n, 3))), "X")) for n in range(5)}
    assert len(empty) == 5


def test_columns_beyond_int32_have_digests_of_their_own(tmp_path: Path) -> None:
    def row(column: int) -> Any:
        columns = np.array([3, column])
        return scipy.sparse.csr_array(([1.0, 2.0], columns, [0, 2]), shape=(1, 2**34))

    a, b = row(2**32 + 5), row(2**33 + 5)
    assert nearest(a, b, 1, cache=tmp_path).distances[0, 0] == np.sqrt(8)
    assert nearest(a, a, 1, cache=tmp_path).distances[0, 0] == 0


def test_iterators_are_searched_and_never_kept(tmp_path: Path) -> None:
    found = nearest(iter(np.split(X, 7)), iter([Q]), 3, cache=tmp_path)
    require_same(found, nearest(X, Q, 3))
    assert not list(tmp_path.iterdir())


def test_a_radius_truth_is_kept_too(tmp_path: Path, searches: list[str]) -> None:
    for n_neighbors in (20, 5):
        want = radius_truth(X, Q, n_neighbors)
        searches.clear()
        for _ in range(3):
            found = radius_truth(X, Q, n_neighbors, cache=tmp_path)
            assert isinstance(found, scipy.sparse.csr_matrix)
            assert found.dtype == np.bool_
            assert found.has_canonical_format
            assert found.indices.dtype == want.indices.dtype
            assert (found.toarray() == want.toarray()).all()
            found.data[:] = False
        assert searches == ["_within_radius"]
    assert radius_truth(X, Q[:0], 5, cache=tmp_path).shape == (0, 203)
    assert radius_truth(X, Q[:0], 5, cache=tmp_path).shape == (0, 203)


def kept_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


@pytest.mark.parametrize("kind", ["nearest", "radius"])
def test_a_damaged_or_foreign_file_is_found_again_with_a_notice(kind: str, tmp_path: Path) -> None:
    def find(rows: Any, cache: Any) -> Any:
        if kind == "nearest":
            return nearest(rows, Q, 4, cache=cache).ids
        return radius_truth(rows, Q, 4, cache=cache).toarray()

    want = find(X, None)
    find(X, tmp_path / "a")
    find(X + 1, tmp_path / "b")
    path, whole = kept_file(tmp_path / "a"), kept_file(tmp_path / "a").read_bytes()
    flipped = bytearray(whole)
    flipped[-3] ^= 1
    other = tmp_path / "codes"
    bitkin.Codes.from_symbols([[0, 1]], bits_per_symbol=1).save(other)
    np.savez(tmp_path / "other.npz", X)
    bad = [b"", whole[:100], whole[:-1], bytes(flipped), whole + b"x", b"text\n" * 99]
    bad += [other.read_bytes(), (tmp_path / "other.npz").read_bytes()]
    bad += [kept_file(tmp_path / "b").read_bytes()]  # a truth about other rows
    for content in bad:
        path.write_bytes(content)
        with pytest.warns(UserWarning, match=r"cannot be used and is found again: .*bitkin"):
            np.testing.assert_array_equal(find(X, tmp_path / "a"), want)
        assert path.read_bytes() == whole
        np.testing.assert_array_equal(find(X, tmp_path / "a"), want)


def test_a_whole_file_that_does_not_fit_is_not_believed(tmp_path: Path) -> None:
    from bitkin.io.writer import write_file

    nearest(X, Q, 4, cache=tmp_path)
    path = kept_file(tmp_path)
    good = {"ids": np.zeros((9, 4), np.int64), "distances": np.zeros((9, 4))}
    for parts in (
        good | {"ids": np.full((9, 4), 203)},
        good | {"ids": np.full((9, 4), -1)},
        good | {"ids": np.zeros((8, 4), np.int64)},
        good | {"more": np.zeros(1)},
        {"ids": good["ids"]},
    ):
        write_file(path, "Truth", {}, path.stem, parts)
        with pytest.warns(UserWarning, match="found again"):
            require_same(nearest(X, Q, 4, cache=tmp_path), nearest(X, Q, 4))
    clear_cache(tmp_path)
    radius_truth(X, Q, 4, cache=tmp_path)
    path = kept_file(tmp_path)
    offsets = np.arange(10)
    for ids in ([203] * 9, [-1] * 9, [0] * 8):
        write_file(path, "Truth", {}, path.stem, {"offsets": offsets, "ids": np.array(ids)})
        with pytest.warns(UserWarning, match="found again"):
            radius_truth(X, Q, 4, cache=tmp_path)


def test_a_folder_that_cannot_be_written_costs_a_notice_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    want = nearest(X, Q, 4)
    for folder in (tmp_path / "file", tmp_path / "file" / "below", "/dev/null/cache", "a\0b"):
        with pytest.warns(UserWarning, match="could not be kept in the cache"):
            require_same(nearest(X, Q, 4, cache=folder), want)
    monkeypatch.setenv("BITKIN_CACHE", str(tmp_path / "file"))
    require_same(nearest(X, Q, 4, cache=True), want)
    monkeypatch.delenv("BITKIN_CACHE")

    def nobody() -> Path:
        raise RuntimeError("no home")

    for variable in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    require_same(nearest(X, Q, 4, cache=True), want)
    assert clear_cache() == 0
    assert (tmp_path / "file").read_text() == "mine"


def test_true_is_the_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BITKIN_CACHE", str(tmp_path / "own"))
    nearest(X, Q, 4, cache=True)
    assert len(list((tmp_path / "own" / "truth").iterdir())) == 1
    monkeypatch.setenv("BITKIN_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    homes = {
        "Linux": tmp_path / "xdg" / "bitkin" / "truth",
        "Windows": tmp_path / "local" / "bitkin" / "truth",
        "Darwin": tmp_path / "home" / "Library" / "Caches" / "bitkin" / "truth",
    }
    for system, folder in homes.items():
        monkeypatch.setattr(platform, "system", lambda system=system: system)
        nearest(X, Q, 4, cache=True)
        assert len(list(folder.iterdir())) == 1
        assert clear_cache() == 1
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_module.default_folder() == tmp_path / "home" / ".cache" / "bitkin" / "truth"


def test_none_and_false_keep_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BITKIN_CACHE", str(tmp_path))
    nearest(X, Q, 4)
    nearest(X, Q, 4, cache=False)
    radius_truth(X, Q, 4)
    assert not list(tmp_path.iterdir())


def test_a_folder_keeps_what_was_used_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searches: list[str]
) -> None:
    (tmp_path / "mine.bitkin").write_bytes(bytes(100_000))
    for number in range(4):
        nearest(X + number, Q, 4, cache=tmp_path)
        for path in tmp_path.glob("nearest-*"):
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 100))
    size = max(path.stat().st_size for path in tmp_path.glob("nearest-*"))
    nearest(X, Q, 4, cache=tmp_path)  # the oldest is used again
    leftover = tmp_path / f".{next(tmp_path.glob('nearest-*')).name}.7-0123abcd.tmp"
    for age, stays in ((0, True), (9999, False)):
        leftover.write_bytes(b"x")
        os.utime(leftover, (time.time() - age, time.time() - age))
        monkeypatch.setattr(cache_module, "_MOST_BYTES", 3 * size)
        nearest(X + 4 + age, Q, 4, cache=tmp_path)
        assert leftover.exists() is stays
    assert len(list(tmp_path.glob("nearest-*"))) <= 3
    searches.clear()
    nearest(X, Q, 4, cache=tmp_path)
    assert not searches
    assert (tmp_path / "mine.bitkin").exists()


def test_what_is_too_large_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_MOST_BYTES", 100)
    require_same(nearest(X, Q, 4, cache=tmp_path), nearest(X, Q, 4))
    assert not list(tmp_path.iterdir())


def test_clearing_leaves_what_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert clear_cache(tmp_path / "none") == 0
    nearest(X, Q, 4, cache=tmp_path)
    radius_truth(X, Q, 4, cache=tmp_path)
    assert clear_cache(tmp_path) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / f"nearest-{'0' * 32}.bitkin").mkdir()
    with pytest.raises(FileAccessError, match="cannot be cleared"):
        clear_cache(tmp_path)
    for nothing in (None, False):
        with pytest.raises(InvalidInputError, match="cache must be True or a folder, got"):
            clear_cache(nothing)


def test_another_cache_is_refused_by_name() -> None:
    wrong: list[Any] = [1, 0, "", b"x" * 0, ["folder"], 2.5]
    for cache in wrong:
        with pytest.raises(InvalidInputError, match="cache must be True, None or a folder, got"):
            nearest(X, Q, 1, cache=cache)
        with pytest.raises(InvalidInputError, match="cache must be True, None or a folder, got"):
            radius_truth(X, Q, 1, cache=cache)
    with pytest.raises(InvalidInputError, match="k must be at least 1"):
        nearest(X, Q, 0, cache=True)


def test_two_processes_may_keep_the_same_truth(tmp_path: Path) -> None:
    code = """
import sys, numpy as np, warnings
warnings.simplefilter("error")
from bitkin.evaluate import nearest
X = np.random.default_rng(0).standard_normal((500, 5))
for round in range(40):
    found = nearest(X, X[:40], 1 + round % 7, cache=sys.argv[1])
    assert found.ids[:, 0].tolist() == list(range(40))
    print(round, flush=True)
"""
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "BITKIN_QUIET": "1"},
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"0\n"  # it is at work
    rows = np.random.default_rng(0).standard_normal((500, 5))
    while other.poll() is None:
        for k in (9, 3):
            assert nearest(rows, rows[:40], k, cache=tmp_path).ids[:, 0].tolist() == [*range(40)]
            clear_cache(tmp_path)
    assert other.communicate()[1] == b""
    assert other.returncode == 0


def test_rows_done_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "_BATCHES_PER_BLOCK", 1)
    asked: list[tuple[Any, str]] = [
        (X, "l2"),
        (X, "jaccard"),
        (open_vectors(X, batch_rows=50), "l2"),
        (iter(np.split(X, 7)), "l2"),
    ]
    for rows, metric in asked:
        for cache in (None, tmp_path, tmp_path):
            if cache is not None and not isinstance(rows, np.ndarray):
                continue
            done: list[int] = []
            nearest(rows, Q, 3, metric, cache=cache, progress=done.append)
            assert done == sorted(done)
            assert done[-1] == 203
    assert len(done) == 7


def test_no_notice_without_a_reason(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            nearest(X, Q, 3, cache=tmp_path / "new" / "folder")
