"""Tables and figures of HESHING, from what was measured."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from bitkin.papers.heshing.names import FLATHASH, HESHING, LOW, METHODS, TIMED
from bitkin.papers.report import Curve, MeanOfRuns, Panel, ResultFigure, ResultTable
from bitkin.papers.scores import Scores

KINDS = ("flat", "hierarchical")


class HashedTreeTables:
    """What was measured, as tables and figures."""

    def __init__(
        self, scores: Scores, sets: list[str], curves: list[str], sizes: dict[str, Any]
    ) -> None:
        self.scores, self.sets, self.curves = scores, sets, curves
        self.curve_bits: tuple[int, ...] = sizes["curve_bits"]
        self.passes: tuple[int, ...] = sizes["optimum_passes"]
        self.alphas: tuple[float, ...] = sizes["alphas"]

    # Tables.

    def sets_table(self) -> ResultTable:
        """Return the paper's Table 1 for our sets."""
        fields = ("T", "classes", "features", "rows", "tested", "buckets")
        return ResultTable(
            "sets",
            "Table 1: our sets. T counts levels with the root; buckets are the paper's m.",
            ("set", "dimension", *fields),
            tuple(
                (
                    one,
                    "low" if one in LOW else "high",
                    *(round(self.mean((field, one))) for field in fields),
                )
                for one in self.sets
            ),
        )

    def error_table(self, kind: str) -> ResultTable:
        """Return the paper's Table 2 for one kind of error."""
        return ResultTable(
            f"{kind}_error",
            f"Table 2: {kind} error on test rows, means of seeds ± standard error.",
            ("method", *self.sets),
            tuple(
                (method, *(self.error(kind, one, method) for one in self.sets))
                for method in METHODS
            ),
        )

    def memory_table(self) -> ResultTable:
        """Return figure 3 as a table."""
        return ResultTable(
            "memory",
            "Figure 3: kilobytes that a machine must keep, weights in float32.",
            ("method", *self.sets),
            tuple(
                (method, *(self.mean(("bytes", one, method)) / 1024 for one in self.sets))
                for method in METHODS
            ),
        )

    def theorem_table(self) -> ResultTable:
        """Return Theorem 2 beside a count."""
        return ResultTable(
            "theorem_2",
            "Theorem 2: of 20,000 features in 2^16 buckets, how many meet others in every one of T "
            "tables.",
            ("T", "counted", "expected", "the paper's bound"),
            tuple(
                (
                    T,
                    round(self.mean(("lost", T))),
                    self.mean(("lost exact", T)),
                    self.mean(("lost bound", T)),
                )
                for T in (1, 2, 3)
            ),
        )

    def optimum_table(self) -> ResultTable:
        """Return problem (2) by passes."""
        rows: list[tuple[Any, ...]] = []
        for alpha in self.alphas:
            least = min(self.mean(("objective", alpha, passes)) for passes in self.passes)
            rows += [
                (
                    f"{alpha:g}",
                    passes,
                    self.scores.mean(("objective", alpha, passes)),
                    self.mean(("objective", alpha, passes)) / least,
                    self.scores.mean(("objective error", alpha, passes)),
                )
                for passes in self.passes
            ]
        return ResultTable(
            "optimum",
            "Problem (2), λ/2·‖w‖² + mean hinge, at the end of a fit of so many passes: 300 rows, "
            "5 classes, 2^10 buckets, three draws; and the error on 1,000 other rows.",
            ("λ", "passes", "objective", "of the least", "test error"),
            tuple(rows),
        )

    def time_table(self) -> ResultTable:
        """Return what a fit takes."""
        return ResultTable(
            "seconds",
            "Processor seconds of a fit of ten passes with a known penalty, medians of seeds.",
            ("method", *self.sets),
            tuple((method, *(self.seconds(one, method) for one in self.sets)) for method in TIMED),
        )

    # Figures.

    def figure_3(self) -> ResultFigure:
        """Return the memory of machines."""
        shown = (self.curves or self.sets)[:2]
        return ResultFigure(
            "figure-3",
            "Figure 3: memory of the machines, logarithmic.",
            tuple(
                Panel(
                    one,
                    "kilobytes",
                    "",
                    (),
                    log_x=True,
                    bars=tuple(
                        (
                            method.replace("FlatHash, equal total memory", "FlatHash, total"),
                            self.mean(("bytes", one, method)) / 1024,
                        )
                        for method in METHODS
                    ),
                )
                for one in shown
            ),
        )

    def figure_4(self) -> ResultFigure:
        """Return errors against bits."""
        panels = []
        for one in self.curves:
            for kind in KINDS:
                curves = tuple(
                    Curve.of_means(
                        method,
                        self.curve_bits,
                        [
                            self.scores.mean((kind, "curve", one, bits, method))
                            for bits in self.curve_bits
                        ],
                    )
                    for method in (HESHING, FLATHASH)
                )
                panels.append(Panel(one, "number of bits", f"{kind} error", curves))
        return ResultFigure(
            "figure-4",
            "Figure 4: error against the bits of a table, log₂ m, at equal buckets per level.",
            tuple(panels),
        )

    # What they are made of.

    def gain(self, kind: str, key: tuple[Hashable, ...], other: tuple[Hashable, ...]) -> MeanOfRuns:
        """Return how much lower the second error is, with the standard error of seeds and rows:
        all seeds have the same test rows, so that seeds alone do not tell.
        """
        seeds = self.scores.gain((kind, *key), (kind, *other))
        rows = self.mean(("rows", kind, *key))
        return MeanOfRuns(seeds.mean, math.hypot(seeds.error or 0.0, rows), seeds.n_runs)

    def error(self, kind: str, one: str, method: str) -> MeanOfRuns:
        """Return an error of Table 2."""
        return self.scores.mean((kind, "table", one, method))

    def seconds(self, one: str, method: str) -> float:
        """Return how long a fit takes."""
        return float(np.median(self.scores.values(("seconds", one, method))))

    def mean(self, key: Hashable) -> float:
        """Return the mean of all runs."""
        return self.scores.mean(key).mean
