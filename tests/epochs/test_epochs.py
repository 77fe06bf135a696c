from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import bitkin
from bitkin import Codes, EpochIndex, ProjectionHash
from bitkin.errors import (
    CodeMismatchError,
    CorruptFileError,
    DuplicateIdError,
    InvalidInputError,
    UnknownIdError,
)
from bitkin.evaluate import nearest, recall
from bitkin.io.reader import read_file
from bitkin.io.writer import write_file
from bitkin.rescoring.corrections import scorer_for
from bitkin.rescoring.estimate_scan import QuantizedQueries
from tests.epochs import epochs as truth
from tests.epochs.epochs import turned
from tests.io.mutations import mutate
from tests.rescoring.test_estimate_scan import truth_of

METRICS = ["l2", "cosine", "ip"]


@pytest.fixture(scope="module")
def hashers() -> list[ProjectionHash]:
    return [
        ProjectionHash(n_bits, rotation="random").fit(turned(300, 12, n_bits))
        for n_bits in (7, 8, 12)
    ]


def filled(
    hashers: list[ProjectionHash], metric: str = "l2", n: int = 40
) -> tuple[EpochIndex, truth.Rows]:
    index, rows = EpochIndex(metric), truth.Rows()
    for seed, hasher in enumerate(hashers):
        vectors = turned(n, 12, seed)
        if metric == "cosine":  # the hashers do not normalize: lengths must differ little
            lengths = np.linspace(20, 21, n, dtype=np.float32)[:, None]
            vectors *= lengths / np.linalg.norm(vectors, axis=1, keepdims=True)
        ids = index.add(hasher, vectors)
        rows.update({i: (hasher, x) for i, x in zip(ids.tolist(), vectors, strict=True)})
    return index, rows


def same_answers(a: EpochIndex, b: EpochIndex) -> bool:
    queries = turned(4, 12, 9)
    mine, theirs = a.search(queries, 6), b.search(queries, 6)
    return (
        a.epochs == b.epochs
        and np.array_equal(a.ids, b.ids)
        and np.array_equal(mine.ids, theirs.ids)
        and np.array_equal(mine.distances, theirs.distances)
    )


@pytest.mark.parametrize("metric", METRICS)
def test_epochs_merge_by_the_estimate_each_row_under_its_own_model(
    hashers: list[ProjectionHash], metric: str
) -> None:
    index, rows = filled(hashers, metric)
    queries = turned(5, 12, 9)
    for k in (1, 7, 200):
        found = index.search(queries, k, oversample=1000)
        expected = truth.nearest(rows, queries, k, metric)
        assert found.distances.dtype == np.float32
        assert np.array_equal(found.ids, expected.ids)
        np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-4, atol=1e-4)


def test_the_shortlist_of_every_epoch_is_k_times_oversample_by_codes(
    hashers: list[ProjectionHash],
) -> None:
    index, rows = filled(hashers, n=60)
    queries = turned(3, 12, 9)
    found = index.search(queries, 2, oversample=3, first="codes")
    shortlist: truth.Rows = {}
    for q in range(3):
        shortlist = {}
        for hasher in hashers:
            own = np.array([i for i, (model, _) in rows.items() if model is hasher])
            flat = bitkin.FlatIndex(hasher.spec_)
            flat.add(hasher.encode(np.stack([rows[i][1] for i in own])), own)
            near = flat.search(hasher.encode(queries[q : q + 1]), 6).ids[0]
            shortlist.update({i: rows[i] for i in near.tolist()})
        assert np.array_equal(
            found.ids[q : q + 1], truth.nearest(shortlist, queries[q : q + 1], 2).ids
        )


@pytest.mark.parametrize("metric", METRICS)
def test_the_shortlist_of_every_epoch_can_be_by_the_estimate_of_all_rows(
    hashers: list[ProjectionHash], metric: str
) -> None:
    index, rows = filled(hashers, metric, n=60)
    index.remove(np.arange(0, 180, 11))
    rows = {i: row for i, row in rows.items() if i % 11}
    queries = turned(3, 12, 9)
    allow = np.arange(0, 180, 2)
    for allowed in (None, allow):
        found = index.search(queries, 2, oversample=3, first="estimate", allow=allowed)
        for q in range(3):
            shortlist: truth.Rows = {}
            for hasher in hashers:
                own = np.array(
                    [
                        i
                        for i, (model, _) in rows.items()
                        if model is hasher and (allowed is None or i in allow)
                    ]
                )
                vectors = np.stack([rows[i][1] for i in own])
                asked = scorer_for(hasher, metric).prepare_queries(queries[q : q + 1])
                scores = truth_of(
                    QuantizedQueries.from_prepared(asked, 4),
                    2 * hasher.encode(vectors).symbols().astype(np.int64) - 1,
                    bitkin.corrections(hasher, vectors, metric),
                    has_small=metric == "l2",
                )
                near = own[np.lexsort((own, scores[0]))[:6]]
                shortlist.update({i: rows[i] for i in near.tolist()})
            expected = truth.nearest(shortlist, queries[q : q + 1], 2, metric)
            assert np.array_equal(found.ids[q : q + 1], expected.ids)
    assert np.array_equal(
        index.search(queries, 2, oversample=3).ids,
        index.search(queries, 2, oversample=3, first="estimate").ids,
    )
    assert [chosen.stage for chosen in index.explain_first(2, oversample=3)] == 3 * ["estimate"]
    assert [chosen.stage for chosen in index.explain_first(60)] == 3 * ["codes"]
    for beyond in ({"k": 2**31}, {"k": 1, "oversample": 2**31}):  # as `search` does
        with pytest.raises(InvalidInputError, match=f"{list(beyond)[-1]} must be"):
            index.explain_first(**beyond)
    with pytest.raises(InvalidInputError, match="first must be one of 'codes', 'estimate', got 3"):
        index.search(queries, 2, first=3)  # type: ignore[arg-type]


def test_a_stream_that_turns_stays_searchable_with_epochs_and_not_when_codes_are_mixed() -> None:
    early, late = turned(1500, 40, 1), turned(1500, 40, 2)
    X, Q = (
        np.vstack([early, late]),
        np.vstack([turned(1540, 40, 1)[1500:], turned(1540, 40, 2)[1500:]]),
    )
    true_ids = nearest(X, Q, 10).ids
    first, second = (ProjectionHash(16, rotation="random").fit(rows) for rows in (early, X))

    def found(*parts: tuple[ProjectionHash, Any]) -> float:
        index = EpochIndex()
        for hasher, rows in parts:
            index.add(hasher, rows)
        return recall(index.search(Q, 100).ids, true_ids)

    mixed = bitkin.FlatIndex(first.spec_)
    for hasher, rows in ((first, early), (second, late)):
        mixed.add(hasher.encode(rows).with_fingerprint(None))
    epochs = found((first, early), (second, late))
    assert epochs > 1.1 * found((first, X))
    assert epochs > 0.95 * found((second, X))
    assert epochs > 1.5 * recall(mixed.search(second.encode(Q), 100).ids, true_ids)


def test_codes_and_corrections_of_a_sketched_stream_are_as_good_as_vectors() -> None:
    X = turned(900, 12, 1)
    live = ProjectionHash(6, projection="opast", rotation="unifdiag", epochs=300).fit(
        turned(100, 12, 3)
    )
    index, from_vectors = EpochIndex(), EpochIndex()
    for first in range(0, 900, 60):
        snapshot = live.epoch_
        index.begin(snapshot)
        kept = bitkin.corrections(snapshot, X[first : first + 60])
        for codes in live.sketch_stream(X[first : first + 60]):
            index.add_codes(codes, kept)
        from_vectors.add(snapshot, X[first : first + 60])
    assert len(index.epochs) > 2
    assert same_answers(index, from_vectors)


def test_ids_are_given_or_the_next_numbers_and_belong_to_one_epoch_only(
    hashers: list[ProjectionHash],
) -> None:
    index = EpochIndex()
    X = turned(3, 12, 0)
    assert index.add(hashers[0], X).tolist() == [0, 1, 2]
    assert index.add(hashers[1], X, ids=[9, 4, 7]).tolist() == [9, 4, 7]
    assert index.add(hashers[0], X[:1]).tolist() == [10]
    assert index.ids.tolist() == [0, 1, 2, 4, 7, 9, 10]
    assert index.epoch_ids(hashers[1].fingerprint_).tolist() == [4, 7, 9]
    assert len(index) == 7
    assert 4 in index
    assert np.int64(9) in index
    assert 3 not in index
    assert True not in index
    assert "4" not in index
    assert index.epochs == [(hashers[0].fingerprint_, 4), (hashers[1].fingerprint_, 3)]
    for ids, message in (([1], "already in the index: 1"), ([20, 20], "given more than once: 20")):
        with pytest.raises(DuplicateIdError, match=message):
            index.add(hashers[2], X[: len(ids)], ids=ids)
    assert len(index.epochs) == 2, "a refused call begins no epoch"
    assert repr(index) == "EpochIndex(7 codes in 2 epochs, l2)"
    assert index.nbytes > 7 * 16


def test_removed_rows_are_gone_and_their_ids_free_for_another_epoch(
    hashers: list[ProjectionHash],
) -> None:
    index, rows = filled(hashers)
    index.remove([0, 50, 50, 119])
    with pytest.raises(UnknownIdError, match="not there: 0, 500"):
        index.remove([1, 0, 500])
    for i in (0, 50, 119):
        del rows[i]
    again = turned(2, 12, 30)
    index.add(hashers[1], again, ids=[119, 0])
    rows.update({119: (hashers[1], again[0]), 0: (hashers[1], again[1])})
    queries = turned(3, 12, 9)
    assert np.array_equal(
        index.search(queries, 120, oversample=9).ids, truth.nearest(rows, queries, 120).ids
    )
    index.remove(index.ids)
    assert len(index) == 0
    assert [epoch.n_rows for epoch in index.epochs] == [0, 0, 0]
    assert (index.search(queries, 2).ids == -1).all()


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "insert", "remove", "compact"]), st.integers(0, 2**16)),
        max_size=12,
    )
)
def test_any_order_of_writes_leaves_the_same_answers(writes: list[tuple[str, int]]) -> None:
    models = [ProjectionHash(5).fit(turned(50, 12, s)) for s in range(2)]
    index, rows = EpochIndex(), truth.Rows()
    for kind, seed in writes:
        rng = np.random.default_rng(seed)
        vectors, hasher = turned(int(rng.integers(0, 9)), 12, seed % 7), models[seed % 2]
        if kind == "remove" and rows:
            gone = rng.permutation(list(rows))[: len(rows) // 2]
            index.remove(gone)
            rows = {i: row for i, row in rows.items() if i not in gone}
        elif kind == "compact":
            index.compact()
        else:
            free = [i for i in range(60) if i not in rows]
            ids = rng.permutation(free)[: len(vectors)] if kind == "insert" else None
            new = index.add(hasher, vectors[: len(free)], ids)
            rows.update({i: (hasher, x) for i, x in zip(new.tolist(), vectors, strict=True)})
    index.verify()
    queries = turned(2, 12, 9)
    assert index.ids.tolist() == sorted(rows)
    assert np.array_equal(
        index.search(queries, 5, oversample=100).ids, truth.nearest(rows, queries, 5).ids
    )


def test_only_allowed_ids_are_found(hashers: list[ProjectionHash]) -> None:
    index, rows = filled(hashers)
    queries, allow = turned(3, 12, 9), [3, 44, 90, 91, 10_000]
    found = index.search(queries, 6, oversample=1, allow=allow)
    expected = truth.nearest({i: rows[i] for i in allow if i in rows}, queries, 6)
    assert np.array_equal(found.ids, expected.ids)
    assert np.isinf(found.distances[:, 4:]).all()
    assert (index.search(queries, 2, allow=[]).ids == -1).all()


def test_queries_come_in_any_form_and_number(
    hashers: list[ProjectionHash], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, _ = filled(hashers)
    queries = turned(9, 12, 9)
    found = index.search(queries, 3)
    monkeypatch.setattr("bitkin.epochs.search._PAIRS_AT_ONCE", 200)
    for form in (
        csr_array(queries),
        queries.tolist(),
        bitkin.io.open_vectors(queries, batch_rows=4),
        iter([queries]),
    ):
        assert np.array_equal(index.search(form, 3).ids, found.ids)
    assert index.search(queries[:0], 3).ids.shape == (0, 3)
    assert np.array_equal(index.search(queries[4:5], 3).ids, found.ids[4:5])


def test_an_empty_index_finds_nobody() -> None:
    found = EpochIndex().search(np.ones((2, 5)), 3)
    assert found.ids.tolist() == [[-1] * 3] * 2
    assert np.isinf(found.distances).all()
    assert EpochIndex("ip").epochs == []


def test_empty_codes_are_kept_and_never_found(hashers: list[ProjectionHash]) -> None:
    X = turned(4, 12, 0)
    index, codes = EpochIndex(), hashers[0].encode(X)
    index.begin(hashers[0])
    kept = bitkin.corrections(hashers[0], X)
    kept[1] = np.nan
    some = Codes(codes.words, codes.spec, empty=np.arange(4) == 1, fingerprint=codes.fingerprint)
    index.add_codes(some, kept)
    assert len(index) == 4
    assert sorted(index.search(X[1:2], 4).ids[0]) == [-1, 0, 2, 3]


def test_a_retired_epoch_is_encoded_anew_under_the_ids_it_had(
    hashers: list[ProjectionHash],
) -> None:
    index, rows = filled(hashers)
    index.remove([2, 41])
    first, second, third = hashers
    ids = index.epoch_ids(first.fingerprint_)
    index.retire(first.fingerprint_, into=third, vectors=np.stack([rows[i][1] for i in ids]))
    order = np.random.default_rng(0).permutation(index.epoch_ids(second.fingerprint_))
    index.retire(
        second.fingerprint_, into=third, vectors=np.stack([rows[i][1] for i in order]), ids=order
    )
    assert index.epochs == [(third.fingerprint_, 118)]
    rows = {i: (third, x) for i, (_, x) in rows.items() if i not in (2, 41)}
    queries = turned(4, 12, 9)
    assert np.array_equal(
        index.search(queries, 9, oversample=100).ids, truth.nearest(rows, queries, 9).ids
    )
    index.verify()
    index.remove(index.ids)
    index.retire(index.epochs[0])
    assert index.epochs == []
    assert index.add(first, queries[:1]).tolist() == [120]


def test_what_becomes_of_a_hasher_later_does_not_reach_the_index() -> None:
    X = turned(50, 12, 0)
    hasher = ProjectionHash(6).fit(X)
    index = EpochIndex()
    index.add(hasher, X)
    before = index.search(X[:3], 5)
    hasher.fit(turned(50, 12, 7))
    assert np.array_equal(index.search(X[:3], 5).ids, before.ids)
    index.add(hasher, X)
    assert [epoch.n_rows for epoch in index.epochs] == [50, 50]


# Typed loosely, since that is what is tried.
REFUSED: dict[str, tuple[Callable[[Any, Any], Any], type[Exception], str]] = {
    "oversample": (
        lambda i, h: i.search(np.ones((1, 12)), 1, oversample=0),
        InvalidInputError,
        "oversample must be between 1",
    ),
    "query length": (
        lambda i, h: i.search(np.ones((1, 11)), 1),
        InvalidInputError,
        "queries must have 12 features, like all epochs of the index, got 11",
    ),
    "NaN": (
        lambda i, h: i.search(np.full((1, 12), np.nan), 1),
        InvalidInputError,
        "queries: NaN at row 0, column 0",
    ),
    "three dimensions": (
        lambda i, h: i.search(np.ones((1, 1, 12)), 1),
        InvalidInputError,
        r"queries must have shape \(n, d\), one vector a row, got \(1, 1, 12\)",
    ),
    "vector length": (
        lambda i, h: i.add(h[0], np.ones((1, 11))),
        InvalidInputError,
        "vectors must have 12 features, as the hasher was fitted on, got 11",
    ),
    "snapshot length": (
        lambda i, h: i.add(ProjectionHash(3).fit(turned(20, 5, 0)), np.ones((1, 5))),
        InvalidInputError,
        "snapshot must have 12 features, like all epochs of the index, got 5",
    ),
    "no hasher": (
        lambda i, h: i.add("pca", np.ones((1, 12))),
        InvalidInputError,
        "snapshot must be a fitted Proj",
    ),
    "fingerprint of codes": (
        lambda i, h: i.add_codes(
            h[0].encode(np.ones((1, 12))).with_fingerprint("ab"), np.ones((1, 2))
        ),
        CodeMismatchError,
        "codes must carry the fingerprint of an epoch of this index, got ab",
    ),
    "spec of codes": (
        lambda i, h: i.add_codes(
            h[0].encode(np.ones((1, 12))).with_fingerprint(h[1].fingerprint_), np.ones((1, 2))
        ),
        CodeMismatchError,
        "codes must be 8 × 1-bit codes",
    ),
    "corrections": (
        lambda i, h: i.add_codes(h[0].encode(np.ones((2, 12))), np.ones((1, 2))),
        InvalidInputError,
        r"corrections must have shape \(2, 2\)",
    ),
    "no codes": (
        lambda i, h: i.add_codes(np.ones(3), np.ones((3, 2))),
        InvalidInputError,
        "codes must be Codes",
    ),
    "unknown epoch": (
        lambda i, h: i.retire("ab", into=h[0]),
        UnknownIdError,
        "fingerprint must be of an epoch",
    ),
    "unknown ids": (
        lambda i, h: i.epoch_ids("ab"),
        UnknownIdError,
        "fingerprint must be of an epoch",
    ),
    "no vectors": (
        lambda i, h: i.retire(h[0].fingerprint_, into=h[1]),
        InvalidInputError,
        "into and vectors must be given: epoch .* has 40 rows",
    ),
    "itself": (
        lambda i, h: i.retire(h[0].fingerprint_, into=h[0], vectors=np.ones((40, 12))),
        InvalidInputError,
        "into must be another snapshot",
    ),
    "rows to retire": (
        lambda i, h: i.retire(h[0].fingerprint_, into=h[1], vectors=np.ones((39, 12))),
        InvalidInputError,
        "vectors must be one a row of the epoch, got 39 for 40",
    ),
    "ids to retire": (
        lambda i, h: i.retire(
            h[0].fingerprint_, into=h[1], vectors=np.ones((40, 12)), ids=np.arange(40) + 1
        ),
        InvalidInputError,
        "ids must be exactly the 40 ids",
    ),
    "metric": (
        lambda i, h: EpochIndex("l1"),
        InvalidInputError,
        "metric must be one of 'l2', 'cosine', 'ip'",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_is_refused_and_changes_nothing(hashers: list[ProjectionHash], what: str) -> None:
    index, _ = filled(hashers)
    before = index._state
    call, error, message = REFUSED[what]
    with pytest.raises(error, match=message):
        call(index, hashers)
    assert index._state is before


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_a_saved_index_comes_back_whole(
    hashers: list[ProjectionHash], metric: str, mmap: bool, tmp_path: Path
) -> None:
    models = [
        *hashers,
        ProjectionHash(70, projection="random", rotation=None, center=False, normalize=True),
    ]
    models[-1].fit(turned(50, 12, 0))
    index, _ = filled(models, metric)
    index.remove([5, 90])
    index.begin(ProjectionHash(3).fit(turned(20, 12, 4)))
    index.save(tmp_path / "index")
    back = EpochIndex.load(tmp_path / "index", mmap=mmap)
    back.verify()
    assert back.metric == metric
    assert same_answers(index, back)
    assert same_answers(index, bitkin.load(tmp_path / "index", mmap=mmap))
    back.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "index").read_bytes()
    for each in (index, back):
        each.add(hashers[0], turned(3, 12, 8))
        each.remove([1, 41])
    assert same_answers(index, back)
    EpochIndex(metric).save(tmp_path / "empty")
    assert len(EpochIndex.load(tmp_path / "empty", mmap=mmap)) == 0


def test_a_pickled_index_goes_on_by_itself(hashers: list[ProjectionHash]) -> None:
    index, _ = filled(hashers)
    index.remove([3])
    data = pickle.dumps(index)
    one, other = pickle.loads(data), pickle.loads(data)
    assert same_answers(index, one)
    one.add(hashers[0], turned(30, 12, 8))
    assert same_answers(index, other)


@pytest.mark.parametrize("mmap", [False, True])
def test_a_damaged_file_is_refused_or_holds_the_same_index(
    hashers: list[ProjectionHash], mmap: bool, tmp_path: Path
) -> None:
    index, _ = filled(hashers, n=3)
    path = tmp_path / "index"
    index.save(path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        path.write_bytes(mutate(data, rng))
        try:
            loaded = EpochIndex.load(path, mmap=mmap)
            loaded.verify()
            assert same_answers(index, loaded)
        except CorruptFileError:
            refused += 1
        except InvalidInputError as error:  # another class name, of a whole header
            assert "not EpochIndex" in str(error)  # noqa: PT017
    assert refused > 100


FORGERIES: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], object], str]] = {
    "metric": (lambda p, t: p.update(metric="l1"), "impossible parameters"),
    "epochs": (lambda p, t: p.update(epochs=[1]), "impossible parameters"),
    "next id": (lambda p, t: p.update(next_id=3), "impossible next id, 3"),
    "normalize": (lambda p, t: p["epochs"][0].update(normalize=1), "impossible parameters"),
    "fingerprint": (
        lambda p, t: p["epochs"][0].update(fingerprint="ab"),
        "does not fit its fingerprint",
    ),
    "an epoch less": (lambda p, t: p["epochs"].pop(), "tensors that do not belong there"),
    "a stranger": (
        lambda p, t: t.update({"0.more": t["0.ids"]}),
        "tensors that do not belong there: more",
    ),
    "an id twice": (lambda p, t: t.update({"1.ids": t["0.ids"]}), "an id in two epochs"),
    "corrections": (
        lambda p, t: t.update({"0.corrections": t["0.corrections"][:2]}),
        "2 corrections for 3 rows",
    ),
    "NaN": (
        lambda p, t: t.update({"0.corrections": t["0.corrections"] * np.nan}),
        "corrections that are not finite",
    ),
    "negative": (lambda p, t: t.update({"0.corrections": -t["0.corrections"]}), "squares below 0"),
    "infinity": (
        lambda p, t: t.update({"0.components": np.full_like(t["0.components"], np.inf)}),
        "numbers that are not finite",
    ),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_file_with_right_checksums_is_refused(
    hashers: list[ProjectionHash], what: str, tmp_path: Path
) -> None:
    index, _ = filled(hashers[:2], n=3)
    index.save(tmp_path / "index")
    stored = read_file(tmp_path / "index")
    parameters = {key: stored.parameter(key) for key in ("metric", "next_id", "epochs")}
    tensors = {
        entry.name: stored.tensor(entry.name, entry.dtype, entry.shape)
        for entry in stored._entries.values()
        if not entry.is_padding
    }
    forge, message = FORGERIES[what]
    forge(parameters, tensors)
    write_file(tmp_path / "forged", "EpochIndex", parameters, None, tensors)
    with pytest.raises(CorruptFileError, match=message):
        EpochIndex.load(tmp_path / "forged", mmap=False)


def test_another_kind_of_file_is_named(tmp_path: Path, hashers: list[ProjectionHash]) -> None:
    hashers[0].save(tmp_path / "hasher")
    with pytest.raises(InvalidInputError, match="holds ProjectionHash, not EpochIndex"):
        EpochIndex.load(tmp_path / "hasher")


def test_eight_threads_searching_beside_a_writer_always_see_a_whole_state(
    few_threads: None,
) -> None:
    bitkin.set_threads(2)
    assert truth.stress(n_answers=300) >= 300
