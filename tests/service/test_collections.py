"""Several collections in one service: found by name, made, dropped, kept up."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import bitkin
from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError
from bitkin.service import create_app
from bitkin.wire import pack_vectors
from tests.service.conftest import D, N, Rows, require_problem

Serve = Callable[..., TestClient]


@pytest.fixture
def several(serve: Serve, tmp_path: Path, X: Rows) -> TestClient:
    """A service of a folder with two collections in it, and something else."""
    hasher = bitkin.ProjectionHash(8).fit(X)
    for name in ("ants", "bees"):
        with bitkin.Collection.create(tmp_path / name, hasher) as made:
            made.add(X[: 3 if name == "ants" else 5])
    (tmp_path / "notes.txt").write_text("no collection")
    return serve(tmp_path, backups=tmp_path)


def test_each_is_found_by_its_name(several: TestClient) -> None:
    listed = several.get("/v1/collections").json()["collections"]
    assert [(one["name"], one["rows"], one["n_features"]) for one in listed] == [
        ("ants", 3, D), ("bees", 5, D),
    ]  # fmt: skip
    assert several.get("/v1/collections/bees").json()["rows"] == 5
    assert several.get("/v1/collections/bees/count").json() == {"count": 5}
    found = several.post("/v1/collections/ants/search", json={"ids": [0], "k": 9}).json()
    assert sorted(found["ids"][0]) == [1, 2]
    about = several.get("/v1/service").json()
    assert (about["collections"], about["several"]) == (["ants", "bees"], True)


def test_a_name_that_is_absent_or_wrong_lists_those_there_are(several: TestClient) -> None:
    require_problem(several.get("/v1/count"), 404, "say which", "ants, bees")
    require_problem(several.get("/v1/collections/bee/count"), 404, "Did you mean 'bees'?")
    for name in ("..", ".hidden", "notes.txt", "a/b", "%2e%2e"):
        assert several.get(f"/v1/collections/{name}/count").status_code == 404


def test_the_only_one_has_a_name_too(serve: Serve, tmp_path: Path, X: Rows) -> None:
    with bitkin.Collection.create(tmp_path / "ants", bitkin.ProjectionHash(8).fit(X)) as made:
        made.add(X)
    http = serve(tmp_path / "ants")
    assert http.get("/v1/collections/ants/count").json() == http.get("/v1/count").json()
    require_problem(http.post("/v1/collections", json={"name": "b", "n_features": 3}), 405, "just")
    require_problem(http.delete("/v1/collections/ants"), 405, "started with")


@pytest.mark.parametrize("kind", ["n_features", "sample", "packed sample", "model"])
def test_a_collection_is_made_filled_and_dropped(
    several: TestClient, tmp_path: Path, X: Rows, kind: str
) -> None:
    body: dict[str, Any] = {"name": "cats", "metric": "cosine", "fields": {"year": "int"}}
    if kind == "n_features":
        body |= {"n_features": D, "n_bits": 16}
    elif kind == "sample":
        body |= {"sample": X.tolist()}
    elif kind == "packed sample":
        body |= {"sample": pack_vectors(X)}
    else:
        bitkin.ProjectionHash(8, normalize=True).fit(X).save(tmp_path / "model.bitkin")
        model = (tmp_path / "model.bitkin").read_bytes()
        body |= {"model": base64.b64encode(model).decode()}
    made = several.post("/v1/collections", json=body)
    assert made.status_code == 201, made.text
    told = made.json()
    assert (told["rows"], told["metric"], told["fields"]) == (0, "cosine", {"year": "int"})
    base = "/v1/collections/cats"
    rows = {"vectors": X[:9].tolist(), "metadata": [{"year": i} for i in range(9)]}
    assert several.post(f"{base}/items", json=rows).status_code == 201
    assert len(several.post(f"{base}/search", json={"ids": [3], "k": 5}).json()["ids"][0]) == 5
    require_problem(several.post("/v1/collections", json=body), 409, "'cats' already", field=None)
    assert several.delete(base).status_code == 204
    require_problem(several.get(f"{base}/count"), 404, "'cats'")
    assert not (tmp_path / "cats").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": "x"}, "one of n_features, sample, model and embed, got none"),
        ({"name": "x", "n_features": 3, "embed": True}, "got embed and n_features"),
        ({"name": "../x", "n_features": 3}, "name must be up to 64 letters"),
        ({"name": ".x", "n_features": 3}, "name must be up to 64 letters"),
        ({"name": "", "n_features": 3}, "name must be up to 64 letters"),
        ({"name": "x", "embed": True}, "this service embeds no texts"),
        ({"name": "x", "model": "AAAA"}, "model must be a fitted hasher: it is"),
        ({"name": "x", "model": "?"}, "base64"),
        ({"name": "x", "n_features": 3, "fields": {"and": "int"}}, "fields"),
        ({"name": "x", "n_features": 3, "fields": {"a": "date"}}, "fields.a"),
        ({"name": "x", "sample": [[1.0, 2.0], [1.0]]}, "rows of 2 numbers"),
        ({"name": "x", "n_features": 0}, "greater than or equal to 1"),
        ({"name": "x", "n_features": 3, "stage": "exact", "vectors": "none"}, "stage must not be"),
    ],
)
def test_a_collection_that_cannot_be_is_refused_and_nothing_is_left(
    several: TestClient, tmp_path: Path, body: dict[str, Any], words: str
) -> None:
    require_problem(several.post("/v1/collections", json=body), 422, words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ants", "bees", "notes.txt"]


def test_what_another_process_makes_and_deletes_is_seen(
    several: TestClient, tmp_path: Path, X: Rows
) -> None:
    with bitkin.Collection.create(tmp_path / "dogs", bitkin.ProjectionHash(8).fit(X)) as made:
        made.add(X[:7])
    assert several.get("/v1/collections/dogs/count").json() == {"count": 7}
    names = [one["name"] for one in several.get("/v1/collections").json()["collections"]]
    assert names == ["ants", "bees", "dogs"]


def test_whoever_found_a_collection_before_it_was_dropped_is_told_that_it_is_gone(
    several: TestClient, X: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = "/v1/collections/bees"
    app: Any = several.app
    served = app.state.bitkin.shelf.find("bees")
    assert several.delete(base).status_code == 204
    # as if each had been on its way while it was dropped
    monkeypatch.setattr(app.state.bitkin.shelf, "find", lambda name: served)
    query, rows = {"vectors": X[:1].tolist(), "k": 1}, {"vectors": X[:1].tolist()}
    for answer in (
        several.post(f"{base}/search", json=query),
        several.post(f"{base}/search", json={"ids": [0], "k": 1}),
        several.post(f"{base}/search", json={"vectors": X[:70].tolist(), "k": 1}),
        several.post(f"{base}/explain", json=query),
        several.post(f"{base}/items", json=rows),
        several.delete(f"{base}/items/0"),
        several.get(f"{base}/items"),
        several.get(f"{base}/stats"),
        several.get(f"{base}/export"),
        several.post(f"{base}/compact"),
        several.get(base),
    ):
        require_problem(answer, 404, "there is no collection 'bees' any more")
    monkeypatch.setattr(type(app.state.bitkin.shelf), "all", [served])
    assert several.get("/v1/collections").json() == {"collections": []}
    assert 'bitkin_rows{collection="bees"}' not in several.get("/metrics").text


def test_collections_are_found_while_others_are_busy_for_minutes(
    several: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, begun = threading.Event(), threading.Semaphore(0)

    def export(*_: Any, **__: Any) -> int:
        begun.release()
        assert go.wait(60)
        raise InvalidInputError("where must be something else.")

    monkeypatch.setattr(bitkin.Collection, "export", export)
    with ThreadPoolExecutor(2) as others:
        asked = [
            others.submit(several.get, f"/v1/collections/{name}/export")
            for name in ("ants", "bees")
        ]
        for _ in asked:
            assert begun.acquire(timeout=60)
        try:
            assert len(several.get("/v1/collections").json()["collections"]) == 2
        finally:
            go.set()
        assert {one.result().status_code for one in asked} == {422}


def test_a_collection_whose_writer_is_still_at_work_is_to_be_asked_for_again(
    several: TestClient, tmp_path: Path, X: Rows
) -> None:
    with bitkin.Collection.create(tmp_path / "dogs", bitkin.ProjectionHash(8).fit(X)) as made:
        made.add(X[:7])
        waiting = several.get("/v1/collections/dogs/count")
        require_problem(waiting, 503, "open for writing already")
        assert waiting.headers["retry-after"] == "1"
    assert several.get("/v1/collections/dogs/count").json() == {"count": 7}


def test_the_service_only_reads_where_told(serve: Serve, tmp_path: Path, X: Rows) -> None:
    path = tmp_path / "ants"
    with bitkin.Collection.create(path, bitkin.ProjectionHash(8).fit(X)) as made:
        made.add(X)
        http = serve(path, read_only=True)  # beside the writer
        made.remove([0])
        assert http.get("/v1/count").json() == {"count": N - 1}
        done = http.post("/v1/items", json={"vectors": X[:1].tolist()})
        require_problem(done, 403, "--read-only")
        assert http.get("/v1/service").json()["can_write"] is False


def test_upkeep(several: TestClient, tmp_path: Path) -> None:
    base = "/v1/collections/bees"
    for what in ("compact", "checkpoint", "verify"):
        done = several.post(f"{base}/{what}")
        assert (done.status_code, done.json()) == (200, {}), what
    assert several.post(f"{base}/reencode").json() == {"rows": 0}
    assert several.post(f"{base}/backup", json={"name": "copy"}).json() == {"path": "copy"}
    with bitkin.Collection.open(tmp_path / "copy") as copy:
        assert len(copy) == 5
    again = several.post(f"{base}/backup", json={"name": "copy"})
    require_problem(again, 409, "there is a backup 'copy' already")
    require_problem(several.post(f"{base}/backup", json={"name": "../up"}), 422, "name must be")
    hasher = several.get(f"{base}/hasher")
    (tmp_path / "hasher").write_bytes(hasher.content)
    fingerprint = several.get(f"{base}/epochs").json()["epochs"][0]["fingerprint"]
    assert bitkin.load(tmp_path / "hasher").fingerprint_ == fingerprint


def test_backups_need_a_place(http: TestClient) -> None:
    require_problem(http.post("/v1/backup", json={"name": "copy"}), 405, "--backups FOLDER")
    require_problem(http.post("/v1/checkpoint"), 422, "in memory has no place for a checkpoint")


def test_a_stream_learns_and_begins_epochs(serve: Serve, X: Rows) -> None:
    stream = bitkin.ProjectionHash(7, projection="opast", epochs="request").fit(X[:100])
    feed = bitkin.Collection.create(None, stream)
    feed.add(X[:100])
    http = serve(feed)
    turned = np.roll(X, 3, axis=1) * np.linspace(3, 0.1, D, dtype=np.float32)
    learned = http.post("/v1/learn", json={"vectors": pack_vectors(turned)})
    assert learned.json() == {"epoch_began": False}
    drift = http.get("/v1/drift").json()
    assert drift["variance_kept"] == pytest.approx(feed.drift().variance_kept)
    assert http.post("/v1/epochs").json() == {"epoch_began": True}
    http.post("/v1/items", json={"vectors": turned[:50].tolist()})
    rows = [one["rows"] for one in http.get("/v1/epochs").json()["epochs"]]
    assert rows == [50, 100]
    assert http.post("/v1/reencode").json() == {"rows": 100}
    bad = http.post("/v1/learn", json={"vectors": [[1.0] * 7]})
    require_problem(bad, 422, "rows of 8 numbers", field="vectors")


def test_a_hasher_that_does_not_learn_says_so(http: TestClient) -> None:
    require_problem(http.get("/v1/drift"), 422, "must follow a stream")
    require_problem(http.post("/v1/epochs"), 422, "must follow a stream")


@pytest.mark.parametrize("given", [7, None, {"a": 3}, {3: 4}])
def test_what_is_no_collection_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInputError, match="collections must be a Collection, a dictionary"):
        create_app(given)


def test_paths_that_hold_no_collection_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match=r"nothing is not there. Give the folder"):
        create_app(tmp_path / "nothing")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(FileAccessError, match="is no collection, and holds none"):
        create_app(tmp_path)
    with pytest.raises(FileAccessError, match="is no folder"):
        create_app(tmp_path / "notes.txt")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "collection.db").write_bytes(b"damaged")
    with pytest.raises(CorruptFileError):
        create_app(tmp_path / "bad")
    with pytest.raises(FileAccessError, match=r"backups: .* is no folder"):
        create_app({}, backups=tmp_path / "nowhere")


def test_a_second_service_of_a_folder_is_refused(serve: Serve, tmp_path: Path, X: Rows) -> None:
    with bitkin.Collection.create(tmp_path / "ants", bitkin.ProjectionHash(8).fit(X)) as made:
        made.add(X)
    serve(tmp_path / "ants")
    with pytest.raises(FileAccessError, match="is open for writing already"):
        create_app(tmp_path / "ants")
    create_app(tmp_path / "ants", read_only=True).state.bitkin.shelf.close()
