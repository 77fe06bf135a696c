"""Rows over HTTP: in, out, changed and removed, as the collection itself would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import pytest
from fastapi.testclient import TestClient
from scipy.sparse import csr_array

import bitkin
from bitkin.service import ServiceLimits, create_app, running
from bitkin.wire import pack_vectors
from tests.service.conftest import D, N, Rows, require_problem

Serve = Callable[..., TestClient]
LINES = {"Content-Type": "application/x-ndjson"}
BINARY = {"Content-Type": "application/octet-stream"}


def test_rows_come_back_as_they_went_in(http: TestClient, X: Rows) -> None:
    new = X[:2] + np.float32(1)
    added = http.post(
        "/v1/items",
        json={"vectors": new.tolist(), "ids": [900, 901], "metadata": [{"a": None}, {"b": [1]}]},
    )
    assert (added.status_code, added.json()) == (201, {"ids": [900, 901]})
    item = http.get("/v1/items/901", params={"vectors": True, "codes": True}).json()
    assert (item["id"], item["metadata"]) == (901, {"b": [1]})
    np.testing.assert_array_equal(np.float32(item["vector"]), new[1])
    assert len(bytes.fromhex(item["code"])) == 1
    both = http.post("/v1/items/get", json={"ids": [901, 900]}).json()
    assert [one["id"] for one in both["items"]] == [901, 900]
    assert both["total"] is None


def test_ids_are_made_where_none_are_given(http: TestClient, X: Rows) -> None:
    assert http.post("/v1/items", json={"vectors": pack_vectors(X[:3])}).json() == {
        "ids": [N, N + 1, N + 2]
    }
    assert http.get("/v1/ids").json()["ids"] == list(range(N + 3))


def test_an_id_that_is_there_is_a_conflict_and_nothing_is_added(http: TestClient, X: Rows) -> None:
    body = {"vectors": X[:2].tolist(), "ids": [900, 7]}
    require_problem(http.post("/v1/items", json=body), 409, "7", "upsert", field="ids")
    assert http.get("/v1/count").json() == {"count": N}
    assert http.put("/v1/items", json=body).status_code == 200
    assert http.put("/v1/items", json=body).json() == {"ids": [900, 7]}
    assert http.get("/v1/count").json() == {"count": N + 1}
    require_problem(http.put("/v1/items", json={"vectors": X[:1].tolist()}), 422, "ids must be")


def test_json_lines_are_what_export_writes(
    http: TestClient, serve: Serve, notes: bitkin.Collection
) -> None:
    exported = http.get("/v1/export")
    assert exported.headers["x-total-rows"] == str(N)
    assert exported.headers["content-type"].startswith("application/x-ndjson")
    other = serve(bitkin.Collection.create(None, notes.hasher, fields={"year": int}))
    added = other.post("/v1/items", content=exported.content, headers=LINES)
    assert added.json()["ids"] == list(range(N))
    assert other.get("/v1/export").content == exported.content
    some = http.get("/v1/export", params={"where": json.dumps({"year": 2003})})
    assert len(some.text.splitlines()) == notes.count({"year": 2003})


def test_a_bad_line_is_named_and_nothing_is_added(http: TestClient) -> None:
    good = json.dumps({"id": 900, "vector": [0.5] * D})
    done = http.post("/v1/items", content=f'{good}\n{{"id": 901}}\n', headers=LINES)
    require_problem(done, 422, "the body, line 2", "no 'vector'")
    require_problem(http.post("/v1/items", content="", headers=LINES), 422, "no rows")
    require_problem(http.post("/v1/items", content="{\n", headers=LINES), 422, "not JSON")
    assert http.get("/v1/count").json() == {"count": N}


def test_binary_rows_get_consecutive_ids(http: TestClient, X: Rows) -> None:
    data = X[:3].astype("<f4").tobytes()
    added = http.post("/v1/items?first_id=1000", content=data, headers=BINARY)
    assert added.json() == {"ids": [1000, 1001, 1002]}
    again = http.put("/v1/items?first_id=1001", content=data, headers=BINARY)
    assert again.json() == {"ids": [1001, 1002, 1003]}
    row = http.get("/v1/items/1001?vectors=true").json()["vector"]
    np.testing.assert_array_equal(np.float32(row), X[0])
    short = http.post("/v1/items", content=data[:-1], headers=BINARY)
    require_problem(short, 422, "whole rows of 8 float32 numbers, 32 bytes each, got 95 bytes")
    bad = http.post("/v1/items?first_id=one", content=data, headers=BINARY)
    require_problem(bad, 422, "first_id must be a whole number", field="first_id")
    unreal = np.full((1, D), np.nan, dtype="<f4").tobytes()
    require_problem(http.post("/v1/items", content=unreal, headers=BINARY), 422, "NaN")


def test_texts_are_embedded_and_kept(serve: Serve, tmp_path: Path) -> None:
    http = serve(tmp_path, embed="hash:64")
    made = http.post("/v1/collections", json={"name": "tales", "embed": True, "ids": "str"})
    assert made.status_code == 201, made.text
    base = "/v1/collections/tales"
    texts = ["boats in the rain", "a sunny day"]
    body = {"texts": texts, "ids": ["a", "b"], "metadata": [{"n": 1}, {"n": 2}], "text_key": "body"}
    assert http.post(f"{base}/items", json=body).status_code == 201
    line = json.dumps({"id": "c", "note": "rain on the sea", "n": 3})
    added = http.post(f"{base}/items?text_key=note", content=line, headers=LINES)
    assert added.status_code == 201, added.text
    found = http.post(f"{base}/search", json={"texts": ["rainy boats"], "k": 1}).json()
    assert found["metadata"] == [[{"body": "boats in the rain", "n": 1}]]
    assert http.get(f"{base}/items/c").json()["metadata"] == {"note": "rain on the sea", "n": 3}
    # another service opens it, and the folder remembers what embeds its texts
    assert http.get(f"{base}/stats").json()["embed"] == "hash:64"


def test_an_id_that_looks_like_an_address_is_read_once(X: Rows) -> None:
    named = bitkin.Collection.create(None, bitkin.ProjectionHash(8).fit(X), ids="str")
    named.add(X[:1], ids=["%2F"])
    # a real server: the test client takes addresses apart twice
    with running(create_app(named)) as url, urlopen(f"{url}/v1/items/%252F") as answer:
        assert json.load(answer)["id"] == "%2F"


def test_metadata_is_changed_in_place(http: TestClient) -> None:
    assert http.patch("/v1/items/7", json={"metadata": {"read": True, "title": None}}).json() == {
        "updated": 1
    }
    assert http.get("/v1/items/7").json()["metadata"] == {"year": 2000, "read": True}
    http.patch("/v1/items/7", json={"metadata": {"year": 1999}, "replace": True})
    assert http.get("/v1/items/7").json()["metadata"] == {"year": 1999}
    both = {"ids": [8, 9], "metadata": [{"a": 1}, {"a": 2}]}
    assert http.patch("/v1/items", json=both).json() == {"updated": 2}
    http.patch("/v1/items", json={"ids": [8, 9], "metadata": {"b": 3}})
    assert http.get("/v1/items/9").json()["metadata"] == {
        "year": 2002, "title": "note 9", "a": 2, "b": 3,
    }  # fmt: skip
    require_problem(http.patch("/v1/items/5000", json={"metadata": {}}), 404, "5000", field="ids")
    bad = http.patch("/v1/items/7", json={"metadata": {"year": "late"}})
    require_problem(bad, 422, "'year' is declared int", field="metadata")
    assert http.get("/v1/items/7").json()["metadata"] == {"year": 1999}


def test_rows_are_removed_all_or_none(http: TestClient) -> None:
    assert http.delete("/v1/items/7").status_code == 204
    require_problem(http.delete("/v1/items/7"), 404, "7", field="ids")
    require_problem(http.post("/v1/items/remove", json={"ids": [8, 7]}), 404, "7", field="ids")
    assert http.get("/v1/items/8").status_code == 200
    some = {"ids": [8, 7, 8], "missing": "ignore"}
    assert http.post("/v1/items/remove", json=some).json() == {"removed": 1}
    assert http.get("/v1/count").json() == {"count": N - 2}


@pytest.mark.parametrize("name", ["a/b", "a b", "ü", "..", "remove", "get", '"q"', "?x=1"])
def test_any_text_is_an_id(serve: Serve, X: Rows, name: str) -> None:
    named = bitkin.Collection.create(None, bitkin.ProjectionHash(8).fit(X), ids="str")
    http = serve(named)
    body = {"vectors": X[:2].tolist(), "ids": [name, "other"]}
    assert http.post("/v1/items", json=body).json() == {"ids": [name, "other"]}
    assert http.post("/v1/items/get", json={"ids": [name]}).json()["items"][0]["id"] == name
    if name != "..":  # which clients take for the folder above
        at = f"/v1/items/{quote(name, safe='')}"
        assert http.get(at).json()["id"] == name
        assert http.patch(at, json={"metadata": {"n": 1}}).status_code == 200
        assert http.delete(at).status_code == 204
        assert named.ids.tolist() == ["other"]


def test_pages_go_through_rows(http: TestClient, notes: bitkin.Collection) -> None:
    where = json.dumps({"year": {"gte": 2003}})
    page = http.get("/v1/items", params={"where": where, "limit": 3, "offset": 4}).json()
    wanted = notes.get(where=json.loads(where))
    assert [one["id"] for one in page["items"]] == wanted.ids[4:7].tolist()
    assert page["total"] == len(wanted.ids)
    assert http.get("/v1/items?offset=9999").json() == {"items": [], "total": N}
    assert len(http.get("/v1/items").json()["items"]) == 20
    assert "vector" not in http.get("/v1/items").json()["items"][0]
    negative = http.get("/v1/items?limit=-1")
    require_problem(negative, 422, "greater than or equal to 0", field="limit")
    require_problem(http.get("/v1/items/seven"), 404, "ids of default are whole numbers")
    both = http.post("/v1/items/get", json={"ids": [1], "where": {}})
    require_problem(both, 422, "where must be absent", field="where")


@pytest.mark.parametrize("n_at_once", [1, 7, 29, 1000])
def test_all_ids_are_told_in_their_order(
    http: TestClient, notes: bitkin.Collection, monkeypatch: pytest.MonkeyPatch, n_at_once: int
) -> None:
    monkeypatch.setattr("bitkin.service.routes.answers._PLAIN_AT_ONCE", n_at_once)
    assert http.get("/v1/ids").json() == {"ids": notes.ids.tolist()}
    notes.remove(notes.ids)
    assert http.get("/v1/ids").json() == {"ids": []}


def test_codes_go_into_a_collection_without_vectors(serve: Serve, X: Rows) -> None:
    signs = bitkin.SignHash(D).fit()
    packed = bitkin.Collection.create(None, signs, vectors=None, metric="cosine")
    http = serve(packed)
    body = {"codes": ["ff", "0f", "00"], "ids": [1, 2, 3]}
    assert http.post("/v1/items", json=body).status_code == 201
    assert http.post("/v1/search", json={"codes": ["fe"], "k": 2}).json() == {
        "ids": [[1, 2]], "distances": [[1, 5]],
        "metadata": None, "stage": "codes", "metric": "cosine",
    }  # fmt: skip
    code = http.get("/v1/items/2?codes=true").json()["code"]
    assert code == "0f"


def test_writes_are_held_to_their_limits(serve: Serve, notes: bitkin.Collection, X: Rows) -> None:
    http = serve(notes, limits=ServiceLimits(rows=3))
    many = http.post("/v1/items", json={"vectors": X[:4].tolist()})
    require_problem(many, 422, "at most 3 at a time, got 4", field="rows")
    lines = "\n".join(json.dumps({"vector": row}) for row in X[:4].tolist())
    require_problem(http.post("/v1/items", content=lines, headers=LINES), 422, "at most 3")
    data = X[:4].tobytes()
    require_problem(http.post("/v1/items", content=data, headers=BINARY), 422, "at most 3")
    require_problem(http.get("/v1/items?limit=4"), 422, "between 0 and 3, got 4", field="limit")
    require_problem(http.post("/v1/items/get", json={"ids": [1, 2, 3, 4]}), 422, "ids must be")
    assert http.get("/v1/count").json() == {"count": N}


def test_vectors_are_given_out_some_millions_of_numbers_at_a_time(
    serve: Serve, notes: bitkin.Collection, X: Rows
) -> None:
    http = serve(notes, limits=ServiceLimits(numbers=5 * D))
    some = http.get("/v1/items?limit=5&vectors=true").json()["items"]
    assert [one["vector"] for one in some] == X[:5].tolist()
    page = http.get("/v1/items?limit=6&vectors=true")
    require_problem(page, 422, "at most 40 numbers of vectors", "got 48 of 6 rows", field="limit")
    named = http.post("/v1/items/get", json={"ids": [1, 2, 3, 4, 5, 6], "vectors": True})
    require_problem(named, 422, "ids must ask for at most 40 numbers", field="ids")
    assert len(http.get("/v1/items?limit=6&codes=true").json()["items"]) == 6
    sparse = bitkin.Collection.create(
        None, bitkin.ProjectionHash(8, projection="random").fit(X), vectors="csr"
    )
    sparse.add(csr_array(np.eye(D, dtype=np.float32)))
    http = serve(sparse, limits=ServiceLimits(numbers=3))
    found = http.get("/v1/items?limit=3&vectors=true").json()["items"]
    assert [one["vector"] for one in found] == [{"indices": [i], "values": [1.0]} for i in range(3)]
    require_problem(http.get("/v1/items?limit=4&vectors=true"), 422, "at most 3 numbers")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "one of vectors, texts and codes, got none"),
        ({"vectors": [[0.0] * D], "codes": ["00"]}, "got vectors and codes"),
        ({"vectors": [[0.0] * D], "corrections": [[0.0, 0.0]]}, "corrections must come with codes"),
        ({"vectors": [[0.0] * D], "ids": [1, 2]}, "ids"),
        ({"vectors": [[0.0] * D] * 2, "ids": [900, 900]}, "900"),
        ({"vectors": [[0.0] * D], "metadata": [{}, {}]}, "metadata"),
        ({"vectors": [[0.0] * D], "metadata": [{"year": 1.5}]}, "declared int"),
        ({"vectors": [[0.0] * D], "metadata": "x"}, "metadata"),
        ({"codes": ["00"]}, "vectors"),
    ],
)
def test_bad_rows_are_refused_and_none_is_added(
    http: TestClient, body: dict[str, Any], words: str
) -> None:
    done = http.post("/v1/items", json=body)
    assert done.status_code in (409, 422), done.text
    assert words in done.json()["detail"]
    assert http.get("/v1/count").json() == {"count": N}
