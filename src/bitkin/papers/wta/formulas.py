"""Claims of WTA about what codes are: formulas, and what changes of rows do to them."""

from __future__ import annotations

import numpy as np

from bitkin import theory
from bitkin.papers.report import Claim, grade
from bitkin.papers.wta.names import DISTORTIONS
from bitkin.papers.wta.tables import ComparativeTables, printed_sum


class FormulaClaims(ComparativeTables):
    """What became of them."""

    def formula_claims(self) -> tuple[Claim, ...]:
        """Return all of them."""
        return (
            self._stable(),
            self._similarity(),
            self._pairwise(),
            self._minhash(),
            self._conjunctions(),
            self._expanded(),
            self._rank(),
            self._head(),
        )

    def _stable(self) -> Claim:
        kept = {
            (one, what): self.mean(("kept", one, "WTA, K = 4", what))
            for one in self.sets
            for what in DISTORTIONS[:3]
        }
        noise = np.mean(
            [self.mean(("kept", one, "WTA, K = 4", DISTORTIONS[-1])) for one in self.sets]
        )
        return Claim(
            "stable under perturbations",
            "Codes depend on orders alone, so that monotone changes keep them, and small noise "
            "mostly does.",
            "sections 1, 7",
            f"monotone changes keep {min(kept.values()):.1%} of symbols; noise of 20 % keeps "
            f"{noise:.0%}",
            grade(holds=min(kept.values()) > 0.999, in_part=min(kept.values()) > 0.95),
            "True of rows as they are; centred codes depend on sizes too, and are better at "
            "retrieval.",
        )

    def _similarity(self) -> Claim:
        apart = max(
            abs(self.mean(("S_K", window)) - self.mean(("S_K met", window))) for window in (2, 4, 8)
        )
        return Claim(
            "Eq. 6",
            "Two vectors share a code with probability S_K = Σ C(Rᵢ, K − 1) / C(n, K).",
            "Eq. 6",
            f"{apart:.4f} away at most, of 40,000 codes",
            grade(holds=apart < 0.01),
            "Exact without ties; with ties it is a lower bound (`theory.wta_collision` is exact).",
        )

    def _minhash(self) -> Claim:
        expected, found = self.pair("Jaccard", "Jaccard met")
        return Claim(
            "MinHash is a special case",
            "On binary vectors with K = n the collision rate is the Jaccard similarity.",
            "section 4.4",
            f"Jaccard {expected:.4f}, met {found:.4f}",
            grade(holds=abs(expected - found) < 0.01),
            "The first 1 in a random order wins, as in MinHash.",
        )

    def _conjunctions(self) -> Claim:
        return Claim(
            "MinHash of conjunctions in O(p)",
            "Algorithm 2 computes MinHash over p-fold conjunctions in logarithmic time.",
            "section 4.4",
            "with K = n it looks at n of the nᵖ tuples; `theory.conjunction_jaccard` is the "
            "number that it should have",
            "not here",
            "The least of all tuples is not among n of them. As an estimator, densified, it is "
            "within about 2 % (`tests/hashers/test_wta.py`).",
        )

    def _expanded(self) -> Claim:
        expected, found = self.pair("products", "degree 2")
        return Claim(
            "degree p is WTA on products",
            "Algorithm 2 is equivalent to WTA on the expanded polynomial space.",
            "section 4.3",
            f"n = 5, p = 2, K = 4: codes meet in {found:.3f}, on all products in {expected:.3f}",
            grade(holds=abs(expected - found) < 0.005),
            "Each product is as likely as any other, but those of one window never share a feature "
            "in the same slot.",
        )

    def _rank(self) -> Claim:
        return Claim(
            "Eq. 5",
            "P(rank of the winner = j), as printed, with K/n.",
            "Eq. 5",
            f"as printed the chances for n = 6, K = 4 sum to {printed_sum(6, 4):.3f}",
            "in part",
            "K/n must be K/(n − j); then they sum to 1, and figure 2 (a) is right.",
        )

    def _pairwise(self) -> Claim:
        expected, found = self.pair("pairwise order", "S_2 met")
        return Claim(
            "K = 2 counts pairwise order",
            "With K = 2 the share of codes that agree is the share of pairs of features in the "
            "same order (Eq. 1, 2), and so rank correlation.",
            "sections 3, 4.1",
            f"pairs in the same order {expected:.4f}, codes met {found:.4f}",
            grade(holds=abs(expected - found) < 0.01),
            "Without ties, Kendall's τ is 2·S₂ − 1.",
        )

    def _head(self) -> Claim:
        shares = {
            window: float(theory.winner_rank_distribution(100, window)[:10].sum())
            for window in (2, 4, 16)
        }
        return Claim(
            "K weighs the head of the list",
            "The larger K is, the more codes tell of the largest features; K = 2 favours none.",
            "Figure 2 (a)",
            "of 100 features the 10 largest win "
            + ", ".join(f"{share:.0%} (K = {window})" for window, share in shares.items()),
            grade(holds=shares[2] < shares[4] < shares[16], in_part=shares[2] < shares[16]),
            "A winner of two is in the upper half more often than not: K = 2 treats all pairs "
            "alike, and not all winners.",
        )
