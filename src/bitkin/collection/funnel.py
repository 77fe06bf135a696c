"""The funnel: a shortlist by codes, scored anew by the estimate and by the vectors themselves, each
of fewer rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bitkin.arrays import Batch, Ids
from bitkin.codes import Codes
from bitkin.collection.stages import Step
from bitkin.collection.timings import Timings
from bitkin.hashers.base import Hasher
from bitkin.index.results import Neighbors
from bitkin.io.vectors import VectorSource
from bitkin.rescoring.estimate import Corrections, Questions
from bitkin.rescoring.rescore import rescore
from bitkin.rescoring.shortlist import Shortlist

# shortlisted rows of a block of queries: 50 MB of numbers, codes and corrections
PAIRS_AT_ONCE = 1 << 20


class Searched(Protocol):
    """Rows by number, all of one moment."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def nearest(self, queries: Codes, k: int, allow: Ids | None, least: int) -> Neighbors:
        """Return the k nearest rows of every query by codes, nearest first, ties by lower number.

        An index that may miss rows may return fewer than k, but not fewer than `least` while there
        are as many.
        """

    def codes(self, numbers: Ids) -> Codes:
        """Return the codes of rows, in that order."""

    def corrections(self, numbers: Ids) -> Corrections:
        """Return the corrections of rows, in that order."""

    def vectors(self, numbers: Ids) -> VectorSource:
        """Return the vectors of rows, in that order, to be read as far as they are needed."""


@dataclass(frozen=True, slots=True)
class Funnel:
    """Stages in their order, the first of them "codes", and what they need."""

    steps: Sequence[Step]
    hasher: Hasher | None
    metric: str

    @property
    def estimates(self) -> bool:
        """Whether the estimate is among the stages."""
        return any(step.stage == "estimate" for step in self.steps)

    def queries_at_once(self, n_rows: int) -> int:
        """Return how many queries keep the shortlists of a block small."""
        return max(1, PAIRS_AT_ONCE // max(1, min(self.steps[0].keep, n_rows)))

    def nearest(
        self,
        searched: Searched,
        batch: Batch,
        codes: Codes,
        allow: Ids | None,
        timings: Timings | None = None,
        questions: Questions | None = None,
    ) -> Neighbors:
        """Return the nearest rows of a batch of queries and their codes, as many columns as the
        last stage keeps.

        There are no more columns than rows, but always one: `padded` makes k of them. `questions`,
        where they are known already, save the estimate their computation.
        """
        timings = Timings() if timings is None else timings
        now = time.perf_counter()
        found = searched.nearest(
            codes, _kept(self.steps[0], len(searched)), allow, least=self.steps[-1].keep
        )
        now = timings.add("codes", now, len(codes) * len(searched), _count(found))
        for step in self.steps[1:]:
            n_before = _count(found)
            asked = batch if questions is None or step.stage != "estimate" else questions
            found = self._rescored(step, searched, asked, found)
            now = timings.add(step.stage, now, n_before, _count(found))
        return found

    def _rescored(
        self, step: Step, searched: Searched, asked: Batch | Questions, found: Neighbors
    ) -> Neighbors:
        # Every row is fetched once, however many queries share it. Rescoring knows rows by their
        # places among those fetched, which are in order of number and so break ties as numbers do.
        shortlist = Shortlist.of(found)
        numbers = shortlist.wanted
        needs: dict[str, Any]
        if step.stage == "estimate":
            codes, corrections = searched.codes(numbers), searched.corrections(numbers)
            needs = {"hasher": self.hasher, "codes": codes, "corrections": corrections}
        else:
            needs = {"vectors": searched.vectors(numbers)}
        k = _kept(step, found.ids.shape[1])
        better = rescore(
            shortlist.renumbered(), asked, stage=step.stage, k=k, metric=self.metric, **needs
        )
        # nobody is at −1, which is the last
        return Neighbors(np.append(numbers, -1)[better.ids], better.distances)


def _kept(step: Step, n_rows: int) -> int:
    """Return what a stage keeps: no more than there is, so that nothing is held for neighbours that
    cannot be.
    """
    return max(1, min(step.keep, n_rows))


def _count(found: Neighbors) -> int:
    return int(np.count_nonzero(found.ids >= 0))
