from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bitkin
from bitkin import Codes, ProjectionHash
from bitkin.errors import DuplicateIdError, InvalidInputError, MissingExtraError
from bitkin.interop import from_faiss, to_faiss

faiss: Any = pytest.importorskip("faiss", reason="faiss is not installed")


def data(n: int = 1500, d: int = 20, seed: int = 0) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.geomspace(3, 0.3, d) + 2).astype(np.float32)


def require_same_signs(hasher: ProjectionHash, transform: Any, X: npt.NDArray[np.float32]) -> None:
    """Bits may differ only where a projection is rounding error."""
    ours, theirs = hasher.project(X), transform.apply(X)
    scale = np.linalg.norm(X, axis=1, keepdims=True) * np.linalg.norm(hasher.components_, axis=0)
    differ = hasher.transform(X).astype(bool) != (theirs >= 0)
    assert not (differ & (np.abs(ours) > 1e-5 * scale)).any()
    assert differ.mean() < 1e-3


def trained(kind: str, d: int = 20) -> Any:
    transform = {
        "ITQTransform": lambda: faiss.ITQTransform(d, 8, True),
        "ITQTransform without PCA": lambda: faiss.ITQTransform(d, d, False),
        "PCAMatrix": lambda: faiss.PCAMatrix(d, 8),
        "PCAMatrix whitened and turned": lambda: faiss.PCAMatrix(d, 8, -0.5, True),
        "ITQMatrix": lambda: faiss.ITQMatrix(d),
        "OPQMatrix": lambda: faiss.OPQMatrix(d, 4, 8),
        "RandomRotationMatrix": lambda: faiss.RandomRotationMatrix(d, 8),
        "RandomRotationMatrix, more out than in": lambda: faiss.RandomRotationMatrix(d, 40),
    }[kind]()
    if kind == "OPQMatrix":
        # any will do, and fifty take seconds
        transform.niter = transform.niter_pq = transform.niter_pq_0 = 2
    transform.train(data(d=d))
    return transform


KINDS = [
    "ITQTransform",
    "ITQTransform without PCA",
    "PCAMatrix",
    "PCAMatrix whitened and turned",
    "ITQMatrix",
    "OPQMatrix",
    "RandomRotationMatrix",
    "RandomRotationMatrix, more out than in",
]


def linear(matrix: npt.ArrayLike, bias: npt.ArrayLike | None = None) -> Any:
    A = np.asarray(matrix, dtype=np.float32)
    transform = faiss.LinearTransform(A.shape[1], A.shape[0], bias is not None)
    faiss.copy_array_to_vector(A.ravel(), transform.A)
    if bias is not None:
        faiss.copy_array_to_vector(np.asarray(bias, dtype=np.float32), transform.b)
    transform.is_trained = True
    return transform


@pytest.mark.parametrize("kind", KINDS)
def test_a_transform_trained_by_faiss_becomes_a_hasher_with_its_signs(
    kind: str, tmp_path: Path
) -> None:
    transform = trained(kind)
    hasher = from_faiss(transform)
    assert isinstance(hasher, ProjectionHash)
    assert hasher.spec_.n_bits == transform.d_out
    require_same_signs(hasher, transform, data(seed=1))
    hasher.save(tmp_path / "model")
    loaded = bitkin.load(tmp_path / "model")
    assert loaded.fingerprint_ == hasher.fingerprint_
    assert loaded.encode(data(50)) == hasher.encode(data(50))


def test_a_pca_keeps_its_mean() -> None:
    transform = trained("PCAMatrix")
    assert np.array_equal(from_faiss(transform).mean_, faiss.vector_to_array(transform.mean))


def test_a_transform_read_from_a_file_is_taken_too(tmp_path: Path) -> None:
    transform = trained("ITQTransform")
    faiss.write_VectorTransform(transform, str(tmp_path / "transform"))
    again = from_faiss(faiss.read_VectorTransform(str(tmp_path / "transform")))
    assert again.fingerprint_ == from_faiss(transform).fingerprint_


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"center": False},
        {"rotation": None},
        {"projection": "random", "n_bits": 33},
        {"projection": "opast", "rotation": "unifdiag"},
        {"projection": "frequent-directions", "rotation": "random"},
    ],
)
def test_a_hasher_becomes_a_transform_with_its_signs_and_comes_back(
    kind: dict[str, Any], tmp_path: Path
) -> None:
    hasher = ProjectionHash(**{"n_bits": 8, **kind}).fit(data())
    transform = to_faiss(hasher)
    centres = hasher.mean_ is not None
    assert type(transform) is (faiss.PCAMatrix if centres else faiss.LinearTransform)
    assert isinstance(transform, faiss.LinearTransform)
    assert (transform.d_in, transform.d_out, transform.is_trained) == (20, hasher.n_bits, True)
    X = data(seed=1)
    assert np.allclose(transform.apply(X), hasher.project(X), atol=1e-3)
    require_same_signs(hasher, transform, X)
    again = from_faiss(transform)
    assert np.array_equal(again.components_, hasher.components_)
    assert again.fingerprint_ == hasher.fingerprint_
    assert again.encode(X) == hasher.encode(X)
    require_same_signs(again, transform, X)
    faiss.write_VectorTransform(transform, str(tmp_path / "transform"))
    read = from_faiss(faiss.read_VectorTransform(str(tmp_path / "transform")))
    assert read.fingerprint_ == hasher.fingerprint_
    assert from_faiss(to_faiss(read)).fingerprint_ == hasher.fingerprint_


def test_a_transform_of_orthonormal_directions_can_be_reversed() -> None:
    assert to_faiss(ProjectionHash(8).fit(data())).is_orthonormal
    assert not to_faiss(
        ProjectionHash(8, projection="random", rotation=None).fit(data())
    ).is_orthonormal


def test_a_bias_becomes_a_mean() -> None:
    A = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    hasher = from_faiss(linear(A, [-3.0, 4.0]))
    assert np.allclose(hasher.mean_, [3.0, -2.0, 0.0])
    assert hasher.transform([[3.1, -1.9, 0], [2.9, -2.1, 0]]).tolist() == [[1, 1], [0, 0]]
    assert from_faiss(linear(A)).mean_ is None


def test_given_directions_are_used_and_never_learned() -> None:
    hasher = from_faiss(linear(np.eye(3)))
    with pytest.raises(
        InvalidInputError, match="directions were given, not learned, and it cannot be fitted"
    ):
        clone(hasher).fit(np.eye(3))
    with pytest.raises(InvalidInputError, match="features"):
        hasher.encode(np.eye(4))


@pytest.mark.parametrize("n_bits", [8, 64, 72, 256])
@pytest.mark.parametrize("n", [0, 1, 65])
def test_codes_become_a_flat_index_and_come_back(n_bits: int, n: int) -> None:
    bits = np.random.default_rng(0).random((n, n_bits)) < 0.5
    codes = Codes.from_symbols(bits, 1)
    index = to_faiss(codes)
    assert type(index) is faiss.IndexBinaryFlat
    assert (index.ntotal, index.d) == (n, n_bits)
    assert from_faiss(index) == codes


def test_faiss_finds_the_distances_we_find() -> None:
    bits = np.random.default_rng(0).random((100, 48)) < 0.5
    codes = Codes.from_symbols(bits, 1, fingerprint="here")
    distances, _ = to_faiss(codes[10:]).search(codes[:10].to_bytes(), 90)
    assert np.array_equal(distances, np.sort(bitkin.distances(codes[:10], codes[10:]), axis=1))
    assert from_faiss(to_faiss(codes)).fingerprint is None


def test_an_index_read_from_a_file_is_taken_too(tmp_path: Path) -> None:
    codes = Codes.from_symbols(np.random.default_rng(0).random((9, 16)) < 0.5, 1)
    faiss.write_index_binary(to_faiss(codes), str(tmp_path / "index"))
    assert from_faiss(faiss.read_index_binary(str(tmp_path / "index"))) == codes


def packed(n: int = 300, n_bytes: int = 8) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (n, n_bytes), dtype=np.uint8)


def inverted(bytes_per_row: int = 8) -> Any:
    index = faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(8 * bytes_per_row), 8 * bytes_per_row, 5)
    index.quantizer.add(packed(5, bytes_per_row))
    index.is_trained = True
    return index


def indexes_with_ids() -> list[tuple[Any, Any]]:
    """Indexes of FAISS without rows, and the ids that 300 rows get."""
    scattered = np.random.default_rng(1).permutation(10**6)[:300]
    return [
        (inverted(), scattered),
        (inverted(), None),
        (faiss.IndexBinaryIDMap(faiss.IndexBinaryFlat(64)), scattered),
        (faiss.IndexBinaryIDMap2(faiss.IndexBinaryFlat(64)), scattered),
        (faiss.IndexBinaryIDMap(inverted()), scattered),
        (faiss.IndexBinaryHNSW(64, 8), None),
        (faiss.IndexBinaryIDMap2(faiss.IndexBinaryHNSW(64, 8)), scattered),
        (faiss.IndexBinaryMultiHash(64, 4, 8), None),
    ]


@pytest.mark.parametrize("number", range(8))
def test_an_index_comes_with_the_ids_that_its_searches_return(number: int, tmp_path: Path) -> None:
    index, ids = indexes_with_ids()[number]
    empty = from_faiss(index)
    assert (len(empty), empty.spec.n_symbols) == (0, 64)
    if ids is None:
        index.add(packed())
        ids = np.arange(300)
    else:
        index.add_with_ids(packed(), ids)
    faiss.write_index_binary(index, str(tmp_path / "index"))
    for theirs in (index, faiss.read_index_binary(str(tmp_path / "index"))):
        ours = from_faiss(theirs)
        assert isinstance(ours, bitkin.FlatIndex)
        assert ours.ids.tolist() == sorted(ids.tolist())
        assert np.array_equal(ours.codes(ids).to_bytes(), packed())
        assert ours.fingerprint is None
        found = ours.search(Codes.from_bytes(packed()[:9], 64), 1)
        assert found.ids[:, 0].tolist() == ids[:9].tolist()


@pytest.mark.parametrize("n", [0, 1, 65])
def test_an_index_of_ours_becomes_one_with_its_ids_and_comes_back(n: int) -> None:
    codes = Codes.from_symbols(np.random.default_rng(0).random((n, 48)) < 0.5, 1)
    ids = np.random.default_rng(1).permutation(1000)[:n]
    for kind in (bitkin.FlatIndex, bitkin.MultiIndex):
        index = kind(codes.spec)
        index.add(codes, ids)
        theirs = to_faiss(index)
        assert type(theirs) is faiss.IndexBinaryIDMap
        assert theirs.ntotal == n
        again = from_faiss(theirs)
        assert again.ids.tolist() == index.ids.tolist()
        assert again.codes(ids) == codes
    if n:
        distances, found = theirs.search(codes[:1].to_bytes(), 1)
        assert (distances.tolist(), found.tolist()) == ([[0]], [[ids[0]]])


def test_ids_that_two_rows_share_are_refused() -> None:
    twice = faiss.IndexBinaryIDMap(faiss.IndexBinaryFlat(64))
    twice.add_with_ids(packed(2), np.array([7, 7]))
    with pytest.raises(DuplicateIdError, match="ids must differ, given more than once: 7"):
        from_faiss(twice)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            Codes.from_symbols([[1, 2, 3, 0, 0, 0, 0, 0]], 2),
            "must have 1 bit a symbol, got 8 × 2-bit",
        ),
        (Codes.from_symbols([[1, 0, 1]], 1), "must have a multiple of 8 bits, got 3"),
        (
            Codes.from_symbols([[0] * 8, [1] * 8], 1, empty=[True, False]),
            "must have no empty rows, got 1",
        ),
        (np.eye(3), "takes a fitted ProjectionHash, Codes or an index .* got ndarray"),
        (bitkin.MinHash(), "takes a fitted ProjectionHash, Codes or an index .* got MinHash"),
    ],
)
def test_what_faiss_cannot_hold_is_named(source: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        to_faiss(source)


def test_a_hasher_that_is_not_fitted_or_normalizes_has_no_transform() -> None:
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        to_faiss(ProjectionHash(8))
    with pytest.raises(InvalidInputError, match="must have normalize=False"):
        to_faiss(ProjectionHash(8, normalize=True).fit(data()))


def bad_sources() -> list[tuple[Any, str]]:
    no_numbers = faiss.LinearTransform(3, 2, False)
    no_numbers.is_trained = True
    return [
        (faiss.PCAMatrix(4, 2), "The PCAMatrix must be trained first"),
        (faiss.ITQTransform(4, 2, True), "The ITQTransform must be trained first"),
        (no_numbers, "must have a matrix of 2 × 3 numbers, got 0 numbers"),
        (linear([[np.nan, 1.0]]), "must have finite numbers only"),
        (
            linear([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1.0, 2.0, 0.0]),
            "adds a bias that no mean of the rows",
        ),
        (faiss.NormalizationTransform(4), "got NormalizationTransform: it is not linear"),
        (faiss.IndexBinaryHash(8, 4), "codes from IndexBinaryFlat, .* got IndexBinaryHash"),
        (
            faiss.IndexBinaryIDMap(faiss.IndexBinaryHash(8, 4)),
            "or an IDMap of these, got IndexBinaryHash",
        ),
        (
            faiss.IndexFlatL2(4),
            "takes a LinearTransform, an ITQTransform or a binary index .* got IndexFlatL2",
        ),
        (np.eye(2), "got ndarray"),
    ]


@pytest.mark.parametrize("number", range(10))
def test_what_faiss_offers_and_we_cannot_take_is_named(number: int) -> None:
    source, words = bad_sources()[number]
    with pytest.raises(InvalidInputError, match=words):
        from_faiss(source)


def test_without_faiss_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    codes = Codes.from_symbols([[1] * 8], 1)
    with pytest.raises(
        MissingExtraError,
        match=r"need faiss, which is not installed: pip install 'bitkin\[faiss\]'",
    ):
        to_faiss(codes)
    with pytest.raises(MissingExtraError, match=r"pip install 'bitkin\[faiss\]'"):
        from_faiss(codes)


def test_what_was_fitted_decides_not_what_was_set_since() -> None:
    hasher = ProjectionHash(8, normalize=True).fit(
        np.random.default_rng(0).standard_normal((50, 9))
    )
    with pytest.raises(InvalidInputError, match="normalize=False"):
        to_faiss(hasher.set_params(normalize=False))
