from __future__ import annotations

import numpy as np
import pytest

from bitkin import BandIndex, Codes, WTAHash, distances
from bitkin.papers.data import SHIPPED, PaperData
from bitkin.papers.report import MeanOfRuns
from bitkin.papers.scores import Scores
from bitkin.papers.wta import patches
from bitkin.papers.wta.experiment import ComparativeExperiment, ComparativeSizes, banded
from bitkin.papers.wta.names import EUCLIDEAN, PIXELS, RIVALS
from bitkin.papers.wta.spectral_hashing import SpectralHashing
from bitkin.papers.wta.tables import ComparativeTables

SETS = ("one", "other")
BAGS = ["bow_fashion_100", "bow_fashion_1000"]
TINY = ComparativeSizes(
    rows=600, queries=80, runs=1, bits=(64,), n_ranks=8, pairs=300, pair_runs=1, pair_codes=3000,
    learned_rows=300, tested_rows=200, learned_runs=1, features=(10, 200), costs=(2.0, 16.0),
    chi_words=100,
)  # fmt: skip


def new_experiment() -> ComparativeExperiment:
    data = PaperData(quick=True)
    return ComparativeExperiment(data, data.find([SHIPPED], "wta"), data.find(BAGS, "wta"), TINY)


def test_a_job_gives_the_same_numbers_again() -> None:
    first, again = new_experiment(), new_experiment()
    for experiment in (first, again):
        for job in experiment.jobs()[1:4]:
            job()
    for which in RIVALS[:3]:
        key = ("map", SHIPPED, 64, which)
        assert again.scores.values(key) == first.scores.values(key) != []


@pytest.mark.parametrize(("n_symbols", "bits"), [(64, 1), (32, 2), (17, 4), (7, 3)])
def test_bands_are_what_the_band_index_looks_up(n_symbols: int, bits: int) -> None:
    rng = np.random.default_rng(0)
    rows, queries = (
        Codes.from_symbols(rng.integers(0, 2**bits, (n, n_symbols)).astype(np.uint8), bits)
        for n in (90, 5)
    )
    index = BandIndex(rows.spec, band_bits=8, score="hits")
    index.add(rows)
    table = distances(banded(queries), banded(rows))
    n_bands = banded(rows).spec.n_symbols
    assert (table < n_bands).sum(axis=1).tolist() == index.count_candidates(queries).tolist()
    found = index.search(queries, 90)
    for query in range(5):
        there = found.ids[query] >= 0
        expected = table[query, found.ids[query][there]]
        assert found.distances[query][there].tolist() == expected.tolist()


def test_spectral_hashing_takes_the_slowest_waves() -> None:
    rng = np.random.default_rng(0)
    X = (rng.uniform(-1, 1, (4000, 3)) * [8, 3, 1]).astype(np.float32)
    hasher = SpectralHashing(5).fit(X)
    # ω = kπ / width with widths of about 16, 6, 2: the first axis has k = 1, 2, 3, 4, 5 (1/16 to
    # 5/16), the second k = 1 (1/6), the third none
    assert sorted(hasher._axis.tolist()) == [0, 0, 0, 0, 1]
    bits = hasher.encode(X).symbols()
    # the first wave is one half of a cosine along the first axis: its sign is which side
    side = X[:, 0] > (X[:, 0].min() + X[:, 0].max()) / 2
    agree = (bits[:, 0] == side).mean()
    assert max(agree, 1 - agree) > 0.98


def test_a_patch_is_nearer_to_its_copy_than_to_others() -> None:
    pairs = patches.draw_pairs(30, 0)
    assert pairs.first.shape == (60, 64, 64)
    assert pairs.same.tolist() == [True] * 30 + [False] * 30
    first, second = map(patches.describe_by_gradients, (pairs.first, pairs.second))
    assert first.shape == (60, 128)
    assert np.allclose(np.linalg.norm(first, axis=1), 1, atol=1e-5)
    apart = np.linalg.norm(first - second, axis=1)
    assert apart[:30].mean() < 0.7 * apart[30:].mean()
    again = patches.draw_pairs(30, 0)
    assert (again.second == pairs.second).all()
    assert not (patches.draw_pairs(30, 1).first == pairs.first).all()


def test_descriptors_turn_with_the_picture() -> None:
    ramp = np.tile(np.arange(64, dtype=np.float32), (64, 1))
    right, down = patches.describe_by_gradients(np.stack([ramp, ramp.T])).reshape(2, 16, 8)
    assert (right.argmax(axis=1) == 0).all()  # brighter to the right
    assert (down.argmax(axis=1) == 2).all()  # a quarter of a turn on


def test_monotone_changes_keep_plain_codes() -> None:
    X = np.random.default_rng(0).random((20, 30))
    hasher = WTAHash(64, 4, center=False).fit(X)
    assert hasher.encode(np.exp(3 * X)) == hasher.encode(X)


def test_patches_that_are_not_pale_are_matched_apart_from_the_others() -> None:
    experiment = new_experiment()
    experiment._match(PIXELS, 3)
    first, second, same = patches.draw_pairs(TINY.pairs, 3)
    clear = [i for i, patch in enumerate(first) if np.std(patch) > 30]
    assert 0 < len(clear) < len(first)
    near = [float(np.sqrt(((first[i] - second[i]) ** 2).sum())) for i in clear]
    true = sorted(one for i, one in zip(clear, near, strict=True) if same[i])
    limit = true[int(np.ceil(0.95 * len(true))) - 1]
    false = [one <= limit for i, one in zip(clear, near, strict=True) if not same[i]]
    found = experiment.scores.mean(("clear error", PIXELS, EUCLIDEAN)).mean
    assert found == pytest.approx(np.mean(false), abs=1.5 / len(false))
    assert experiment.scores.mean(("clear",)).mean == pytest.approx(len(clear) / len(first))


class Constant(Scores):
    """Half of everything."""

    def values(self, key: object) -> list[float]:
        return [0.5]

    def mean(self, key: object) -> MeanOfRuns:
        return MeanOfRuns(0.5, None, 1)


def test_figure_3_has_every_number_of_bits_on_every_set() -> None:
    sizes = {"bits": (64, 128, 512), "features": (3,), "rows": 10, "n_ranks": 3, "chi_words": 1}
    tables = ComparativeTables(Constant(), list(SETS), [], sizes)
    for figure in (tables.figure_3(), tables.figure_3_banded()):
        titles = [panel.title for panel in figure.panels]
        assert titles == [f"{name}, {bits} bits" for bits in (64, 128, 512) for name in SETS]
        assert figure.n_columns == 2
