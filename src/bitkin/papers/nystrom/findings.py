"""What became of the claims of NYSTROM, from what was measured."""

from __future__ import annotations

import numpy as np

from bitkin.papers.nystrom.names import (
    FIGURE_GAMMA,
    FULL,
    GAMMAS,
    MODIFIED,
    NON_UNIFORM,
    PAPER_NON_UNIFORM,
    PAPER_UNIFORM,
    RANDOM,
    SWEPT,
    UNIFORM,
)
from bitkin.papers.nystrom.sizes import NystromSizes
from bitkin.papers.nystrom.tables import NystromTables
from bitkin.papers.report import (
    Claim,
    MeanOfRuns,
    PaperReport,
    grade,
)
from bitkin.papers.scores import Scores

_NEAR = 0.97  # of full PCA's precision counts as comparable


def build_report(
    scores: Scores, sets: list[str], sizes: NystromSizes, left_out: dict[str, str]
) -> PaperReport:
    """Return all that is to be said."""
    found = NystromFindings(scores, sets, sizes)
    return PaperReport(
        "nystrom",
        settings={
            "sets": sets,
            "rows": sizes.rows,
            "queries": sizes.queries,
            "runs": sizes.runs,
            "bits": list(sizes.bits),
            "bits of the sweeps": [sweep.bits for sweep in sizes.sweeps],
            "seeds": f"0 to {sizes.runs - 1}, each its own queries, rows and draws",
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
            *(found.sweep_table(sweep, axis) for sweep in sizes.sweeps for axis in sweep.axes),
            found.bound_table(),
        ),
        figures=(found.figure_1(), *(found.figure_2(sweep) for sweep in sizes.sweeps)),
        claims=found.claims(),
        timings=(
            found.seconds_table(),
            found.memory_table(),
            *(found.sweep_seconds_table(sweep) for sweep in sizes.sweeps),
        ),
        timing_figures=tuple(found.figure_2_times(sweep) for sweep in sizes.sweeps),
        timing_claims=found.timing_claims(),
        notes=(
            "Neighbours of a query are the rows nearer than the mean distance to the 50th nearest; "
            "queries without any are left out: "
            + ", ".join(f"{scores.mean(('without', name)).mean:.0%} on {name}" for name in sets)
            + ".",
            "A share that gives fewer samples or features than bits is raised to as many as bits.",
            *(f"{name} was left out: {reason}." for name, reason in left_out.items()),
        ),
    )


class NystromFindings(NystromTables):
    """What was measured, with the words to say it."""

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
            return self.median(("seconds", one, bits, method))

        gains = {one: seconds(one, FULL) / seconds(one, PAPER_UNIFORM) for one in self.sets}
        ours = {one: seconds(one, FULL) / seconds(one, UNIFORM) for one in self.sets}
        whole = {
            one: self.median(("whole fit", one))
            / (self.median(("whole fit", one)) - seconds(one, FULL) + seconds(one, PAPER_UNIFORM))
            for one in self.sets
        }
        extra = {
            one: seconds(one, PAPER_NON_UNIFORM) / seconds(one, PAPER_UNIFORM) for one in self.sets
        }
        random = {one: seconds(one, PAPER_UNIFORM) / seconds(one, RANDOM) for one in self.sets}
        # of a whole fit: what is not finding directions is the same for both
        rest = {one: self.median(("whole fit", one)) - seconds(one, FULL) for one in self.sets}
        as_random = {
            one: (rest[one] + seconds(one, PAPER_UNIFORM)) / (rest[one] + seconds(one, RANDOM))
            for one in self.sets
        }
        space = {
            one: self.one(("peak", one, FULL)) / self.one(("peak", one, PAPER_UNIFORM))
            for one in self.sets
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
            Claim(
                "as quick as random projections",
                "Uniform + ITQ is as fast as Random + ITQ.",
                "Fig. 2c, d",
                "fit with ITQ: "
                + self._each(as_random, "{:.2f} ×")
                + "; finding directions alone "
                + self._each(random, "{:.1f} ×"),
                grade(holds=max(as_random.values()) < 1.1, in_part=max(as_random.values()) < 1.5),
                "Beside ITQ the decomposition of the sample hardly shows.",
            ),
            Claim(
                "less memory",
                "Space is improved dramatically over full SVD.",
                "abstract; O(mc) for O(m²)",
                f"most memory while {bits} directions are found, full PCA against uniform: "
                + self._each(space, "{:.1f} ×"),
                grade(holds=min(space.values()) >= 3, in_part=min(space.values()) > 1.2),
                "A covariance of fewer than a thousand features is small, and our full PCA never "
                "holds more than a block of rows beside it.",
            ),
        )

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
        for method in SWEPT:
            ratios = [
                self._swept_ratio(axis, one, sweep.bits, share, method)
                for sweep in self.sizes.sweeps
                for axis, least in (("samples", 0.05), ("features", 0.3))
                for share in sweep.axes[axis]
                if share >= least
                for one in self.sets
            ]
            texts.append(f"{method} at least {min(ratio.mean for ratio in ratios):.3f}")
            good.append(all(ratio.mean + (ratio.error or 0) >= _NEAR for ratio in ratios))
        first = self.sizes.sweeps[0]
        few = first.features[0]
        small = min(
            self._swept_ratio("features", one, first.bits, few, UNIFORM).mean for one in self.sets
        )
        return Claim(
            "5 % and 30 % are enough",
            "From 5 % of samples and 30 % of features on, mean average precision is comparable to "
            "full PCA's.",
            "Figure 2 (a), (b)",
            "of full PCA, from there on: " + ", ".join(texts) + f"; with {few:.0%} of features "
            f"our form has {small:.3f}",
            grade(holds=all(good), in_part=any(good)),
            "In our form the share of features hardly matters, since the sampled rows are looked "
            "at in all features once more.",
        )

    def _swept_ratio(self, axis: str, one: str, bits: int, share: float, method: str) -> MeanOfRuns:
        return self.scores.ratio((axis, one, bits, share, method), ("sweep", one, bits, FULL))

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
        bounds = {one: self.one(("bound", one, gamma)) for one in self.sets}
        holds = all(
            self.one(("modified error", one, g)) <= self.one(("bound", one, g))
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
