"""Tables, figures and claims of DWTA, from what was measured."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.papers.dwta.names import ALPHABETS, LARGE, METHODS, OPTIMAL, RAW, ROTATION, WTA
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

_MANY_EMPTY = 0.5


def build_report(
    scores: Scores,
    sets: list[str],
    texts: list[str],
    sizes: dict[str, Any],
    ranks: dict[str, npt.NDArray[np.int64]],
    left_out: dict[str, str],
) -> PaperReport:
    """Return all that is to be said."""
    found = DensifiedFindings(scores, sets, texts, sizes, ranks)
    return PaperReport(
        "dwta",
        settings={
            "sets": [*sets, *texts],
            "rows and queries of retrieval": f"up to {sizes['rows']:,} and {sizes['queries']:,}",
            "rows learned and tested": f"{sizes['learned_rows']:,} and {sizes['tested_rows']:,}",
            "runs": f"{sizes['runs']} of retrieval, {sizes['alphabet_runs']} of R and of texts, "
            f"{sizes['learned_runs']} of classification",
            "K": "4, and 16 where it says so; auto for texts",
            "R": f"{LARGE} at equal codes; 4 to {LARGE} where it is swept",
            "C": [f"{cost:g}" for cost in sizes["costs"]],
            "seeds": f"0 to {sizes['runs'] - 1}",
        },
        tables=(
            found.sparsity_table(),
            found.theorem_table(),
            found.retrieval_table("map", "retrieval", "mean average precision by label"),
            found.retrieval_table("at 100", "retrieval_at_100", "precision of the first 100"),
            found.alphabet_table("equal codes"),
            found.alphabet_table("equal bytes"),
            found.classification_table(),
            *((found.text_table(),) if texts else ()),
        ),
        figures=(found.figure_5(), found.figure_6()),
        claims=found.claims(),
        timings=(found.time_table(),),
        timing_claims=(found.cost_claim(),),
        notes=(
            "Relevant to a query are the rows of its label, as in the paper.",
            "C is chosen on a quarter of the rows learned from, for every run, method and number "
            "of codes. Machines are one-vs-one, solved on the number of codes that agree, which "
            "is the inner product of one-hot codes.",
            *(f"{name} was left out: {reason}." for name, reason in left_out.items()),
        ),
    )


class DensifiedFindings:
    """What was measured, with the words to say it."""

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
        self.features: tuple[int, ...] = sizes["features"]
        self.middle: int = self.codes[len(self.codes) // 2]
        self.n_bytes: int = sizes["n_bytes"]

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
                    self._mean(("zeros", one)),
                    *(
                        self._mean((kind, one, window))
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
                    self._mean(("good kernel", one)),
                    self._mean(("plain kernel", one)),
                    *(self._mean(("meeting", one, method)) for method in METHODS),
                    *(self._mean(("from good", one, method)) for method in METHODS),
                )
                for one in self.sets
            ),
        )  # fmt: skip

    def retrieval_table(self, kind: str, name: str, what: str) -> ResultTable:
        """Return retrieval at equal numbers of codes."""
        columns = [(4, n) for n in self.codes] + [(16, self.middle)]
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

    def alphabet_table(self, kind: str) -> ResultTable:
        """Return what R does."""
        size = f"{self.middle} codes" if kind == "equal codes" else f"{self.n_bytes} bytes"
        return ResultTable(
            kind.replace(" ", "_"),
            f"Mean average precision by R at {kind}, {size}, K = 4, optimal densification.",
            ("set", WTA, *(f"R = {alphabet}" for alphabet in ALPHABETS)),
            tuple(
                (one, *(self.scores.mean((kind, one, which)) for which in (WTA, *ALPHABETS)))
                for one in self.sets
            ),
        )

    def classification_table(self) -> ResultTable:
        """Return figure 5 as a table."""
        rows: list[tuple[Any, ...]] = []
        for one in self.sets:
            rows += [
                (one, method, *(self._accuracy(one, n, method) for n in self.features))
                for method in METHODS
            ]
            raw = self.scores.mean(("accuracy", one, RAW))
            rows.append((one, RAW, *(raw for _ in self.features)))
        return ResultTable(
            "classification",
            f"Figure 5: accuracy of a linear SVM on one-hot codes, K = 4, R = {LARGE}.",
            ("set", "method", *(f"{n:,} codes" for n in self.features)),
            tuple(rows),
        )

    def text_table(self) -> ResultTable:
        """Return retrieval of texts."""
        return ResultTable(
            "texts",
            f"Texts: mean average precision by label at equal numbers of codes, R = {LARGE}, with "
            'K = 4 and with the window that `window="auto"` chooses.',
            ("set", "K", "empty", "method", *(f"{n} codes" for n in self.codes)),
            tuple(
                (
                    one,
                    " / ".join(
                        f"{self._mean(('window', one, w, n, method)):.0f}" for n in self.codes
                    )
                    + (" (auto)" if w == "auto" else ""),
                    " / ".join(
                        f"{self._mean(('empty', one, w, n, method)):.0%}" for n in self.codes
                    ),
                    method,
                    *(self.scores.mean(("map", one, w, n, method)) for n in self.codes),
                )
                for one in self.texts
                for w in (4, "auto")
                for method in METHODS
            ),
        )

    def time_table(self) -> ResultTable:
        """Return what densification costs."""
        return ResultTable(
            "seconds",
            "Processor seconds to encode all rows, 256 codes, K = R = 4, medians.",
            ("set", *METHODS),
            tuple((one, *(self._seconds(one, method) for method in METHODS)) for one in self.sets),
        )

    # Figures.

    def figure_5(self) -> ResultFigure:
        """Return accuracy against the number of codes."""
        panels = []
        for one in self.sets:
            curves = [
                Curve.of_means(
                    method, self.features, [self._accuracy(one, n, method) for n in self.features]
                )
                for method in METHODS
            ]
            raw = self._mean(("accuracy", one, RAW))
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
                    recall = tuple(self._mean(("recall", *key, place)) for place in places)
                    precision = tuple(self._mean(("precision", *key, place)) for place in places)
                    curves.append(Curve(f"{method}, {n} codes", recall, precision))
            panels.append(Panel(one, "Recall", "Precision", tuple(curves)))
        return ResultFigure(
            "figure-6",
            "Figure 6: precision against recall at equal numbers of codes, K = 4, means of all "
            "runs.",
            tuple(panels),
        )

    # Claims.

    def claims(self) -> tuple[Claim, ...]:
        """Return what became of the paper's claims."""
        claims = (
            self._empty(),
            self._theorem(),
            self._dense(),
            self._retrieval(),
            self._gap(),
            self._reduction(),
            self._bytes(),
            self._classification(),
            self._beats_raw(),
            self._climbing(),
            self._rotation(),
        )
        return (*claims, self._texts()) if self.texts else claims

    def cost_claim(self) -> Claim:
        """Return what densification costs."""
        ratios = {one: self._seconds(one, OPTIMAL) / self._seconds(one, WTA) for one in self.sets}
        worst = max(ratios, key=lambda one: ratios[one])
        return Claim(
            "densification costs little",
            "Densification has negligible cost: two look-ups per code.",
            "section 4.1",
            f"encoding takes {np.mean(list(ratios.values())):.2f} × on average, "
            f"{ratios[worst]:.2f} × at most ({worst})",
            grade(holds=ratios[worst] < 1.5, in_part=min(ratios.values()) < 1.5),
            "Plain codes of sparse rows take so little time, one pass over the nonzeros, that "
            "filling most of the windows shows.",
        )

    def _empty(self) -> Claim:
        shares = [self._mean(("empty", one, 4)) for one in self.sets]
        zeros = [self._mean(("zeros", one)) for one in self.sets]
        apart = max(
            abs(self._mean(("empty", one, window)) - self._mean(("expected empty", one, window)))
            for one in self.sets
            for window in (4, 16)
        )
        grows = shares == sorted(shares) and zeros == sorted(zeros)
        return Claim(
            "empty codes grow with sparsity",
            "The share of empty codes grows with the dictionary, and with it with sparsity.",
            "13.6 % to 74.8 % empty at 58 % to 93 % zeros (1,000 to 10,000 words)",
            f"{shares[0]:.0%} to {shares[-1]:.0%} empty at {zeros[0]:.0%} to {zeros[-1]:.1%} "
            f"zeros; the formula is {apart:.3f} away at most",
            grade(holds=grows and apart < 0.02, in_part=grows),
            "Our pictures are smaller, so that bags are sparser at the same number of words.",
        )

    def _theorem(self) -> Claim:
        apart = max(self._mean(("from good", one, OPTIMAL)) for one in self.sets)
        plain = [self._mean(("from good", one, WTA)) for one in self.sets]
        return Claim(
            "Theorem 1",
            "Densified codes meet with the probability k_good: empty windows add nothing.",
            "theorem",
            f"{apart:.4f} away at most on average over pairs; plain codes {min(plain):.3f} to "
            f"{max(plain):.3f}",
            grade(holds=apart < 0.01, in_part=apart < 0.05),
            "With independent windows and hardly reduced codes, for which the proof is.",
        )

    def _dense(self) -> Claim:
        same = min(self._mean(("same on dense", one)) for one in self.sets)
        return Claim(
            "equal on dense rows",
            "Where no window is empty, densified codes equal plain ones.",
            "section 1",
            f"{same:.0%} of symbols equal",
            grade(holds=same == 1.0),
            "Nothing is borrowed.",
        )

    def _gains(self, n: int | None = None) -> dict[tuple[str, int], MeanOfRuns]:
        """Return the gain of densified over plain codes in retrieval, as a share, K = 4."""
        return {
            (one, codes): self.scores.ratio(
                ("map", one, 4, codes, OPTIMAL), ("map", one, 4, codes, WTA)
            )
            for one in self.sets
            for codes in self.codes
            if n is None or codes == n
        }

    def _retrieval(self) -> Claim:
        gains = self._gains()
        not_below = [gain for gain in gains.values() if gain.mean + (gain.error or 0) >= 1]
        empty = [
            gain.mean
            for (one, _), gain in gains.items()
            if self._mean(("empty", one, 4)) > _MANY_EMPTY
        ]
        others = [
            gain.mean
            for (one, _), gain in gains.items()
            if self._mean(("empty", one, 4)) <= _MANY_EMPTY
        ]
        parts = [
            f"{np.mean(values):.3f} × where {words} than half of the windows are empty"
            for values, words in ((others, "fewer"), (empty, "more"))
            if values
        ]
        return Claim(
            "ahead in retrieval",
            "Densified WTA is ahead of WTA in retrieval at every number of codes.",
            "Figure 6, all sets",
            f"not below in {len(not_below)} of {len(gains)} cases; " + ", ".join(parts),
            grade(
                holds=len(not_below) == len(gains) and (not empty or min(empty) > 1.02),
                in_part=2 * len(not_below) > len(gains),
            ),
            "Empty windows match each other in plain codes, and say that rows lack the same words; "
            "with few of them there is little to gain.",
        )

    def _gap(self) -> Claim:
        gains = [self._gains(self.middle)[one, self.middle].mean for one in self.sets]
        rising = sum(b >= a for a, b in pairwise(gains))
        shown = ", ".join(f"{gain:.3f}" for gain in gains)
        return Claim(
            "the gap grows with sparsity",
            "The gain in retrieval grows with the dictionary.",
            "Figure 6",
            f"{self.middle} codes, × plain codes, from the smallest dictionary on: {shown}",
            grade(
                holds=rising == len(gains) - 1,
                in_part=gains[-1] > gains[0] or max(gains[1:], default=0) > gains[0],
            ),
            "Where nearly all windows are empty, few donors are left for all of them, and codes "
            "become copies of each other: K must grow then (see texts).",
        )

    def _reduction(self) -> Claim:
        losses = [
            self.scores.ratio(("equal codes", one, 16), ("equal codes", one, LARGE)).mean
            for one in self.sets
        ]
        smallest = [
            self.scores.ratio(("equal codes", one, 4), ("equal codes", one, LARGE)).mean
            for one in self.sets
        ]
        return Claim(
            "reducing modulo R costs little",
            "Reducing codes modulo R suffices, at the cost of small random collisions.",
            "section 4.2; R is never stated",
            f"at equal codes R = 16 has {min(losses):.3f} to {max(losses):.3f} of what R = {LARGE} "
            f"has, R = 4 {min(smallest):.3f} to {max(smallest):.3f}",
            grade(holds=min(losses) > 0.97, in_part=min(losses) > 0.9),
            "A small R lets different borrowed codes meet by chance.",
        )

    def _bytes(self) -> Claim:
        parts, good = [], []
        for one in self.sets:
            scores = {which: self._mean(("equal bytes", one, which)) for which in ALPHABETS}
            best = max(scores, key=lambda which: scores[which])
            plain = self._mean(("equal bytes", one, WTA))
            large = scores[LARGE] / plain
            parts.append(
                f"{one}: best R = {best} {scores[best] / plain:.3f}, R = {LARGE} {large:.3f}"
            )
            good.append(scores[best] >= plain)
        return Claim(
            "at equal bytes",
            "The paper compares equal numbers of codes; a densified code takes more bits.",
            "not in the paper",
            f"{self.n_bytes} bytes, × plain codes. " + "; ".join(parts),
            grade(holds=all(good), in_part=any(good)),
            f"At R = {LARGE} a code takes four times the bits of a plain one, and a quarter as "
            "many codes lose more than densification gains. So the default R is the smallest "
            "power of two that holds a window.",
        )

    def _accuracy(self, one: str, n: int, method: str) -> MeanOfRuns:
        return self.scores.mean(("accuracy", one, n, method))

    def _classification(self) -> Claim:
        gains = {
            (one, n): self.scores.gain(("accuracy", one, n, OPTIMAL), ("accuracy", one, n, WTA))
            for one in self.sets
            for n in self.features
        }
        wins = [gain.mean + (gain.error or 0) >= 0 for gain in gains.values()]
        best = max(gains, key=lambda key: gains[key].mean)
        worst = min(gains, key=lambda key: gains[key].mean)
        mean = float(np.mean([gain.mean for gain in gains.values()]))
        return Claim(
            "ahead in classification",
            "Densified WTA is ahead of WTA in classification at every number of codes, the more so "
            "the larger the dictionary.",
            "Figure 5, all sets",
            f"not below in {sum(wins)} of {len(wins)} cases; {100 * mean:+.1f} points on average, "
            f"{100 * gains[best].mean:+.1f} at best ({best[0]}, {best[1]:,} codes), "
            f"{100 * gains[worst].mean:+.1f} at worst ({worst[0]}, {worst[1]:,} codes)",
            grade(holds=all(wins) and mean > 0.01, in_part=2 * sum(wins) > len(wins)),
            "A linear machine learns to ignore what empty windows have in common, so that it gains "
            "less than a distance does.",
        )

    def _beats_raw(self) -> Claim:
        n = self.features[-1]
        gains = {
            one: self._mean(("accuracy", one, n, OPTIMAL)) - self._mean(("accuracy", one, RAW))
            for one in self.sets
        }
        shown = ", ".join(f"{100 * gain:+.1f} on {one}" for one, gain in gains.items())
        return Claim(
            "codes beat bags",
            "Codes as features beat the bags themselves in each case.",
            "Figure 5, dotted lines",
            f"{n:,} densified codes, points over bags as they are: {shown}",
            grade(holds=min(gains.values()) > 0, in_part=any(gain > 0 for gain in gains.values())),
            "Codes are a nonlinear map; the C of both is tuned here, and the bags are of pictures "
            "of 32 × 32 pixels with up to 324 words.",
        )

    def _climbing(self) -> Claim:
        n = self.features[-1]
        last, before = self.sets[-1], self.sets[-2] if len(self.sets) > 1 else self.sets[-1]
        codes = self._mean(("accuracy", last, n, OPTIMAL)) - self._mean(
            ("accuracy", before, n, OPTIMAL)
        )
        raw = self._mean(("accuracy", last, RAW)) - self._mean(("accuracy", before, RAW))
        return Claim(
            "gains keep climbing",
            "From 5,000 to 10,000 words bags gain nothing, and densified codes do.",
            "section 5.2",
            f"{before} to {last}: codes {100 * codes:+.1f} points, bags {100 * raw:+.1f}",
            grade(holds=codes > 0.005 >= raw, in_part=codes > raw),
            "More words are rarer words; what a larger dictionary adds is in the bags too.",
        )

    def _rotation(self) -> Claim:
        gains = {
            (one, n): self.scores.ratio(
                ("map", one, 4, n, OPTIMAL), ("map", one, 4, n, ROTATION)
            ).mean
            for one in self.sets
            for n in self.codes
        }
        best = max(gains, key=lambda key: gains[key])
        return Claim(
            "rotation, or a donor by hashing",
            "An empty window borrows from the next filled one to its right.",
            "section 4; later work by the same group chooses the donor by hashing",
            f"the donor by hashing (optimal) has {np.mean(list(gains.values())):.3f} × on average, "
            f"{gains[best]:.3f} × at best ({best[0]}, {best[1]} codes)",
            grade(holds=max(gains.values()) < 1.02, in_part=True),
            "A run of empty windows borrows from one and the same donor by rotation, so that its "
            "codes are copies; optimal is the default here.",
        )

    def _texts(self) -> Claim:
        (one,), n = self.texts, self.codes[-1]
        auto, fixed, plain = (
            self._mean(("map", one, window, n, method))
            for window, method in (("auto", OPTIMAL), (4, OPTIMAL), (4, WTA))
        )
        empty = self._mean(("empty", one, 4, n, OPTIMAL))
        return Claim(
            "very sparse rows",
            "Densification makes codes informative irrespective of the sparsity.",
            "after Theorem 1",
            f"{one}, {empty:.1%} of windows empty at K = 4, {n} codes: WTA {plain:.3f}, densified "
            f'{fixed:.3f}, with window="auto" {auto:.3f}',
            grade(holds=fixed > 0.9 * auto, in_part=fixed > plain),
            "The kernel is right at any sparsity, but with hardly a filled window there is hardly "
            "anything to borrow: K must grow with sparsity.",
        )

    def _seconds(self, one: str, method: str) -> float:
        return float(np.median(self.scores.values(("encode", one, method))))

    def _mean(self, key: Hashable) -> float:
        return self.scores.mean(key).mean
