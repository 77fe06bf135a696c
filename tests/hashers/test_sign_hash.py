"""SignHash against np.packbits, which is what sentence-transformers calls ubinary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse

import bitkin
from bitkin import Collection, SignHash
from bitkin.errors import BitkinError, CodeMismatchError, CorruptFileError, InvalidInputError
from bitkin.hashers.sign_hash import coordinate_signs
from bitkin.interop import from_sentence_transformers
from bitkin.io.writer import write_file


def embeddings(n: int, d: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Unit rows, as embeddings are, in clusters."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((20, d))
    X = centers[rng.integers(0, 20, n)] + rng.standard_normal((n, d))
    unit: npt.NDArray[np.float32] = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype("f4")
    return unit


@pytest.mark.parametrize("d", [1, 7, 8, 9, 63, 64, 65, 384])
def test_codes_are_packed_as_ubinary_is(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinate_signs, "_NUMBERS_AT_ONCE", 20 * d)  # several pieces
    X = embeddings(65, d)
    X[3] = 0.0  # a zero has no bit, whatever its sign
    X[4] = -0.0
    ubinary = np.packbits(X > 0, axis=1)
    hasher = SignHash(d).fit()
    codes = hasher.encode(X)
    assert np.array_equal(codes.to_bytes(), ubinary)
    assert np.array_equal(hasher.transform(X), X > 0)
    assert codes == from_sentence_transformers(ubinary, n_bits=d).with_fingerprint(
        hasher.fingerprint_
    )
    for same in (X.astype(np.float64), scipy.sparse.csr_array(X)):
        assert hasher.encode(same) == codes


def test_all_of_one_width_are_one_model() -> None:
    X = embeddings(40, 12)
    by_rows, by_width = SignHash().fit(X), SignHash(12).fit()
    assert by_rows.fingerprint_ == by_width.fingerprint_ != SignHash(13).fit().fingerprint_
    assert by_rows.encode(X) == by_width.encode(X)
    index = bitkin.FlatIndex(by_rows.spec_)
    index.add(by_rows.encode(X))
    assert index.search(by_width.encode(X), 1).distances.tolist() == [[0]] * 40


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_the_estimate_is_that_of_a_projection_onto_the_axes(metric: str) -> None:
    from bitkin.hashers.projection.given import hasher_from_directions

    X = embeddings(300, 24) * np.linspace(0.5, 2, 300, dtype=np.float32)[:, None]
    signs, axes = SignHash(24).fit(), hasher_from_directions(np.eye(24))
    np.testing.assert_allclose(
        bitkin.corrections(signs, X, metric), bitkin.corrections(axes, X, metric), rtol=1e-6
    )
    found = []
    for hasher in (signs, axes):
        collection = Collection.create(None, hasher, metric=metric, vectors=None)
        collection.add(X)
        found.append(collection.search(X[:9], 5, stage="estimate"))
    assert np.array_equal(found[0].ids, found[1].ids)
    np.testing.assert_allclose(found[0].distances, found[1].distances, rtol=1e-5, atol=1e-6)


def test_ubinary_codes_enter_a_collection_and_vectors_find_them() -> None:
    X = embeddings(2000, 64)
    Q = X[:50] + 0.05 * np.random.default_rng(1).standard_normal((50, 64)).astype(np.float32)
    truth = bitkin.evaluate.nearest(X, Q, 10, "cosine")
    codes = from_sentence_transformers(np.packbits(X > 0, axis=1), n_bits=64)
    hasher = SignHash(64).fit()
    ready = Collection.create(None, hasher, vectors=None, metric="cosine")
    assert ready.add_codes(codes[:1500]).tolist() == list(range(1500))
    ready.add_codes(codes[1500:], ids=np.arange(1500, 2000))
    by_codes = ready.search(Q, 10, stage="codes")
    estimated = ready.search(Q, 10)
    # What the rows lack, their corrections, is the same number for all: a product with their signs.
    scores = (Q / np.linalg.norm(Q, axis=1, keepdims=True)) @ (2.0 * (X > 0) - 1).T
    best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    assert bitkin.evaluate.recall(estimated, best) > 0.99
    found = [bitkin.evaluate.recall(hits, truth) for hits in (by_codes, estimated)]
    assert found[1] > found[0] + 0.05
    # with corrections of the vectors it is the collection that vectors make
    whole = Collection.create(None, hasher, vectors=None, metric="cosine")
    whole.add_codes(codes, corrections=bitkin.corrections(hasher, X, "cosine"))
    added = Collection.create(None, hasher, vectors=None, metric="cosine")
    added.add(X)
    assert np.array_equal(whole.search(Q, 10).ids, added.search(Q, 10).ids)
    assert whole.get([7]).codes == added.get([7]).codes
    # distances estimated without corrections are about the true ones
    near = estimated.ids == truth.ids
    assert np.abs(estimated.distances[near] - truth.distances[near]).mean() < 0.1


def test_codes_are_rows_and_queries_wherever_vectors_are() -> None:
    X = embeddings(200, 32)
    codes = from_sentence_transformers(np.packbits(X > 0, axis=1), n_bits=32)
    collection = Collection.create(None, SignHash(32).fit(), vectors=None, metric="cosine")
    collection.add(codes[:150])
    collection.upsert(codes[150:], ids=np.arange(100, 150))  # replaces the last fifty
    found = collection.search(codes, 1, stage="codes")
    assert found.ids[:100, 0].tolist() == list(range(100))
    assert found.ids[150:, 0].tolist() == list(range(100, 150))
    assert collection.get(np.arange(100, 150)).codes.to_bytes().tolist() == (
        codes[150:].to_bytes().tolist()
    )
    same = collection.search(X, 1, stage="codes")
    assert np.array_equal(same.ids, found.ids)
    with pytest.raises(InvalidInputError, match="a matrix for stage='estimate', got codes"):
        collection.search(codes, 1)
    with pytest.raises(CodeMismatchError, match="queries must come from the hasher"):
        collection.search(codes.with_fingerprint("another"), 1, stage="codes")


def test_codes_of_other_hashers_enter_too_where_the_collection_needs_no_more() -> None:
    X = np.abs(embeddings(200, 30))
    wta = bitkin.WTAHash(16, window=4).fit(X)
    collection = Collection.create(None, wta, vectors=None, ids="str")
    names = [f"row {i}" for i in range(200)]
    assert collection.add_codes(wta.encode(X), ids=names).tolist() == names
    assert collection.search(X[5:6], 1).ids.tolist() == [["row 5"]]
    with pytest.raises(InvalidInputError, match="corrections must be None in this collection"):
        collection.add_codes(wta.encode(X[:1]), ids=["new"], corrections=np.zeros((1, 2)))


def test_codes_that_do_not_belong_are_refused_and_nothing_is_added() -> None:
    X = embeddings(50, 16)
    signs = SignHash(16).fit()
    collection = Collection.create(None, signs, vectors=None, metric="cosine")
    codes = signs.encode(X)
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (X, {}, "codes must be Codes, got ndarray"),
        (SignHash(8).fit().encode(X[:, :8]), {}, "codes must be 16 × 1-bit codes"),
        (codes, {"corrections": np.zeros((49, 2))}, r"corrections must have shape \(50, 2\)"),
        (codes, {"corrections": np.full((50, 2), np.nan)}, "corrections must be finite"),
        (codes, {"ids": np.zeros(50, dtype=int)}, "ids must differ"),
        (codes, {"ids": set(range(50))}, "ids must"),
    ]
    for given, more, says in refused:
        with pytest.raises(BitkinError, match=says):
            collection.add_codes(given, **more)
    other = bitkin.ProjectionHash(16, rotation="random").fit(X)
    with pytest.raises(CodeMismatchError, match="fingerprint"):
        collection.add_codes(other.encode(X))
    assert len(collection) == 0
    with pytest.raises(InvalidInputError, match="vectors=None, or add the vectors"):
        Collection.create(None, signs).add_codes(codes)
    for hasher, metric in ((signs, "l2"), (signs, "ip"), (other, "cosine")):
        strict = Collection.create(None, hasher, vectors=None, metric=metric)
        with pytest.raises(InvalidInputError, match=r"corrections must be given .*bitkin\.correct"):
            strict.add_codes(hasher.encode(X))


def test_signs_that_never_change_are_a_warning() -> None:
    X = np.abs(embeddings(40, 16))
    X[:, :7] *= -1  # a few rows more or less decide nothing
    X[0, 8:10] = -1
    with pytest.warns(UserWarning, match="14 of 16 coordinates have one sign in all 40 rows of X"):
        SignHash().fit(X)
    with pytest.warns(UserWarning, match="14 of 16"):
        SignHash().fit(scipy.sparse.csr_array(X))
    SignHash().fit(X[:31])
    SignHash().fit(embeddings(40, 16))


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="n_features must be given to fit without X"):
        SignHash().fit()
    with pytest.raises(InvalidInputError, match="X must have 5 features, as n_features says"):
        SignHash(5).fit(np.ones((2, 4)))
    for wrong in (0, -1, 2.5, "8", 2**20 + 1, True):
        with pytest.raises(InvalidInputError, match="n_features must be"):
            SignHash(wrong).fit()  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="NaN at row 1, column 0"):
        SignHash(2).fit().encode([[1.0, 2.0], [np.nan, 1.0]])
    hasher = SignHash(4).fit()
    for parameters in ({"n_features": 5}, {"n_features": "4"}, {"n_features": None}, {}):
        write_file(tmp_path / "forged", "SignHash", parameters, hasher.fingerprint_, {})
        with pytest.raises(CorruptFileError):
            bitkin.load(tmp_path / "forged")


@pytest.mark.parametrize("n_features", [None, 8])
def test_a_loaded_hasher_has_the_parameters_it_was_made_with(
    n_features: int | None, tmp_path: Path
) -> None:
    hasher = SignHash(n_features).fit(embeddings(40, 8))
    hasher.save(tmp_path / "signs")
    loaded = bitkin.load(tmp_path / "signs")
    assert repr(loaded) == repr(hasher)
    assert loaded.get_params() == {"n_features": n_features}
    assert (loaded.n_features_in_, loaded.fingerprint_) == (8, hasher.fingerprint_)
    # files of older versions do not say what was given
    write_file(tmp_path / "old", "SignHash", {"n_features": 8}, hasher.fingerprint_, {})
    assert repr(bitkin.load(tmp_path / "old")) == "SignHash(n_features=8)"
    for given in (8, {}, {"n_features": 7}, {"n_features": "8"}, {"n_features": 8, "more": 1}):
        parameters = {"n_features": 8, "given": given}
        write_file(tmp_path / "forged", "SignHash", parameters, hasher.fingerprint_, {})
        with pytest.raises(CorruptFileError, match="was given"):
            bitkin.load(tmp_path / "forged")


def test_an_epoch_of_signs_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="snapshot must be a ProjectionHash, got a Sign"):
        bitkin.EpochIndex().begin(SignHash(8).fit())


def test_a_saved_hasher_keeps_the_names_of_columns(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(embeddings(40, 3), columns=["a", "b", "c"])
    SignHash().fit(frame).save(tmp_path / "signs")
    loaded = bitkin.load(tmp_path / "signs")
    assert loaded.encode(frame).to_bytes().shape == (40, 1)
    with pytest.raises(InvalidInputError, match="feature names"):
        loaded.encode(frame[["b", "a", "c"]])
