"""Tables and figures of STREAM, from what was measured."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from bitkin.papers.report import Curve, MeanOfRuns, Panel, ResultFigure, ResultTable
from bitkin.papers.scores import Scores
from bitkin.papers.stream.names import (
    AS_THEY_ARE,
    EMITTED,
    EPOCHS,
    ESTIMATED,
    KINDS,
    LENGTH_1,
    METHODS,
    NONE,
    OFFLINE,
    REASONS,
    REENCODED,
    methods_for,
)

_LABELS = {
    EMITTED: "codes as they were emitted",
    REENCODED: "rows re-encoded by the current model",
    EPOCHS: "codes of epochs",
}


class StreamTables:
    """What was measured, as tables and figures."""

    def __init__(self, scores: Scores, sets: list[str], sizes: dict[str, Any]) -> None:
        self.scores, self.sets = scores, sets
        self.bits: tuple[int, ...] = sizes["bits"]
        self.marks = [round(point * sizes["rows"]) for point in sizes["points"]]
        self.shown_bits: int = sizes["shown_bits"]

    # Tables.

    def end_table(self, kind: str) -> ResultTable:
        """Return the precision at the end of the stream."""
        rows: list[tuple[Any, ...]] = []
        for one in self.sets:
            rows += [
                (one, method, *(self.end(kind, one, bits, method) for bits in self.bits))
                for method in METHODS
            ]
            offline = (self.scores.mean((OFFLINE, one, bits, self.marks[-1])) for bits in self.bits)
            rows.append((one, OFFLINE, *offline))
        return ResultTable(
            kind,
            f"Mean average precision at the end of the stream, {_LABELS[kind]}.",
            ("set", "method", *(f"c = {bits}" for bits in self.bits)),
            tuple(rows),
        )

    def share_table(self) -> ResultTable:
        """Return every method as a share of what all rows at once give."""
        end = self.marks[-1]
        return ResultTable(
            "share_of_offline",
            f"Mean average precision at the end of the stream as a share of {OFFLINE} on the same "
            "rows and queries, ± standard error.",
            ("set", "codes", "method", *(f"c = {bits}" for bits in self.bits)),
            tuple(
                (
                    one,
                    kind,
                    method,
                    *(
                        self.scores.ratio((kind, one, bits, method, end), (OFFLINE, one, bits, end))
                        if method in methods_for(bits)
                        else None
                        for bits in self.bits
                    ),
                )
                for one in self.sets
                for kind in KINDS
                for method in METHODS
            ),
        )

    def estimate_table(self) -> ResultTable:
        """Return the three kinds of codes and the estimate side by side."""
        bits = self.shown_bits
        return ResultTable(
            "kinds",
            f"Which codes are searched, c = {bits}: mean average precision by Hamming distance, "
            "and of `EpochIndex`, which ranks the codes of all epochs by one estimate.",
            ("set", "method", *KINDS, "epochs, estimate", "number of epochs"),
            tuple(
                (
                    one,
                    method,
                    *(self.end(kind, one, bits, method) for kind in KINDS),
                    self.scores.mean(("estimate", one, bits, method))
                    if method in ESTIMATED
                    else None,
                    f"{self.mean(('n epochs', one, bits, method)):.1f}",
                )
                for one in self.sets
                for method in methods_for(bits)
            ),
        )

    def reasons_table(self) -> ResultTable:
        """Return what equal variances do."""
        return ResultTable(
            "reasons",
            "Why a random rotation can be ahead: offline PCA and a rotation, "
            f"c = {self.shown_bits}. Rows as they are, and without their lengths; mean average "
            "precision, and how much of a bit's variance its strongest principal direction has. "
            "The first direction has "
            + each_of(
                {one: self.mean(("first direction", one, AS_THEY_ARE)) for one in self.sets},
                "{:.0%}",
            )
            + " of the variance.",
            ("set", "rows", "rotation", "precision", "strongest direction"),
            tuple(
                (
                    one,
                    rows,
                    rotation,
                    self.scores.mean(("reason", one, rows, rotation)),
                    self.mean(("strongest", one, rows, rotation)),
                )
                for one in self.sets
                for rows in (AS_THEY_ARE, LENGTH_1)
                for rotation in REASONS
            ),
        )

    def memory_table(self) -> ResultTable:
        """Return what a method must hold."""
        return ResultTable(
            "memory",
            "Bytes of the state of a stream (a pickle, 16 recent vectors included), whatever its "
            "length.",
            ("set", "method", *(f"c = {bits}" for bits in self.bits)),
            tuple(
                (
                    one,
                    method,
                    *(
                        round(self.mean(("bytes", one, bits, method)))
                        if method in methods_for(bits)
                        else None
                        for bits in self.bits
                    ),
                )
                for one in self.sets
                for method in METHODS
            ),
        )

    def uniform_table(self) -> ResultTable:
        """Return how uniform the diagonal becomes, and how well OPAST tracks."""
        return ResultTable(
            "unifdiag",
            "Algorithm 1 on the covariance of PCA's projection: (largest − smallest variance of a "
            "bit) / mean before and after, ‖RᵀR − I‖, the largest of all orders; and the variance "
            "that OPAST captures in one pass, of PCA's.",
            ("set", "c", "before", "after", "‖RᵀR − I‖", "OPAST's variance"),
            tuple(
                (
                    one,
                    bits,
                    self.mean(("spread before", one, bits)),
                    max(self.scores.values(("spread", one, bits))),
                    max(self.scores.values(("orthonormal", one, bits))),
                    self.variance(one, bits),
                )
                for one in self.sets
                for bits in self.bits
            ),
        )

    def time_table(self) -> ResultTable:
        """Return the time that a vector takes."""
        return ResultTable(
            "microseconds",
            "Processor microseconds per vector: code, tracking, rotation; medians of orders.",
            ("set", "method", *(f"c = {bits}" for bits in self.bits)),
            tuple(
                (
                    one,
                    method,
                    *(
                        self.microseconds(one, bits, method)
                        if method in methods_for(bits)
                        else None
                        for bits in self.bits
                    ),
                )
                for one in self.sets
                for method in METHODS
            ),
        )

    # Figures.

    def figure(self, bits: int) -> ResultFigure:
        """Return precision along the stream, a panel for every set and kind of codes."""
        panels = []
        for kind in KINDS:
            for one in self.sets:
                curves = [
                    Curve.of_means(
                        method,
                        self.marks,
                        [self.scores.mean((kind, one, bits, method, mark)) for mark in self.marks],
                    )
                    for method in methods_for(bits)
                ]
                offline = [self.scores.mean((OFFLINE, one, bits, mark)) for mark in self.marks]
                curves.append(Curve.of_means(OFFLINE, self.marks, offline))
                panels.append(
                    Panel(f"{one}, {kind}", "number of data seen", "mAP", tuple(curves), log_x=True)
                )
        return ResultFigure(
            f"figure-{bits}-bits",
            f"Figures 1 and 2: mAP for c = {bits} along the stream, for codes as they were emitted "
            "(the paper's process), for rows re-encoded by the current model, and with epochs. The "
            "rows so far are searched, and the more there are, the lower is mAP, for offline ITQ "
            "too: look at the distance from it.",
            tuple(panels),
            n_columns=len(self.sets),
        )

    # What they are made of.

    def end(self, kind: str, one: str, bits: int, method: str) -> MeanOfRuns | None:
        """Return the precision at the end of the stream, of methods that can make so many bits."""
        if method not in methods_for(bits):
            return None
        return self.scores.mean((kind, one, bits, method, self.marks[-1]))

    def ratio(self, kind: str, one: str, bits: int, method: str, other: str) -> MeanOfRuns:
        """Return the ratio of two methods at the end of the stream."""
        end = self.marks[-1]
        return self.scores.ratio((kind, one, bits, method, end), (kind, one, bits, other, end))

    def ratio_of_kinds(self, kind: str, other: str, one: str, bits: int, method: str) -> float:
        """Return the ratio of two kinds of codes of a method at the end of the stream."""
        end = self.marks[-1]
        return self.scores.ratio(
            (kind, one, bits, method, end), (other, one, bits, method, end)
        ).mean

    def variance(self, one: str, bits: int) -> MeanOfRuns:
        """Return what OPAST captures of PCA's variance."""
        return self.scores.ratio(("variance", one, bits, NONE), ("variance", one, bits, OFFLINE))

    def microseconds(self, one: str, bits: int, method: str) -> float:
        """Return the time that a vector takes."""
        return float(np.median(self.scores.values(("µs", one, bits, method))))

    def mean(self, key: Hashable) -> float:
        """Return the mean of all orders."""
        return self.scores.mean(key).mean


def each_of(values: dict[str, float], form: str) -> str:
    """Return values by name as words."""
    return ", ".join(f"{form.format(value)} on {one}" for one, value in values.items())
