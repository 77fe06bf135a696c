"""A search that begins with the estimate of all rows, and one that chooses what to begin with."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bitkin
from bitkin import Collection, MinHash, ProjectionHash
from bitkin.errors import InvalidInputError
from bitkin.evaluate import nearest
from bitkin.rescoring import first_stage
from bitkin.rescoring.corrections import scorer_for
from bitkin.rescoring.estimate_scan import QuantizedQueries
from bitkin.rescoring.first_stage import FirstStageChooser
from tests.collection.model import rows_like
from tests.rescoring.test_estimate_scan import truth_of

X, Q = rows_like(700, 17), rows_like(4, 17, seed=1)
PCA = ProjectionHash(13).fit(X)


def kept_by_scan(
    rows: npt.NDArray[Any], ids: npt.NDArray[Any], metric: str, keep: int
) -> list[npt.NDArray[Any]]:
    """The ids that the best `keep` rows of every query have, by NumPy."""
    prepared = scorer_for(PCA, metric).prepare_queries(Q)
    queries = QuantizedQueries.from_prepared(prepared, 4)
    signs = 2 * PCA.encode(rows).symbols().astype(np.int64) - 1
    numbers = bitkin.corrections(PCA, rows, metric)
    scores = truth_of(queries, signs, numbers, has_small=metric == "l2")
    return [ids[np.lexsort((ids, row))[:keep]] for row in scores]


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_the_estimate_of_all_rows_hands_its_best_to_the_last_stage(metric: str) -> None:
    ids = np.random.default_rng(0).permutation(2000)[:700]
    collection = Collection.create(None, PCA, metric=metric, first="estimate")
    for some in np.array_split(np.arange(700), 5):  # ids that interleave: several segments
        collection.add(X[some], ids=ids[some])
    collection.upsert(X[:90], ids=ids[600:690])  # whose numbers stand elsewhere then
    collection.remove(ids[::7])
    now = {int(i): row for i, row in zip(ids, X, strict=True)}
    now |= {int(i): row for i, row in zip(ids[600:690], X[:90], strict=True)}
    for gone in ids[::7]:
        del now[int(gone)]
    for allow in (None, ids[::3], ids[::90]):
        wanted = np.array(sorted(i for i in now if allow is None or i in allow))
        rows = np.array([now[i] for i in wanted])
        found = {s: collection.search(Q, 3, stage=s, oversample=4, allow=allow) for s in STAGES}
        alone = collection.search(Q[2], 3, oversample=4, allow=allow)
        assert alone.ids.tolist() == found["exact"].ids[2:3].tolist()
        for q, kept in enumerate(kept_by_scan(rows, wanted, metric, 12)):
            at = np.sort(np.searchsorted(wanted, kept))
            truth = nearest(rows[at], Q[q : q + 1], min(3, len(at)), metric)
            places = found["exact"].ids[q]
            assert places[places >= 0].tolist() == wanted[at][truth.ids[0]].tolist()
            best = Collection.create(None, PCA, metric=metric, first="codes")
            best.add(rows[at], ids=wanted[at])
            expected = best.search(Q[q], 3, stage="estimate").ids[0]
            assert found["estimate"].ids[q].tolist() == expected.tolist()


STAGES = ("estimate", "exact")


def test_any_number_of_threads_and_a_copy_find_the_same(
    few_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitkin.index.scan_parts._WORDS_PER_PART", 1)
    collection = Collection.create(None, PCA)
    collection.add(X)
    bitkin.set_threads(1)
    expected = collection.search(Q, 5, oversample=2, first="estimate").ids.tolist()
    bitkin.set_threads(3)
    assert collection.search(Q, 5, oversample=2, first="estimate").ids.tolist() == expected
    copied = pickle.loads(pickle.dumps(collection))
    assert copied.search(Q, 5, oversample=2, first="estimate").ids.tolist() == expected


def test_few_rows_and_cheap_estimates_need_no_sample() -> None:
    collection = Collection.create(None, PCA)
    collection.add(X)
    explained = collection.explain(Q, 7)  # codes would keep 700
    assert (explained.first, explained.why) == ("codes", "codes keep all of 700 rows")
    assert list(explained.stages) == ["encode", "codes", "estimate", "exact"]
    explained = collection.explain(Q, 6)
    assert explained.first == "estimate"
    says = (
        r"estimating all 700 rows is 0\.\d\d of the work of comparing codes and estimating .* 600"
    )
    assert re.fullmatch(says, explained.why)
    rows = {name: (did.rows_in, did.rows_out) for name, did in explained.stages.items()}
    assert rows == {"encode": (4, 4), "estimate of all rows": (2800, 240), "exact": (240, 24)}
    lines = str(explained).splitlines()
    assert lines[0].startswith("first stage: estimate (estimating all 700 rows is 0.")
    assert lines[2] == "FlatIndex, 4 queries; all numbers are per query"
    assert lines[3].split("   ")[0] == "stage"
    assert [line.split()[-2:] for line in lines[4:]] == [["1", "1"], ["700", "60"], ["60", "6"]]
    assert max(map(len, lines)) <= 80
    assert explained.hits.ids.tolist() == collection.search(Q, 6).ids.tolist()
    assert collection.explain(Q, 6, first="codes").why == "asked for"
    assert collection.explain(Q, 6, stage="codes").why == "codes are the last stage too"
    sets = Collection.create(None, MinHash(8).fit(X))
    sets.add(X)
    assert sets.explain(Q, 1).why == "there is no estimate of all rows in this collection"


def lengths_apart(n: int) -> npt.NDArray[np.float32]:
    """Rows whose codes say nothing of their lengths, which matter most."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((n, 17)) * np.exp(rng.standard_normal((n, 1)))
    return np.asarray(rows, dtype=np.float32)


def test_where_codes_are_cheaper_a_sample_says_what_they_lose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_stage, "_OFFER", 1e6)  # so that cost never speaks for the estimate
    rows = lengths_apart(1100)
    hasher = ProjectionHash(13, normalize=False).fit(rows)
    collection = Collection.create(None, hasher)
    collection.add(rows)
    explained = collection.explain(rows[:2], 1, oversample=2)
    assert explained.first == "estimate"
    assert "codes lose 0." in explained.why
    assert explained.why.endswith("nearest by the estimate in a sample, more than 0.01")
    # nearly all rows are kept: nothing is lost
    explained = collection.explain(rows[:2], 1, oversample=109)
    assert explained.first == "codes"
    assert "codes lose 0.000" in explained.why
    assert re.search(r"in a sample, and are 1/\d+\.\d of the work$", explained.why)
    # so few may be found that codes keep them all
    explained = collection.explain(rows[:2], 1, oversample=2, allow=range(20))
    assert (explained.first, explained.why) == ("codes", "codes keep all of 20 rows")
    assert explained.stages["codes"].rows_in == 2 * 20  # those that may be found, not all
    bare = Collection.create(None, hasher, vectors=None)
    bare.add(rows)
    explained = bare.explain(rows[:2], 1, oversample=2)
    assert explained.why == "there are no vectors to sample what codes would lose"
    assert explained.first == "estimate"


def test_what_codes_lose_is_the_share_of_the_nearest_by_the_estimate_that_they_do_not_keep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_stage, "_OFFER", 1e6)
    rows = lengths_apart(300)
    hasher = ProjectionHash(13, normalize=False).fit(rows)
    collection = Collection.create(None, hasher)
    collection.add(rows)
    asked = np.sort(np.random.default_rng(0).choice(np.arange(300), 64, replace=False))
    near = collection.search(rows[asked], 11, stage="estimate", first="estimate", oversample=1).ids
    for keep in (1, 3, 7):
        kept = collection.search(rows[asked], 10 * keep + 1, stage="codes").ids
        lost = [
            np.isin(best[best != row][:10], codes[codes != row][: 10 * keep], invert=True)
            for row, best, codes in zip(asked, near, kept, strict=True)
        ]
        why = collection.explain(rows[:1], 1, oversample=keep).why
        assert why.startswith(f"codes lose {np.mean(lost):.3f} of the 10 nearest by the estimate")


def test_a_sample_serves_until_rows_have_changed_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_stage, "_OFFER", 1e6)
    taken = []
    sample = FirstStageChooser._places_by_codes

    def counted(self: FirstStageChooser, ids: Any, rows: Any, reach: int) -> Any:
        taken.append((len(ids), reach))
        return sample(self, ids, rows, reach)

    monkeypatch.setattr(FirstStageChooser, "_places_by_codes", counted)
    rows = lengths_apart(1100)
    hasher = ProjectionHash(13, normalize=False).fit(rows)
    collection = Collection.create(None, hasher)

    def samples(k: int = 1) -> list[tuple[int, int]]:
        before = len(taken)
        collection.search(rows[:1], k, oversample=1)
        return taken[before:]

    collection.add(rows[:500])
    assert samples(2) == [(500, 32)]
    assert samples(1) == samples(3) == []  # 10 and 30 are within 32
    assert samples(4) == [(500, 64)]
    collection.add(rows[500:900])
    assert samples() == []
    collection.add(rows[900:])  # more than twice as many
    assert samples() == [(1100, 16)]
    collection.upsert(rows[:1000], ids=range(1000))
    assert samples() == []
    collection.upsert(rows[:100], ids=range(100))  # as many written as there were
    assert samples() == [(1100, 16)]
    collection.compact()
    assert samples() == [(1100, 16)]
    collection.remove(range(560))  # the first places hold no rows any more
    assert samples() == [(540, 16)]


@pytest.mark.parametrize("change", ["remove", "upsert"])
def test_rows_that_are_gone_do_not_decide(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_stage, "_OFFER", 1e6)
    hard = lengths_apart(1000)
    easy = np.repeat(np.eye(17, dtype=np.float32) * 3, 60, axis=0)[:1000]
    hasher = ProjectionHash(13, normalize=False).fit(hard)
    collection = Collection.create(None, hasher)
    collection.add(easy)
    if change == "remove":
        collection.add(hard)
        collection.remove(range(1000))
    else:
        collection.search(hard[:1], 1, oversample=4)
        collection.upsert(hard, ids=range(1000))
    explained = collection.explain(hard[:1], 1, oversample=4)
    new = Collection.create(None, hasher)
    new.add(hard)
    expected = new.explain(hard[:1], 1, oversample=4)
    assert (explained.first, explained.why) == (expected.first, expected.why)
    assert explained.first == "estimate"


@pytest.mark.parametrize(
    ("settings", "search", "says"),
    [
        ({"first": "exact"}, {}, "first must be one of 'codes', 'estimate' or None, got 'exact'"),
        ({}, {"first": "exact"}, "first must be one of 'codes', 'estimate', got 'exact'"),
        ({}, {"first": 1}, "first must be one of 'codes', 'estimate', got 1"),
        ({}, {"first": "estimate", "stage": "codes"}, "first must not be 'estimate' for stage="),
        ({"query_bits": 0}, {}, "query_bits must be between 1 and 8, got 0"),
        ({"query_bits": 9}, {}, "query_bits must be between 1 and 8, got 9"),
        ({"query_bits": "4"}, {}, "query_bits must be a whole number, got '4'"),
        (
            {"hasher": MinHash(8).fit(X), "first": "estimate"},
            {},
            "first must not be 'estimate' in this collection.*got MinHash",
        ),
        (
            {"hasher": MinHash(8).fit(X)},
            {"first": "estimate"},
            "first must not be 'estimate' in this collection.*got MinHash",
        ),
        (
            {"index": "multi", "first": "estimate"},
            {},
            "with a MultiIndex, which looks rows up by their codes.*Create it with index='flat'",
        ),
        ({"index": "bands"}, {"first": "estimate"}, "with a BandIndex.*search with first='codes'"),
    ],
)
def test_what_cannot_come_first_is_refused(
    settings: dict[str, Any], search: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInputError, match=says):
        Collection.create(None, **{"hasher": PCA, **settings}).search(Q, 1, **search)


def test_a_collection_made_to_begin_with_the_estimate_can_still_be_searched_by_codes() -> None:
    collection = Collection.create(None, PCA, first="estimate")
    collection.add(X)
    by_codes = Collection.create(None, PCA, stage="codes")
    by_codes.add(X)
    assert collection.search(Q, 4, stage="codes").ids.tolist() == by_codes.search(Q, 4).ids.tolist()
