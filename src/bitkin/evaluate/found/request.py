"""What is asked of an evaluation of files, and whether it makes sense."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bitkin.checks import is_number, one_of, shown, whole_number
from bitkin.choices import MEASURES, METRICS, TRUTH_METRICS
from bitkin.errors import ArgumentError

_TRUTHS = ("truth", "vectors", "labels", "relevant")


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to measure: the files, and the figures asked for; None where it was not said."""

    found: Path
    truth: Path | None = None
    vectors: tuple[Path, ...] = ()
    queries: Path | None = None
    labels: Path | None = None
    query_labels: Path | None = None
    relevant: Path | None = None
    ids: Path | None = None
    k: int | None = None
    metric: str | None = None
    measures: tuple[str, ...] = ()
    recall: float | None = None

    @property
    def files(self) -> list[Path]:
        """All files that are read."""
        others = (self.truth, self.queries, self.labels, self.query_labels, self.relevant, self.ids)
        return [self.found, *(path for path in others if path is not None), *self.vectors]

    @property
    def kind(self) -> str:
        """Which truth is given: one of "truth", "vectors", "labels" and "relevant"."""
        return next(name for name in _TRUTHS if getattr(self, name))

    @property
    def measures_or_default(self) -> tuple[str, ...]:
        """The figures asked for; recall of neighbours, or precision of what has the same label."""
        by_ids = self.kind in ("truth", "vectors")
        return self.measures or (("recall",) if by_ids else ("precision-recall", "map"))

    def require_sense(self) -> None:
        """Raise ArgumentError where arguments contradict each other, or one is missing."""
        given = [name for name in _TRUTHS if getattr(self, name)]
        if len(given) != 1:
            raise ArgumentError(
                "give what should have been found, once: a truth, vectors and queries, labels, or "
                "relevant rows.",
                given[1] if given else "truth",
            )
        for one, other in (("vectors", "queries"), ("labels", "query_labels")):
            for name, needed in ((one, other), (other, one)):
                if getattr(self, name) and not getattr(self, needed):
                    raise ArgumentError(
                        f"goes with {name.replace('_', ' ')}, and is missing.", needed
                    )
        if self.metric is not None and self.kind != "vectors":
            raise ArgumentError("goes with vectors, whose neighbours are found by it.", "metric")
        if self.k is not None and self.kind not in ("truth", "vectors"):
            raise ArgumentError("goes with a truth of neighbours, or with vectors.", "k")
        if self.recall is not None and "error-at-recall" not in self.measures:
            raise ArgumentError("belongs to the measure error-at-recall.", "recall")
        self._require_possible()

    def _require_possible(self) -> None:
        """Raise where a figure cannot come from this truth, or a value makes no sense."""
        for measure in self.measures:
            one_of(measure, "measure", MEASURES)
            if measure in ("kendall", "spearman") and (
                self.kind != "vectors" or self.metric == "jaccard"
            ):
                raise ArgumentError(
                    f"{measure} compares distances with those of vectors: give vectors and queries "
                    f"by {', '.join(METRICS)}.",
                    "measure",
                )
            if measure == "error-at-recall" and self.kind == "truth":
                raise ArgumentError(
                    "error-at-recall needs to know how many rows there are: give vectors, labels "
                    "or relevant rows.",
                    "measure",
                )
        if self.metric is not None:
            one_of(self.metric, "metric", TRUTH_METRICS)
        if self.k is not None:
            whole_number(self.k, "k", low=1)
        if self.recall is not None and not (is_number(self.recall) and 0 < self.recall <= 1):
            raise ArgumentError(
                f"must be a number above 0 and up to 1, got {shown(self.recall)}.", "recall"
            )
