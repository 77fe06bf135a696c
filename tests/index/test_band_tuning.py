from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitkin import BandIndex, Codes, FlatIndex
from bitkin.errors import CodeMismatchError, InvalidInputError
from tests.truth import random_codes


def families(seed: int, n: int) -> Codes:
    rng = np.random.default_rng(seed)
    founders = np.random.default_rng(1).integers(0, 2, (150, 128))
    return Codes.from_symbols(founders[rng.integers(0, 150, n)] ^ (rng.random((n, 128)) < 0.12), 1)


def test_what_tuning_expects_holds_for_queries_it_never_saw() -> None:
    codes, queries = families(2, 9000), families(3, 400)
    tuning = BandIndex.tune(codes, recall=0.85)
    index = tuning.build()
    assert (index.band_bits, index.probes, index.budget) == (
        tuning.band_bits,
        tuning.probes,
        tuning.budget,
    )
    index.add(codes)
    flat = FlatIndex(codes.spec)
    flat.add(codes)
    truth, found = flat.search(queries, 10).ids, index.search(queries, 10).ids
    recall = np.mean([np.isin(a, b).mean() for a, b in zip(truth, found, strict=True)])
    low, high = tuning.interval
    assert low < tuning.recall < high
    spread = 0.5 * (high - low)  # of as many new queries, about
    assert low - spread < recall < high + spread
    assert tuning.candidates < 0.25
    assert tuning.microseconds > 0
    assert tuning.scan_microseconds > 0


def test_settings_depend_on_the_seed_alone_and_more_recall_costs_more() -> None:
    codes = families(4, 3000)
    tunings = [BandIndex.tune(codes, recall, sample=2000) for recall in (0.5, 0.5, 0.95)]
    settings = [
        (t.band_bits, t.probes, t.budget, t.recall, t.interval, t.candidates) for t in tunings
    ]
    assert settings[0] == settings[1]
    assert tunings[0].candidates < tunings[2].candidates
    assert tunings[0].recall < tunings[2].recall
    assert tunings[0].n_rows == 2000


def test_queries_of_ones_own_are_taken() -> None:
    codes = families(4, 1000)
    tuning = BandIndex.tune(codes, 0.5, queries=families(5, 100), k=3)
    assert (tuning.n_rows, tuning.k) == (1000, 3)


def test_a_recall_out_of_reach_is_said() -> None:
    codes = random_codes(np.random.default_rng(0), 400, 64)
    with pytest.warns(UserWarning, match=r"no bands reach a recall of 1\.0; the best found 0\.\d+"):
        assert BandIndex.tune(codes, 1.0, k=100).recall < 1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"recall": 0.0}, "recall must be a number above 0 and up to 1, got 0.0"),
        ({"recall": 1.1}, "recall must be a number above 0 and up to 1, got 1.1"),
        ({"recall": "all"}, "recall must be a number above 0"),
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"k": 10**6}, "k must be at most 225, the rows that are searched, got 1000000"),
        ({"sample": 5}, "sample must be at least 200, got 5"),
        ({"random_state": -1}, "random_state must be"),
        ({"queries": families(0, 3)}, "queries must be at least 20 that are not empty, got 3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        BandIndex.tune(families(0, 300), **arguments)


def test_too_few_or_other_codes_are_refused() -> None:
    with pytest.raises(
        InvalidInputError, match="codes must have at least 200 rows that are not empty, got 150"
    ):
        BandIndex.tune(families(0, 150))
    with pytest.raises(InvalidInputError, match="codes must be Codes"):
        BandIndex.tune(np.zeros((300, 8)))  # type: ignore[arg-type]
    with pytest.raises(CodeMismatchError, match="queries must be 128 × 1-bit codes"):
        BandIndex.tune(families(0, 300), queries=random_codes(np.random.default_rng(0), 30, 64))
