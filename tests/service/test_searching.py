"""Searches over HTTP: what a collection finds, however it is asked."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from scipy.sparse import csr_array

import bitkin
from bitkin.service import ServiceLimits
from bitkin.wire import pack_vectors
from tests.service.conftest import D, N, Rows, require_problem

Serve = Callable[..., TestClient]


def search(http: TestClient, **body: Any) -> dict[str, Any]:
    response = http.post("/v1/search", json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


@pytest.mark.parametrize("stage", ["codes", "estimate", "exact", None])
@pytest.mark.parametrize("n_queries", [1, 7, 65, N])
def test_a_search_finds_what_the_collection_finds(
    http: TestClient, notes: bitkin.Collection, X: Rows, stage: str | None, n_queries: int
) -> None:
    queries = X[:n_queries] + np.float32(0.1)
    wanted = notes.search(queries, 5, stage=stage)
    found = search(http, vectors=queries.tolist(), k=5, stage=stage)
    assert found["ids"] == wanted.ids.tolist()
    np.testing.assert_allclose(found["distances"], wanted.distances, rtol=1e-5)
    assert found["metadata"] == wanted.metadata
    assert found["stage"] == (stage or "exact")
    assert found["metric"] == "l2"


def test_every_form_of_a_query_finds_the_same(http: TestClient, X: Rows) -> None:
    queries = X[:3]
    plain = search(http, vectors=queries.tolist())
    assert search(http, vectors=pack_vectors(queries)) == plain
    assert search(http, vectors=pack_vectors(csr_array(queries))) == plain
    text = base64.b64encode(queries.astype("<f4").tobytes()).decode()
    assert search(http, vectors={"float32": text}) == plain
    sparse = [{"indices": list(range(D)), "values": row} for row in queries.tolist()]
    assert search(http, vectors=sparse) == plain
    binary = http.post(
        "/v1/search",
        content=queries.astype("<f4").tobytes(),
        headers={"Content-Type": "application/octet-stream"},
    )
    assert binary.json() == plain
    assert search(http, vectors=queries[0].tolist())["ids"] == plain["ids"][:1]


def test_a_binary_search_takes_its_arguments_from_the_address(
    http: TestClient, notes: bitkin.Collection, X: Rows
) -> None:
    def ask(**parameters: Any) -> Any:
        return http.post(
            "/v1/search",
            params=parameters,
            content=X[:2].tobytes(),
            headers={"Content-Type": "application/octet-stream"},
        )

    where, allow = {"year": {"lt": 2003}}, list(range(0, 100, 3))
    found = ask(
        k=3, stage="codes", where=json.dumps(where), allow=json.dumps(allow), metadata="false"
    ).json()
    wanted = notes.search(X[:2], 3, stage="codes", where=where, allow=allow)
    assert (found["ids"], found["metadata"]) == (wanted.ids.tolist(), None)
    require_problem(ask(k="many"), 422, "k must be as JSON writes them")
    require_problem(ask(k=0), 422, "k must be between 1 and 1000, got 0", field="k")
    require_problem(ask(top=3), 422, "top is no argument of a search")
    require_problem(ask(stage="best"), 422, field="stage")


def test_rows_leave_themselves_out(http: TestClient, notes: bitkin.Collection, X: Rows) -> None:
    found = search(http, ids=[7, 9], k=4)
    wanted = notes.search(X[[7, 9]], 5).ids.tolist()  # itself first
    assert found["ids"] == [row[1:] for row in wanted]
    assert [len(row) for row in found["distances"]] == [4, 4]
    explained = http.post("/v1/explain", json={"ids": [7], "k": 4}).json()
    assert explained["ids"] == found["ids"][:1]
    require_problem(http.post("/v1/search", json={"ids": [7, 5000]}), 404, "5000", field="ids")


def test_fewer_rows_than_asked_for_are_no_padding(http: TestClient) -> None:
    found = search(http, ids=[0], k=500, where={"title": {"in": ["note 3", "note 5"]}})
    assert sorted(found["ids"][0]) == [3, 5]
    assert len(found["distances"][0]) == len(found["metadata"][0]) == 2
    assert search(http, ids=[0], where={"year": 1})["ids"] == [[]]


def test_codes_are_looked_for_as_they_are(http: TestClient, notes: bitkin.Collection) -> None:
    codes = notes.get([4, 5]).codes
    texts = [row.tobytes().hex() for row in codes.to_bytes()]
    found = search(http, codes=texts, k=3)
    wanted = notes.search(codes, 3, stage="codes")
    assert (found["ids"], found["stage"]) == (wanted.ids.tolist(), "codes")
    require_problem(http.post("/v1/search", json={"codes": ["zz"]}), 422, "hexadecimal", "'zz'")
    require_problem(http.post("/v1/search", json={"codes": ["0000"]}), 422, "1 bytes each, got 2")
    exact = http.post("/v1/search", json={"codes": texts, "stage": "exact"})
    require_problem(exact, 422, "stage must be 'codes'", field="stage")


def test_rows_without_vectors_are_looked_for_by_their_codes(serve: Serve) -> None:
    hasher = bitkin.MinHash(16).fit()
    sets = bitkin.Collection.create(None, hasher, vectors=None, ids="str")
    sets.add([["a", "b"], ["a", "c"], ["x"]], ids=["ab", "ac", "x"])
    http = serve(sets)
    assert search(http, ids=["ab"], k=1)["ids"] == [["ac"]]
    stats = http.get("/v1/stats").json()
    assert (stats["vectors"], stats["n_features"]) == (None, None)
    packed = http.post("/v1/search", json={"vectors": {"float32": "AAAA"}})
    require_problem(packed, 422, "vectors must be codes", "takes sets", field="vectors")


def test_sparse_rows_are_searched_sparse(serve: Serve) -> None:
    rng = np.random.default_rng(0)
    rows = csr_array(rng.standard_normal((60, 30)) * (rng.random((60, 30)) < 0.2), dtype=np.float32)
    hasher = bitkin.ProjectionHash(8, projection="random", rotation=None, normalize=True).fit(rows)
    bags = bitkin.Collection.create(None, hasher, vectors="csr", metric="cosine")
    bags.add(rows)
    http = serve(bags)
    wanted = bags.search(rows[:70], 3)
    assert search(http, vectors=pack_vectors(rows), k=3)["ids"] == wanted.ids.tolist()
    assert len(search(http, ids=[1, 2], k=3)["ids"]) == 2
    item = http.get("/v1/items/5?vectors=true").json()
    row = rows[[5]]
    assert item["vector"] == {"indices": row.indices.tolist(), "values": row.data.tolist()}


def test_texts_are_looked_for_where_somebody_said_how(serve: Serve) -> None:
    from bitkin.embedding import open_embedder

    texts = ["boats in the rain", "a sunny day", "rain on the sea"]
    vectors = open_embedder("hash:64")(texts)
    hasher = bitkin.ProjectionHash(8, projection="random", rotation=None, normalize=True).fit(
        vectors
    )
    tales = bitkin.Collection.create(None, hasher, metric="cosine")
    tales.add(vectors)
    http = serve(tales, embed="hash:64")
    assert search(http, texts=["a boat in rain", "sunny days"], k=1)["ids"] == [[0], [1]]
    assert http.get("/v1/stats").json()["can_embed"] is True


def test_texts_without_an_embedder_say_what_to_start(http: TestClient) -> None:
    done = http.post("/v1/search", json={"texts": ["rain"]})
    require_problem(done, 422, "texts must not be given", "--embed", field="texts")


def test_an_embedder_of_another_length_is_told(serve: Serve, notes: bitkin.Collection) -> None:
    done = serve(notes, embed="hash:64").post("/v1/search", json={"texts": ["rain"]})
    require_problem(done, 422, "vectors of 8 numbers", "'hash:64' makes 64", field="texts")


def test_an_explanation_tells_every_stage(http: TestClient, X: Rows) -> None:
    told = http.post("/v1/explain", json={"vectors": X[:3].tolist(), "k": 2}).json()
    assert told["ids"] == search(http, vectors=X[:3].tolist(), k=2)["ids"]
    explain = told["explain"]
    assert (explain["index"], explain["queries"]) == ("FlatIndex", 3)
    assert explain["first"] in ("codes", "estimate")
    assert explain["why"]
    assert explain["stages"]["exact"]["rows_out"] == 6


def test_rows_are_counted(http: TestClient, notes: bitkin.Collection) -> None:
    where = {"year": {"gte": 2004}}
    assert http.get("/v1/count").json() == {"count": len(notes)}
    wanted = {"count": notes.count(where)}
    assert http.post("/v1/count", json={"where": where}).json() == wanted
    assert http.get("/v1/count", params={"where": json.dumps(where)}).json() == wanted
    require_problem(http.get("/v1/count?where=["), 422, "where must be JSON", field="where")
    require_problem(http.get("/v1/count?where=7"), 422, "a JSON object, got 7", field="where")


@pytest.mark.parametrize(
    ("body", "words", "field"),
    [
        ({}, "one of vectors, ids, texts and codes, got none", "vectors"),
        ({"ids": [1], "vectors": [[0.0] * D]}, "got vectors and ids", "vectors"),
        ({"vectors": []}, "a query at least", "vectors"),
        ({"vectors": [[1.0] * 7]}, "rows of 8 numbers, got 7 numbers in row 0", "vectors"),
        ({"vectors": [[1.0] * 7 + ["x"]]}, "must hold numbers, got 'x' in row 0", "vectors"),
        ({"vectors": [[1.0] * 7 + [True]]}, "must hold numbers, got True", "vectors"),
        ({"vectors": [[1e39] + [0.0] * 7]}, "finite float32 numbers", "vectors"),
        ({"vectors": "rain"}, "a list of rows of numbers, got 'rain'", "vectors"),
        ({"vectors": {"float32": "AAAA"}}, "whole rows of 8 float32 numbers", "vectors"),
        ({"vectors": {"float32": "?"}}, "base64", "vectors"),
        ({"vectors": {"float32": "", "n_features": 7}}, "must have 8 columns, got 7", "vectors"),
        ({"vectors": {"float64": ""}}, "an object of 'float32' or 'csr'", "vectors"),
        ({"vectors": [{"indices": [8], "values": [1.0]}]}, "indices from 0 to 7", "vectors"),
        ({"ids": [1], "k": 1001}, "k must be between 1 and 1000, got 1001", "k"),
        ({"ids": [1], "k": "3"}, "k: Input should be a valid integer, got '3'", "k"),
        ({"ids": [1], "stage": "last"}, "'codes', 'estimate' or 'exact'", "stage"),
        ({"ids": [1], "probes": 0}, "probes must be between 1", "probes"),
        ({"ids": [1], "where": {"year": {"$gt": 3}}}, "Did you mean 'gt'?", "where"),
        ({"ids": [1], "top": 3}, "top is no field of this request", "top"),
        ({"ids": ["a"]}, "ids must be whole numbers", "ids"),
        ({"ids": [-1]}, "ids", None),
        ({"ids": [1], "allow": ["a"]}, "allow must be whole numbers", "allow"),
    ],
)
def test_a_bad_search_says_which_field_and_why(
    http: TestClient, body: dict[str, Any], words: str, field: str | None
) -> None:
    require_problem(http.post("/v1/search", json=body), 422, words, field=field)


def test_a_body_that_is_no_json_is_told(http: TestClient) -> None:
    kind = {"Content-Type": "application/json"}
    require_problem(http.post("/v1/search", content=b"{", headers=kind), 400, "must be JSON")
    other = http.post("/v1/search", content=b"{}", headers={"Content-Type": "text/plain"})
    require_problem(other, 415, "application/json or application/octet-stream", "'text/plain'")


def test_a_search_is_held_to_its_limits(serve: Serve, notes: bitkin.Collection, X: Rows) -> None:
    http = serve(notes, limits=ServiceLimits(k=20, queries=5, hits=40))
    many = http.post("/v1/search", json={"vectors": X[:6].tolist(), "k": 1})
    require_problem(many, 422, "at most 5 queries for k=1", "got 6", field="vectors")
    deep = http.post("/v1/search", json={"ids": [1, 2, 3], "k": 20})
    require_problem(deep, 422, "at most 2 queries for k=20", field="ids")
    assert http.post("/v1/search", json={"vectors": X[:5].tolist(), "k": 8}).status_code == 200


def test_an_explanation_has_no_more_time_than_a_search(
    serve: Serve, notes: bitkin.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explain_slowly(*_: Any, **__: Any) -> None:
        time.sleep(2)

    monkeypatch.setattr(bitkin.Collection, "explain", explain_slowly)
    http = serve(notes, limits=ServiceLimits(seconds=0.5))
    told = http.post("/v1/explain", json={"ids": [7]})
    require_problem(told, 503, "longer than the service permits")
    assert told.headers["retry-after"] == "1"
