"""Tables and figures of DWTA, from what was measured."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

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
    SIGNS,
    WTA,
    Window,
)
from bitkin.papers.report import (
    Curve,
    MeanOfRuns,
    Panel,
    ResultFigure,
    ResultTable,
)
from bitkin.papers.scores import Scores


class DensifiedTables:
    """What was measured, as tables and figures."""

    def __init__(
        self,
        scores: Scores,
        sets: list[str],
        texts: list[str],
        sizes: dict[str, Any],
        ranks: dict[str, npt.NDArray[np.int64]],
    ) -> None:
        self.scores, self.sets, self.texts, self.ranks = scores, sets, texts, ranks
        self.codes: tuple[int, ...] = sizes["codes"]
        self.wide_codes: tuple[int, ...] = sizes["wide_codes"]
        self.swept: tuple[int, ...] = sizes["swept_windows"]
        self.features: tuple[int, ...] = sizes["features"]
        self.learned_codes: int = sizes["learned_codes"]
        self.middle: int = self.codes[len(self.codes) // 2]
        self.n_bytes: int = sizes["n_bytes"]
        self.many_codes: int = sizes["many_codes"]

    # Tables.

    def sparsity_table(self) -> ResultTable:
        """Return figure 4."""
        return ResultTable(
            "sparsity",
            "Figure 4: zeros among the counts, and empty windows among the codes; beside them what "
            "`theory.empty_share` expects of rows with so many nonzeros.",
            ("set", "zeros", "empty, K = 4", "expected", "empty, K = 16", "expected, K = 16"),
            tuple(
                (
                    one,
                    self.mean(("zeros", one)),
                    *(
                        self.mean((kind, one, window))
                        for window in (4, 16)
                        for kind in ("empty", "expected empty")
                    ),
                )
                for one in self.sets
            ),
        )

    def theorem_table(self) -> ResultTable:
        """Return Theorem 1 on pairs of real rows."""
        return ResultTable(
            "theorem",
            "Theorem 1: how often codes (K = 4, R = 65,536) of two rows meet, means over random "
            "pairs, beside the kernels; and the mean distance from the good kernel, pair by pair.",
            (
                "set", "k_good", "k_wta", *(f"{method} meets" for method in METHODS),
                *(f"{method} from k_good" for method in METHODS),
            ),
            tuple(
                (
                    one,
                    self.mean(("good kernel", one)),
                    self.mean(("plain kernel", one)),
                    *(self.mean(("meeting", one, method)) for method in METHODS),
                    *(self.mean(("from good", one, method)) for method in METHODS),
                )
                for one in self.sets
            ),
        )  # fmt: skip

    def retrieval_table(self, kind: str, name: str, what: str) -> ResultTable:
        """Return retrieval at equal numbers of codes."""
        columns = [(4, n) for n in self.codes] + [(16, n) for n in self.wide_codes]
        return ResultTable(
            name,
            f"Retrieval at equal numbers of codes, {what}; R = {LARGE} for densified codes, which "
            "then take four times the bytes of plain ones at K = 4, twice at K = 16.",
            ("set", "method", *(f"K = {window}, {n} codes" for window, n in columns)),
            tuple(
                (
                    one,
                    method,
                    *(self.scores.mean((kind, one, window, n, method)) for window, n in columns),
                )
                for one in self.sets
                for method in METHODS
            ),
        )

    def kernel_table(self) -> ResultTable:
        """Return retrieval by the kernels themselves."""
        return ResultTable(
            "kernels",
            f"What the kernels are worth: mean average precision by {self.many_codes:,} codes, so "
            "many that hardly any chance is left, K = 4.",
            ("set", "empty", *METHODS),
            tuple(
                (
                    one,
                    f"{self.mean(('empty', one, 4)):.0%}",
                    *(self.mean(("kernel", one, method)) for method in METHODS),
                )
                for one in self.sets
            ),
        )

    def alphabet_table(self, kind: str) -> ResultTable:
        """Return what R does to retrieval."""
        size = f"{self.middle} codes" if kind == EQUAL_CODES else f"{self.n_bytes} bytes"
        rows: list[tuple[Any, ...]] = []
        for one in self.sets:
            for K in self.swept:
                plain = self.scores.mean((kind, one, K, WTA, K))
                rows.append((one, str(K), WTA, plain, *(None for _ in ALPHABETS)))
                rows.append((one, str(K), OPTIMAL, None, *self._by_alphabet(kind, one, K, OPTIMAL)))
        rows += [
            (one, AUTO, method, None, *self._by_alphabet(kind, one, AUTO, method))
            for one in self.texts
            for method in (WTA, OPTIMAL)
        ]
        return ResultTable(
            kind.replace(" ", "_"),
            f"Mean average precision by R at {kind}, {size}.",
            ("set", "K", "method", "not reduced", *(f"R = {alphabet}" for alphabet in ALPHABETS)),
            tuple(rows),
        )

    def _by_alphabet(self, kind: str, one: str, window: Window, method: str) -> list[MeanOfRuns]:
        return [self.scores.mean((kind, one, window, method, R)) for R in ALPHABETS]

    def learned_table(self) -> ResultTable:
        """Return what R does to classification."""
        cells = [(WTA, PLAIN_ALPHABET), *((OPTIMAL, R) for R in LEARNED_ALPHABETS)]
        n = self.learned_codes
        return ResultTable(
            "classification_by_r",
            f"Accuracy of a linear SVM on one-hot codes by R, at equal codes ({n:,}) and at equal "
            f"bytes ({n:,}); K = 4, for texts auto, R = {PLAIN_ALPHABET} for plain codes.",
            ("set", "equal", *(f"{_short(method)}, R = {R}" for method, R in cells)),
            tuple(
                (
                    one,
                    kind.removeprefix("equal "),
                    *(self.scores.mean(("learned", kind, one, *cell)) for cell in cells),
                )
                for one in (*self.sets, *self.texts)
                for kind in (EQUAL_CODES, EQUAL_BYTES)
            ),
        )

    def classification_table(self) -> ResultTable:
        """Return figure 5 as a table."""
        rows: list[tuple[Any, ...]] = []
        for one in (*self.sets, *self.texts):
            rows += [
                (one, method, *(self.accuracy(one, n, method) for n in self.features))
                for method in METHODS
            ]
            raw = self.scores.mean(("accuracy", one, RAW))
            rows.append((one, RAW, *(raw for _ in self.features)))
        return ResultTable(
            "classification",
            f"Figure 5: accuracy of a linear SVM on one-hot codes, K = 4, for texts "
            f"auto, R = {LARGE}.",
            ("set", "method", *(f"{n:,} codes" for n in self.features)),
            tuple(rows),
        )

    def text_table(self) -> ResultTable:
        """Return retrieval of texts."""
        return ResultTable(
            "texts",
            f"Texts: mean average precision by label at equal numbers of codes, R = {LARGE}, with "
            'K = 4 and 16 and with the window that `window="auto"` chooses.',
            ("set", "K", "empty", "method", *(f"{n} codes" for n in self.codes)),
            tuple(
                (
                    one,
                    " / ".join(
                        f"{self.mean(('window', one, w, n, method)):.0f}" for n in self.codes
                    )
                    + (" (auto)" if w == AUTO else ""),
                    " / ".join(
                        f"{self.mean(('empty', one, w, n, method)):.0%}" for n in self.codes
                    ),
                    method,
                    *(self.scores.mean(("map", one, w, n, method)) for n in self.codes),
                )
                for one in self.texts
                for w in (4, 16, AUTO)
                for method in METHODS
            ),
        )

    def time_table(self) -> ResultTable:
        """Return what densification costs."""
        return ResultTable(
            "seconds",
            "Processor seconds to encode all rows, 256 codes, K = R = 4, medians; and as many "
            "signs of random projections.",
            ("set", *METHODS, SIGNS),
            tuple(
                (one, *(self.seconds(one, method) for method in (*METHODS, SIGNS)))
                for one in self.sets
            ),
        )

    # Figures.

    def figure_5(self) -> ResultFigure:
        """Return accuracy against the number of codes."""
        panels = []
        for one in (*self.sets, *self.texts):
            curves = [
                Curve.of_means(
                    method, self.features, [self.accuracy(one, n, method) for n in self.features]
                )
                for method in METHODS
            ]
            raw = self.mean(("accuracy", one, RAW))
            curves.append(Curve(RAW, (0.0,), (raw,), flat=True))
            panels.append(Panel(one, "number of hashes", "accuracy", tuple(curves), log_x=True))
        return ResultFigure(
            "figure-5",
            "Figure 5: accuracy of a linear SVM on codes against the number of codes; the line "
            "without marks is one on the bags as they are.",
            tuple(panels),
        )

    def figure_6(self) -> ResultFigure:
        """Return precision against recall."""
        panels = []
        for one in self.sets:
            curves = []
            for n in self.codes:
                for method in (WTA, OPTIMAL):
                    key = (one, 4, n, method)
                    places = range(len(self.ranks[one]))
                    recall = tuple(self.mean(("recall", *key, place)) for place in places)
                    precision = tuple(self.mean(("precision", *key, place)) for place in places)
                    curves.append(Curve(f"{method}, {n} codes", recall, precision))
            panels.append(Panel(one, "Recall", "Precision", tuple(curves)))
        return ResultFigure(
            "figure-6",
            "Figure 6: precision against recall at equal numbers of codes, K = 4, means of all "
            "runs.",
            tuple(panels),
        )

    # What they are made of.

    def accuracy(self, one: str, n: int, method: str) -> MeanOfRuns:
        """Return the accuracy of a machine on codes."""
        return self.scores.mean(("accuracy", one, n, method))

    def seconds(self, one: str, method: str) -> float:
        """Return how long a method takes to encode a set."""
        return float(np.median(self.scores.values(("encode", one, method))))

    def mean(self, key: Hashable) -> float:
        """Return the mean of all runs."""
        return self.scores.mean(key).mean


def _short(method: str) -> str:
    return "WTA" if method == WTA else "densified"
