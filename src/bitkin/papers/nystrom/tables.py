"""Tables and figures of NYSTROM, from what was measured."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from bitkin.papers.nystrom.names import (
    FIGURE_GAMMA,
    FULL,
    GAMMAS,
    METHODS,
    MODIFIED,
    NON_UNIFORM,
    PAPER_UNIFORM,
    RANDOM,
    SWEPT,
    UNIFORM,
)
from bitkin.papers.nystrom.sizes import NystromSizes, Sweep
from bitkin.papers.report import Curve, MeanOfRuns, Panel, ResultFigure, ResultTable
from bitkin.papers.scores import Scores

_ITQ = " + ITQ"


class NystromTables:
    """What was measured, as tables and figures."""

    def __init__(self, scores: Scores, sets: list[str], sizes: NystromSizes) -> None:
        self.scores, self.sets, self.sizes = scores, sets, sizes
        self.bits = sizes.bits

    # Tables.

    def precision_table(self, kind: str, name: str, caption: str) -> ResultTable:
        """Return a row per set and method, a column per number of bits."""
        return ResultTable(
            name,
            f"{caption}, means of runs ± standard error.",
            ("set", "method, all + ITQ", *(f"{bits} bits" for bits in self.bits)),
            tuple(
                (one, method, *(self.scores.mean((kind, one, bits, method)) for bits in self.bits))
                for one in self.sets
                for method in METHODS
            ),
        )

    def ratio_table(self) -> ResultTable:
        """Return every method as a share of full PCA on the same rows."""
        return ResultTable(
            "ratio",
            "Figure 1 as shares of full PCA + ITQ on the same rows and queries, ± standard error.",
            ("set", "method, all + ITQ", *(f"{bits} bits" for bits in self.bits)),
            tuple(
                (one, method, *(self.ratio(one, bits, method) for bits in self.bits))
                for one in self.sets
                for method in METHODS[1:]
            ),
        )

    def sweep_table(self, sweep: Sweep, axis: str) -> ResultTable:
        """Return precision by the share that is swept."""
        rest = "30 % of features" if axis == "samples" else "5 % of samples"
        shares, bits = sweep.axes[axis], sweep.bits
        rows: list[tuple[Any, ...]] = []
        for one in self.sets:
            for method in SWEPT:
                cells = (self.scores.mean((axis, one, bits, share, method)) for share in shares)
                rows.append((one, method, *cells))
            for method in (FULL, RANDOM):
                mean = self.scores.mean(("sweep", one, bits, method))
                rows.append((one, method, *(mean for _ in shares)))
        return ResultTable(
            f"sweep_{axis}_{bits}_bits",
            f"Figure 2: mean average precision at {bits} bits by the share of {axis} sampled, "
            f"{rest}.",
            ("set", "method, all + ITQ", *(f"{share:.1%}" for share in shares)),
            tuple(rows),
        )

    def bound_table(self) -> ResultTable:
        """Return Theorem 2 beside what is lost."""
        rows: list[tuple[Any, ...]] = []
        for one in self.sets:
            rows += [
                (one, label, None, None, self.one(("error", one, label)), None)
                for label in (FULL, UNIFORM, PAPER_UNIFORM)
            ]
            rows += [
                (
                    one,
                    MODIFIED,
                    f"{gamma:g}",
                    int(self.one(("kept", one, gamma))),
                    self.one(("modified error", one, gamma)),
                    self.one(("bound", one, gamma)),
                )
                for gamma in GAMMAS
            ]
        return ResultTable(
            "bound",
            f"Theorem 2 beside the error ‖X − ÛÛᵀX‖ of {self.sizes.bound_bits} directions, both as "
            "shares of ‖X‖: a bound above 1 says nothing.",
            ("set", "directions", "γ", "k′", "error", "bound"),
            tuple(rows),
        )

    def seconds_table(self) -> ResultTable:
        """Return the time of the stage that finds directions."""
        ends = (self.bits[0], self.bits[-1])
        return ResultTable(
            "seconds",
            "Processor seconds to find directions (the paper's PCA stage), without ITQ, medians.",
            ("set", "method", *(f"{bits} bits" for bits in ends)),
            tuple(
                (one, method, *(self.median(("seconds", one, bits, method)) for bits in ends))
                for one in self.sets
                for method in METHODS
            ),
        )

    def memory_table(self) -> ResultTable:
        """Return the memory of that stage."""
        return ResultTable(
            "megabytes",
            f"Most memory while {self.bits[-1]} directions are found, beside the rows, in "
            "megabytes.",
            ("set", *METHODS),
            tuple(
                (one, *(self.one(("peak", one, method)) / 1e6 for method in METHODS))
                for one in self.sets
            ),
        )

    def sweep_seconds_table(self, sweep: Sweep) -> ResultTable:
        """Return the time of that stage by the shares that are sampled."""
        bits = sweep.bits
        rows: list[tuple[Any, ...]] = []
        for one in self.sets:
            for axis, shares in sweep.axes.items():
                rows += [
                    (one, axis, method, f"{s:.1%}", self.swept_seconds(axis, one, bits, s, method))
                    for method in SWEPT
                    for s in shares
                ]
            rows += [
                (one, "–", method, "–", self.swept_seconds("sweep", one, bits, method))
                for method in (FULL, RANDOM)
            ]
        return ResultTable(
            f"sweep_seconds_{bits}_bits",
            f"Figure 2 (c), (d): processor seconds to find {bits} directions, medians.",
            ("set", "swept", "method", "share", "seconds"),
            tuple(rows),
        )

    # Figures.

    def figure_1(self) -> ResultFigure:
        """Return precision against bits."""
        panels = tuple(
            Panel(
                f"mAP for {one}",
                "number of hash bits",
                "mean average precision",
                tuple(
                    Curve.of_means(
                        method + _ITQ,
                        self.bits,
                        [self.scores.mean(("map", one, bits, method)) for bits in self.bits],
                    )
                    for method in METHODS
                    if method != NON_UNIFORM
                ),
                log_x=True,
            )
            for one in self.sets
        )
        return ResultFigure(
            "figure-1",
            "Figure 1: mean average precision against hash bits, 5 % of samples and 30 % of "
            f"features, modified method with γ = {FIGURE_GAMMA:g}; bars are standard errors.",
            panels,
        )

    def figure_2(self, sweep: Sweep) -> ResultFigure:
        """Return precision against the shares that are sampled."""
        return ResultFigure(
            f"figure-2-{sweep.bits}-bits",
            f"Figure 2 (a), (b): mean average precision at {sweep.bits} bits against the share of "
            "samples (30 % of features) and of features (5 % of samples).",
            tuple(
                self._sweep_panel(one, sweep, axis, "mean average precision", self._mean_curve)
                for one in self.sets
                for axis in sweep.axes
            ),
        )

    def figure_2_times(self, sweep: Sweep) -> ResultFigure:
        """Return time against the shares that are sampled."""
        return ResultFigure(
            f"figure-2-times-{sweep.bits}-bits",
            f"Figure 2 (c), (d): processor seconds of finding {sweep.bits} directions, without "
            "ITQ.",
            tuple(
                self._sweep_panel(one, sweep, axis, "time (sec)", self._time_curve)
                for one in self.sets
                for axis in sweep.axes
            ),
        )

    def _sweep_panel(
        self,
        one: str,
        sweep: Sweep,
        axis: str,
        label: str,
        curve: Callable[[str, list[float], list[tuple[Hashable, ...]]], Curve],
    ) -> Panel:
        shares, bits = sweep.axes[axis], sweep.bits
        x = [100 * share for share in shares]

        def fixed(method: str) -> Curve:
            return curve(method, x, [("sweep", one, bits, method)] * len(x))

        curves = [curve(m, x, [(axis, one, bits, share, m) for share in shares]) for m in SWEPT]
        return Panel(
            one,
            f"sampling ratio (%) of {axis}",
            label,
            (fixed(FULL), *curves, fixed(RANDOM)),
            log_x=True,
        )

    def _mean_curve(self, method: str, x: list[float], keys: list[tuple[Hashable, ...]]) -> Curve:
        return Curve.of_means(method + _ITQ, x, [self.scores.mean(key) for key in keys])

    def _time_curve(self, method: str, x: list[float], keys: list[tuple[Hashable, ...]]) -> Curve:
        return Curve(method, tuple(x), tuple(self.swept_seconds(*key) for key in keys))

    # What they are made of.

    def swept_seconds(self, *key: Hashable) -> float:
        """Return how long it took to find directions in a sweep."""
        return self.median(("time", *key))

    def ratio(self, one: str, bits: int, method: str) -> MeanOfRuns:
        """Return a method's precision as a share of full PCA's."""
        return self.scores.ratio(("map", one, bits, method), ("map", one, bits, FULL))

    def one(self, key: Hashable) -> float:
        """Return the mean of all runs."""
        return self.scores.mean(key).mean

    def median(self, key: Hashable) -> float:
        """Return the median of all runs, as of times."""
        return float(np.median(self.scores.values(key)))
