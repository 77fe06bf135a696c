from __future__ import annotations

import numpy as np
import pytest

from bitkin import ProjectionHash
from bitkin.papers.data import SHIPPED, PaperData
from bitkin.papers.scores import RetrievalSplit
from bitkin.papers.stream.experiment import (
    StreamExperiment,
    StreamSizes,
    at_length_1,
    coded_by_epochs,
    slots_of,
)
from bitkin.papers.stream.names import (
    EMITTED,
    EPOCHS,
    METHODS,
    RANDROT,
    REENCODED,
    UNIFDIAG,
    methods_for,
)

TINY = StreamSizes(rows=800, queries=120, orders=1, bits=(32,), points=(0.5, 1.0), reasons=1)


def new_experiment() -> StreamExperiment:
    data = PaperData(quick=True)
    return StreamExperiment(data, data.find([SHIPPED], "stream"), TINY)


def test_a_job_gives_the_same_numbers_again() -> None:
    first, again = new_experiment(), new_experiment()
    for experiment in (first, again):
        for job in experiment.jobs()[:2]:
            job()
    for kind in (EMITTED, REENCODED, EPOCHS):
        key = (kind, SHIPPED, 32, UNIFDIAG, TINY.rows)
        assert again.scores.values(key) == first.scores.values(key) != []


@pytest.mark.parametrize("method", [UNIFDIAG, RANDROT])
def test_parts_of_epochs_are_what_the_stream_itself_emits(method: str) -> None:
    rows = np.random.default_rng(0).standard_normal((700, 40)) * np.geomspace(4, 0.3, 40)
    rows = rows.astype(np.float32)
    slots = slots_of(method, 16, len(rows))
    parts = list(coded_by_epochs(ProjectionHash(16, **slots), rows, [350, 700]))
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert {350, 700} <= {part.stop for part in parts}
    live = ProjectionHash(16, **slots)
    emitted = np.concatenate([codes.symbols() for codes in live.sketch_stream(rows)])
    made = np.concatenate([part.codes.symbols() for part in parts])
    # the first 8 are coded by the first learned model here, and by random directions there
    assert (emitted[8:] == made[8:]).mean() > 0.9999
    assert (emitted[:8] == made[:8]).mean() < 0.9


def test_a_sketch_of_50_rows_serves_no_more_bits() -> None:
    assert methods_for(32) == METHODS
    assert methods_for(64) == METHODS[:-1]


def test_rows_at_length_1_have_it_about_the_mean_of_the_rows() -> None:
    rng = np.random.default_rng(1)
    X = (rng.standard_normal((90, 6)) + 3).astype(np.float32)
    split = at_length_1(RetrievalSplit(X[:80], X[80:], None))
    mean = X[:80].mean(axis=0)
    assert np.allclose(np.linalg.norm(split.rows, axis=1), 1)
    assert np.allclose(np.linalg.norm(split.queries, axis=1), 1)
    expected = (X[85] - mean) / np.linalg.norm(X[85] - mean)
    assert np.allclose(split.queries[5], expected, atol=1e-6)
    assert split.relevant.shape == (10, 80)
