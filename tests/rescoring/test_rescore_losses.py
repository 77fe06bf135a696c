"""`rescore` ranks a shortlist of winner-take-all codes by what the query loses, as a collection
does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import bitkin
from bitkin import Collection, FlatIndex, WTAHash
from bitkin.errors import CodeMismatchError, InvalidInputError, UnknownIdError
from tests.collection.test_losses import HASHER, Q, X, best_by_loss

ALL = np.broadcast_to(np.arange(700), (len(Q), 700))


def rescored(hits: Any, queries: Any = Q, **arguments: Any) -> Any:
    given: dict[str, Any] = {"hasher": HASHER, "codes": HASHER.encode(X)} | arguments
    return bitkin.rescore(hits, queries, stage="estimate", **given)


def test_a_shortlist_is_ranked_as_a_collection_ranks_it() -> None:
    index = FlatIndex(HASHER.spec_)
    index.add(HASHER.encode(X))
    collection = Collection.create(None, HASHER, vectors=None)
    collection.add(X)
    hits = index.search(HASHER.encode(Q), 60)
    wanted = collection.search(Q, 6, oversample=1, stage="estimate", first="codes")
    for codes in (HASHER.encode(X), index):
        found = rescored(hits, codes=codes, k=6)
        assert found.ids.tolist() == wanted.ids.tolist()
        assert found.distances.tolist() == wanted.distances.tolist()
        assert found.distances.dtype == np.float32
    everything = rescored(ALL, k=11)
    ids, distances = best_by_loss(np.arange(700), 11)
    assert everything.ids.tolist() == ids
    np.testing.assert_allclose(everything.distances, distances, rtol=1e-6)
    scanned = collection.search(Q, 11)
    assert everything.distances.tolist() == scanned.distances.tolist()


def test_queries_of_every_form_and_no_query_are_taken() -> None:
    short = ALL[:, 5:95]
    wanted = rescored(short, k=3)
    assert rescored(short, sparse.csr_array(Q), k=3).ids.tolist() == wanted.ids.tolist()
    assert rescored(short[:1], Q[0], k=3).ids.tolist() == wanted.ids[:1].tolist()
    nothing = rescored(short[:0], Q[:0], k=3)
    assert (nothing.ids.shape, nothing.distances.dtype) == ((0, 3), np.float32)
    padded = np.hstack([short[:, :2], np.full((len(Q), 2), -1)])
    assert rescored(padded).ids[:, 2:].tolist() == [[-1, -1]] * len(Q)
    assert np.isinf(rescored(padded).distances[:, 2:]).all()


def test_rows_that_are_gone_and_rows_and_queries_without_anything_to_hash_drop_out() -> None:
    bags = np.random.default_rng(0).integers(0, 3, (50, 30)).astype(np.float64)
    bags[7] = 0
    hasher = WTAHash(9, 4, center=False).fit(bags)
    index = FlatIndex(hasher.spec_)
    index.add(hasher.encode(bags))
    index.remove([3])
    hits = np.broadcast_to(np.arange(50), (3, 50))
    for codes, without in ((index, {3, 7}), (hasher.encode(bags), {7})):
        found = rescored(hits, bags[6:9], hasher=hasher, codes=codes)
        assert (found.ids[1] == -1).all()  # the query of zeros
        assert found.ids[0, 0] == 6
        assert set(range(50)) - set(found.ids[0].tolist()) == without


def test_ids_of_ones_own_are_those_of_codes() -> None:
    ids = np.arange(700) * 3 + 1
    found = rescored(ALL * 3 + 1, ids=ids, k=4)
    assert (found.ids // 3).tolist() == rescored(ALL, k=4).ids.tolist()


@pytest.mark.parametrize(
    "arguments, kind, says",
    [
        (
            {"corrections": np.zeros((700, 2))},
            InvalidInputError,
            "corrections must be left out for stage='estimate' of a WTAHash, which takes hasher, c",
        ),
        ({"codes": None}, InvalidInputError, "codes must be given for stage='estimate' of a WTAHa"),
        ({"hasher": WTAHash(8)}, NotFittedError, "not fitted"),
        ({"hasher": bitkin.MinHash(8).fit()}, CodeMismatchError, "hasher must be the one that ma"),
        (
            {"hasher": bitkin.MinHash(130, bits_per_symbol=2).fit()},
            InvalidInputError,
            "corrections must be given",
        ),
        ({"n_codes": 50}, UnknownIdError, "hits must be rows of codes, which has"),
        ({"queries": Q[:, :20]}, InvalidInputError, "must have 30 features|expecting 30 features"),
        ({"queries": Q[:2]}, InvalidInputError, "queries must be one a row of hits, got 2 for 4"),
    ],
)
def test_what_cannot_be_scored_is_named(
    arguments: dict[str, Any], kind: type[Exception], says: str
) -> None:
    given = {"queries": Q, "n_codes": 700} | arguments
    queries, codes = given.pop("queries"), HASHER.encode(X)[: given.pop("n_codes")]
    with pytest.raises(kind, match=says):
        rescored(ALL, queries, **({"codes": codes} | given))


def test_ids_beside_an_index_and_codes_of_others_are_refused() -> None:
    index = FlatIndex(HASHER.spec_)
    index.add(HASHER.encode(X))
    with pytest.raises(InvalidInputError, match="ids must be left out beside an index"):
        rescored(ALL, codes=index, ids=np.arange(700))
    other = WTAHash(130, 20, alphabet_size=4, random_state=1).fit(X)
    with pytest.raises(CodeMismatchError):
        rescored(ALL, codes=other.encode(X))


@pytest.mark.parametrize("stage", ["estimate", "exact"])
def test_codes_are_no_queries(stage: str) -> None:
    # NumPy takes codes for an array of symbols, which may have as many columns as vectors have
    beside = {"vectors": X} if stage == "exact" else {"hasher": HASHER, "codes": HASHER.encode(X)}
    with pytest.raises(InvalidInputError, match=r"queries must be a matrix for stage=.*got codes"):
        bitkin.rescore(ALL, HASHER.encode(Q), stage=stage, **beside)
