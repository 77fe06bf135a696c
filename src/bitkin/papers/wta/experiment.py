"""Figures 2 to 5 of the paper: retrieval by codes and by bands, matching of patches, codes as
features, and what codes are made of.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import chi2_kernel

from bitkin import theory, threads
from bitkin.codes import Codes, distances
from bitkin.evaluate import error_at_recall, mean_average_precision, precision_recall
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.wta.wta_hash import WTAHash
from bitkin.papers.data import SHIPPED, PaperData
from bitkin.papers.machines import svm_accuracy
from bitkin.papers.report import PaperReport
from bitkin.papers.scores import Job, RetrievalSplit, Scores
from bitkin.papers.wta import patches
from bitkin.papers.wta.findings import build_report
from bitkin.papers.wta.names import (
    AS_THEY_ARE,
    BANDED_DEFAULT,
    CENTRED,
    CHI_SQUARE,
    CLEAR_CONTRAST,
    CODES,
    DEFAULT,
    DEGREES,
    DISTORTIONS,
    ENCODERS,
    EUCLIDEAN,
    ITQ,
    MATCHED,
    NORMALIZED,
    PAPER,
    PAPER_BANDED,
    PCA_HASH,
    PIXELS,
    RAW,
    RIVALS,
    SIFT,
    SIGNS,
    SPECTRAL,
    STANDARDIZED,
    WINDOWS,
    Variant,
)
from bitkin.papers.wta.spectral_hashing import SpectralHashing

_SETS = ("cifar10_gist960", "fashion_mnist")
_BAGS = tuple(f"bow_cifar10_{n}" for n in (100, 300, 1000, 5000, 10_000))
_QUICK_BAGS = ("bow_fashion_100", "bow_fashion_1000")
_BAND_BITS = 8  # a byte, as in the paper


@dataclass(frozen=True, slots=True)
class ComparativeSizes:
    """How much of everything."""

    rows: int = 8000
    queries: int = 500
    runs: int = 3
    bits: tuple[int, ...] = (64, 128, 256, 512)
    n_ranks: int = 30
    pairs: int = 5000
    pair_runs: int = 3
    changed_pairs: int = 2000
    """Pairs that have one of all changes only."""
    pair_codes: int = 10_000
    learned_rows: int = 3000
    tested_rows: int = 2000
    learned_runs: int = 2
    features: tuple[int, ...] = (3, 10, 32, 100, 316, 1000, 3162, 10_000, 31_623)
    costs: tuple[float, ...] = (0.5, 2.0, 8.0, 32.0, 128.0)
    chi_words: int = 10_000
    """The χ² kernel of a larger dictionary takes minutes."""


QUICK = ComparativeSizes(
    rows=2500, queries=250, runs=1, bits=(64, 256), pairs=500, pair_runs=3, changed_pairs=200,
    pair_codes=10_000, learned_rows=800, tested_rows=500, learned_runs=1, features=(10, 100, 1000),
    costs=(2.0, 8.0, 32.0), chi_words=100,
)  # fmt: skip


def experiment(data: PaperData) -> ComparativeExperiment:
    """Return the experiment on the data there is."""
    if data.quick:
        sets, bags = data.find([SHIPPED], "wta"), data.find(_QUICK_BAGS, "wta")
        return ComparativeExperiment(data, sets, bags, QUICK)
    sets = data.find(_SETS, "wta")
    return ComparativeExperiment(data, sets, data.find(_BAGS, "wta"), ComparativeSizes())


class ComparativeExperiment:
    """Compares codes with their rivals on the same rows, seed by seed."""

    def __init__(
        self, data: PaperData, sets: list[str], bags: list[str], sizes: ComparativeSizes
    ) -> None:
        self.data, self.sets, self.bags, self.sizes = data, sets, bags, sizes
        self.scores = Scores()
        self._split: tuple[tuple[str, int], RetrievalSplit] | None = None

    def jobs(self) -> list[Job]:
        """Return the steps."""
        sizes = self.sizes
        steps: list[Job] = [self._theory]
        for name in self.sets:
            for seed in range(sizes.runs):
                for bits in sizes.bits:
                    steps += [partial(self._rival, name, seed, bits, rival) for rival in RIVALS]
                    steps += [
                        partial(self._codes, name, seed, bits, (degree, window, rows))
                        for degree in DEGREES
                        for window in WINDOWS
                        for rows in (AS_THEY_ARE, CENTRED)
                    ]
            steps.append(partial(self._distort, name))
        steps.append(self._time)
        steps += [
            partial(self._match, kind, seed)
            for seed in range(sizes.pair_runs)
            for kind in (PIXELS, SIFT)
        ]
        steps += [
            partial(self._match_changed, kind, seed, change)
            for seed in range(sizes.pair_runs)
            for kind in (PIXELS, SIFT)
            for change in patches.CHANGES
        ]
        for name in self.bags:
            steps.append(partial(self._classify_bags, name))
            steps += [
                partial(self._classify, name, seed, n)
                for seed in range(sizes.learned_runs)
                for n in sizes.features
            ]
        return steps

    def report(self) -> PaperReport:
        """Return tables, figures and claims."""
        return build_report(
            self.scores, self.sets, self.bags, asdict(self.sizes), self.data.left_out
        )

    # Retrieval.

    def _split_of(self, name: str, seed: int) -> RetrievalSplit:
        if self._split is None or self._split[0] != (name, seed):
            self._split = None  # before the next one is made: memory
            sizes = self.sizes
            split = RetrievalSplit.draw(self.data.dense(name), seed, sizes.rows, sizes.queries)
            self.scores.add(("without", name), split.share_without_neighbors)
            self._split = (name, seed), split
        return self._split[1]

    def _rival(self, name: str, seed: int, bits: int, rival: str) -> None:
        split = self._split_of(name, seed)
        hasher = _quietly(lambda: rivals(bits, seed)[rival].fit(split.rows))
        self._measure(split, (name, bits, rival), hasher, with_curve=True)

    def _codes(self, name: str, seed: int, bits: int, variant: Variant) -> None:
        split = self._split_of(name, seed)
        hasher = _quietly(lambda: made(variant, bits, seed).fit(split.rows))
        shown = variant in (PAPER, DEFAULT, PAPER_BANDED, BANDED_DEFAULT)
        self._measure(split, (name, bits, variant), hasher, with_curve=shown)

    def _measure(self, split: RetrievalSplit, key: Any, hasher: Any, *, with_curve: bool) -> None:
        """Measure codes as a whole and, where curves are drawn, cut into bytes too."""
        codes, queries = hasher.encode(split.rows), hasher.encode(split.queries)
        tables = {"whole": distances(queries, codes)}
        self.scores.add(("map", *key), mean_average_precision(tables["whole"], split.relevant))
        if not with_curve:
            return
        tables["bands"] = distances(banded(queries), banded(codes))
        n_bands = banded(codes).spec.n_symbols
        self.scores.add(("candidates", *key), float((tables["bands"] < n_bands).mean()))
        score = mean_average_precision(tables["bands"], split.relevant)
        self.scores.add(("banded map", *key), score)
        ranks = ranks_of(codes_of=tables["whole"].shape[1], n=self.sizes.n_ranks)
        for kind, table in tables.items():
            curve = precision_recall(table, split.relevant, ranks=ranks)
            for place in range(len(ranks)):
                self.scores.add((kind, "precision", *key, place), curve.precision[place])
                self.scores.add((kind, "recall", *key, place), curve.recall[place])

    # What codes are made of.

    def _distort(self, name: str) -> None:
        """Measure the share of symbols that distortions leave as they are."""
        rows = self._split_of(name, 0).rows[:500]
        rng = np.random.default_rng(0)
        noise = rng.standard_normal(rows.shape) * rows.std()
        distorted = dict(
            zip(
                DISTORTIONS,
                (2 * rows + 3, rows**2, np.log1p(rows), rows + 0.05 * noise, rows + 0.2 * noise),
                strict=True,
            )
        )
        variants = ((1, 2, AS_THEY_ARE), (1, 4, AS_THEY_ARE), (1, 16, AS_THEY_ARE), DEFAULT)
        hashers: list[Any] = [made(variant, 1024, 0).fit(rows) for variant in variants]
        hashers.append(rivals(256, 0)[SIGNS].fit(rows))
        for encoder, hasher in zip(ENCODERS, hashers, strict=True):
            before = hasher.transform(rows)
            for what, changed in distorted.items():
                same = (hasher.transform(changed) == before).mean()
                self.scores.add(("kept", name, encoder, what), float(same))

    def _theory(self) -> None:
        """Compare the paper's formulas with what codes do."""
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((2, 30))
        for window in (2, 4, 8):
            self.scores.add(("S_K", window), theory.wta_similarity(x, y, window))
            self.scores.add(("S_K met", window), met(x, y, window=window))
        n_pairs = len(x) * (len(x) - 1) // 2
        self.scores.add(("pairwise order",), theory.pairwise_order(x, y) / n_pairs)
        self.scores.add(("S_2 met",), met(x, y, window=2))
        # binary rows and K = n: Jaccard
        a, b = (rng.random((2, 60)) < 0.3).astype(float)
        self.scores.add(("Jaccard",), float((a * b).sum() / np.maximum(a, b).sum()))
        self.scores.add(("Jaccard met",), met(a, b, window=60))
        # degree 2 against winner-take-all on all products: n = 5, K = 4
        u, v = rng.random((2, 5)) + 0.1
        self.scores.add(
            ("products",), met(np.outer(u, u).ravel(), np.outer(v, v).ravel(), window=4)
        )
        self.scores.add(("degree 2",), met(u, v, window=4, degree=2))

    def _time(self) -> None:
        """Measure what a degree costs."""
        rows = self._split_of(self.sets[0], self.sizes.runs - 1).rows
        hashers = {degree: made((degree, 4, AS_THEY_ARE), 2048, 0).fit(rows) for degree in DEGREES}
        for _ in range(4):
            for degree, hasher in hashers.items():
                start = time.process_time()
                hasher.encode(rows)
                self.scores.add(("encode", degree), time.process_time() - start)

    # Patches.

    def _match_changed(self, kind: str, seed: int, change: str) -> None:
        """Measure what a single change does to matches."""
        pairs = patches.draw_pairs(self.sizes.changed_pairs, seed, (change,))
        for matcher, measured in self._measured(kind, pairs).items():
            error = error_at_recall(measured, pairs.same, recall=0.95)
            self.scores.add(("error", kind, matcher, change), error)

    def _measured(self, kind: str, pairs: patches.PatchPairs) -> dict[str, Any]:
        """Return the distances of pairs by the name of the matcher."""
        describe = patches.describe_by_gradients if kind == SIFT else _flat
        first, second = describe(pairs.first), describe(pairs.second)
        return {name: measure(first, second) for name, measure in self._matchers().items()}

    def _match(self, kind: str, seed: int) -> None:
        pairs = patches.draw_pairs(self.sizes.pairs, seed)
        clear = pairs.first.std(axis=(1, 2)) > CLEAR_CONTRAST
        self.scores.add(("clear",), float(clear.mean()))
        for matcher, measured in self._measured(kind, pairs).items():
            error = error_at_recall(measured, pairs.same, recall=0.95)
            self.scores.add(("error", kind, matcher), error)
            error = error_at_recall(measured[clear], pairs.same[clear], recall=0.95)
            self.scores.add(("clear error", kind, matcher), error)
            for recall in MATCHED:
                error = error_at_recall(measured, pairs.same, recall=recall)
                self.scores.add(("false matches", kind, matcher, recall), error)

    def _matchers(self) -> dict[str, Callable[[Any, Any], Any]]:
        def by_codes(first: Any, second: Any, *, standardize: bool) -> Any:
            hasher = WTAHash(
                self.sizes.pair_codes, 2, densify=None, center=standardize, scale=standardize
            )
            _quietly(lambda: hasher.fit(first))
            return (hasher.transform(first) != hasher.transform(second)).sum(axis=1)

        def between(first: Any, second: Any) -> Any:
            return np.linalg.norm(first - second, axis=1)

        def standardized(rows: Any) -> Any:
            return (rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)

        return {
            EUCLIDEAN: between,
            NORMALIZED: lambda a, b: between(standardized(a), standardized(b)),
            CODES: partial(by_codes, standardize=False),
            STANDARDIZED: partial(by_codes, standardize=True),
        }

    # Codes as features.

    def _classify_bags(self, name: str) -> None:
        bags, n, m = self.data.bags(name), self.sizes.learned_rows, self.sizes.tested_rows
        X, Q = bags.X[:n].astype(np.float64), bags.Q[:m].astype(np.float64)
        kernel, asked = (X @ X.T).toarray(), (Q @ X.T).toarray()
        scale = kernel.diagonal().mean()
        kernels = {RAW: (kernel / scale, asked / scale)}
        if X.shape[1] <= self.sizes.chi_words:
            # as histograms; γ such that the mean distance counts as 1
            X, Q = (rows.toarray() / np.maximum(rows.sum(axis=1), 1) for rows in (X, Q))
            X, Q = np.asarray(X), np.asarray(Q)
            mean = -np.log(np.maximum(chi2_kernel(X[:200], X[200:400]), 1e-300)).mean()
            kernels[CHI_SQUARE] = chi_kernel(X, X, 1 / mean), chi_kernel(Q, X, 1 / mean)
        for label, (of_rows, of_asked) in kernels.items():
            accuracy = svm_accuracy(of_rows, bags.y[:n], of_asked, bags.yq[:m], self.sizes.costs)
            self.scores.add(("accuracy", name, label), accuracy)

    def _classify(self, name: str, seed: int, n_codes: int) -> None:
        bags, n, m = self.data.bags(name), self.sizes.learned_rows, self.sizes.tested_rows
        hasher = WTAHash(n_codes, 4, densify=None, center=False, scale=False, random_state=seed)
        _quietly(lambda: hasher.fit(bags.X[:n]))
        rows, asked = hasher.encode(bags.X[:n]), hasher.encode(bags.Q[:m])
        kernel, of_asked = (1.0 - distances(part, rows) / n_codes for part in (rows, asked))
        accuracy = svm_accuracy(kernel, bags.y[:n], of_asked, bags.yq[:m], self.sizes.costs)
        self.scores.add(("accuracy", name, n_codes), accuracy)


def made(variant: Variant, bits: int, seed: int) -> WTAHash:
    """Return a hasher of so many bits: a symbol takes log₂ K."""
    degree, window, rows = variant
    return WTAHash(
        bits // (window - 1).bit_length(), window, degree=degree, densify=None,
        center=rows == CENTRED, scale=False, random_state=seed,
    )  # fmt: skip


def rivals(bits: int, seed: int) -> dict[str, Any]:
    """Return the methods that codes are compared with."""
    return {
        PCA_HASH: ProjectionHash(bits, rotation=None),
        SPECTRAL: SpectralHashing(bits),
        SIGNS: ProjectionHash(bits, projection="random", rotation=None, random_state=seed),
        ITQ: ProjectionHash(bits, rotation="itq", random_state=seed),
    }


def chi_kernel(rows: Any, others: Any, gamma: float) -> npt.NDArray[np.float64]:
    """Return the χ² kernel, of which scikit-learn computes a part per thread."""
    parts = np.array_split(rows, max(1, len(rows) // 250))
    return np.concatenate(
        threads.run(lambda part: chi2_kernel(part, others, gamma=gamma), parts), axis=0
    )


def banded(codes: Codes) -> Codes:
    """Return codes whose symbols are the bytes of others: their distance is the number of bands
    that do not hit.
    """
    per_band = _BAND_BITS // codes.spec.bits_per_symbol
    symbols = codes.symbols()
    n_bands = symbols.shape[1] // per_band
    parts = symbols[:, : n_bands * per_band].reshape(len(symbols), n_bands, per_band)
    weights = codes.spec.alphabet_size ** np.arange(per_band)
    return Codes.from_symbols((parts @ weights).astype(np.uint8), _BAND_BITS)


def met(x: Any, y: Any, *, window: int, degree: int = 1, n: int = 40_000) -> float:
    """Return how often two vectors get the same symbol, each from windows of its own."""
    rows = np.stack([x, y])
    hasher = WTAHash(
        n, window, degree=degree, densify=None, center=False, scale=False, layout="independent"
    )
    first, second = _quietly(lambda: hasher.fit(rows)).transform(rows)
    return float((first == second).mean())


def ranks_of(codes_of: int, n: int) -> npt.NDArray[np.int64]:
    """Return some ranks of so many rows, near to each other where it matters."""
    return np.unique(np.geomspace(1, codes_of, n).round().astype(np.int64))


def _flat(pictures: Any) -> Any:
    return pictures.reshape(len(pictures), -1)


def _quietly(work: Callable[[], Any]) -> Any:
    """Do without warnings: more bits than directions, empty windows and even degrees are what is
    compared here.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return work()
