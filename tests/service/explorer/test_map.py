"""The map against the components that NumPy finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csr_array

from bitkin import Collection, MinHash, ProjectionHash, SignHash, WTAHash
from bitkin.errors import InvalidInputError
from bitkin.service.explorer import map_rows
from bitkin.service.explorer.map import lay_out

RNG = np.random.default_rng(4)
X = (RNG.standard_normal((157, 9)) * np.linspace(4, 0.5, 9) + 3).astype(np.float32)
PCA = ProjectionHash(64, projection="random", rotation=None).fit(X)


def filled(rows: Any = X, hasher: Any = PCA, metadata: Any = None, **settings: Any) -> Any:
    collection = Collection.create(None, hasher, **settings)
    collection.add(rows, metadata=metadata)
    return collection


def places_of(drawn: dict[str, Any]) -> npt.NDArray[np.float64]:
    return np.array([[point["x"], point["y"]] for point in drawn["points"]]).reshape(-1, 2)


def components(rows: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], float]:
    """The first two principal components, and the share of the variance that they have."""
    centred = np.asarray(rows, np.float64) - np.asarray(rows, np.float64).mean(axis=0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    return centred @ axes[:2].T, float((sizes[:2] ** 2).sum() / (sizes**2).sum())


def require_same_up_to_signs(got: npt.NDArray[Any], want: npt.NDArray[Any]) -> None:
    for axis in range(2):
        sign = np.sign(got[:, axis] @ want[:, axis])
        np.testing.assert_allclose(got[:, axis], sign * want[:, axis], atol=2e-4 * np.ptp(want))


def test_vectors_lie_at_their_principal_components() -> None:
    drawn = map_rows(filled(), n=500)
    want, kept = components(X)
    require_same_up_to_signs(places_of(drawn), want)
    assert drawn["kept"] == pytest.approx(kept)
    assert drawn["method"] == "PCA of vectors"
    assert [point["id"] for point in drawn["points"]] == list(range(157))


def test_under_cosine_only_directions_count() -> None:
    hasher = ProjectionHash(64, projection="random", rotation=None, normalize=True).fit(X)
    grown = X * RNG.uniform(0.5, 20, (157, 1)).astype(np.float32)
    drawn = map_rows(filled(grown, hasher, metric="cosine"))
    want, kept = components(X / np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True))
    require_same_up_to_signs(places_of(drawn), want)
    assert drawn["kept"] == pytest.approx(kept)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_sparse_vectors_lie_where_their_dense_copies_do(metric: str) -> None:
    rows = np.where(RNG.random((60, 40)) < 0.2, RNG.standard_normal((60, 40)), 0)
    rows = rows.astype(np.float32)
    rows[:, 0] = 1
    rows[7] = 0
    hasher = SignHash(40).fit(rows)
    dense = map_rows(filled(rows, hasher, metric=metric))
    sparse = map_rows(filled(csr_array(rows), hasher, metric=metric, vectors="csr"))
    require_same_up_to_signs(places_of(sparse), places_of(dense))
    assert sparse["kept"] == pytest.approx(dense["kept"])


def test_codes_lie_at_the_components_of_their_bits() -> None:
    collection = filled()
    drawn = map_rows(collection, by="codes")
    want, kept = components(collection.get(collection.ids).codes.symbols())
    require_same_up_to_signs(places_of(drawn), want)
    assert drawn["kept"] == pytest.approx(kept)
    assert drawn["method"] == "multidimensional scaling of codes"


def test_symbols_of_several_bits_differ_or_not() -> None:
    hasher = WTAHash(64, window=4).fit(X)
    collection = filled(X, hasher)
    symbols = collection.get(collection.ids).codes.symbols()
    one_hot = (symbols[:, :, None] == np.arange(4)).reshape(157, -1)
    require_same_up_to_signs(
        places_of(map_rows(collection, by="codes")), components(one_hot)[0] / np.sqrt(2)
    )


def test_a_collection_without_vectors_is_laid_out_by_codes() -> None:
    sets = [[f"w{j}" for j in range(i % 7, i % 7 + 5)] for i in range(40)]
    collection = filled(sets, MinHash(64).fit(), vectors=None)
    drawn = map_rows(collection)
    assert drawn["method"] == "multidimensional scaling of codes"
    places = places_of(drawn)
    assert np.abs(places[:7] - places[7:14]).max() < 1e-4  # the same sets
    assert len(np.unique(places.round(3), axis=0)) == 7


def test_rows_with_nothing_to_hash_are_on_the_map() -> None:
    sets = [["a", "b"], [], ["a", "b"], []]
    drawn = map_rows(filled(sets, MinHash(64).fit(), vectors=None))
    assert np.isfinite(places_of(drawn)).all()
    assert len(drawn["points"]) == 4


def test_rows_beyond_the_landmarks_are_projected_on_their_axes() -> None:
    rows = (RNG.standard_normal((1300, 3)) * [5, 2, 0]).astype(np.float64)
    products = rows @ rows[:1000].T
    places, kept = lay_out(products)
    want = rows - rows[:1000].mean(axis=0)
    assert kept == pytest.approx(1.0)
    got_steps, want_steps = (np.linalg.norm(at[:1299] - at[1:], axis=1) for at in (places, want))
    np.testing.assert_allclose(got_steps, want_steps, atol=1e-3)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("by", ["vectors", "codes"])
def test_few_rows_are_drawn(n: int, by: str) -> None:
    drawn = map_rows(filled(X[:n] if n else X[:0]), by=by)
    places = places_of(drawn)
    assert len(places) == n
    assert np.isfinite(places).all()
    assert drawn["kept"] is None if n < 2 else drawn["kept"] == pytest.approx(1.0)
    if n == 2:
        assert places[:, 1].tolist() == [0.0, 0.0]
        assert places[0, 0] == -places[1, 0] != 0


@pytest.mark.parametrize("by", ["vectors", "codes"])
def test_rows_that_are_the_same_lie_at_one_point(by: str) -> None:
    drawn = map_rows(filled(np.repeat(X[:1] + 1e6, 20, axis=0)), by=by)
    assert places_of(drawn).tolist() == [[0.0, 0.0]] * 20
    assert drawn["kept"] is None


def test_the_map_is_the_same_again_and_hardly_changes_with_a_row_more() -> None:
    collection = filled()
    drawn = map_rows(collection, n=40)
    assert drawn == map_rows(collection, n=40)
    before = {point["id"] for point in drawn["points"]}
    assert len(before) == 40
    collection.add(X[:3] + 1)
    collection.remove([0, 1])
    after = {point["id"] for point in map_rows(collection, n=40)["points"]}
    assert len(before & after) >= 35


def test_a_sample_is_of_all_rows_alike() -> None:
    rows = np.zeros((4000, 2), np.float32)
    rows[:, 0] = np.arange(4000)
    collection = filled(rows, SignHash(2).fit(rows))
    ids = np.array([point["id"] for point in map_rows(collection, n=400)["points"]])
    assert np.all(np.diff(ids) > 0)
    counts = np.histogram(ids, bins=8, range=(0, 4000))[0]
    assert counts.min() >= 30
    assert counts.max() <= 75


def test_ids_that_are_strings_come_back_as_they_are() -> None:
    names = [f"a/{i}'\"<b>é\U0001f600" for i in range(157)]
    collection = Collection.create(None, PCA, ids="str")
    collection.add(X, ids=names)
    drawn = map_rows(collection, n=30)
    assert len(drawn["points"]) == 30
    assert {point["id"] for point in drawn["points"]} <= set(names)
    assert json.loads(json.dumps(drawn)) == drawn


def test_rows_of_all_epochs_are_on_one_map() -> None:
    hasher = ProjectionHash(8, projection="opast", epochs="request").fit(X)
    collection = filled(X[:100], hasher)
    collection.learn(np.roll(X, 4, axis=1))
    assert collection.new_epoch()
    collection.add(X[100:])
    assert len(collection.epochs) == 2
    require_same_up_to_signs(places_of(map_rows(collection)), components(X)[0])
    by_codes = map_rows(collection, by="codes")
    assert len(by_codes["points"]) == 157
    assert by_codes["method"] == "multidimensional scaling of codes"


def test_codes_of_several_epochs_without_vectors_say_that_they_do_not_compare() -> None:
    hasher = ProjectionHash(8, projection="opast", epochs="request").fit(X)
    collection = filled(X[:100], hasher, vectors=None)
    collection.learn(np.roll(X, 4, axis=1))
    collection.new_epoch()
    collection.add(X[100:])
    assert map_rows(collection)["method"].endswith("of several epochs, which do not compare")


def about(i: int) -> dict[str, Any]:
    return {
        "kind": ["a", "b", "c"][i % 3],
        "year": 2000 + i,
        "new": i % 2 == 0,
        "title": f"title {i}",
        "tags": ["x"],
        "image": "data:image/png;base64," + "A" * 200,
    }


def test_points_have_the_value_of_a_field_and_fields_are_those_that_tell_groups_apart() -> None:
    rows = [about(i) for i in range(157)]
    rows[5] = {}
    drawn = map_rows(filled(metadata=rows), field="kind")
    assert drawn["fields"] == ["kind", "year", "new"]
    assert drawn["field"] == "kind"
    assert [point["value"] for point in drawn["points"]] == [row.get("kind") for row in rows]
    assert {point["value"] for point in map_rows(filled(), field="x")["points"]} == {None}
    tags = map_rows(filled(metadata=rows), field="tags")["points"]
    assert tags[0]["value"] is None
    images = map_rows(filled(metadata=rows), field="image")["points"]
    assert len(images[0]["value"]) == 121


def test_declared_fields_come_first() -> None:
    collection = filled(metadata=[about(i) for i in range(157)], fields={"year": int, "gone": str})
    assert map_rows(collection)["fields"] == ["year", "kind", "new"]


@pytest.mark.parametrize("n", [20, 500])
def test_a_filter_says_which_rows_are_drawn(n: int, tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "rows", PCA)
    collection.add(X, metadata=[about(i) for i in range(157)])
    drawn = map_rows(collection, n=n, where={"kind": "b"}, field="kind")
    assert {point["value"] for point in drawn["points"]} == {"b"}
    ids = [point["id"] for point in drawn["points"]]
    assert len(set(ids)) == min(n, 52)
    assert ids == sorted(ids)
    collection.close()


def test_huge_rows_are_sampled_more_thinly(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "rows", PCA)
    collection.add(X, metadata=[{"text": "x" * 1_000_000}] * 157)
    assert len(map_rows(collection)["points"]) == 67  # of 64 MiB
    collection.close()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"n": 0}, "n must be .*0"),
        ({"n": 5001}, "n must be .*5001"),
        ({"n": "many"}, "n must be .*'many'"),
        ({"by": "colour"}, "by must be .*'colour'"),
        ({"field": 7}, "field must be a key of metadata, got 7"),
        ({"where": {"kind": {"$eq": 1}}}, "where must use the operators"),
    ],
)
def test_bad_arguments_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        map_rows(filled(X[:3]), **given)
