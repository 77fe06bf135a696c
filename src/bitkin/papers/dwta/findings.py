"""What became of the claims of DWTA, from what was measured."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.papers.dwta.names import (
    ALPHABETS,
    AUTO,
    EQUAL_BYTES,
    EQUAL_CODES,
    LARGE,
    OPTIMAL,
    RAW,
    ROTATION,
    SIGNS,
    WTA,
)
from bitkin.papers.dwta.tables import DensifiedTables
from bitkin.papers.report import (
    Claim,
    MeanOfRuns,
    PaperReport,
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
            "runs": f"{sizes['runs']} of retrieval, {sizes['alphabet_runs']} of R, "
            f"{sizes['learned_runs']} of classification",
            "K": "4, and 16 or auto where it says so",
            "R": f"{LARGE} at equal codes; 4 to {LARGE} where it is swept",
            "C": [f"{cost:g}" for cost in sizes["costs"]],
            "seeds": f"0 to {sizes['runs'] - 1}",
        },
        tables=(
            found.sparsity_table(),
            found.theorem_table(),
            found.retrieval_table("map", "retrieval", "mean average precision by label"),
            found.retrieval_table("at 100", "retrieval_at_100", "precision of the first 100"),
            found.kernel_table(),
            found.alphabet_table(EQUAL_CODES),
            found.alphabet_table(EQUAL_BYTES),
            found.classification_table(),
            found.learned_table(),
            *((found.text_table(),) if texts else ()),
        ),
        figures=(found.figure_5(), found.figure_6()),
        claims=found.claims(),
        timings=(found.time_table(),),
        timing_claims=(found.cost_claim(), found.speed_claim()),
        notes=(
            "Relevant to a query are the rows of its label, as in the paper.",
            "C is chosen on a quarter of the rows learned from, for every run, method and number "
            "of codes. Machines are one-vs-one, solved on the number of codes that agree, which "
            "is the inner product of one-hot codes.",
            *(f"{name} was left out: {reason}." for name, reason in left_out.items()),
        ),
    )


class DensifiedFindings(DensifiedTables):
    """What was measured, with the words to say it."""

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
            self._gap_of_machines(),
            self._more_is_better(),
            self._beats_raw(),
            self._climbing(),
            self._rotation(),
        )
        return (*claims, self._texts()) if self.texts else claims

    def cost_claim(self) -> Claim:
        """Return what densification costs."""
        ratios = {one: self.seconds(one, OPTIMAL) / self.seconds(one, WTA) for one in self.sets}
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

    def speed_claim(self) -> Claim:
        """Return what signs of random projections cost."""
        ratios = {one: self.seconds(one, SIGNS) / self.seconds(one, WTA) for one in self.sets}
        return Claim(
            "quicker than signs of random projections",
            "WTA is much faster than signs of random projections: many codes in one pass over a "
            "row.",
            "section 1, no figure",
            "256 signs take "
            + ", ".join(f"{ratio:.1f} × on {one}" for one, ratio in ratios.items())
            + " what 256 codes do",
            grade(holds=min(ratios.values()) > 2, in_part=max(ratios.values()) > 1),
            "A sign sees all nonzeros of a row, a window its K; windows cut out of one permutation "
            "share a pass.",
        )

    def _empty(self) -> Claim:
        shares = [self.mean(("empty", one, 4)) for one in self.sets]
        zeros = [self.mean(("zeros", one)) for one in self.sets]
        apart = max(
            abs(self.mean(("empty", one, window)) - self.mean(("expected empty", one, window)))
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
        apart = max(self.mean(("from good", one, OPTIMAL)) for one in self.sets)
        plain = [self.mean(("from good", one, WTA)) for one in self.sets]
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
        same = min(self.mean(("same on dense", one)) for one in self.sets)
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
            if self.mean(("empty", one, 4)) > _MANY_EMPTY
        ]
        others = [
            gain.mean
            for (one, _), gain in gains.items()
            if self.mean(("empty", one, 4)) <= _MANY_EMPTY
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
            "Empty windows match each other in plain codes, and say that rows lack the same words. "
            "Of a hundred words that tells something: there k_wta itself is as good as k_good or "
            "a little better (see the table of kernels).",
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
        losses = [self._of_large(one, 16) for one in self.sets]
        smallest = [self._of_large(one, 4) for one in self.sets]
        return Claim(
            "reducing modulo R costs little",
            "Reducing codes modulo R suffices, at the cost of small random collisions.",
            "section 4.2; R is never stated",
            f"at equal codes R = 16 has {min(losses):.3f} to {max(losses):.3f} of what R = {LARGE} "
            f"has, R = 4 {min(smallest):.3f} to {max(smallest):.3f}",
            grade(holds=min(losses) > 0.97, in_part=min(losses) > 0.9),
            "A small R lets different borrowed codes meet by chance.",
        )

    def _of_large(self, one: str, alphabet: int) -> float:
        keys = ((EQUAL_CODES, one, 4, OPTIMAL, R) for R in (alphabet, LARGE))
        return self.scores.ratio(*keys).mean

    def _bytes(self) -> Claim:
        parts, good = [], []
        for one in self.sets:
            scores = {R: self.mean((EQUAL_BYTES, one, 4, OPTIMAL, R)) for R in ALPHABETS}
            best = max(scores, key=lambda which: scores[which])
            plain = self.mean((EQUAL_BYTES, one, 4, WTA, 4))
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

    def _classified(self) -> dict[tuple[str, int], MeanOfRuns]:
        """Return the gain of densified over plain codes in classification."""
        return {
            (one, n): self.scores.gain(("accuracy", one, n, OPTIMAL), ("accuracy", one, n, WTA))
            for one in self.sets
            for n in self.features
        }

    def _classification(self) -> Claim:
        gains = self._classified()
        wins = [gain.mean + (gain.error or 0) >= 0 for gain in gains.values()]
        best = max(gains, key=lambda key: gains[key].mean)
        worst = min(gains, key=lambda key: gains[key].mean)
        mean = float(np.mean([gain.mean for gain in gains.values()]))
        return Claim(
            "ahead in classification",
            "Densified WTA is ahead of WTA in classification at every number of codes.",
            "Figure 5, all sets",
            f"not below in {sum(wins)} of {len(wins)} cases; {100 * mean:+.1f} points on average, "
            f"{100 * gains[best].mean:+.1f} at best ({best[0]}, {best[1]:,} codes), "
            f"{100 * gains[worst].mean:+.1f} at worst ({worst[0]}, {worst[1]:,} codes)",
            grade(holds=all(wins) and mean > 0.01, in_part=2 * sum(wins) > len(wins)),
            "A linear machine learns to ignore what empty windows have in common, so that it gains "
            "less than a distance does.",
        )

    def _gap_of_machines(self) -> Claim:
        found = self._classified()
        gains = [float(np.mean([found[one, n].mean for n in self.features])) for one in self.sets]
        rising = sum(after >= before for before, after in pairwise(gains))
        return Claim(
            "the gap grows with sparsity, classification",
            "The gain in classification grows with the dictionary.",
            "Figure 5",
            "points, from the smallest dictionary on: "
            + ", ".join(f"{100 * gain:+.1f}" for gain in gains),
            grade(holds=rising == len(gains) - 1, in_part=gains[-1] > gains[0]),
            "As in retrieval: the more windows are empty, the more there is to gain, until hardly "
            "a donor is left.",
        )

    def _more_is_better(self) -> Claim:
        few, many = self.features[0], self.features[-1]
        by_codes = {
            (one, method): self.accuracy(one, many, method).mean
            - self.accuracy(one, few, method).mean
            for one in self.sets
            for method in (WTA, OPTIMAL)
        }
        by_words = [self.accuracy(one, many, OPTIMAL).mean for one in self.sets]
        return Claim(
            "more codes and more words are better",
            "Accuracy rises with the number of codes and with the dictionary.",
            "Figure 5",
            f"from {few:,} to {many:,} codes {100 * min(by_codes.values()):+.1f} to "
            f"{100 * max(by_codes.values()):+.1f} points; {many:,} densified codes, from the "
            "smallest dictionary on: " + ", ".join(f"{accuracy:.3f}" for accuracy in by_words),
            grade(
                holds=min(by_codes.values()) > 0 and by_words == sorted(by_words),
                in_part=max(by_codes.values()) > 0,
            ),
            "As in both papers, but for dictionaries of a hundred words, of which 500 codes know "
            "all there is.",
        )

    def _beats_raw(self) -> Claim:
        n = self.features[-1]
        gains = {
            one: self.mean(("accuracy", one, n, OPTIMAL)) - self.mean(("accuracy", one, RAW))
            for one in self.sets
        }
        shown = ", ".join(f"{100 * gain:+.1f} on {one}" for one, gain in gains.items())
        return Claim(
            "codes beat bags",
            "Codes as features beat the bags themselves in each case.",
            "Figure 5, dotted lines",
            f"{n:,} densified codes, points over bags as they are: {shown}",
            grade(holds=min(gains.values()) > 0, in_part=any(gain > 0 for gain in gains.values())),
            "Codes are a nonlinear map; the C of both is tuned here, the bags are of pictures of "
            "32 × 32 pixels with up to 324 words, and differences are about what the test rows can "
            "tell (one point).",
        )

    def _climbing(self) -> Claim:
        n = self.features[-1]
        last, before = self.sets[-1], self.sets[-2] if len(self.sets) > 1 else self.sets[-1]
        codes = self.mean(("accuracy", last, n, OPTIMAL)) - self.mean(
            ("accuracy", before, n, OPTIMAL)
        )
        raw = self.mean(("accuracy", last, RAW)) - self.mean(("accuracy", before, RAW))
        return Claim(
            "gains keep climbing",
            "From 5,000 to 10,000 words bags gain nothing, and densified codes do.",
            "section 5.2",
            f"{before} to {last}: codes {100 * codes:+.1f} points, bags {100 * raw:+.1f}",
            grade(holds=codes > 0.01 >= raw, in_part=codes > raw),
            "Fewer than one point is less than so many test rows can tell. More words are rarer "
            "words.",
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
            self.mean(("map", one, window, n, method))
            for window, method in ((AUTO, OPTIMAL), (4, OPTIMAL), (4, WTA))
        )
        empty = self.mean(("empty", one, 4, n, OPTIMAL))
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
