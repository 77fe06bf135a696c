"""Large k: limits guessed from a sample of blocks, marks, and a second scan where the guess was too
low.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from bitkin import Codes, FlatIndex
from bitkin.arrays import Ids
from bitkin.index import flat
from bitkin.index.rows import bitmap
from bitkin.index.rows.stretches import allowed_stretches
from bitkin.kernels.blocks import BLOCK

K = 200
N = 12 * BLOCK + 7  # k² / 4 rows at most, and 8 k at least: sampled


def truth(
    symbols: npt.NDArray[np.uint8], query: npt.NDArray[np.uint8], ids: Ids, k: int
) -> tuple[Ids, Ids]:
    distances = (symbols != query).sum(axis=1)
    order = np.lexsort((ids, distances))[:k]
    return ids[order], distances[order]


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every call of the two kernels, by name."""
    calls: list[str] = []
    for name in ("many_smallest_into", "k_smallest_into"):
        kernel = getattr(flat, name)

        def noted(*args: object, name: str = name, kernel: object = kernel) -> None:
            calls.append(name)
            kernel(*args)  # type: ignore[operator]

        monkeypatch.setattr(flat, name, noted)
    return calls


@pytest.mark.parametrize(("n_symbols", "bits"), [(40, 1), (70, 2)])
@pytest.mark.parametrize("order", ["random", "near ones last", "near ones in the sample"])
@pytest.mark.parametrize("ids_kind", ["row numbers", "interleaved"])
def test_many_neighbours_are_those_of_sorting_everything(
    n_symbols: int, bits: int, order: str, ids_kind: str, scans: list[str]
) -> None:
    rng = np.random.default_rng(n_symbols)
    symbols = rng.integers(0, 1 << bits, (N, n_symbols), dtype=np.uint8)
    query = rng.integers(0, 1 << bits, (1, n_symbols), dtype=np.uint8)
    distances = (symbols != query).sum(axis=1)
    if order == "near ones last":
        symbols = symbols[np.argsort(-distances)]
    elif order == "near ones in the sample":
        symbols = symbols[np.argsort(distances)]  # block 0 is sampled: the guess is far too low
    ids = np.arange(N) if ids_kind == "row numbers" else rng.permutation(3 * N)[:N]
    codes = Codes.from_symbols(symbols, bits)
    index = FlatIndex(codes.spec)
    for part in np.array_split(np.arange(N), 1 if ids_kind == "row numbers" else 3):
        index.add(codes[part], ids[part])
    dead = rng.permutation(ids)[:300]
    index.remove(dead)
    alive = ~np.isin(ids, dead)
    queries = np.concatenate([query, symbols[:2]])
    found = index.search(Codes.from_symbols(queries, bits), K)
    for row, one in enumerate(queries):
        expected_ids, expected = truth(symbols[alive], one, ids[alive], K)
        assert np.array_equal(found.ids[row], expected_ids)
        assert np.array_equal(found.distances[row], expected)
    assert "many_smallest_into" in scans
    if order == "near ones in the sample" and ids_kind == "row numbers":
        assert "k_smallest_into" in scans


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.9])
def test_filters_are_exact_whether_rows_are_copied_or_passed_over(share: float) -> None:
    rng = np.random.default_rng(7)
    symbols = rng.integers(0, 2, (N, 33), dtype=np.uint8)
    codes = Codes.from_symbols(symbols, 1)
    empty = np.arange(N) % 50 == 0
    index = FlatIndex(codes.spec)
    index.add(Codes(codes.words * ~empty[:, None, None], codes.spec, empty=empty))
    allow = rng.permutation(N)[: int(share * N)]
    usable = np.sort(allow[~empty[allow]])
    given = np.concatenate([allow, allow[:5], [N + 100]])  # repeats, and an id that is not there
    for k in (1, 9, K):
        found = index.search(codes[1:4], k, allow=given)
        for row in range(3):
            expected_ids, expected = truth(symbols[usable], symbols[1 + row], usable, k)
            n = len(expected_ids)
            assert np.array_equal(found.ids[row, :n], expected_ids)
            assert np.array_equal(found.distances[row, :n], expected)
            assert (found.ids[row, n:] == -1).all()
    within = index.search_radius(codes[1:4], 9, allow=given)
    for row in range(3):
        expected_ids, expected = truth(symbols[usable], symbols[1 + row], usable, len(usable))
        assert np.array_equal(
            within.ids[within.offsets[row] : within.offsets[row + 1]], expected_ids[expected <= 9]
        )


@pytest.mark.parametrize("gap", [1, 3])
def test_a_filter_marks_the_rows_it_allows_in_every_segment(gap: int) -> None:
    rng = np.random.default_rng(gap)
    n = 2 * BLOCK + 77
    codes = Codes.from_bytes(rng.integers(0, 256, (n, 4), dtype=np.uint8), 32)
    index = FlatIndex(codes.spec)
    ids = 5 + gap * np.arange(n)
    index.add(codes[: BLOCK + 3], ids[: BLOCK + 3])
    index.add(codes[BLOCK + 3 :], ids[BLOCK + 3 :])
    dead = ids[::11]
    index.remove(dead)
    allow = rng.permutation(ids.max() + 100)[: n // 2]
    marked = np.concatenate(
        [
            segment.row_ids[bitmap.unpack(mask, 0, segment.n)]
            for segment, mask in zip(
                index.snapshot.segments, index.snapshot.masks(allow), strict=True
            )
        ]
    )
    assert np.array_equal(np.sort(marked), np.setdiff1d(np.intersect1d(ids, allow), dead))
    # copied for many queries, passed over for one: the same rows either way
    few = marked[::40]
    stretches = [allowed_stretches(index.snapshot.segments, few, q) for q in (1, 1000)]
    assert [len(s.parts[0].mask) > 0 for s in stretches] == [True, False]
    for found in stretches:
        assert found.n_rows == len(few)
    one = index.search(codes[:1], len(few), allow=few)
    many = index.search(Codes.concatenate([codes[:1]] * 700), len(few), allow=few)
    assert np.array_equal(np.sort(one.ids[0]), np.sort(few))
    assert (many.ids == one.ids).all()
