"""Rows that are sent to a service are there once: whatever breaks, nothing is lost or doubled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.client import rows as client_rows
from bitkin.client.rows import IdRuns
from bitkin.errors import DuplicateIdError, InvalidInputError, ServiceError, UnknownIdError
from bitkin.service import ServiceLimits, create_app, running
from tests.client.services import Breaking, Script, collection, problem, vectors

URL = "http://there:8000"


@pytest.fixture(scope="module", params=["int", "str"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def served(kind: str) -> Iterator[tuple[str, bitkin.Collection]]:
    """A service of one collection, with that collection."""
    notes = collection(ids=kind)
    limits = ServiceLimits(rows=50, body=100_000)
    with running(create_app(notes, limits=limits)) as url:
        yield url, notes


@pytest.fixture
def empty(served: tuple[str, bitkin.Collection]) -> tuple[str, bitkin.Collection]:
    url, notes = served
    notes.remove(notes.ids)
    return url, notes


def same_rows(notes: bitkin.Collection, ids: Any, wanted: Any) -> bool:
    """Whether the collection holds these rows, and no others."""
    return len(notes) == len(wanted) and np.array_equal(notes.get(ids).vectors, wanted)


@pytest.mark.parametrize("fate", ["unsent", "lost"])
def test_a_retry_adds_nothing_twice(empty: tuple[str, bitkin.Collection], fate: str) -> None:
    url, notes = empty
    X = vectors(30)
    transport = Breaking("/items", [fate, fate, "ok"])
    with bitkin.Client(url, transport=transport) as client:
        ids = client.add(X, metadata=[{"n": n} for n in range(30)])
    assert same_rows(notes, ids, X)
    assert [one["n"] for one in notes.get(ids).metadata or []] == list(range(30))
    assert transport.n_arrived == (3 if fate == "lost" else 1)


def test_an_add_without_any_answer_says_that_it_may_be_there(
    empty: tuple[str, bitkin.Collection],
) -> None:
    url, notes = empty
    with (
        bitkin.Client(url, retries=1, transport=Breaking("/items", ["lost", "lost"])) as client,
        pytest.raises(ServiceError, match=r"Whether the 7 behind them.* is not known") as caught,
    ):
        client.add(vectors(7))
    assert caught.value.maybe_done
    first, last = re.findall(r"as ids (\w+) to (\w+)", str(caught.value))[0]
    assert [str(one) for one in notes.ids[[0, -1]]] == [first, last]


def test_large_adds_go_in_several_requests(empty: tuple[str, bitkin.Collection]) -> None:
    url, notes = empty
    X = vectors(173)
    told: list[int] = []
    transport = Breaking("/items", ["ok", "lost", "ok", "unsent", "ok"])
    with bitkin.Client(url, transport=transport) as client:
        ids = client.add(X, progress=told.append)
    assert same_rows(notes, ids, X)
    assert told == [50, 100, 150, 173]
    assert len(set(ids.tolist())) == 173
    assert ids.tolist() == sorted(ids.tolist())


def test_where_it_ends_on_the_way_the_error_says_how_many_rows_are_there(
    empty: tuple[str, bitkin.Collection],
) -> None:
    url, notes = empty
    X = vectors(173)
    plan = ["ok", "ok", *["unsent"] * 3]
    with (
        bitkin.Client(url, retries=2, transport=Breaking("/items", plan)) as client,
        pytest.raises(ServiceError, match="The first 100 rows were added, as ids") as caught,
    ):
        client.add(X)
    assert not caught.value.maybe_done
    assert "from row 100 on" in str(caught.value)
    first, last = re.findall(r"as ids (\w+) to (\w+)", str(caught.value))[0]
    assert [str(one) for one in notes.ids[[0, -1]]] == [first, last]
    assert same_rows(notes, notes.ids, X[:100])


def test_one_bad_vector_in_memory_and_nothing_is_added(
    empty: tuple[str, bitkin.Collection],
) -> None:
    url, notes = empty
    X = vectors(173)
    X[170, 3] = np.nan
    with bitkin.Client(url) as client:
        with pytest.raises(InvalidInputError, match="NaN at row 170, column 3"):
            client.add(X)
        big = vectors(120).astype(np.float64)
        big[119, 0] = 1e300
        with pytest.raises(InvalidInputError, match="infinity at row 119, column 0"):
            client.add(big)
        with pytest.raises(InvalidInputError, match="metadata of row 119: 'when' must be None, a"):
            client.add(vectors(120), metadata=[{}] * 119 + [{"when": object()}])
        with pytest.raises(InvalidInputError, match="one dictionary per row, got 3 for 120 rows"):
            client.add(vectors(120), metadata=[{}] * 3)
    assert len(notes) == 0


def test_an_iterator_is_sent_as_it_comes_and_small_batches_are_joined(
    empty: tuple[str, bitkin.Collection],
) -> None:
    url, notes = empty
    X = vectors(120)
    transport = Breaking("/items", [])
    with bitkin.Client(url, transport=transport) as client:
        ids = client.add(X[i : i + 7] for i in range(0, 120, 7))
    assert same_rows(notes, ids, X)
    assert transport.n_arrived == 3


def test_an_iterator_that_fails_leaves_what_was_sent(
    empty: tuple[str, bitkin.Collection],
) -> None:
    url, notes = empty
    X = vectors(120)

    def broken() -> Iterator[Any]:
        yield X[:70]  # of which 50 go into a request
        raise OSError("the disk is gone")

    with bitkin.Client(url) as client:
        with pytest.raises(OSError, match="the disk is gone") as caught:
            client.add(broken())
        [note] = caught.value.__notes__
        assert "The first 50 rows were added, as ids" in note
        bad = np.full((3, 16), np.inf)
        with pytest.raises(InvalidInputError, match=r"infinity at row 60.*The first 50 rows were"):
            client.add(iter([X[:60], bad]))
    assert len(notes) == 100


def test_a_file_is_sent_batch_by_batch(
    empty: tuple[str, bitkin.Collection], tmp_path: Path
) -> None:
    url, notes = empty
    X = vectors(130)
    np.save(tmp_path / "X.npy", X)
    with bitkin.Client(url) as client:
        ids = client.add(tmp_path / "X.npy")
    assert same_rows(notes, ids, X)


def test_only_some_megabytes_of_an_iterator_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a stream of rows, a request is sent before much more is read."""
    monkeypatch.setattr(client_rows, "BATCH_BYTES", 4 * 4 * 20)
    n_read = 0
    ahead: list[int] = []

    def stream() -> Iterator[Any]:
        nonlocal n_read
        for _ in range(30):
            n_read += 10
            yield np.ones((10, 4))

    script = Script(items={"ids": []})
    with bitkin.Client(URL, transport=script) as client:
        client.add(stream(), progress=lambda n: ahead.append(n_read - n))
    assert len(ahead) == 15
    assert max(ahead) <= 40


def given_ids(kind: str, n: int, first: int = 0) -> Any:
    numbers = np.arange(first, first + n)
    return numbers if kind == "int" else [f"r{one}" for one in numbers]


@pytest.mark.parametrize("fate", ["unsent", "lost"])
def test_a_retry_with_given_ids_is_no_duplicate(
    empty: tuple[str, bitkin.Collection], kind: str, fate: str
) -> None:
    url, notes = empty
    ids, X = given_ids(kind, 5), vectors(5)
    with bitkin.Client(url, transport=Breaking("/items", [fate])) as client:
        added = client.add(X, ids=ids)
        assert list(added) == list(ids)
        assert same_rows(notes, ids, X)
        with pytest.raises(DuplicateIdError, match=r"already in the collection.*Use upsert"):
            client.add(X, ids=ids)
        with pytest.raises(DuplicateIdError, match="given more than once"):
            client.add(X, ids=[ids[0]] * 5)
    assert len(notes) == 5


def test_given_ids_stop_where_one_is_there_already(
    empty: tuple[str, bitkin.Collection], kind: str
) -> None:
    url, notes = empty
    X = vectors(120)
    notes.add(X[110:111], ids=given_ids(kind, 1, 110))
    with (
        bitkin.Client(url) as client,
        pytest.raises(DuplicateIdError, match="The first 100 rows were added: add the others, or"),
    ):
        client.add(X, ids=given_ids(kind, 120))
    assert len(notes) == 101


def test_ids_and_metadata_must_be_those_of_the_rows_of_an_iterator(
    empty: tuple[str, bitkin.Collection], kind: str
) -> None:
    url, notes = empty
    X = vectors(100)
    with bitkin.Client(url) as client:
        for n in (40, 99):
            with pytest.raises(InvalidInputError, match=f"ids must be one a row, got {n} for"):
                client.add(iter([X]), ids=given_ids(kind, n))
            with pytest.raises(InvalidInputError, match="one dictionary per row"):
                client.add(iter([X]), metadata=[{}] * n)
        assert len(notes) == 0  # what would be left over is seen before the first request is sent
        with pytest.raises(InvalidInputError, match="ids must be one a row, got 150 for 100 rows"):
            client.add(iter([X]), ids=given_ids(kind, 150))
        assert len(notes) == 50  # only at the end is it known how many there are
        ids = client.upsert(iter([X]), ids=given_ids(kind, 100), metadata=[{"a": 1}] * 100)
    assert same_rows(notes, ids, X)


def test_upsert_replaces_and_may_be_sent_twice(
    empty: tuple[str, bitkin.Collection], kind: str
) -> None:
    url, notes = empty
    ids, X = given_ids(kind, 70), vectors(70)
    with bitkin.Client(url, transport=Breaking("/items", ["lost", "unsent", "ok"])) as client:
        client.upsert(X, ids=ids)
        assert same_rows(notes, ids, X)
        client.upsert(-X, ids=ids)
        assert same_rows(notes, ids, -X)
        with pytest.raises(InvalidInputError, match="ids must be given to upsert"):
            client.upsert(X, ids=None)


def test_rows_that_are_too_large_for_one_request_are_sent_in_halves(
    empty: tuple[str, bitkin.Collection],
) -> None:
    url, notes = empty  # which takes 100,000 bytes
    X = vectors(40)
    with bitkin.Client(url) as client:
        ids = client.add(X, metadata=[{"text": "x" * 9000}] * 40)
        assert same_rows(notes, ids, X)
        with pytest.raises(InvalidInputError, match="at most 100,000 bytes"):
            client.add(X[:1], metadata=[{"text": "x" * 200_000}])
    assert len(notes) == 40


def test_a_smaller_limit_of_a_proxy_is_found_by_halving() -> None:
    def refuse(request: Any) -> Any:
        return problem(413, "too large") if len(request.content) > 1200 else {"ids": []}

    script = Script(items=refuse)
    with bitkin.Client(URL, transport=script) as client:
        ids = client.add(np.ones((40, 4)))
    taken = [one["ids"] for one in script.bodies("items") if len(one["ids"]) <= 20]
    assert min(one for some in taken for one in some) == min(ids)
    assert len(ids) == 40
    script = Script(items=lambda _: problem(413, "a row is too large"))
    with (
        bitkin.Client(URL, transport=script) as client,
        pytest.raises(InvalidInputError, match="a row is too large"),
    ):
        client.add(np.ones((5, 4)))


def test_ids_that_somebody_else_has_are_made_again() -> None:
    taken = problem(409, "ids must be new", "DuplicateIdError")
    script = Script(items=[taken, taken, {"ids": []}])
    with bitkin.Client(URL, transport=script) as client:
        ids = client.add(np.ones((3, 4)))
    sent = [one["ids"] for one in script.bodies("items")]
    assert len({tuple(one) for one in sent}) == 3
    assert sent[-1] == ids.tolist()
    script = Script(items=taken)
    with (
        bitkin.Client(URL, transport=script) as client,
        pytest.raises(ServiceError, match="has rows under all ids that were made"),
    ):
        client.add(np.ones((3, 4)))


@pytest.mark.parametrize("there", [True, False])
def test_after_a_lost_answer_a_conflict_is_looked_into(there: bool) -> None:
    import httpx

    taken = problem(409, "ids must be new", "DuplicateIdError")
    found: Any = {"items": []} if there else problem(404, "no such row", "UnknownIdError")
    script = Script(items=[httpx.ReadError("?"), taken, {"ids": []}], items_get=found)
    with bitkin.Client(URL, transport=script) as client:
        ids = client.add(np.ones((3, 4)))
    sent = [one["ids"] for one in script.bodies("items")]
    assert script.bodies("items/get")[0]["ids"] == sent[0] == sent[1]
    assert sent[-1] == ids.tolist()
    assert (sent[-1] == sent[0]) is there


def test_a_conflict_of_given_ids_after_a_lost_answer_says_so() -> None:
    import httpx

    taken = problem(409, "ids must be new, already in the collection: 7.", "DuplicateIdError")
    script = Script(items=[httpx.ReadError("?"), taken])
    with (
        bitkin.Client(URL, transport=script) as client,
        pytest.raises(DuplicateIdError, match=r"already in the collection: 7. The answer to an"),
    ):
        client.add(np.ones((1, 4)), ids=7)


def test_a_service_that_was_started_again_does_not_do_it_twice() -> None:
    import httpx

    again = problem(412, "the service was started again")
    begun = {"epoch_began": True}
    script = Script(learn=[again, begun])
    with bitkin.Client(URL, transport=script) as client:
        assert client.learn(np.ones((3, 4)))  # nothing can have arrived: another key, again
    keys = {one.headers["idempotency-key"] for one in script.asked if one.url.path == "/v1/learn"}
    assert len(keys) == 2
    script = Script(learn=[httpx.ReadError("?"), again, begun])
    with (
        bitkin.Client(URL, transport=script) as client,
        pytest.raises(ServiceError, match=r"was started again.*may have done this") as caught,
    ):
        client.learn(np.ones((3, 4)))
    assert caught.value.maybe_done
    assert script.paths().count("POST learn") == 2


def test_what_a_service_without_keys_may_have_done_is_not_sent_again() -> None:
    import httpx

    from tests.client.services import SERVICE

    plain = {name: value for name, value in SERVICE.items() if name != "instance"}
    script = Script(service=plain, items_remove=[httpx.ReadError("?"), {"removed": 1}])
    with (
        bitkin.Client(URL, transport=script) as client,
        pytest.raises(ServiceError, match="may have been done all the same"),
    ):
        client.remove(5)
    assert script.paths() == ["POST items/remove"]


def test_a_removal_is_sent_in_parts_and_says_how_many_are_gone(
    empty: tuple[str, bitkin.Collection], kind: str
) -> None:
    url, notes = empty
    ids = given_ids(kind, 120)
    notes.add(vectors(120), ids=ids)
    with bitkin.Client(url) as client:
        unknown = [*list(ids[:60]), 7777 if kind == "int" else "nobody", *list(ids[60:])]
        with pytest.raises(UnknownIdError, match=r"not there.*The first 50 were removed"):
            client.remove(unknown)
        assert len(notes) == 70
        with pytest.raises(UnknownIdError, match="not there: "):
            client.update_metadata(unknown[55:], {"a": 1})
        client.update_metadata(ids[50:], {"a": 1})
        assert notes.count({"a": 1}) == 70
        client.remove([*list(ids[50:]), ids[50]])
    assert len(notes) == 0


def test_runs_of_ids_are_consecutive_and_continue() -> None:
    runs = IdRuns()
    numbers = np.concatenate([runs.take(n, strings=False) for n in (3, 0, 1, 5)])
    assert (np.diff(numbers) == 1).all()
    assert 0 <= numbers[0] < 2**52
    assert numbers[-1] < 2**53
    names = [*runs.take(3, strings=True), *runs.take(2, strings=True)]
    assert len(set(names)) == 5
    assert names == sorted(names)
    assert {len(name) for name in names} == {32}
    before = runs.take(1, strings=False)[0]
    runs.start_again()
    assert runs.take(1, strings=False)[0] != before + 1


def test_a_forked_process_makes_other_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = IdRuns()
    before = runs.take(1, strings=False)[0]
    monkeypatch.setattr("os.getpid", lambda: -5)
    assert runs.take(1, strings=False)[0] != before + 1


def test_no_run_is_that_of_another_client() -> None:
    firsts = {int(IdRuns().take(1, strings=False)[0]) for _ in range(100)}
    assert len(firsts) == 100


@pytest.mark.parametrize(
    "wrong, words",
    [
        (np.ones((2, 3)), "vectors has 3 features, but the collection is expecting 16"),
        (np.ones((2, 2, 2)), r"must have shape \(n, d\)"),
        ([], "must be rows of numbers, got none"),
        ([{"a", "b"}], r"got sets.*give those: client.hasher.encode\(sets\)"),
        ([["a", "b"]], "vectors must hold integers or floats"),
        ("no-such-file.npy", "no-such-file.npy"),
        (5, "vectors must be"),
        (None, "vectors must be"),
    ],
)
def test_what_are_no_vectors_is_refused_before_it_is_sent(
    empty: tuple[str, bitkin.Collection], wrong: Any, words: str
) -> None:
    url, _ = empty
    transport = Breaking("/items", [])
    with (
        bitkin.Client(url, transport=transport) as client,
        pytest.raises((InvalidInputError, OSError), match=words),
    ):
        client.add(wrong)
    assert transport.n_arrived == 0


def test_no_rows_are_added_without_a_request(empty: tuple[str, bitkin.Collection]) -> None:
    url, notes = empty
    transport = Breaking("/items", [])
    with bitkin.Client(url, transport=transport) as client:
        ids = client.add(np.empty((0, 16)))
    assert ids.shape == (0,)
    assert ids.dtype == notes.ids.dtype
    assert transport.n_arrived == 0
