from __future__ import annotations

import numpy as np

import bitkin


def test_hits_show_what_the_first_query_found() -> None:
    ids = np.array([["ant", "bee", None], ["cat", None, None]], dtype=object)
    distances = np.array([[0.0, 1.23456, np.inf], [2.0, np.inf, np.inf]])
    assert repr(bitkin.Hits(ids, distances)) == (
        "Hits(2 queries × 3, float64 distances: 'ant' at 0, 'bee' at 1.235, …)"
    )
    alone = bitkin.Hits(np.array([[7, 5]]), np.array([[1, 2]], dtype=np.int32))
    assert repr(alone) == "Hits(1 query × 2, int32 distances: 7 at 1, 5 at 2)"
    nothing = bitkin.Hits(np.array([[-1]]), np.array([[np.inf]]))
    assert repr(nothing) == "Hits(1 query × 1, float64 distances)"
    assert repr(bitkin.Hits(np.empty((0, 3), dtype=np.int64), np.empty((0, 3)))) == (
        "Hits(0 queries × 3, float64 distances)"
    )


def test_a_collection_tells_which_stages_it_can_do_and_whether_its_hasher_learns() -> None:
    X = np.random.default_rng(0).standard_normal((300, 10)).astype(np.float32)
    fitted = bitkin.ProjectionHash(n_bits=8).fit(X)
    stream = bitkin.ProjectionHash(n_bits=8, projection="opast").fit(X)
    cases = [
        (fitted, "float32", ["codes", "estimate", "exact"], False),
        (fitted, None, ["codes", "estimate"], False),
        (stream, "float32", ["codes", "estimate", "exact"], True),
        (stream.snapshot(), None, ["codes", "estimate"], False),
        (bitkin.MinHash(n_hashes=8).fit(), None, ["codes"], False),
    ]
    for hasher, vectors, stages, learns in cases:
        about = bitkin.Collection.create(None, hasher, vectors=vectors).stats()
        assert (about["stages"], about["learns"]) == (stages, learns)
