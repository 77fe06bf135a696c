"""The funnel: a shortlist by codes, scored anew by the estimate and by the vectors themselves, each of fewer rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from bitkin.codes import Codes
from bitkin.collection.stages import Step
from bitkin.hashers import Hasher
from bitkin.index.estimate import Corrections
from bitkin.index.rescore import rescore
from bitkin.index.results import Neighbors
from bitkin.index.segment import Ids
from bitkin.index.shortlist import Shortlist
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import Batch

PAIRS_AT_ONCE = 1 << 20  # shortlisted rows of a block of queries: 50 MB of numbers, codes and corrections


class Searched(Protocol):
    """Rows by number, all of one moment."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def nearest(self, queries: Codes, k: int, allow: Ids | None) -> Neighbors:
        """Return the k nearest rows of every query by codes, nearest first, ties by lower number."""

    def codes(self, numbers: Ids) -> Codes:
        """Return the codes of rows, in that order."""

    def corrections(self, numbers: Ids) -> Corrections:
        """Return the corrections of rows, in that order."""

    def vectors(self, numbers: Ids) -> VectorSource:
        """Return the vectors of rows, in that order, to be read as far as they are needed."""


@dataclass(slots=True)
class Timing:
    """What one stage has done, of all queries together."""

    seconds: float = 0.0
    rows_in: int = 0
    rows_out: int = 0


@dataclass(slots=True)
class Timings:
    """What every stage has done; "encode" is what makes codes of queries."""

    stages: dict[str, Timing] = field(default_factory=dict)

    def add(self, stage: str, since: float, rows_in: int, rows_out: int) -> float:
        """Note that a stage ends now, and return the time."""
        now = time.perf_counter()
        timing = self.stages.setdefault(stage, Timing())
        timing.seconds += now - since
        timing.rows_in += rows_in
        timing.rows_out += rows_out
        return now


@dataclass(frozen=True, slots=True)
class Funnel:
    """Stages in their order, the first of them "codes", and what they need."""

    steps: Sequence[Step]
    hasher: Hasher | None
    metric: str

    def queries_at_once(self, n_rows: int) -> int:
        """Return how many queries keep the shortlists of a block small."""
        return max(1, PAIRS_AT_ONCE // max(1, min(self.steps[0].keep, n_rows)))

    def nearest(
        self, searched: Searched, batch: Batch, codes: Codes, allow: Ids | None, timings: Timings | None = None
    ) -> Neighbors:
        """Return the nearest rows of a batch of queries and their codes, as many columns as the last stage keeps."""
        timings = Timings() if timings is None else timings
        now = time.perf_counter()
        found = searched.nearest(codes, self._kept(self.steps[0], len(searched)), allow)
        now = timings.add("codes", now, len(codes) * len(searched), _count(found))
        for step in self.steps[1:]:
            n_before = _count(found)
            found = self._rescored(step, searched, batch, found)
            now = timings.add(step.stage, now, n_before, _count(found))
        return found

    def nothing(self) -> Neighbors:
        """Return the answer to no queries."""
        last = self.steps[-1]
        dtype = {"codes": np.int32, "estimate": np.float32, "exact": np.float64}[last.stage]
        return Neighbors(np.empty((0, last.keep), dtype=np.int64), np.empty((0, last.keep), dtype=dtype))

    def _kept(self, step: Step, n_rows: int) -> int:
        """Return what a stage keeps: no more than there is, but for the last, whose result has k columns always."""
        return step.keep if step is self.steps[-1] else max(1, min(step.keep, n_rows))

    def _rescored(self, step: Step, searched: Searched, batch: Batch, found: Neighbors) -> Neighbors:
        # Every row is fetched once, however many queries share it. Rescoring knows rows by their places among those
        # fetched, which are in order of number and so break ties as numbers do.
        shortlist = Shortlist.of(found)
        numbers = shortlist.wanted
        needs: dict[str, Any]
        if step.stage == "estimate":
            codes, corrections = searched.codes(numbers), searched.corrections(numbers)
            needs = {"hasher": self.hasher, "codes": codes, "corrections": corrections}
        else:
            needs = {"vectors": searched.vectors(numbers)}
        k = self._kept(step, found.ids.shape[1])
        better = rescore(shortlist.at, batch, stage=step.stage, k=k, metric=self.metric, **needs)
        return Neighbors(np.append(numbers, -1)[better.ids], better.distances)  # nobody is at −1, which is the last


def _count(found: Neighbors) -> int:
    return int(np.count_nonzero(found.ids >= 0))
