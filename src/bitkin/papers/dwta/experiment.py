"""Figures 4, 5 and 6 of the paper, its theorem, and what R does at equal bytes."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import theory
from bitkin.codes import distances
from bitkin.evaluate import mean_average_precision, precision_recall
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.wta.wta_hash import WTAHash
from bitkin.papers.data import BagSet, PaperData
from bitkin.papers.dwta.findings import build_report
from bitkin.papers.dwta.names import (
    ALPHABETS,
    AUTO,
    EQUAL_BYTES,
    EQUAL_CODES,
    LARGE,
    LEARNED_ALPHABETS,
    METHODS,
    OPTIMAL,
    PLAIN_ALPHABET,
    RAW,
    ROTATION,
    SIGNS,
    WTA,
    Window,
)
from bitkin.papers.machines import svm_accuracy
from bitkin.papers.report import PaperReport
from bitkin.papers.scores import Job, Scores
from bitkin.randomness import Draws

_SETS = tuple(f"bow_cifar10_{n}" for n in (100, 300, 1000, 5000, 10_000))
_TEXTS = "newsgroups20"
_QUICK_SETS = ("bow_fashion_100", "bow_fashion_1000")
_FILLERS = {WTA: None, ROTATION: "rotation", OPTIMAL: "optimal"}


@dataclass(frozen=True, slots=True)
class DensifiedSizes:
    """How much of everything."""

    rows: int = 8000
    queries: int = 1000
    runs: int = 10
    codes: tuple[int, ...] = (64, 256, 512)
    wide_codes: tuple[int, ...] = (64, 256, 512)
    """Numbers of codes at K = 16."""
    alphabet_runs: int = 5
    swept_windows: tuple[int, ...] = (4, 16)
    """Windows at which R is swept."""
    n_bytes: int = 64
    learned_rows: int = 3000
    tested_rows: int = 1500
    learned_runs: int = 2
    features: tuple[int, ...] = (500, 1000, 5000, 10_000)
    learned_codes: int = 1000
    """Codes, and bytes, at which R is swept for machines."""
    costs: tuple[float, ...] = (0.5, 2.0, 8.0, 32.0, 128.0)
    n_ranks: int = 30
    many_codes: int = 8192
    pairs: int = 40
    pair_codes: int = 20_000


QUICK = DensifiedSizes(
    rows=3000, queries=300, runs=3, codes=(64, 256), wide_codes=(256,), alphabet_runs=1,
    swept_windows=(4,), learned_rows=1200, tested_rows=600, learned_runs=1, features=(200, 1000),
    learned_codes=200, pairs=15, pair_codes=10_000,
    many_codes=1024,
)  # fmt: skip


def experiment(data: PaperData) -> DensifiedExperiment:
    """Return the experiment on the data there is."""
    if data.quick:
        return DensifiedExperiment(data, data.find(_QUICK_SETS, "dwta"), QUICK, [])
    sets = data.find(_SETS, "dwta")
    return DensifiedExperiment(data, sets, DensifiedSizes(), data.find_some([_TEXTS]))


class DensifiedExperiment:
    """Compares plain and densified codes on the same rows, seed by seed."""

    def __init__(
        self, data: PaperData, sets: list[str], sizes: DensifiedSizes, texts: list[str]
    ) -> None:
        self.data, self.sets, self.sizes, self.texts = data, sets, sizes, texts
        self.scores = Scores()
        self._ranks: dict[str, npt.NDArray[np.int64]] = {}

    def jobs(self) -> list[Job]:
        """Return the steps: every set with all that is measured on it."""
        sizes = self.sizes
        steps: list[Job] = []
        for name in self.sets:
            steps += [partial(self._sparsity, name), partial(self._theorem, name)]
            steps.append(partial(self._kernels, name))
            cells: list[tuple[Window, int]] = [(4, n) for n in sizes.codes]
            cells += [(16, n) for n in sizes.wide_codes]
            steps += self._steps(name, cells, sizes.swept_windows)
        for name in self.texts:
            cells = [(window, n) for window in (4, 16, AUTO) for n in sizes.codes]
            steps += self._steps(name, cells, (AUTO,))
        return steps

    def _steps(
        self, name: str, cells: list[tuple[Window, int]], swept: tuple[Window, ...]
    ) -> list[Job]:
        """Return retrieval in all cells, what R does, and classification."""
        sizes = self.sizes
        return [
            *(
                partial(self._retrieve, name, seed, window, n_codes)
                for seed in range(sizes.runs)
                for window, n_codes in cells
            ),
            *(
                partial(self._alphabets, name, seed, window)
                for seed in range(sizes.alphabet_runs)
                for window in swept
            ),
            partial(self._classify_raw, name),
            *(
                partial(self._classify, name, seed, n_codes)
                for seed in range(sizes.learned_runs)
                for n_codes in sizes.features
            ),
            *(partial(self._classify_by_alphabet, name, s) for s in range(sizes.learned_runs)),
        ]

    def report(self) -> PaperReport:
        """Return tables, figures and claims."""
        return build_report(
            self.scores, self.sets, self.texts, asdict(self.sizes), self._ranks, self.data.left_out
        )

    def _sparsity(self, name: str) -> None:
        """Measure zeros and empty windows, with the share that the formula expects."""
        bags = self.data.bags(name)
        n_features = bags.X.shape[1]
        self.scores.add(("zeros", name), 1 - bags.X.nnz / np.prod(bags.X.shape))
        for window in (4, 16):
            hasher = _fitted(made(WTA, 512, window, 0), bags.X)
            self.scores.add(("empty", name, window), hasher.empty_share_)
            expected = theory.empty_share(n_features, np.diff(bags.X.indptr), window).mean()
            self.scores.add(("expected empty", name, window), float(expected))

    def _theorem(self, name: str) -> None:
        """Measure how often codes of real pairs meet, beside the kernels that they stand for."""
        bags, n = self.data.bags(name), self.sizes.pair_codes
        order = Draws(0, f"pairs of {name}").permutation(bags.X.shape[0])[: 2 * self.sizes.pairs]
        rows = bags.X[order]
        dense = rows.toarray().astype(np.float64)
        found = {}
        for method in METHODS:
            hasher = made(method, n, 4, 0, alphabet=2**16, layout="independent")
            symbols = _fitted(hasher, rows).transform(rows)
            found[method] = (symbols[0::2] == symbols[1::2]).mean(axis=1)
        pairs = list(zip(dense[0::2], dense[1::2], strict=True))
        good = np.array([theory.good_kernel(x, y, 4) for x, y in pairs])
        plain = np.array([theory.wta_collision(x, y, 4) for x, y in pairs])
        self.scores.add(("good kernel", name), good.mean())
        self.scores.add(("plain kernel", name), plain.mean())
        for method in METHODS:
            self.scores.add(("meeting", name, method), found[method].mean())
            self.scores.add(("from good", name, method), np.abs(found[method] - good).mean())
        self._same_on_dense_rows(name)
        self._time(name, bags)

    def _kernels(self, name: str) -> None:
        """Measure retrieval by so many codes that chance is gone: what the kernels are worth."""
        for method in METHODS:
            hasher = made(method, self.sizes.many_codes, 4, 0, alphabet=2**16)
            table, relevant = self._distances(self.data.bags(name), hasher)
            self.scores.add(("kernel", name, method), mean_average_precision(table, relevant))

    def _same_on_dense_rows(self, name: str) -> None:
        """Compare codes of rows without zeros: 1 added to every count."""
        rows = self.data.bags(name).X[:200].toarray() + 1.0
        plain, densified = (
            made(method, 256, 4, 0, alphabet=LARGE).fit(rows).transform(rows)
            for method in (WTA, OPTIMAL)
        )
        self.scores.add(("same on dense", name), float((plain == densified).mean()))

    def _time(self, name: str, bags: BagSet) -> None:
        hashers: dict[str, Any] = {
            method: _fitted(made(method, 256, 4, 0, alphabet=4), bags.X) for method in METHODS
        }
        hashers[SIGNS] = ProjectionHash(256, projection="random", rotation=None).fit(bags.X)
        for _ in range(4):
            for method, hasher in hashers.items():
                start = time.process_time()
                hasher.encode(bags.X)
                self.scores.add(("encode", name, method), time.process_time() - start)

    def _retrieve(self, name: str, seed: int, window: Window, n_codes: int) -> None:
        bags = self.data.bags(name)
        for method in METHODS:
            hasher = made(method, n_codes, window, seed, alphabet=LARGE)
            table, relevant = self._distances(bags, hasher)
            key = (name, window, n_codes, method)
            self.scores.add(("map", *key), mean_average_precision(table, relevant))
            self.scores.add(("window", *key), hasher.window_)
            self.scores.add(("empty", *key), hasher.empty_share_)
            ranks = self._ranks_of(name, table.shape[1])
            curve = precision_recall(table, relevant, ranks=ranks)
            self.scores.add(("at 100", *key), curve.precision[ranks.searchsorted(100)])
            for place in range(len(ranks)):
                self.scores.add(("precision", *key, place), curve.precision[place])
                self.scores.add(("recall", *key, place), curve.recall[place])

    def _alphabets(self, name: str, seed: int, window: Window) -> None:
        """Measure what R does at equal codes, and at equal bytes. Plain codes stand beside it as
        they are, or, where a window is so large that they take more bits than densified ones,
        reduced too.
        """
        bags, sizes = self.data.bags(name), self.sizes
        n_codes = max_middle(sizes)
        methods = (WTA, OPTIMAL) if window == AUTO else (OPTIMAL,)
        for alphabet in ALPHABETS:
            fitting = codes_in(sizes.n_bytes, alphabet)
            for kind, n in ((EQUAL_CODES, n_codes), (EQUAL_BYTES, fitting)):
                for method in methods:
                    hasher = made(method, n, window, seed, alphabet=alphabet, reduced=True)
                    table, relevant = self._distances(bags, hasher)
                    score = mean_average_precision(table, relevant)
                    self.scores.add((kind, name, window, method, alphabet), score)
        if isinstance(window, str):
            return
        for kind, n in ((EQUAL_CODES, n_codes), (EQUAL_BYTES, codes_in(sizes.n_bytes, window))):
            table, relevant = self._distances(bags, made(WTA, n, window, seed))
            score = mean_average_precision(table, relevant)
            self.scores.add((kind, name, window, WTA, window), score)

    def _classify_raw(self, name: str) -> None:
        bags, (n, m) = self.data.bags(name), self._learned()
        X, Q = bags.X[:n].astype(np.float64), bags.Q[:m].astype(np.float64)
        kernel, asked = (X @ X.T).toarray(), (Q @ X.T).toarray()
        scale = kernel.diagonal().mean()
        accuracy = svm_accuracy(
            kernel / scale, bags.y[:n], asked / scale, bags.yq[:m], self.sizes.costs
        )
        self.scores.add(("accuracy", name, RAW), accuracy)

    def _classify(self, name: str, seed: int, n_codes: int) -> None:
        for method in METHODS:
            hasher = made(method, n_codes, self._learned_window(name), seed)
            self.scores.add(("accuracy", name, n_codes, method), self._accuracy(name, hasher))

    def _classify_by_alphabet(self, name: str, seed: int) -> None:
        """Measure what R does to a machine, at equal codes and at equal bytes."""
        n, window = self.sizes.learned_codes, self._learned_window(name)
        for alphabet in LEARNED_ALPHABETS:
            for kind, n_codes in ((EQUAL_CODES, n), (EQUAL_BYTES, codes_in(n, alphabet))):
                hasher = made(OPTIMAL, n_codes, window, seed, alphabet=alphabet)
                score = self._accuracy(name, hasher)
                self.scores.add(("learned", kind, name, OPTIMAL, alphabet), score)
        for kind, n_codes in ((EQUAL_CODES, n), (EQUAL_BYTES, codes_in(n, PLAIN_ALPHABET))):
            hasher = made(WTA, n_codes, window, seed, alphabet=PLAIN_ALPHABET, reduced=True)
            score = self._accuracy(name, hasher)
            self.scores.add(("learned", kind, name, WTA, PLAIN_ALPHABET), score)

    def _accuracy(self, name: str, hasher: WTAHash) -> float:
        """Return the accuracy of a linear SVM on the one-hot codes. Their inner product is the
        number of symbols that agree, so the machine is solved on code distances and the features
        are never made.
        """
        bags, (n, m) = self.data.bags(name), self._learned()
        _fitted(hasher, bags.X[:n])
        rows, asked = hasher.encode(bags.X[:n]), hasher.encode(bags.Q[:m])
        n_codes = rows.spec.n_symbols
        kernel, of_asked = (1.0 - distances(part, rows) / n_codes for part in (rows, asked))
        return svm_accuracy(kernel, bags.y[:n], of_asked, bags.yq[:m], self.sizes.costs)

    def _learned_window(self, name: str) -> Window:
        return AUTO if name in self.texts else 4

    def _learned(self) -> tuple[int, int]:
        return self.sizes.learned_rows, self.sizes.tested_rows

    def _distances(self, bags: BagSet, hasher: WTAHash) -> tuple[Any, Any]:
        """Return code distances of queries to rows, and which rows have the query's label."""
        n, q = self.sizes.rows, self.sizes.queries
        _fitted(hasher, bags.X[:n])
        table = distances(hasher.encode(bags.Q[:q]), hasher.encode(bags.X[:n]))
        return table, bags.yq[:q, None] == bags.y[None, :n]

    def _ranks_of(self, name: str, n: int) -> npt.NDArray[np.int64]:
        if name not in self._ranks:
            ranks = np.geomspace(1, n, self.sizes.n_ranks).round().astype(np.int64)
            self._ranks[name] = np.unique(np.append(ranks, 100))
        return self._ranks[name]


def max_middle(sizes: DensifiedSizes) -> int:
    """Return the middle number of codes, the larger of two."""
    return sizes.codes[len(sizes.codes) // 2]


def codes_in(n_bytes: int, alphabet: int) -> int:
    """Return how many codes of so many values fit into some bytes."""
    return 8 * n_bytes // (alphabet - 1).bit_length()


def made(
    method: str,
    n_codes: int,
    window: Window,
    seed: int,
    alphabet: int = LARGE,
    layout: str = "partition",
    *,
    reduced: bool = False,
) -> WTAHash:
    """Return a hasher of counts as they are. Plain codes have as many values as a window, and so
    need the fewest bits, unless they are to be `reduced` too.
    """
    return WTAHash(
        n_codes, window, densify=_FILLERS[method], center=False, scale=False, layout=layout,
        alphabet_size=alphabet if reduced or method != WTA else None, random_state=seed,
    )  # fmt: skip


def _fitted(hasher: WTAHash, rows: Any) -> WTAHash:
    """Fit without what WTAHash warns of in sparse rows that it may not densify: that is the point
    here.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return hasher.fit(rows)
