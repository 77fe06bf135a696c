"""A client answers as a collection does that holds the same rows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

import bitkin
from bitkin.collection.results import Hits, Records
from bitkin.errors import (
    AccessDeniedError,
    CodeMismatchError,
    DuplicateIdError,
    FileAccessError,
    InvalidInputError,
    UnknownIdError,
)
from bitkin.service import ServiceLimits, Tokens, create_app, running
from tests.client.services import Breaking, collection, vectors

N = 130
X = vectors(N)
Q = vectors(7, seed=1)
ABOUT = [{"n": n, "word": f"w{n % 3}", "x": n / 7} if n % 5 else {} for n in range(N)]
WRITE, READ = "write-token-0123456789", "read-token-0123456789"


def sparse(rows: Any) -> csr_array:
    """Rows with most numbers gone."""
    return csr_array(np.where(np.abs(rows) > 1, rows, 0).astype(np.float32))


KINDS: dict[str, dict[str, Any]] = {
    "int": {},
    "str": {"ids": "str", "metric": "cosine"},
    "int8": {"vectors": "int8", "fields": {"n": int, "word": str, "x": float}},
    "float16": {"vectors": "float16", "metric": "ip"},
    "csr": {"vectors": "csr", "ids": "str"},
    "no vectors": {"vectors": None},
    "no vectors, str": {"vectors": None, "ids": "str", "stage": "codes"},
}
LIMITS = ServiceLimits(rows=60, queries=3, numbers=330)  # 20 vectors of a page


class Pair:
    """A collection here and one behind a service, with the same rows."""

    def __init__(self, settings: dict[str, Any], url: str, here: Any, there: Any) -> None:
        self.settings, self.url, self.here, self.there = settings, url, here, there
        self.client = bitkin.Client(url)

    def ids(self, numbers: Any) -> Any:
        """Ids of rows, as the collection has them."""
        return [f"r{n}" for n in numbers] if self.is_str else list(numbers)

    @property
    def is_str(self) -> bool:
        """Whether ids are strings."""
        return self.settings.get("ids") == "str"

    def rows(self, rows: Any) -> Any:
        """Rows as the collection takes them."""
        return sparse(rows) if self.settings.get("vectors") == "csr" else rows

    def same(self, ask: Callable[[Any], Any]) -> Any:
        """Ask both, and compare what they say."""
        wanted, got = ask(self.here), ask(self.client)
        assert_same(got, wanted)
        return wanted

    def fails_the_same(self, kind: type[Exception], ask: Callable[[Any], Any]) -> None:
        """Both must fail with the same words."""
        with pytest.raises(kind) as wanted:
            ask(self.here)
        with pytest.raises(kind) as got:
            ask(self.client)
        assert str(got.value) == str(wanted.value)


def assert_same(got: Any, wanted: Any) -> None:
    """Raise where two answers differ, in type, shape or value."""
    assert type(got) is type(wanted)
    if isinstance(wanted, Hits):
        assert_same_arrays(got.ids, wanted.ids)
        # sums of an estimate go by the number of queries that are searched together
        most = 1e-5 if wanted.distances.dtype == np.float32 else 0
        assert got.distances.dtype == wanted.distances.dtype
        np.testing.assert_allclose(got.distances, wanted.distances, rtol=most, atol=most)
        assert got.metadata == wanted.metadata
    elif isinstance(wanted, Records):
        assert_same_arrays(got.ids, wanted.ids)
        if wanted.vectors is None:
            assert got.vectors is None
        elif issparse(wanted.vectors):
            assert got.vectors.dtype == wanted.vectors.dtype
            assert_same_arrays(got.vectors.toarray(), wanted.vectors.toarray())
        else:
            assert_same_arrays(got.vectors, wanted.vectors)
        assert got.codes == wanted.codes
        assert got.codes.fingerprint == wanted.codes.fingerprint
        assert got.metadata == wanted.metadata
    elif isinstance(wanted, np.ndarray):
        assert_same_arrays(got, wanted)
    else:
        assert got == wanted


def assert_same_arrays(got: Any, wanted: Any) -> None:
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    assert got.tolist() == wanted.tolist()


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    settings = KINDS[request.param]
    here, there = collection(**settings), collection(**settings)
    with running(create_app(there, limits=LIMITS)) as url:
        both = Pair(settings, url, here, there)
        with both.client:
            ids = both.ids(range(N))
            for one in (here, both.client):
                one.add(both.rows(X), ids=ids, metadata=ABOUT)
            yield both


ALL_STAGES = ["codes", "estimate", "exact", None]


@pytest.mark.parametrize("stage", ALL_STAGES)
def test_searches_find_the_same(pair: Pair, stage: str | None) -> None:
    if stage == "exact" and pair.settings.get("vectors", "") is None:
        pair.fails_the_same(InvalidInputError, lambda one: one.search(Q, 3, stage="exact"))
        return
    queries = pair.rows(Q)
    pair.same(lambda one: one.search(queries, 10, stage=stage))
    pair.same(lambda one: one.search(queries[:1], 1, stage=stage, oversample=2))
    # fewer than k rows, with padding, and none at all
    few = pair.ids([3, 5, 9]) + pair.ids([1000])
    pair.same(lambda one: one.search(queries, 5, stage=stage, allow=few))
    where = {"word": ["w1", "w2"], "n": {"lt": 9}}
    pair.same(lambda one: one.search(queries, 7, stage=stage, where=where))
    pair.same(lambda one: one.search(queries, 7, stage=stage, where=where, allow=few))
    pair.same(lambda one: one.search(queries, 2, stage=stage, where={"n": -1}))


def test_a_lone_query_lists_and_iterators_are_queries_too(pair: Pair) -> None:
    if pair.settings.get("vectors") != "csr":
        pair.same(lambda one: one.search(Q[0], 2))
        pair.same(lambda one: one.search(Q[:2].tolist(), 2))
        pair.same(lambda one: one.search(Q[:2].astype(np.float16), 2))
        pair.same(lambda one: one.search(iter([Q[:5], Q[5:]]), 2))
    else:
        pair.same(lambda one: one.search(iter([sparse(Q[:5]), sparse(Q[5:])]), 2))
    pair.same(lambda one: one.search(np.empty((0, 16), dtype=np.float32), 2).ids)


def test_codes_are_queries(pair: Pair) -> None:
    codes = pair.here.hasher.encode(pair.rows(Q))
    pair.same(lambda one: one.search(codes, 4, stage="codes"))
    foreign = bitkin.ProjectionHash(64, random_state=5).fit(vectors(300, 70)).encode(vectors(2, 70))
    pair.fails_the_same(CodeMismatchError, lambda one: one.search(foreign, 1, stage="codes"))


def test_explain_says_the_same_but_for_times(pair: Pair) -> None:
    queries = pair.rows(Q[:3])  # as many as one request takes
    wanted, got = (one.explain(queries, 5) for one in (pair.here, pair.client))
    assert_same(got.hits, wanted.hits)
    assert (got.first, got.why, got.index) == (wanted.first, wanted.why, wanted.index)
    assert list(got.stages) == list(wanted.stages)
    for name, timing in wanted.stages.items():
        assert got.stages[name].rows_in == timing.rows_in
        assert got.stages[name].rows_out == timing.rows_out
    several = pair.client.explain(pair.rows(Q), 5)
    assert_same(several.hits, pair.here.search(pair.rows(Q), 5))
    assert "7 queries" in str(several)


def test_rows_come_back_as_they_are_kept(pair: Pair) -> None:
    pair.same(lambda one: one.get(pair.ids([5, 3, 5, 129])))
    pair.same(lambda one: one.get(pair.ids([7])[0]))
    pair.same(lambda one: one.get())  # which takes several requests
    pair.same(lambda one: one.get(limit=61, offset=3))
    pair.same(lambda one: one.get(limit=60, offset=100))
    pair.same(lambda one: one.get(where={"word": "w1"}, limit=5))
    pair.same(lambda one: one.get(where={"n": {"gte": np.int64(9)}, "word": {"in": {"w0", "w1"}}}))
    pair.same(lambda one: one.get(limit=0))
    pair.same(lambda one: one.get([]).ids)


def test_wide_sparse_rows_come_back_many_at_a_time() -> None:
    rows = csr_array((np.ones(300), (np.arange(300), 333 * np.arange(300))), shape=(300, 100_000))
    rows = rows.astype(np.float32)
    there = bitkin.Collection.create(
        None, bitkin.ProjectionHash(8, projection="random").fit(rows), vectors="csr"
    )
    there.add(rows)
    counting = Breaking("items/get", [])
    with running(create_app(there)) as url, bitkin.Client(url, transport=counting) as client:
        assert_same(client.get(), there.get())
    assert counting.n_arrived == 2


def test_counts_ids_and_settings_are_the_same(pair: Pair) -> None:
    pair.same(len)
    pair.same(lambda one: one.count())
    pair.same(lambda one: one.count({"n": {"gte": 64}}))
    pair.same(lambda one: one.count({"or": [{"word": "w1"}, {"n": {"exists": False}}]}))
    pair.same(lambda one: one.ids)
    pair.same(lambda one: one.epochs)
    pair.same(lambda one: one.fields)
    pair.same(lambda one: (one.metric, one.stage, one.read_only, one.nbytes > 0))
    pair.same(lambda one: one.hasher.fingerprint_)
    for name in (*pair.ids([5]), *pair.ids([N]), "r5", 5, -1, 2**70, None, 5.0, "", "a/b?", True):
        pair.same(partial(_contains, name))
    theirs, ours = pair.client.stats(), pair.here.stats()
    ours.pop("bytes_in_memory")
    assert ours.items() <= {**theirs, "n_features": ours["n_features"]}.items()


def _search(queries: Any, k: Any, one: Any) -> Any:
    return one.search(queries, k)


def _count(where: Any, one: Any) -> Any:
    return one.count(where)


def _contains(name: Any, one: Any) -> Any:
    return name in one


def test_what_is_wrong_is_wrong_in_the_same_words(pair: Pair) -> None:
    unknown = pair.ids([N + 7])
    queries = pair.rows(Q[:2])
    pair.fails_the_same(UnknownIdError, lambda one: one.get(unknown))
    pair.fails_the_same(UnknownIdError, lambda one: one.remove(unknown))
    pair.fails_the_same(UnknownIdError, lambda one: one.update_metadata(unknown, {"a": 1}))
    pair.fails_the_same(InvalidInputError, lambda one: one.get([1.5]))
    pair.fails_the_same(InvalidInputError, lambda one: one.get({"a": 1}))
    pair.fails_the_same(InvalidInputError, lambda one: one.get(unknown, limit=3))
    pair.fails_the_same(InvalidInputError, lambda one: one.get(limit=-1))
    pair.fails_the_same(InvalidInputError, lambda one: one.get(offset="x"))
    for k in (0, -1, 2.5, True, None, 2**40):
        pair.fails_the_same(InvalidInputError, partial(_search, queries, k))
    pair.fails_the_same(InvalidInputError, lambda one: one.search(queries, 1, stage="extract"))
    pair.fails_the_same(InvalidInputError, lambda one: one.search(queries, 1, first="exact"))
    pair.fails_the_same(InvalidInputError, lambda one: one.search(queries, 1, oversample=0))
    if pair.settings.get("vectors", "") in (None, "csr"):  # where there will be no cells
        pair.fails_the_same(InvalidInputError, lambda one: one.search(queries, 1, probes=3))
    else:
        pair.fails_the_same(InvalidInputError, lambda one: one.search(queries, 1, probes=0))
        pair.same(lambda one: one.search(queries, 1, probes=3))
    pair.fails_the_same(InvalidInputError, lambda one: one.search(queries, 1, allow=[2.5]))
    pair.fails_the_same(InvalidInputError, lambda one: one.search(queries, 1, where=[5]))
    wheres: list[Any] = [{"n": {"near": 5}}, {"n": float("nan")}, {5: 5}, "n = 5", {"and": {}}]
    for where in wheres:
        pair.fails_the_same(InvalidInputError, partial(_count, where))
    pair.fails_the_same(DuplicateIdError, lambda one: one.add(pair.rows(X[:1]), ids=pair.ids([5])))
    pair.fails_the_same(InvalidInputError, lambda one: one.add(pair.rows(X[:2]), ids={1, 2}))
    pair.fails_the_same(InvalidInputError, lambda one: one.upsert(pair.rows(X[:2]), ids=None))
    ids = pair.ids([500, 501])
    pair.fails_the_same(
        InvalidInputError, lambda one: one.add(pair.rows(X[:2]), ids=ids, metadata=[{}])
    )
    pair.fails_the_same(
        InvalidInputError,
        lambda one: one.add(pair.rows(X[:2]), ids=ids, metadata=[{}, {"when": {1, 2}}]),
    )
    pair.fails_the_same(InvalidInputError, lambda one: one.new_epoch())
    pair.fails_the_same(InvalidInputError, lambda one: one.learn(pair.rows(X[:2])))
    pair.fails_the_same(InvalidInputError, lambda one: one.drift())
    pair.fails_the_same(InvalidInputError, lambda one: one.checkpoint())
    pair.same(len)


def test_filters_that_json_cannot_hold_are_refused(pair: Pair) -> None:
    with pytest.raises(InvalidInputError, match="where must hold finite numbers"):
        pair.client.count({"n": {"lt": float("inf")}})


def test_changes_leave_the_same_rows(pair: Pair) -> None:
    some = pair.ids([4, 3, 100])

    def change(one: Any) -> None:
        one.update_metadata(some, {"new": [1, {"a": None}], "word": None})
        one.update_metadata(some[:1], [{"only": "this"}], replace=True)
        one.upsert(pair.rows(-X[:3]), ids=pair.ids([2, 1, 200]), metadata=[{"u": 1}, {}, None])
        one.remove(pair.ids([6]))
        one.remove(pair.ids([7])[0])
        one.remove([])
        one.verify()
        one.compact()

    change(pair.here)
    change(pair.client)
    pair.same(lambda one: one.get())
    pair.same(lambda one: one.search(pair.rows(Q), 20))
    pair.same(lambda one: one.reencode())


def test_data_frames_are_vectors_and_metadata(pair: Pair) -> None:
    pandas = pytest.importorskip("pandas")
    if pair.settings.get("vectors") == "csr":
        return
    about = pandas.DataFrame({"n": [1, None, 3], "word": ["a", None, "c"]}).astype({"n": "Int64"})
    ids = pair.ids([300, 301, 302])
    for one in (pair.here, pair.client):
        one.add(pandas.DataFrame(X[:3]), ids=ids, metadata=about)
    pair.same(lambda one: one.get(ids))
    for one in (pair.here, pair.client):
        one.remove(ids)


def test_an_export_is_the_same_file_and_comes_back(pair: Pair, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    for suffix in (".jsonl", ".jsonl.gz"):
        ours, theirs = tmp_path / f"ours{suffix}", tmp_path / f"theirs{suffix}"
        n = pair.here.export(ours)
        assert pair.client.export(theirs, progress=lambda *of: told.append(of)) == n
        assert ours.read_bytes() == theirs.read_bytes()
        assert told[-1] == (n, n)
    where = {"word": {"in": ["w1", *(f"{n:050}" for n in range(400))]}}
    n = pair.here.export(tmp_path / "some.jsonl", where={"word": "w1"})
    assert pair.client.export(tmp_path / "theirs.jsonl", where={"word": "w1"}, overwrite=True) == n
    assert pair.client.export(tmp_path / "long.jsonl", where=where) == n
    with pytest.raises(InvalidInputError, match="where must take at most 30,000 characters"):
        pair.client.export(tmp_path / "x.jsonl", where={"word": [str(n) for n in range(9999)]})
    with pytest.raises(FileAccessError, match=r"is there already. Give another path, or overwrite"):
        pair.client.export(tmp_path / "theirs.jsonl")
    with pytest.raises(FileAccessError, match="cannot be written"):
        pair.client.export(tmp_path / "no" / "theirs.jsonl")
    with pytest.raises(InvalidInputError, match=r"path must end in one of .jsonl"):
        pair.client.export(tmp_path / "theirs.parquet")
    empty = collection(**pair.settings)
    with running(create_app(empty, limits=LIMITS)) as url, bitkin.Client(url) as client:
        counted: list[int] = []
        n = client.import_file(tmp_path / "ours.jsonl", batch_rows=100, progress=counted.append)
        assert n == counted[-1] == len(pair.here)
        assert_same(client.get().metadata, pair.here.get().metadata)
        assert_same(client.search(pair.rows(Q), 5), pair.here.search(pair.rows(Q), 5))
        if "vector" in json.loads((tmp_path / "ours.jsonl").read_text().splitlines()[0]):
            client.import_file(tmp_path / "some.jsonl", upsert=True)
        words = (
            r"some.jsonl, lines 1 to \d+ \(row 0 is line 1\): ids must be new.*Nothing was added"
        )
        with pytest.raises(DuplicateIdError, match=words):
            client.import_file(tmp_path / "some.jsonl")
        assert len(client) == len(pair.here)


def test_a_broken_export_leaves_what_was_there(tmp_path: Path) -> None:
    from tests.client.services import Script

    path = tmp_path / "rows.jsonl"
    path.write_text("before\n")
    head = {"content-type": "application/x-ndjson", "x-total-rows": "3"}
    for body in (b'{"id": 1}\n{"id": 2}\n', b'{"id": 1}\n{"id": 2}\n{"id":'):
        script = Script(export=httpx.Response(200, headers=head, content=body))
        with (
            bitkin.Client("http://there", transport=script) as client,
            pytest.raises(bitkin.errors.ServiceError, match=r"would not be whole.*Export again"),
        ):
            client.export(path, overwrite=True)
    assert path.read_text() == "before\n"
    assert list(tmp_path.iterdir()) == [path]


def test_codes_are_added_with_and_without_corrections(pair: Pair, tmp_path: Path) -> None:
    codes = pair.here.hasher.encode(pair.rows(X[:70]))
    ids = pair.ids(range(400, 470))
    if pair.settings.get("vectors", "") is not None:
        pair.fails_the_same(InvalidInputError, lambda one: one.add_codes(codes, ids=ids))
        return
    numbers = bitkin.corrections(pair.here.hasher, X[:70], metric=pair.here.metric)
    for one in (pair.here, pair.client):
        one.add_codes(codes, ids=ids, corrections=numbers, metadata=[{"c": 1}] * 70)
    pair.same(lambda one: one.search(Q, 30))
    pair.fails_the_same(
        InvalidInputError, lambda one: one.add(codes, ids=pair.ids(range(600, 670)))
    )
    with pytest.raises(
        InvalidInputError, match=r"corrections must be finite and of shape \(70, 2\)"
    ):
        pair.client.add_codes(codes, ids=ids, corrections=numbers[:3])
    with pytest.raises(InvalidInputError, match="corrections must be numbers, two per code"):
        pair.client.add_codes(codes, ids=ids, corrections="x")
    with pytest.raises(InvalidInputError, match="codes must be Codes"):
        pair.client.add_codes(X, ids=ids)  # type: ignore[arg-type]
    for one in (pair.here, pair.client):
        one.remove(ids)


def test_codes_with_nothing_to_hash_stay_so() -> None:
    hasher = bitkin.WTAHash(n_hashes=16, window=4).fit(sparse(X))
    rows = sparse(X[:9])
    rows.data[rows.indptr[3] : rows.indptr[4]] = 0
    rows.eliminate_zeros()
    notes = bitkin.Collection.create(None, hasher, vectors=None)
    with running(create_app(notes)) as url, bitkin.Client(url) as client:
        ids = client.add_codes(hasher.encode(rows), ids=range(9))
        assert_same(client.get(ids), notes.get(ids))
        assert client.get(3).codes.empty_rows().all()
        codes = client.get(limit=9).codes
        assert_same(client.search(codes, 2, stage="codes"), notes.search(codes, 2, stage="codes"))


def test_a_stream_learns_over_the_wire() -> None:
    both = []
    for _ in range(2):
        stream = bitkin.ProjectionHash(8, projection="opast").fit(X)
        both.append(bitkin.Collection.create(None, stream))
    here, there = both
    more = vectors(300, seed=2) * np.linspace(0.1, 3, 16, dtype=np.float32)
    with running(create_app(there, limits=LIMITS)) as url, bitkin.Client(url) as client:
        for one in (here, client):
            one.add(X, ids=range(N))
        begun = [here.learn(more[first : first + 60]) for first in range(0, 300, 60)]
        assert client.learn(more) is any(begun)
        assert_same(client.drift(), here.drift())
        assert client.new_epoch() is here.new_epoch()
        assert client.new_epoch() is False
        for one in (here, client):
            one.add(more, ids=range(N, N + 300))
        assert_same(client.epochs, here.epochs)
        assert len(here.epochs) > 1
        assert_same(client.search(Q, 9), here.search(Q, 9))
        assert_same(client.get(range(N - 2, N + 2)), here.get(range(N - 2, N + 2)))
        assert client.reencode() == here.reencode() == N
        assert_same(client.get(), here.get())


def test_a_folder_of_collections_is_made_used_and_dropped(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "copies").mkdir()
    tokens = Tokens.from_words(write=[WRITE], read=[READ])
    app = create_app(tmp_path / "all", tokens=tokens, backups=tmp_path / "copies", embed="hash:64")
    with running(app) as url, bitkin.Client(url, WRITE) as client:
        assert client.collections() == []
        fitted = collection().hasher
        a = client.create_collection("a", fitted, fields={"n": int}, metric="cosine")
        b = client.create_collection("b", n_features=16, n_bits=64, ids="str", vectors=None)
        c = client.create_collection("c", sample=X, n_bits=16, vectors="float16")
        d = client.create_collection("d", sample=sparse(X), n_bits=16)
        e = client.create_collection("e", embed=True, n_bits=64)
        assert client.collections() == ["a", "b", "c", "d", "e"]
        for one in (a, b, c, d):
            ids = one.add(X)
            assert one.search(X[5], 1).ids[0, 0] == ids[5]
            assert len(one) == N
        assert (a.metric, a.fields, a.hasher.fingerprint_) == (
            "cosine",
            {"n": "int"},
            fitted.fingerprint_,
        )
        assert (b.stats()["ids"], c.stats()["vectors"], len(e)) == ("str", "float16", 0)
        a.checkpoint()
        assert a.backup("a-1")
        with bitkin.Collection.open(tmp_path / "copies" / "a-1") as copy:
            assert len(copy) == N
        with pytest.raises(InvalidInputError, match="there is a backup 'a-1' already"):
            a.backup("a-1")
        with pytest.raises(InvalidInputError, match="name must be"):
            a.backup("../a-1")
        with pytest.raises(InvalidInputError, match="there is a 'a' already"):
            client.create_collection("a", n_features=4)
        with pytest.raises(InvalidInputError, match="give one of n_features, sample, model"):
            client.create_collection("f")
        with pytest.raises(InvalidInputError, match="hasher must be a fitted"):
            client.create_collection("f", 5)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="metric"):
            client.create_collection("f", n_features=4, metric="l3")
        with pytest.raises(InvalidInputError, match="fields must be a dictionary"):
            client.create_collection("f", n_features=4, fields=["n"])
        with pytest.raises(InvalidInputError, match=r"several collections.*a, b, c"):
            client.count()
        with pytest.raises(InvalidInputError, match=r"no collection 'x'.*a, b, c"):
            client.collection("x").count()
        with bitkin.Client(url, READ, collection="a") as reader:
            assert reader.read_only
            assert not a.read_only
            assert len(reader) == N
            for write in (
                lambda: reader.add(X),
                lambda: reader.remove(reader.ids[:1]),
                lambda: reader.drop_collection("a"),
                lambda: reader.create_collection("f", n_features=4),
            ):
                with pytest.raises(AccessDeniedError, match="this token may only read"):
                    write()
        for token in (None, "another-token-0123456789"):
            with (
                bitkin.Client(url, token, collection="a") as nobody,
                pytest.raises(
                    AccessDeniedError, match=r"refused the token, or wants one"
                ) as caught,
            ):
                nobody.search(Q, 1)
            assert "0123456789" not in str(caught.value)
        client.drop_collection("b")
        assert client.collections() == ["a", "c", "d", "e"]
        with pytest.raises(InvalidInputError, match="no collection 'b'"):
            client.drop_collection("b")


def test_texts_become_vectors_in_the_service(tmp_path: Path) -> None:
    with running(create_app(tmp_path, embed="hash:256", limits=LIMITS)) as url:
        with bitkin.Client(url) as service:
            notes = service.create_collection("notes", embed=True, n_bits=64)
        assert notes.name == "notes"
        with bitkin.Client(url, collection="notes") as client:
            texts = [f"boat{n} rain{7 * n} sea{n * n}" for n in range(70)]
            ids = client.add_texts(texts, metadata=[{"n": n} for n in range(70)])
            hits = client.search_texts([texts[5], texts[60], texts[1], texts[2]], 2)
            assert hits.ids[:, 0].tolist() == ids[[5, 60, 1, 2]].tolist()
            assert hits.metadata is not None
            assert hits.metadata[0][0] == {"n": 5, "text": texts[5]}
            client.upsert_texts("a lone text", ids=ids[5], key="body")
            assert client.get(ids[5]).metadata == [{"body": "a lone text"}]
            assert client.search_texts("a lone text", 1, where={"n": 7}).ids.tolist() == [[ids[7]]]
            assert len(client.add_texts([])) == 0
            assert client.search_texts([], 3).ids.shape == (0, 3)
            for wrong, words in [
                ({"a"}, "texts must be in the order"),
                (5, "texts must be a list of texts, got 5"),
                (["a", 5], "texts must be texts, got 5 at position 1"),
                (["\ud800"], "texts must be without lone surrogates"),
            ]:
                with pytest.raises(InvalidInputError, match=words):
                    client.add_texts(wrong)
                with pytest.raises(InvalidInputError, match=words):
                    client.search_texts(wrong, 1)
            with pytest.raises(InvalidInputError, match="key must be a non-empty string"):
                client.add_texts(["a"], key="")
            with pytest.raises(InvalidInputError, match="ids must be given to upsert"):
                client.upsert_texts(["a"], ids=None)

        async def ask() -> Any:
            async with bitkin.AsyncClient(url, collection="notes") as client:
                await client.upsert_texts(["a"], ids=[1])
                await client.add_texts(["b"], ids=[2])
                return await client.search_texts("a", 1)

        assert asyncio.run(ask()).ids.tolist() == [[1]]


def test_a_collection_that_is_made_anew_is_noticed(tmp_path: Path) -> None:
    with running(create_app(tmp_path)) as url, bitkin.Client(url) as client:
        one = client.create_collection("a", n_features=16, n_bits=64)
        one.add(X)
        with bitkin.Client(url) as other:
            other.drop_collection("a")
            other.create_collection("a", n_features=8, n_bits=64)
        one.add(X[:, :8])
        assert one.search(X[3, :8], 1).distances[0, 0] == 0


async def every_call(client: bitkin.AsyncClient, folder: Path) -> dict[str, Any]:
    """Use all that an async client has, and return what it said."""
    said: dict[str, Any] = {}
    ids = list(range(N))
    said["added"] = await client.add(X, ids=ids, metadata=ABOUT)
    said["upserted"] = await client.upsert(-X[:2], ids=[1, N])
    said["searched"] = await client.search(Q, 4, where={"n": {"lt": 99}})
    said["explained"] = (await client.explain(Q[:3], 4)).hits
    said["got"] = await client.get([5, N])
    await client.update_metadata([5], {"a": 1})
    await client.remove([7])
    for name in ("count", "ids", "epochs", "fields", "metric", "stage", "read_only"):
        said[name] = await getattr(client, name)()
    said["contains"] = [await client.contains(one) for one in (5, 7)]
    said["hasher"] = (await client.hasher()).fingerprint_
    said["nbytes"] = await client.nbytes() > 0
    said["stats"] = (await client.stats())["rows"]
    await client.verify()
    await client.compact()
    said["reencoded"] = await client.reencode()
    said["exported"] = await client.export(folder / "rows.jsonl")
    said["imported"] = await client.import_file(folder / "rows.jsonl", upsert=True)
    return said


def test_the_async_client_says_the_same(tmp_path: Path) -> None:
    here = collection()
    said: dict[str, Any] = {"added": here.add(X, ids=range(N), metadata=ABOUT)}
    said["upserted"] = here.upsert(-X[:2], ids=[1, N])
    said["searched"] = here.search(Q, 4, where={"n": {"lt": 99}})
    said["explained"] = here.search(Q[:3], 4)
    said["got"] = here.get([5, N])
    here.update_metadata([5], {"a": 1})
    here.remove(7)
    for name in ("ids", "epochs", "fields", "metric", "stage", "read_only"):
        said[name] = getattr(here, name)
    said |= {"count": N, "contains": [True, False], "hasher": here.hasher.fingerprint_}
    said |= {"nbytes": True, "stats": N, "reencoded": 0, "exported": N, "imported": N}

    async def ask() -> dict[str, Any]:
        app = create_app(collection(), limits=LIMITS)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            bitkin.AsyncClient("http://localhost", transport=transport) as client,
        ):
            return await every_call(client, tmp_path)

    answers = asyncio.run(ask())
    assert answers.keys() == said.keys()
    for name, wanted in said.items():
        assert_same(answers[name], wanted)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == N


def test_an_async_client_sends_again_too(tmp_path: Path) -> None:
    from tests.client.services import SERVICE, STATS, problem

    answers: dict[str, list[Any]] = {
        "count": [httpx.ReadError("?"), problem(429, "busy"), {"count": 3}],
        "service": [httpx.ConnectError("?"), SERVICE],
        "stats": [STATS],
        "items": [httpx.ReadError("?"), problem(409, "taken", "DuplicateIdError")],
        "items_get": [{"items": []}],
        "export": [httpx.Response(200, content=b"")],
        "learn": [{"epoch_began": True}],
        "epochs": [{"epoch_began": False}],
        "drift": [problem(422, "hasher must follow a stream.", "InvalidInputError")],
        "checkpoint": [{}],
        "backup": [{"path": "there"}],
    }

    def answer(request: httpx.Request) -> httpx.Response:
        one = answers[request.url.path.removeprefix("/v1/").replace("/", "_")].pop(0)
        if isinstance(one, Exception):
            raise one
        return one if isinstance(one, httpx.Response) else httpx.Response(200, json=one)

    async def ask() -> None:
        transport = httpx.MockTransport(answer)
        async with bitkin.AsyncClient("http://there", transport=transport) as client:
            assert await client.count() == 3
            assert len(await client.add(np.ones((2, 4)))) == 2
            assert await client.export(tmp_path / "rows.jsonl") == 0
            assert await client.learn(np.ones((2, 4)))
            answers["service"].append(SERVICE)
            assert not await client.new_epoch()
            with pytest.raises(InvalidInputError, match="must follow a stream"):
                await client.drift()
            await client.checkpoint()
            answers["service"].append(SERVICE)
            assert await client.backup("b") == "there"
            answers["stats"].append(STATS)
            codes = bitkin.Codes.from_symbols(np.ones((1, 8), dtype=np.uint8), 1)
            answers["items"].append({"ids": [1]})
            assert len(await client.add_codes(codes, ids=[1])) == 1

    asyncio.run(ask())
    assert not any(answers.values())


def test_many_async_calls_may_be_under_way_over_sockets() -> None:
    notes = collection()
    with running(create_app(notes)) as url:

        async def ask() -> list[Hits]:
            async with bitkin.AsyncClient(url) as client:
                ids = await asyncio.gather(*(client.add(X[i : i + 10]) for i in range(0, N, 10)))
                assert len(set(np.concatenate(ids).tolist())) == N
                searches: list[Awaitable[Hits]] = [client.search(x, 1) for x in X]
                return await asyncio.gather(*searches)

        hits = asyncio.run(ask())
    assert all(one.distances[0, 0] == 0 for one in hits)


def test_an_async_client_of_collections(tmp_path: Path) -> None:
    async def ask(url: str) -> list[str]:
        async with bitkin.AsyncClient(url) as client:
            made = await client.create_collection("a", n_features=16, n_bits=64)
            await made.add(X[:3])
            await client.create_collection("b", n_features=16, n_bits=64)
            await client.drop_collection("b")
            assert await client.collection("a").count() == 3
            return await client.collections()

    with running(create_app(tmp_path)) as url:
        assert asyncio.run(ask(url)) == ["a"]


def test_threads_may_share_a_client() -> None:
    from concurrent.futures import ThreadPoolExecutor

    notes = collection()
    with (
        running(create_app(notes)) as url,
        bitkin.Client(url) as client,
        ThreadPoolExecutor(4) as pool,
    ):
        ids = list(pool.map(lambda i: client.add(X[i : i + 5]), range(0, N, 5)))
        hits = list(pool.map(lambda x: client.search(x, 1), X))
    assert len(set(np.concatenate(ids).tolist())) == N
    assert all(one.distances[0, 0] == 0 for one in hits)
