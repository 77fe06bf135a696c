"""Claims of WTA and all that is to be said of them, from what was measured."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitkin.papers.report import (
    Claim,
    PaperReport,
    grade,
)
from bitkin.papers.scores import Scores
from bitkin.papers.wta.formulas import FormulaClaims
from bitkin.papers.wta.names import (
    AS_THEY_ARE,
    BANDED_DEFAULT,
    CHI_SQUARE,
    CODES,
    DEFAULT,
    DEGREES,
    EUCLIDEAN,
    ITQ,
    NORMALIZED,
    PAPER,
    PAPER_BANDED,
    PCA_HASH,
    PIXELS,
    PLAIN,
    RAW,
    SIFT,
    SIGNS,
    SPECTRAL,
    STANDARDIZED,
    WINDOWS,
    label_of,
)


def build_report(
    scores: Scores,
    sets: list[str],
    bags: list[str],
    sizes: dict[str, Any],
    left_out: dict[str, str],
) -> PaperReport:
    """Return all that is to be said."""
    found = ComparativeFindings(scores, sets, bags, sizes)
    return PaperReport(
        "wta",
        settings={
            "sets": sets,
            "bags": bags,
            "rows and queries": f"{sizes['rows']:,} and {sizes['queries']:,}",
            "runs": f"{sizes['runs']} of retrieval, {sizes['pair_runs']} of matching, "
            f"{sizes['learned_runs']} of classification",
            "pairs of patches": f"{sizes['pairs']:,} that match and as many that do not, "
            f"{sizes['pair_codes']:,} codes",
            "rows learned and tested": f"{sizes['learned_rows']:,} and {sizes['tested_rows']:,}",
            "seeds": "0 and on, one per run",
        },
        tables=(
            found.retrieval_table(),
            *(found.variant_table(name) for name in sets),
            found.banded_table(),
            found.matching_table(),
            found.change_table(),
            found.classification_table(),
            found.distortion_table(),
            found.formula_table(),
        ),
        figures=(
            found.figure_2(),
            found.figure_3(),
            found.figure_3_banded(),
            found.figure_4(),
            found.figure_5(),
        ),
        claims=found.claims(),
        timings=(found.time_table(),),
        timing_claims=found.timing_claims(),
        notes=(
            "Neighbours of a query are the rows nearer than the mean distance to the 50th nearest; "
            "queries without any are left out: "
            + ", ".join(f"{scores.mean(('without', name)).mean:.0%} on {name}" for name in sets)
            + ".",
            "A symbol of K values takes log₂ K bits, so that codes of all methods have equal bits.",
            *(f"{name} was left out: {reason}." for name, reason in left_out.items()),
        ),
    )


class ComparativeFindings(FormulaClaims):
    """What was measured, with the words to say it."""

    def claims(self) -> tuple[Claim, ...]:
        """Return what became of the paper's claims."""
        return (
            self._against(
                PCA_HASH,
                "above PCA hashing",
                "WTA with p = 4, K = 4 outperforms PCA hashing from 64 bits on.",
                "Weak directions get bits of their own in PCA hashing, and spoil long codes.",
            ),
            self._against(
                SPECTRAL,
                "above spectral hashing",
                "WTA with p = 4, K = 4 outperforms spectral hashing from 64 bits on.",
                "Neighbours are by l2 distance, which learned axes keep in few bits; WTA keeps "
                "orders, and needs more bits for the same distance.",
            ),
            self._against(
                SIGNS,
                "beside sign projections",
                "Not in the paper: signs of random projections, the other method that learns "
                "nothing.",
                "For l2 or cosine on dense rows a projection sees all features; a window sees K. "
                "WTA is for orders that matter more than sizes, and for sparse counts.",
                paper="not compared",
            ),
            self._against(
                ITQ,
                "above learned codes",
                "Without learning, WTA is above the state of the art of learned codes; slightly "
                "below SPEC at 64 bits, clearly above it with more.",
                "PCA + ITQ, of the same year, stands for learned codes: SPEC is not among what "
                "bitkin has. Neighbours are by l2 distance, for which ITQ learns and WTA does not.",
                paper="abstract, Figure 3 (a)–(c)",
            ),
            self._best_variant(),
            self._centring(),
            self._lookup(),
            self._matching(),
            self._against_normalized(),
            self._standardized(),
            self._more_is_better(),
            self._beats_bags(),
            self._beats_larger(),
            self._beats_chi(),
            *self.formula_claims(),
        )

    def _against(
        self, rival: str, name: str, text: str, why: str, paper: str = "Figure 3 (a)–(c)"
    ) -> Claim:
        ratios = {
            (one, bits): self.scores.ratio(("map", one, bits, PAPER), ("map", one, bits, rival))
            for one in self.sets
            for bits in self.bits
        }
        wins = [ratio.mean + (ratio.error or 0) >= 1 for ratio in ratios.values()]
        ours = np.mean(
            [
                self.scores.ratio(("map", one, bits, DEFAULT), ("map", one, bits, rival)).mean
                for one, bits in ratios
            ]
        )
        first, last = (
            np.mean([self.ratio(one, bits, PAPER, rival) for one in self.sets])
            for bits in (self.bits[0], self.bits[-1])
        )
        return Claim(
            name,
            text,
            paper,
            f"not below in {sum(wins)} of {len(wins)} cases: {first:.2f} × at {self.bits[0]} bits, "
            f"{last:.2f} × at {self.bits[-1]}; our default ({label_of(DEFAULT)}) {ours:.2f} × on "
            "average",
            grade(holds=all(wins), in_part=any(wins)),
            why,
        )

    def _best_variant(self) -> Claim:
        parts, near = [], []
        for one in self.sets:
            means = {
                (degree, window, AS_THEY_ARE): np.mean(
                    [self.mean(("map", one, b, (degree, window, AS_THEY_ARE))) for b in self.bits]
                )
                for degree in DEGREES
                for window in WINDOWS
            }
            best = max(means, key=lambda variant: means[variant])
            near.append(means[PAPER] >= 0.97 * means[best])
            parts.append(
                f"{label_of(best)} on {one} (p = 4, K = 4 has "
                f"{means[PAPER] / means[best]:.2f} of it)"
            )
        return Claim(
            "p = 4, K = 4 is best",
            "Degree 4 and a window of 4 were chosen on held-out rows, without centring.",
            "section 5.1",
            "best of 12: " + ", ".join(parts),
            grade(holds=all(near), in_part=any(near)),
            "Products of rows as they are gain nothing on GIST, and little on Fashion-MNIST at "
            "degree 2; most products of four of its pixels are 0. The paper gives no other "
            "figures.",
        )

    def _centring(self) -> Claim:
        gains = {
            one: float(np.mean([self.ratio(one, bits, DEFAULT, PLAIN) for bits in self.bits]))
            for one in self.sets
        }
        return Claim(
            "standardize features of different scale",
            "Features of different scale are standardized before WTA (footnote 1, for DAISY only).",
            "footnote 1",
            "centred against as they are, p = 1, K = 4: " + _each(gains, "{:.2f} ×"),
            grade(holds=min(gains.values()) >= 1, in_part=max(gains.values()) >= 1),
            "Without it a feature with a large mean wins whatever the row is. It is the default "
            "for dense rows here.",
        )

    def _lookup(self) -> Claim:
        bits, parts = self.bits[-1], []
        wins = [
            all(
                self.mean(("banded map", one, n, PAPER_BANDED))
                >= self.mean(("banded map", one, n, rival))
                for rival in (SPECTRAL, PCA_HASH)
            )
            for one in self.sets
            for n in self.bits
        ]
        for one in self.sets:
            ours, rival = (
                self.mean(("banded map", one, bits, method)) for method in (PAPER_BANDED, SPECTRAL)
            )
            looked = self.mean(("candidates", one, bits, PAPER_BANDED))
            centred = self.mean(("banded map", one, bits, BANDED_DEFAULT))
            signs = self.mean(("banded map", one, bits, SIGNS))
            parts.append(
                f"{ours:.3f} (centred {centred:.3f}) against {rival:.3f} of spectral hashing on "
                f"{one}, {looked:.0%} of rows looked at; signs of random projections, which the "
                f"paper does not have, {signs:.3f}"
            )
        return Claim(
            "look-up by bytes",
            "With each byte a key (p = 4, K = 16), WTA is ahead of spectral and PCA hashing, and a "
            "search looks at 1/256 of the rows at best.",
            "Figure 3 (d)–(f)",
            f"not below either in {sum(wins)} of {len(wins)} cases; {bits} bits: "
            + "; ".join(parts),
            grade(holds=all(wins), in_part=any(wins)),
            "1/256 is for one table with even keys; there are as many tables as bytes, and keys of "
            "real rows are not even.",
        )

    def _matching(self) -> Claim:
        gains = {
            kind: self.scores.gain(("error", kind, EUCLIDEAN), ("error", kind, CODES))
            for kind in (PIXELS, SIFT)
        }
        parts = [
            f"{kind} {self._errors('error', kind)} ({100 * gain.mean:+.1f} points"
            + (f" ± {100 * gain.error:.1f})" if gain.error is not None else ")")
            + f", of patches that are not pale {self._errors('clear error', kind)}"
            for kind, gain in gains.items()
        ]
        clear = [gain.mean > (gain.error or 0) for gain in gains.values()]
        return Claim(
            "fewer false matches",
            "10,000 codes with K = 2 have fewer false matches at 95 % recall than the Euclidean "
            "distance of the same descriptors, by 10 to 12 points.",
            "raw pixels 68.0 % → 56.4 %, SIFT 36.2 % → 24.7 %",
            "; ".join(parts),
            grade(
                holds=all(clear) and min(gain.mean for gain in gains.values()) > 0.05,
                in_part=any(clear),
            ),
            "A change of light that is the same everywhere does not matter to an order. Noise and "
            "a light from one side do in pale patches, and orders of pixels suffer more from turns "
            "than distances (see the table by change). Pairs are made here, not found; how "
            "strongly copies are changed was chosen, the light after first results.",
        )

    def _errors(self, which: str, kind: str) -> str:
        before, after = (self.mean((which, kind, matcher)) for matcher in (EUCLIDEAN, CODES))
        return f"{before:.1%} → {after:.1%}"

    def _against_normalized(self) -> Claim:
        errors = {
            kind: tuple(self.mean(("error", kind, which)) for which in (CODES, NORMALIZED))
            for kind in (PIXELS, SIFT)
        }
        wins = [codes <= other for codes, other in errors.values()]
        return Claim(
            "beside standardized descriptors",
            "Not in the paper: the Euclidean distance after subtracting the mean of a descriptor "
            "and dividing by its spread, which takes light out too.",
            "not compared",
            "; ".join(
                f"{kind} WTA {codes:.1%}, that {other:.1%}"
                for kind, (codes, other) in errors.items()
            ),
            grade(holds=all(wins), in_part=any(wins)),
            "It keeps sizes, of which an order knows nothing, and costs less.",
        )

    def _standardized(self) -> Claim:
        errors = {
            kind: tuple(self.mean(("error", kind, which)) for which in (CODES, STANDARDIZED))
            for kind in (PIXELS, SIFT)
        }
        wins = [after <= before for before, after in errors.values()]
        return Claim(
            "standardized per dimension",
            "DAISY's dimensions differ in scale: standardized before WTA, it has fewer false "
            "matches than by Euclidean distance.",
            "DAISY 32.4 % → 21 %",
            "no DAISY here; standardizing dimensions before WTA: "
            + "; ".join(
                f"{kind} {before:.1%} → {after:.1%}" for kind, (before, after) in errors.items()
            ),
            grade(holds=all(wins), in_part=any(wins)),
            "Dimensions of our patches differ a little in mean and spread; once they do not, an "
            "order also tells how bright a patch is.",
        )

    def _more_is_better(self) -> Claim:
        few, many = self.features[len(self.features) // 2], self.features[-1]
        by_codes = {
            one: self.mean(("accuracy", one, many)) - self.mean(("accuracy", one, few))
            for one in self.bags
        }
        by_words = [self.mean(("accuracy", one, many)) for one in self.bags]
        rising = by_words == sorted(by_words)
        return Claim(
            "more codes and more words are better",
            "Accuracy rises with the number of codes and with the dictionary.",
            "Figure 5",
            f"from {few:,} to {many:,} codes, points: "
            + ", ".join(f"{100 * gain:+.1f} on {one}" for one, gain in by_codes.items())
            + f"; with {many:,} codes, from the smallest dictionary on: "
            + ", ".join(f"{accuracy:.3f}" for accuracy in by_words),
            grade(holds=rising and min(by_codes.values()) > 0, in_part=max(by_codes.values()) > 0),
            "As in the paper; where most windows are empty, it takes more codes.",
        )

    def timing_claims(self) -> tuple[Claim, ...]:
        """Return what became of claims about time."""
        seconds = {degree: self.encode_seconds(degree) for degree in DEGREES}
        most = seconds[DEGREES[-1]] / seconds[DEGREES[0]]
        return (
            Claim(
                "degree p costs p times as much",
                "Codes of polynomials of degree p take O(p), not O(nᵖ).",
                "sections 1, 4.3",
                "encoding takes "
                + ", ".join(
                    f"{seconds[degree] / seconds[DEGREES[0]]:.1f} × (p = {degree})"
                    for degree in DEGREES
                ),
                grade(holds=most < 2 * DEGREES[-1], in_part=most < 4 * DEGREES[-1]),
                "Not O(nᵖ). With degree 1 features are compared where they stand; products have "
                "to be computed first, in float64, whatever their degree.",
            ),
        )

    def _beats_bags(self) -> Claim:
        n = self.features[-1]
        gains = {
            one: self.mean(("accuracy", one, n)) - self.mean(("accuracy", one, RAW))
            for one in self.bags
        }
        return Claim(
            "codes beat bags",
            "Codes as features significantly beat the bag in each case: 8 to 13 points.",
            "Figure 5: 8 to 13 points of median average precision",
            f"{n:,} codes, points of accuracy: "
            + ", ".join(f"{100 * gain:+.1f} on {one}" for one, gain in gains.items()),
            grade(holds=min(gains.values()) > 0, in_part=any(gain > 0 for gain in gains.values())),
            "C is tuned for both here, and differences are about what the test rows can tell (one "
            "point). Bags of our small pictures are sparser than the paper's, and empty windows "
            "tell nothing (see DWTA).",
        )

    def _beats_larger(self) -> Claim:
        n, wins, parts = self.features[-1], [], []
        for small, large in self._tenfold():
            codes, bag = self.mean(("accuracy", small, n)), self.mean(("accuracy", large, RAW))
            wins.append(codes >= bag)
            parts.append(f"{codes:.3f} ({small}) against {bag:.3f} ({large})")
        return Claim(
            "X words beat 10 X words",
            "Codes of a bag of X words beat the bag of 10 X words, with enough codes.",
            "Figure 5",
            "; ".join(parts),
            grade(holds=all(wins), in_part=any(wins)),
            "A larger dictionary adds more here than codes do.",
        )

    def _beats_chi(self) -> Claim:
        with_chi = [one for one in self.bags if self.has_chi(one)]
        thousand = [one for one in with_chi if one.endswith("_1000")]
        one, n = (thousand or with_chi)[-1], self.features[-1]
        codes, chi = (self.mean(("accuracy", one, which)) for which in (n, CHI_SQUARE))
        return Claim(
            "above a χ² kernel",
            "Codes of 1,000 words are about 2 points above an SVM with a χ² kernel (40.1 %).",
            "section 6",
            f"{one}, {n:,} codes: {codes:.3f} against {chi:.3f}",
            grade(holds=codes >= chi, in_part=codes >= chi - 0.01),
            "The χ² kernel uses how much a word is there, codes only which of four is there most.",
        )

    def _tenfold(self) -> list[tuple[str, str]]:
        sizes = {one: int(one.rpartition("_")[2]) for one in self.bags}
        return [
            (small, large)
            for small in self.bags
            for large in self.bags
            if sizes[large] == 10 * sizes[small]
        ]


def _each(values: dict[str, float], form: str) -> str:
    return ", ".join(f"{form.format(value)} on {one}" for one, value in values.items())
