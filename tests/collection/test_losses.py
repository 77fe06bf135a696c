"""A collection of winner-take-all codes ranks rows by what the query loses, and keeps nothing for
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bitkin import Collection, WTAHash
from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest
from tests.collection.model import rows_like
from tests.rescoring.test_losses import best_of, levels_of, truth_of

X, Q = rows_like(700, 30), rows_like(4, 30, seed=1)
HASHER = WTAHash(130, 20, alphabet_size=4).fit(X)
COVERS_ALL = 1000


def filled(**settings: Any) -> Collection:
    collection = Collection.create(None, HASHER, **settings)
    collection.add(X)
    return collection


def best_by_loss(
    ids: npt.NDArray[Any], k: int, n_bits: int = 3
) -> tuple[list[Any], npt.NDArray[np.float64]]:
    """The k best of some rows of X by NumPy."""
    levels = levels_of(HASHER.losses(Q), n_bits)
    return best_of(truth_of(levels, HASHER.transform(X[ids])), ids, k)


@pytest.mark.parametrize("first", ["estimate", "codes", None])
@pytest.mark.parametrize("vectors", ["float32", None])
def test_losses_are_a_stage_without_anything_kept_for_them(
    first: str | None, vectors: str | None
) -> None:
    collection = filled(vectors=vectors)
    assert collection.stage == ("estimate" if vectors is None else "exact")
    removed = np.arange(0, 700, 7)
    collection.remove(removed)
    there = np.setdiff1d(np.arange(700), removed)
    for k, allow in ((1, None), (11, None), (11, np.arange(300, 900)), (40, [5, 6])):
        hits = collection.search(
            Q, k, stage="estimate", first=first, allow=allow, oversample=COVERS_ALL
        )
        among = there if allow is None else np.intersect1d(there, allow)
        ids, distances = best_by_loss(among, k)
        assert hits.ids.tolist() == ids
        assert hits.distances.dtype == np.float32
        np.testing.assert_allclose(hits.distances, distances, rtol=1e-6)
        # one query at a time reads rows where they stand
        alone = [collection.search(q, k, stage="estimate", first=first, allow=allow) for q in Q]
        if first != "codes":
            assert np.array_equal(np.vstack([one.ids for one in alone]), hits.ids)


def test_the_query_itself_is_at_0_and_random_rows_are_at_about_1() -> None:
    hits = filled(vectors=None).search(X[:20], 700)
    assert hits.ids[:, 0].tolist() == list(range(20))
    assert (hits.distances[:, 0] == 0).all()
    assert np.isclose(np.median(hits.distances), 1, atol=0.1)


def test_the_exact_stage_measures_as_many_rows_as_codes_would_keep() -> None:
    collection = filled()
    for first, kept in (("estimate", 20), ("codes", 20), (None, 20)):
        explained = collection.explain(Q, 2, oversample=1, first=first)
        stages = {name: (did.rows_in, did.rows_out) for name, did in explained.stages.items()}
        scan = "codes" if first == "codes" else "estimate of all rows"
        assert stages == {"encode": (4, 4), scan: (2800, 4 * kept), "exact": (4 * kept, 8)}
    hits = collection.search(Q, 2, oversample=1)
    for query, row, near in zip(Q, hits.ids, best_by_loss(np.arange(700), 20)[0], strict=True):
        measured = nearest(X[near], query[None], 2)
        assert row.tolist() == np.array(near)[measured.ids[0]].tolist()
    assert explained.why == "what the query loses ranks rows better than counting"
    explained = collection.explain(Q, 7)
    assert (explained.first, explained.why) == ("codes", "codes keep all of 700 rows")


def test_bits_of_losses_are_those_asked_for() -> None:
    collection = filled(vectors=None, query_bits=8)
    ids, distances = best_by_loss(np.arange(700), 9, 8)
    hits = collection.search(Q, 9)
    assert hits.ids.tolist() == ids
    np.testing.assert_allclose(hits.distances, distances, rtol=1e-6)


def test_codes_made_elsewhere_need_no_corrections() -> None:
    collection = Collection.create(None, HASHER, vectors=None)
    collection.add_codes(HASHER.encode(X))
    assert np.array_equal(collection.search(Q, 5).ids, filled(vectors=None).search(Q, 5).ids)
    with pytest.raises(InvalidInputError, match=r"corrections must be None.*by their codes alone"):
        collection.add_codes(HASHER.encode(X), corrections=np.zeros((700, 2), dtype=np.float32))
    with pytest.raises(
        InvalidInputError, match=r"must be a matrix for stage='estimate', got codes"
    ):
        collection.search(HASHER.encode(Q), 5)
    assert collection.search(HASHER.encode(Q), 5, stage="codes").distances.dtype == np.int32


def test_an_index_that_looks_rows_up_is_rescored_by_losses() -> None:
    collection = filled(index="multi", vectors=None)
    hits = collection.search(Q, 6, oversample=COVERS_ALL)
    assert hits.ids.tolist() == best_by_loss(np.arange(700), 6)[0]
    with pytest.raises(InvalidInputError, match=r"first must not be 'estimate'.*MultiIndex"):
        collection.search(Q, 6, first="estimate")


def test_replaced_rows_and_names_are_found_by_losses() -> None:
    collection = Collection.create(None, HASHER, vectors=None, ids="str")
    names = [f"row {i}" for i in range(700)]
    collection.add(X[:350], ids=names[:350])
    collection.add(X[350:], ids=names[350:])
    collection.upsert(Q[:1], ids=["row 600"])
    assert collection.search(Q[:1], 1).ids.tolist() == [["row 600"]]
