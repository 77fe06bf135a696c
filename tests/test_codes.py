from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bitkin
from bitkin import Codes, CodeSpec, distances
from bitkin.errors import CodeMismatchError, CorruptFileError, InvalidInputError
from bitkin.hashers.projection.sign_model import SignModel
from tests.truth import random_codes, symbol_distances

ODD_SIZES = (1, 7, 8, 9, 63, 64, 65, 129)


@pytest.mark.parametrize("bits", [1, 2, 3, 5, 8, 9, 16, 17, 32])
@pytest.mark.parametrize("n_symbols", ODD_SIZES)
def test_symbols_come_back_from_packing(bits: int, n_symbols: int) -> None:
    rng = np.random.default_rng(bits * 1000 + n_symbols)
    symbols = rng.integers(0, 2**bits, (5, n_symbols), dtype=np.uint64)
    codes = Codes.from_symbols(symbols, bits)
    assert np.array_equal(codes.symbols(), symbols)
    assert codes.symbols().dtype == (
        np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32
    )
    assert Codes.from_bytes(codes.to_bytes(), codes.spec) == codes


@pytest.mark.parametrize("n_symbols", ODD_SIZES)
def test_bytes_of_bits_are_what_packbits_makes(n_symbols: int) -> None:
    bits = np.random.default_rng(n_symbols).random((9, n_symbols)) < 0.5
    codes = Codes.from_symbols(bits, 1)
    assert np.array_equal(codes.to_bytes(), np.packbits(bits, axis=1))
    assert np.array_equal(
        codes.words.view(np.uint8)[:, 0, : codes.spec.n_bytes], np.packbits(bits, axis=1)
    )


def test_planes_follow_one_another_in_bytes() -> None:
    symbols = np.array([[0, 1, 2, 3, 3]])
    assert Codes.from_symbols(symbols, 2).to_bytes().tolist() == [[0b01011000, 0b00111000]]


def test_bytes_are_what_faiss_takes_and_distances_agree_with_it() -> None:
    faiss = pytest.importorskip("faiss", reason="FAISS comes with the extra `bench`")
    rng = np.random.default_rng(4)
    rows, queries = random_codes(rng, 300, 72), random_codes(rng, 9, 72)
    index = faiss.IndexBinaryFlat(72)
    index.add(rows.to_bytes())
    found, ids = index.search(queries.to_bytes(), 300)
    ours = distances(queries, rows)
    assert np.array_equal(np.take_along_axis(ours, ids, axis=1), found)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 9),
    m=st.integers(0, 9),
    n_symbols=st.integers(1, 200),
    bits=st.integers(1, 5),
    seed=st.integers(0),
)
def test_distances_equal_the_count_of_differing_symbols(
    n: int, m: int, n_symbols: int, bits: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    a = random_codes(rng, n, n_symbols, bits, empty=True)
    b = random_codes(rng, m, n_symbols, bits, empty=True)
    assert np.array_equal(distances(a, b), symbol_distances(a, b))


@pytest.mark.parametrize("m", [511, 512, 513, 1100])
@pytest.mark.parametrize("n_symbols", [1, 64, 33 * 64 + 5, 64 * 64])
def test_distances_are_right_across_blocks_and_for_wide_codes(m: int, n_symbols: int) -> None:
    rng = np.random.default_rng(m)
    a, b = random_codes(rng, 3, n_symbols), random_codes(rng, m, n_symbols)
    assert np.array_equal(distances(a, b), symbol_distances(a, b))


@settings(max_examples=30, deadline=None)
@given(n_symbols=st.integers(1, 130), bits=st.integers(1, 4), seed=st.integers(0))
def test_distance_is_symmetric_and_keeps_the_triangle_inequality(
    n_symbols: int, bits: int, seed: int
) -> None:
    codes = random_codes(np.random.default_rng(seed), 12, n_symbols, bits)
    d = distances(codes, codes)
    assert np.array_equal(d, d.T)
    assert (np.diag(d) == 0).all()
    assert (d[:, None, :] <= d[:, :, None] + d[None, :, :]).all()


def test_an_empty_row_is_n_symbols_away_from_everything() -> None:
    codes = Codes.from_symbols([[1, 1, 1], [1, 0, 1]], 1, empty=[True, False])
    assert distances(codes, codes).tolist() == [[3, 3], [3, 0]]
    assert codes.symbols()[0].tolist() == [0, 0, 0]


def test_rows_are_chosen_as_in_numpy() -> None:
    codes = random_codes(np.random.default_rng(0), 10, 70, 3, empty=True)
    symbols = codes.symbols()
    for rows in (
        slice(2, 7),
        slice(None, None, -2),
        [3, 3, 1],
        np.arange(10) % 2 == 0,
        slice(4, 4),
    ):
        assert np.array_equal(codes[rows].symbols(), symbols[rows])
        assert np.array_equal(codes[rows].empty_rows(), codes.empty_rows()[rows])
    assert len(codes[-1]) == 1
    assert np.array_equal(codes[-1].symbols(), symbols[-1:])
    assert [len(row) for row in codes] == [1] * 10
    with pytest.raises(IndexError, match="row 10 is out of range for 10 codes"):
        codes[10]
    assert np.array_equal(codes[np.uint8(9)].symbols(), symbols[9:])
    with pytest.raises(InvalidInputError, match="one index"):
        codes[1, 2]
    for shapeless in (None, True, symbols[:, :1] == 1, [[1]]):
        with pytest.raises(InvalidInputError, match="codes take a row, a slice, or a flat list"):
            codes[shapeless]


def test_codes_cannot_be_changed() -> None:
    codes = random_codes(np.random.default_rng(0), 3, 9)
    with pytest.raises(AttributeError, match="immutable"):
        codes.spec = CodeSpec(3)
    with pytest.raises(ValueError, match="read-only"):
        codes.words[0] = 1
    words = np.zeros((1, 1, 1), dtype=np.uint64)
    codes = Codes(words, CodeSpec(9))
    words[:] = 2**64 - 1
    assert codes.symbols().tolist() == [[0] * 9]


def read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(lambda words: words, id="the array"),
        pytest.param(read_only, id="a read-only view"),
        pytest.param(
            lambda words: read_only(read_only(words)[:])[:], id="views of a read-only view"
        ),
        pytest.param(
            lambda words: read_only(words.reshape(1, -1, 2)).reshape(-1, 1, 2), id="another shape"
        ),
        pytest.param(lambda words: np.broadcast_to(words, words.shape), id="a broadcast array"),
        pytest.param(
            lambda words: np.frombuffer(words, np.uint64).reshape(words.shape), id="a buffer"
        ),
        pytest.param(
            lambda words: np.asarray(memoryview(words).toreadonly()), id="a read-only buffer"
        ),
    ],
)
def test_codes_do_not_change_with_the_array_they_were_made_of(seen: Any) -> None:
    words = np.arange(10, dtype=np.uint64).reshape(5, 1, 2)
    codes = Codes(seen(words), CodeSpec(128))
    before = codes.words.copy()
    words[:] = 7
    assert np.array_equal(codes.words, before)


def test_codes_of_what_nobody_can_write_are_not_copied(tmp_path: Path) -> None:
    words = np.arange(10, dtype=np.uint64).reshape(5, 1, 2).copy()
    words.flags.writeable = False
    np.save(tmp_path / "words.npy", words)
    mapped = np.load(tmp_path / "words.npy", mmap_mode="r")
    held = np.frombuffer(words.tobytes(), dtype=np.uint64).reshape(words.shape)
    for array in (words, words[1:], mapped, mapped[2:], held):
        assert np.shares_memory(Codes(array, CodeSpec(128)).words, array)
    Codes(words, CodeSpec(128)).save(tmp_path / "codes")
    codes = bitkin.load(tmp_path / "codes", mmap=True)
    assert np.shares_memory(Codes(codes.words, codes.spec).words, codes.words)


def test_encoding_makes_codes_of_its_own_words_without_a_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []
    hasher = bitkin.ProjectionHash(8).fit(np.random.default_rng(0).standard_normal((50, 9)))
    words = SignModel.words

    def noted(model: SignModel, batch: Any) -> Any:
        made.append(words(model, batch))
        return made[-1]

    monkeypatch.setattr(SignModel, "words", noted)
    assert np.shares_memory(hasher.encode(np.ones((3, 9))).words, made[0])


def test_equality_looks_at_rows_empties_and_origin() -> None:
    codes = random_codes(np.random.default_rng(0), 3, 9)
    assert codes == codes[:]
    assert codes != codes[::-1]
    assert codes != codes.with_fingerprint("a")
    assert codes != Codes(codes.words, codes.spec, empty=[True, False, False])
    assert codes != "codes"


def test_concatenation_keeps_rows_empties_and_the_known_origin() -> None:
    rng = np.random.default_rng(3)
    parts = [random_codes(rng, n, 20, 2, empty=n > 2) for n in (0, 3, 1, 20)]
    parts[1] = parts[1].with_fingerprint("f")
    whole = Codes.concatenate(parts)
    assert np.array_equal(whole.symbols(), np.concatenate([p.symbols() for p in parts]))
    assert np.array_equal(whole.empty_rows(), np.concatenate([p.empty_rows() for p in parts]))
    assert whole.fingerprint == "f"
    with pytest.raises(CodeMismatchError, match="one hasher"):
        Codes.concatenate([parts[1], parts[0], parts[2].with_fingerprint("g")])
    with pytest.raises(CodeMismatchError, match="21 × 2-bit"):
        Codes.concatenate([parts[0], random_codes(rng, 1, 21, 2)])
    with pytest.raises(InvalidInputError, match="parts must be Codes, got ndarray"):
        Codes.concatenate([np.zeros(3)])  # type: ignore[list-item]
    with pytest.raises(InvalidInputError, match="at least one"):
        Codes.concatenate([])


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("n", [0, 1, 65])
def test_codes_come_back_from_a_file_and_from_a_pickle(tmp_path: Path, n: int, mmap: bool) -> None:
    codes = random_codes(np.random.default_rng(n), n, 77, 3, empty=True).with_fingerprint("abc")
    codes.save(tmp_path / "codes")
    assert bitkin.load(tmp_path / "codes", mmap=mmap) == codes
    assert pickle.loads(pickle.dumps(codes)) == codes


def test_codes_of_another_spec_or_hasher_never_compare() -> None:
    rng = np.random.default_rng(0)
    a = random_codes(rng, 2, 64)
    with pytest.raises(
        CodeMismatchError, match=r"b must be 64 × 1-bit codes, got 65 × 1-bit.*same fitted hasher"
    ):
        distances(a, random_codes(rng, 2, 65))
    with pytest.raises(CodeMismatchError, match="fingerprint one, got two"):
        distances(a.with_fingerprint("one"), a.with_fingerprint("two"))
    assert distances(a.with_fingerprint("one"), a).shape == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[0, 2]], 1), "between 0 and 1"),
        (([[0, -1]], 4), "got -1"),
        (([[0.5]], 1), "whole numbers or bools, got float64"),
        (([0, 1], 1), r"shape \(n, n_symbols\), got \(2,\)"),
        (([[]], 1), "shape"),
        (([[1]], 0), "bits_per_symbol must be between 1 and 32, got 0"),
        (([[1]], 33), "got 33"),
        (([[1]], 1.5), "whole number, got 1.5"),
        (([[1]], True), "whole number, got True"),
    ],
)
def test_bad_symbols_are_named(arguments: tuple[list[object], int], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Codes.from_symbols(*arguments)  # type: ignore[arg-type]


def test_bad_parts_are_named() -> None:
    spec = CodeSpec(9)
    with pytest.raises(InvalidInputError, match="zeros beyond the 9 symbols"):
        Codes(np.full((1, 1, 1), 2**63, dtype=np.uint64), spec)
    with pytest.raises(InvalidInputError, match="zeros beyond"):
        Codes.from_bytes(np.full((1, 2), 255, dtype=np.uint8), spec)
    with pytest.raises(InvalidInputError, match=r"uint8 of shape \(n, 2\)"):
        Codes.from_bytes(np.zeros((1, 3), dtype=np.uint8), spec)
    with pytest.raises(InvalidInputError, match="words must be uint64"):
        Codes(np.zeros((1, 1), dtype=np.uint64), spec)
    with pytest.raises(InvalidInputError, match=r"empty must be bool of shape \(1,\)"):
        Codes(np.zeros((1, 1, 1), dtype=np.uint64), spec, empty=[True, False])
    with pytest.raises(InvalidInputError, match="fingerprint must be a string"):
        Codes(np.zeros((1, 1, 1), dtype=np.uint64), spec, fingerprint=3)  # type: ignore[arg-type]
    others: Any = (
        (9, r"got 9\. Write CodeSpec\(n_symbols"),
        (bitkin.ProjectionHash(8), r"Fit the hasher, and write hasher\.spec_"),
        (bitkin.SignHash(8).fit(), r"Write hasher\.spec_ for codes of this hasher"),
        (Codes.from_symbols([[0, 1]], 1), r"Write its spec: codes\.spec"),
    )
    for other, says in others:
        with pytest.raises(InvalidInputError, match=f"spec must be a CodeSpec, .*{says}"):
            bitkin.CellIndex(other)
    with pytest.raises(InvalidInputError, match="spec must be a CodeSpec, got 9"):
        Codes(np.zeros((1, 1, 1), dtype=np.uint64), 9)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="n_symbols must be"):
        CodeSpec(0)
    with pytest.raises(InvalidInputError, match=r"a must be Codes, got ndarray.*Codes.from_bytes"):
        distances(np.zeros(3), np.zeros(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("bits", [1, 2, 9])
def test_bools_are_zeros_and_ones_at_every_width(bits: int) -> None:
    flags = np.array([[True, False, True]])
    assert Codes.from_symbols(flags, bits).symbols().tolist() == [[1, 0, 1]]


def test_mapped_codes_are_verified_on_demand(tmp_path: Path) -> None:
    codes = random_codes(np.random.default_rng(0), 9, 64)
    codes.save(tmp_path / "codes")
    bitkin.load(tmp_path / "codes", mmap=True).verify()
    codes.verify()
    data = bytearray((tmp_path / "codes").read_bytes())
    data[-1] ^= 1
    (tmp_path / "codes").write_bytes(data)
    mapped = bitkin.load(tmp_path / "codes", mmap=True)
    with pytest.raises(CorruptFileError, match="checksum of words does not fit"):
        mapped.verify()


@pytest.mark.parametrize("bits", [1, 9, 17])
def test_numpy_takes_codes_as_their_symbols(bits: int) -> None:
    codes = random_codes(np.random.default_rng(0), 9, 65, bits)
    assert np.array_equal(np.asarray(codes), codes.symbols())
    assert np.asarray(codes).dtype == codes.spec.symbol_dtype
    assert np.asarray(codes, dtype=np.float64).dtype == np.float64
    assert np.asarray(codes[:0]).shape == (0, 65)
    with pytest.raises(ValueError, match="without a copy"):
        codes.__array__(copy=False)


def test_codes_say_how_large_they_are_to_whoever_counts_bytes() -> None:
    codes = Codes.from_symbols(np.zeros((1000, 64), dtype=np.uint8), 1)
    assert codes.nbytes == 8000
    assert 8000 <= sys.getsizeof(codes) < 8300
