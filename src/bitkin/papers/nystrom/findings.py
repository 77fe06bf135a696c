"""Tables, figures and claims of NYSTROM, from what was measured."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from bitkin.papers.nystrom.names import (
    FIGURE_GAMMA,
    FULL,
    GAMMAS,
    METHODS,
    MODIFIED,
    NON_UNIFORM,
    PAPER_NON_UNIFORM,
    PAPER_UNIFORM,
    RANDOM,
    UNIFORM,
)
from bitkin.papers.report import (
    Claim,
    Curve,
    MeanOfRuns,
    Panel,
    PaperReport,
    ResultFigure,
    ResultTable,
    grade,
)
from bitkin.papers.scores import Scores

_SWEPT = (UNIFORM, PAPER_UNIFORM, PAPER_NON_UNIFORM)
_NEAR = 0.97  # of full PCA's precision counts as comparable
_ITQ = " + ITQ"


def build_report(
    scores: Scores, sets: list[str], sizes: dict[str, Any], left_out: dict[str, str]
) -> PaperReport:
    """Return all that is to be said."""
    found = NystromFindings(scores, sets, sizes)
    return PaperReport(
        "nystrom",
        settings={
            "sets": sets,
            "rows": sizes["rows"],
            "queries": sizes["queries"],
            "runs": sizes["runs"],
            "bits": list(sizes["bits"]),
            "bits of the sweeps": sizes["sweep_bits"],
            "seeds": f"0 to {sizes['runs'] - 1}, each its own queries, rows and draws",
        },
        tables=(
            found.precision_table("map", "precision", "Figure 1: mean average precision"),
            found.ratio_table(),
            found.precision_table(
                "reranked",
                "reranked",
                "The paper's protocol for Holidays + Flickr1M: 100 candidates by codes and those "
                "that tie with the last, sorted again by projected data; the 3 nearest rows are "
                "the matches. Mean average precision",
            ),
            found.sweep_table("samples"),
            found.sweep_table("features"),
            found.bound_table(),
        ),
        figures=(found.figure_1(), found.figure_2()),
        claims=found.claims(),
        timings=(found.seconds_table(), found.sweep_seconds_table()),
        timing_figures=(found.figure_2_times(),),
        timing_claims=found.timing_claims(),
        notes=(
            "Neighbours of a query are the rows nearer than the mean distance to the 50th nearest; "
            "queries without any are left out: "
            + ", ".join(f"{scores.mean(('without', name)).mean:.0%} on {name}" for name in sets)
            + ".",
            "A share of features that is fewer than bits is raised to as many as bits.",
            *(f"{name} was left out: {reason}." for name, reason in left_out.items()),
        ),
    )


class NystromFindings:
    """What was measured, with the words to say it."""

    def __init__(self, scores: Scores, sets: list[str], sizes: dict[str, Any]) -> None:
        self.scores, self.sets = scores, sets
        self.bits: tuple[int, ...] = sizes["bits"]
        self.sweep_bits: int = sizes["sweep_bits"]
        self.shares: dict[str, tuple[float, ...]] = {
            axis: sizes[axis] for axis in ("samples", "features")
        }
        self.bound_bits: int = sizes["bound_bits"]

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

    def sweep_table(self, axis: str) -> ResultTable:
        """Return precision by the share that is swept."""
        rest = "30 % of features" if axis == "samples" else "5 % of samples"
        rows: list[tuple[Any, ...]] = []
        for one in self.sets:
            for method in _SWEPT:
                cells = (
                    self.scores.mean((axis, one, share, method)) for share in self.shares[axis]
                )
                rows.append((one, method, *cells))
            for method in (FULL, RANDOM):
                mean = self.scores.mean(("sweep", one, method))
                rows.append((one, method, *(mean for _ in self.shares[axis])))
        return ResultTable(
            f"sweep_{axis}",
            f"Figure 2: mean average precision at {self.sweep_bits} bits by the share of {axis} "
            f"sampled, {rest}.",
            ("set", "method, all + ITQ", *(f"{share:.1%}" for share in self.shares[axis])),
            tuple(rows),
        )

    def bound_table(self) -> ResultTable:
        """Return Theorem 2 beside what is lost."""
        rows: list[tuple[Any, ...]] = []
        for one in self.sets:
            rows += [
                (one, label, None, None, self._one(("error", one, label)), None)
                for label in (FULL, UNIFORM, PAPER_UNIFORM)
            ]
            rows += [
                (
                    one,
                    MODIFIED,
                    f"{gamma:g}",
                    int(self._one(("kept", one, gamma))),
                    self._one(("modified error", one, gamma)),
                    self._one(("bound", one, gamma)),
                )
                for gamma in GAMMAS
            ]
        return ResultTable(
            "bound",
            f"Theorem 2 beside the error ‖X − ÛÛᵀX‖ of {self.bound_bits} directions, both as "
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
                (one, method, *(self._median(("seconds", one, bits, method)) for bits in ends))
                for one in self.sets
                for method in METHODS
            ),
        )

    def sweep_seconds_table(self) -> ResultTable:
        """Return the time of that stage by the shares that are sampled."""
        rows: list[tuple[Any, ...]] = []
        for one in self.sets:
            for axis, shares in self.shares.items():
                rows += [
                    (one, axis, method, f"{s:.1%}", self._median((f"{axis} time", one, s, method)))
                    for method in _SWEPT
                    for s in shares
                ]
            rows += [
                (one, "–", method, "–", self._median(("sweep time", one, method)))
                for method in (FULL, RANDOM)
            ]
        return ResultTable(
            "sweep_seconds",
            f"Figure 2 (c), (d): processor seconds to find {self.sweep_bits} directions, medians.",
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

    def figure_2(self) -> ResultFigure:
        """Return precision against the shares that are sampled."""
        return ResultFigure(
            "figure-2",
            f"Figure 2 (a), (b): mean average precision at {self.sweep_bits} bits against the "
            "share of samples (30 % of features) and of features (5 % of samples).",
            tuple(
                self._sweep_panel(one, axis, "mean average precision", axis, "sweep")
                for one in self.sets
                for axis in self.shares
            ),
        )

    def figure_2_times(self) -> ResultFigure:
        """Return time against the shares that are sampled."""
        return ResultFigure(
            "figure-2-times",
            "Figure 2 (c), (d): processor seconds of finding directions, without ITQ.",
            tuple(
                self._sweep_panel(one, axis, "time (sec)", f"{axis} time", "sweep time")
                for one in self.sets
                for axis in self.shares
            ),
        )

    def _sweep_panel(self, one: str, axis: str, label: str, swept: str, fixed: str) -> Panel:
        shares = self.shares[axis]
        x = [100 * share for share in shares]
        is_time = fixed == "sweep time"

        def curve(method: str, keys: list[Hashable]) -> Curve:
            if is_time:
                return Curve(method + _ITQ, tuple(x), tuple(self._median(key) for key in keys))
            return Curve.of_means(method + _ITQ, x, [self.scores.mean(key) for key in keys])

        curves = [curve(FULL, [(fixed, one, FULL)] * len(x))]
        curves += [curve(m, [(swept, one, share, m) for share in shares]) for m in _SWEPT]
        curves.append(curve(RANDOM, [(fixed, one, RANDOM)] * len(x)))
        return Panel(one, f"sampling ratio (%) of {axis}", label, tuple(curves), log_x=True)

    # Claims.

    def claims(self) -> tuple[Claim, ...]:
        """Return what became of the paper's claims about precision and error."""
        return (
            self._near_full(
                "uniform is about full PCA",
                "Uniform + ITQ with 5 % of samples and 30 % of features is about as good as full "
                "PCA + ITQ, our form: one more step with the sampled rows, then orthonormal.",
                UNIFORM,
                "The step C·Cᵀ and orthonormal directions take out most of what sampling features "
                "puts in.",
            ),
            self._near_full(
                "uniform, the paper's form",
                "The same, with Û = C·V·Σ⁺ as printed.",
                PAPER_UNIFORM,
                "Û is not orthonormal: weak directions come out too long, the more so the more "
                "bits, and ITQ then turns them into the strong ones.",
            ),
            self._near_full(
                "non-uniform is about full PCA",
                "Non-Uniform + ITQ (ConstantTimeSVD) is about as good as full PCA + ITQ too.",
                PAPER_NON_UNIFORM,
                "As for uniform samples in the paper's form; in our form it is level with "
                f"uniform sampling ({self._of_all(NON_UNIFORM, UNIFORM)}).",
            ),
            self._above_random(),
            self._enough(),
            self._protocol(),
            self._modified(),
            self._theorem(),
        )

    def timing_claims(self) -> tuple[Claim, ...]:
        """Return what became of the paper's claims about time."""
        bits = self.bits[-1]

        def seconds(one: str, method: str) -> float:
            return self._median(("seconds", one, bits, method))

        gains = {one: seconds(one, FULL) / seconds(one, PAPER_UNIFORM) for one in self.sets}
        ours = {one: seconds(one, FULL) / seconds(one, UNIFORM) for one in self.sets}
        whole = {
            one: self._median(("whole fit", one))
            / (self._median(("whole fit", one)) - seconds(one, FULL) + seconds(one, PAPER_UNIFORM))
            for one in self.sets
        }
        extra = {
            one: seconds(one, PAPER_NON_UNIFORM) / seconds(one, PAPER_UNIFORM) for one in self.sets
        }
        return (
            Claim(
                "finding directions is quicker",
                "Finding directions takes 250 s instead of 4,000 s (256 bits, 5 % of a million "
                "samples of 12,800 features).",
                "16 ×",
                f"{bits} bits: " + self._each(gains, "{:.1f} ×") + "; our form "
                f"{self._each(ours, '{:.1f} ×')}",
                grade(holds=min(gains.values()) >= 8, in_part=min(gains.values()) > 1),
                "With fewer than a thousand features the covariance of all rows is cheap; the gain "
                "grows with features and rows (`bench/projection.py wide`).",
            ),
            Claim(
                "the whole is twice as quick",
                "Uniform + ITQ as a whole is at least twice as fast as full PCA + ITQ.",
                "2 × (Fig. 2c, d)",
                "fit with ITQ: " + self._each(whole, "{:.2f} ×"),
                grade(holds=min(whole.values()) >= 2, in_part=min(whole.values()) > 1.2),
                "On rows of this size ITQ takes most of the time, and it is the same for both.",
            ),
            Claim(
                "non-uniform costs more",
                "Non-uniform sampling needs time for probabilities and selection: 1,620 s more "
                "than uniform's 250 s.",
                "7.5 ×",
                self._each(extra, "{:.1f} ×"),
                grade(holds=min(extra.values()) > 1.1, in_part=max(extra.values()) > 1.1),
                "It reads all rows twice before it samples; uniform sampling reads the sample.",
            ),
        )

    def ratio(self, one: str, bits: int, method: str) -> MeanOfRuns:
        """Return a method's precision as a share of full PCA's."""
        return self.scores.ratio(("map", one, bits, method), ("map", one, bits, FULL))

    def _near_full(self, name: str, text: str, method: str, why: str) -> Claim:
        ratios = {
            (one, bits): self.ratio(one, bits, method) for one in self.sets for bits in self.bits
        }
        near = [ratio for ratio in ratios.values() if ratio.mean + (ratio.error or 0) >= _NEAR]
        worst = min(ratios, key=lambda key: ratios[key].mean)
        return Claim(
            name,
            text,
            "the curves of Figure 1 lie on each other",
            f"{self._of_all(method)} of full PCA on average, least {ratios[worst].mean:.3f} "
            f"({worst[0]}, {worst[1]} bits); within 3 % in {len(near)} of {len(ratios)} cases",
            grade(holds=len(near) == len(ratios), in_part=2 * len(near) >= len(ratios)),
            why,
        )

    def _above_random(self) -> Claim:
        gains = {
            (one, bits): self.scores.ratio(("map", one, bits, UNIFORM), ("map", one, bits, RANDOM))
            for one in self.sets
            for bits in self.bits
        }
        clear = [gain for gain in gains.values() if gain.mean - (gain.error or 0) > 1]
        least = min(gains, key=lambda key: gains[key].mean)
        return Claim(
            "uniform is above random",
            "Uniform + ITQ is definitely superior to Random + ITQ.",
            "Figure 1, all bits",
            f"{np.mean([gain.mean for gain in gains.values()]):.2f} × on average, least "
            f"{gains[least].mean:.2f} × ({least[0]}, {least[1]} bits)",
            grade(holds=len(clear) == len(gains), in_part=2 * len(clear) > len(gains)),
            "Random directions do not follow the data; the gap closes as bits grow, since many "
            "random directions see everything.",
        )

    def _enough(self) -> Claim:
        """From 5 % of samples and 30 % of features on, precision is that of full PCA."""
        texts, good = [], []
        for method in (UNIFORM, PAPER_UNIFORM):
            shares = []
            for axis, least in (("samples", 0.05), ("features", 0.3)):
                for one in self.sets:
                    for share in self.shares[axis]:
                        ratio = self.scores.ratio((axis, one, share, method), ("sweep", one, FULL))
                        if share >= least:
                            shares.append(ratio)
            low = min(shares, key=lambda ratio: ratio.mean)
            texts.append(f"{method}: at least {low.mean:.3f} of full PCA from there on")
            good.append(all(ratio.mean + (ratio.error or 0) >= _NEAR for ratio in shares))
        few = self.shares["features"][0]
        small = min(
            self.scores.ratio(("features", one, few, UNIFORM), ("sweep", one, FULL)).mean
            for one in self.sets
        )
        return Claim(
            "5 % and 30 % are enough",
            "From 5 % of samples and 30 % of features on, mean average precision is comparable to "
            "full PCA's.",
            "Figure 2 (a), (b)",
            "; ".join(texts) + f"; with {few:.0%} of features our form has {small:.3f}",
            grade(holds=all(good), in_part=any(good)),
            "In our form the share of features hardly matters, since the sampled rows are looked "
            "at in all features once more.",
        )

    def _protocol(self) -> Claim:
        ratios = {
            (one, bits): self.scores.ratio(
                ("reranked", one, bits, UNIFORM), ("reranked", one, bits, FULL)
            )
            for one in self.sets
            for bits in self.bits
        }
        raw = np.mean(
            [
                self.scores.ratio(
                    ("reranked", one, bits, PAPER_UNIFORM), ("reranked", one, bits, FULL)
                ).mean
                for one in self.sets
                for bits in self.bits
            ]
        )
        near = [ratio for ratio in ratios.values() if ratio.mean + (ratio.error or 0) >= _NEAR]
        return Claim(
            "re-ranked by projected data",
            "With 100 candidates sorted again by projected data, Uniform + ITQ is about full PCA "
            "+ ITQ too.",
            "Figure 1, Holidays + Flickr1M",
            f"{np.mean([ratio.mean for ratio in ratios.values()]):.3f} of full PCA on average "
            f"(within 3 % in {len(near)} of {len(ratios)} cases), the paper's form {raw:.3f}",
            grade(holds=len(near) == len(ratios), in_part=2 * len(near) >= len(ratios)),
            "Distances in directions that are not orthonormal are not those of the data, which "
            "costs the paper's form more here than in codes.",
        )

    def _modified(self) -> Claim:
        bits = self.bits[-1]
        gains = {
            one: self.scores.ratio(("map", one, bits, MODIFIED), ("map", one, bits, PAPER_UNIFORM))
            for one in self.sets
        }
        return Claim(
            "the modified method",
            "Directions with σ² < γ·‖C‖₁·‖C‖∞ are left out, for the sake of the proof; the paper "
            "does not run it.",
            "equation (6)",
            f"γ = {FIGURE_GAMMA:g}, {bits} bits, against the form without it: "
            + self._each({one: gain.mean for one, gain in gains.items()}, "{:.3f} ×"),
            grade(
                holds=all(gain.mean + (gain.error or 0) >= _NEAR for gain in gains.values()),
                in_part=any(gain.mean + (gain.error or 0) >= _NEAR for gain in gains.values()),
            ),
            "Codes keep their length: random directions at right angles stand for what was left "
            "out. The paper does not say what should.",
        )

    def _theorem(self) -> Claim:
        gamma = GAMMAS[0]
        bounds = {one: self._one(("bound", one, gamma)) for one in self.sets}
        holds = all(
            self._one(("modified error", one, g)) <= self._one(("bound", one, g))
            for one in self.sets
            for g in GAMMAS
        )
        return Claim(
            "Theorem 2",
            "With probability 1 − δ, ‖X − ÛÛᵀX‖ is at most the bound of Theorem 2.",
            "no figure",
            f"never exceeded; at γ = {gamma:g} the bound is "
            + self._each(bounds, "{:.1e} times ‖X‖"),
            grade(holds=False, in_part=holds),
            "True and vacuous: any Û with ‖ÛÛᵀ‖ ≤ 1 loses at most ‖X‖ itself. The term "
            "m·ε₂·‖X‖₂ ≥ ‖X‖₂·m/(γ√r) is large for every sample that is one.",
        )

    def _of_all(self, method: str, other: str = FULL) -> str:
        ratios = [
            self.scores.ratio(("map", one, bits, method), ("map", one, bits, other)).mean
            for one in self.sets
            for bits in self.bits
        ]
        return f"{np.mean(ratios):.3f}"

    def _each(self, values: dict[str, float], form: str) -> str:
        return ", ".join(f"{form.format(value)} on {one}" for one, value in values.items())

    def _one(self, key: Hashable) -> float:
        return self.scores.mean(key).mean

    def _median(self, key: Hashable) -> float:
        return float(np.median(self.scores.values(key)))
