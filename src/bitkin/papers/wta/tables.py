"""Tables and figures of WTA, from what was measured."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from bitkin import theory
from bitkin.papers.report import (
    Curve,
    Panel,
    ResultFigure,
    ResultTable,
)
from bitkin.papers.scores import Scores
from bitkin.papers.wta import patches
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
    MATCHED,
    MATCHERS,
    PAPER,
    PAPER_BANDED,
    PIXELS,
    RAW,
    RIVALS,
    SIFT,
    WINDOWS,
    Variant,
    label_of,
)

_SHOWN = (PAPER, DEFAULT)
_BANDED = (PAPER_BANDED, BANDED_DEFAULT)
_PAPER_ERRORS = {PIXELS: (0.680, 0.564), SIFT: (0.362, 0.247)}


class ComparativeTables:
    """What was measured, as tables and figures."""

    def __init__(
        self, scores: Scores, sets: list[str], bags: list[str], sizes: dict[str, Any]
    ) -> None:
        self.scores, self.sets, self.bags = scores, sets, bags
        self.bits: tuple[int, ...] = sizes["bits"]
        self.features: tuple[int, ...] = sizes["features"]
        self.n_places = len(np.unique(np.geomspace(1, sizes["rows"], sizes["n_ranks"]).round()))
        self.chi_words: int = sizes["chi_words"]

    # Tables.

    def retrieval_table(self) -> ResultTable:
        """Return the codes of the paper and ours beside their rivals."""
        return ResultTable(
            "retrieval",
            "Figure 3 (a)–(c) in one number: mean average precision by bits.",
            ("set", "method", *(f"{bits} bits" for bits in self.bits)),
            tuple(
                (
                    one,
                    label_of(method),
                    *(self.scores.mean(("map", one, bits, method)) for bits in self.bits),
                )
                for one in self.sets
                for method in (*_SHOWN, *RIVALS)
            ),
        )

    def variant_table(self, one: str) -> ResultTable:
        """Return every degree and window, with and without centring."""
        return ResultTable(
            f"variants_{one}",
            f"Degrees and windows on {one}: mean average precision by bits.",
            ("p", "K", "rows", *(f"{bits} bits" for bits in self.bits)),
            tuple(
                (
                    degree,
                    window,
                    rows,
                    *(
                        self.scores.mean(("map", one, bits, (degree, window, rows)))
                        for bits in self.bits
                    ),
                )
                for degree in DEGREES
                for window in WINDOWS
                for rows in (AS_THEY_ARE, CENTRED)
            ),
        )

    def banded_table(self) -> ResultTable:
        """Return look-up by bytes."""
        rows: list[tuple[Any, ...]] = []
        for one in self.sets:
            for method in (*_BANDED, *RIVALS):
                cells: list[Any] = []
                for bits in self.bits:
                    key = (one, bits, method)
                    cells += [
                        self.scores.mean(("banded map", *key)),
                        f"{self.mean(('candidates', *key)):.1%}",
                    ]
                rows.append((one, label_of(method), *cells))
        columns = [c for bits in self.bits for c in (f"{bits} bits", f"looked at, {bits} bits")]
        return ResultTable(
            "banded",
            "Figure 3 (d)–(f): every byte of a code is a key of its own table, and rows are ranked "
            "by how many keys they share with the query. Mean average precision, and the share of "
            "rows that share any.",
            ("set", "method", *columns),
            tuple(rows),
        )

    def matching_table(self) -> ResultTable:
        """Return the matching of patches."""
        rows = []
        for kind in (PIXELS, SIFT):
            for matcher in MATCHERS:
                paper = {EUCLIDEAN: _PAPER_ERRORS[kind][0], CODES: _PAPER_ERRORS[kind][1]}
                means = (self.scores.mean((e, kind, matcher)) for e in ("error", "clear error"))
                rows.append((kind, matcher, *means, paper.get(matcher)))
        return ResultTable(
            "matching",
            "Section 5.2: share of false matches at 95 % recall, K = 2, of all patches and of "
            f"those that are not pale (a standard deviation above {CLEAR_CONTRAST:g} of 255: "
            f"{self.mean(('clear',)):.0%} of them), with the paper's on other patches.",
            ("descriptor", "distance", "false matches", "not pale", "the paper's"),
            tuple(rows),
        )

    def change_table(self) -> ResultTable:
        """Return the matching of patches by what was done to copies."""
        return ResultTable(
            "matching_by_change",
            "The same where copies have one change only.",
            ("descriptor", "distance", *patches.CHANGES),
            tuple(
                (
                    kind,
                    matcher,
                    *(self.scores.mean(("error", kind, matcher, one)) for one in patches.CHANGES),
                )
                for kind in (PIXELS, SIFT)
                for matcher in MATCHERS
            ),
        )

    def classification_table(self) -> ResultTable:
        """Return figure 5 as a table."""
        return ResultTable(
            "classification",
            "Figure 5: accuracy of a linear SVM on codes, K = 4, beside machines on the bags "
            "(the paper has median average precision of 20 classes).",
            ("bags", RAW, CHI_SQUARE, *(f"{n:,} codes" for n in self.features)),
            tuple(
                (
                    one,
                    self.mean(("accuracy", one, RAW)),
                    self.mean(("accuracy", one, CHI_SQUARE)) if self.has_chi(one) else None,
                    *(self.scores.mean(("accuracy", one, n)) for n in self.features),
                )
                for one in self.bags
            ),
        )

    def distortion_table(self) -> ResultTable:
        """Return what distortions do to codes."""
        return ResultTable(
            "distortions",
            "Share of symbols that are the same after a distortion of all rows. Signs have two "
            "values: half of them would be the same by chance.",
            ("set", "codes", *DISTORTIONS),
            tuple(
                (
                    one,
                    encoder,
                    *(self.mean(("kept", one, encoder, what)) for what in DISTORTIONS),
                )
                for one in self.sets
                for encoder in ENCODERS
            ),
        )

    def formula_table(self) -> ResultTable:
        """Return the paper's formulas beside what codes do."""
        rows: list[tuple[Any, ...]] = [
            (
                f"S_K, Eq. 6, K = {window}, n = 30",
                self.mean(("S_K", window)),
                self.mean(("S_K met", window)),
            )
            for window in (2, 4, 8)
        ]
        rows += [
            ("share of pairs in the same order, Eq. 1, n = 30: K = 2",
             *self.pair("pairwise order", "S_2 met")),
            ("MinHash: binary rows, K = n = 60: Jaccard", *self.pair("Jaccard", "Jaccard met")),
            ("degree 2, K = 4, n = 5, beside WTA on all 25 products",
             *self.pair("products", "degree 2")),
            ("Eq. 5 as printed, n = 6, K = 4: sum of all chances", 1.0, printed_sum(6, 4)),
            ("Eq. 5 corrected", 1.0, float(theory.winner_rank_distribution(6, 4).sum())),
        ]  # fmt: skip
        return ResultTable(
            "formulas",
            "Formulas of the paper: what is expected, and what came out of 40,000 codes.",
            ("formula", "expected", "found"),
            tuple(rows),
        )

    def time_table(self) -> ResultTable:
        """Return what a degree costs."""
        return ResultTable(
            "seconds",
            f"Processor seconds to encode the rows of {self.sets[0]}, 1,024 codes, K = 4, medians.",
            tuple(f"p = {degree}" for degree in DEGREES),
            (tuple(self.encode_seconds(degree) for degree in DEGREES),),
        )

    # Figures.

    def figure_2(self) -> ResultFigure:
        """Return the paper's figure 2."""
        n = 100
        ranks, worth = [], []
        for window in WINDOWS:
            chances = theory.winner_rank_distribution(n, window)
            x = tuple(range(n))
            ranks.append(Curve(f"K = {window}", x, tuple(chances.tolist())))
            amount = tuple((chances[::-1] / chances[0]).tolist())
            worth.append(Curve(f"K = {window}", x, amount))
        return ResultFigure(
            "figure-2",
            "Figure 2: (a) how often the feature of a rank wins, (b) what agreement at one feature "
            "adds to the similarity; n = 100.",
            (
                Panel("(a)", "rank of the winner", "rate of sampling", tuple(ranks)),
                Panel("(b)", "R(X, Y) at a feature", "contribution", tuple(worth)),
            ),
        )

    def figure_3(self) -> ResultFigure:
        """Return precision against recall."""
        return self._retrieval_figure(
            "figure-3", "whole", _SHOWN, "Figure 3 (a)–(c): precision against recall."
        )

    def figure_3_banded(self) -> ResultFigure:
        """Return precision against recall of look-ups."""
        return self._retrieval_figure(
            "figure-3-banded",
            "bands",
            _BANDED,
            "Figure 3 (d)–(f): precision against recall, ranked by the number of bytes that hit.",
        )

    def _retrieval_figure(
        self, name: str, kind: str, variants: tuple[Variant, ...], caption: str
    ) -> ResultFigure:
        panels = []
        for bits in self.bits:
            for one in self.sets:
                curves = []
                methods: list[Variant | str] = [*variants, *RIVALS]
                for method in methods:
                    recall, precision = (
                        tuple(
                            self.mean((kind, what, one, bits, method, place))
                            for place in range(self.n_places)
                        )
                        for what in ("recall", "precision")
                    )
                    curves.append(Curve(label_of(method), recall, precision))
                panels.append(Panel(f"{one}, {bits} bits", "Recall", "Precision", tuple(curves)))
        return ResultFigure(name, caption, tuple(panels), n_columns=len(self.sets))

    def figure_4(self) -> ResultFigure:
        """Return true matches against false ones."""
        panels = []
        for kind in (PIXELS, SIFT):
            curves = []
            for matcher in MATCHERS:
                errors = [self.mean(("false matches", kind, matcher, one)) for one in MATCHED]
                curves.append(Curve(matcher, tuple(errors), MATCHED))
            panels.append(Panel(kind, "false matches", "true matches", tuple(curves)))
        return ResultFigure(
            "figure-4",
            "Figure 4: true matches of patches against false ones, one threshold for all pairs.",
            tuple(panels),
        )

    def figure_5(self) -> ResultFigure:
        """Return accuracy against the number of codes."""
        panels = []
        for one in self.bags:
            means = [self.scores.mean(("accuracy", one, n)) for n in self.features]
            curves = [Curve.of_means("WTA codes", self.features, means)]
            for label in (RAW, CHI_SQUARE):
                if label == RAW or self.has_chi(one):
                    height = self.mean(("accuracy", one, label))
                    curves.append(Curve(label, (0.0,), (height,), flat=True))
            panels.append(Panel(one, "number of codes", "accuracy", tuple(curves), log_x=True))
        return ResultFigure(
            "figure-5",
            "Figure 5: accuracy of a linear SVM on codes against their number, with the lines of "
            "machines on the bags.",
            tuple(panels),
        )

    def encode_seconds(self, degree: int) -> float:
        """Return how long it takes to encode."""
        return float(np.median(self.scores.values(("encode", degree))))

    def has_chi(self, one: str) -> bool:
        """Return whether the χ² kernel of a dictionary was computed."""
        return int(one.rpartition("_")[2]) <= self.chi_words

    def ratio(self, one: str, bits: int, method: Any, other: Any) -> float:
        """Return the ratio of two mean average precisions, mean over the runs."""
        return self.scores.ratio(("map", one, bits, method), ("map", one, bits, other)).mean

    def pair(self, expected: str, found: str) -> tuple[float, float]:
        """Return what a formula expects, and what was found."""
        return self.mean((expected,)), self.mean((found,))

    def mean(self, key: Hashable) -> float:
        """Return the mean over the runs."""
        return self.scores.mean(key).mean


def printed_sum(n: int, window: int) -> float:
    """Return the sum of the chances of Eq. 5 as printed: with K / n in place of K / (n − j)."""
    chances = theory.winner_rank_distribution(n, window)
    return float(sum(chance * (n - j) / n for j, chance in enumerate(chances)))
