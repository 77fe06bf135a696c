"""What is asked of a search in files, and which stages the files given make possible."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from bitkin.arguments import PYTHON, ArgumentSpelling
from bitkin.checks import one_of, whole_number
from bitkin.choices import FIRST_STAGES, METRICS, MOST_NEIGHBORS, STAGES
from bitkin.errors import ArgumentError
from bitkin.rescoring.correction_files import metric_of_corrections
from bitkin.rescoring.funnel import Step, steps_to

DEFAULT_K = 10
DEFAULT_OVERSAMPLE = 10


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search: its files, and how far to score; None where it was not said. See
    `bitkin.search_files`.
    """

    index: Path
    queries: Path
    model: Path | None = None
    k: int | None = None
    radius: int | None = None
    stage: str | None = None
    oversample: int | None = None
    metric: str | None = None
    vectors: tuple[Path, ...] = ()
    corrections: Path | None = None
    ids: Path | None = None
    allow: Path | None = None
    first: str | None = None
    probes: int | None = None

    @property
    def files(self) -> list[Path]:
        """All files that are read."""
        others = (self.model, self.allow, self.corrections, self.ids)
        given = [path for path in others if path is not None]
        return [self.index, self.queries, *given, *self.vectors]

    def metric_or_default(self) -> str:
        """Return the metric of the estimate and of exact distances: that of the corrections, or l2,
        where it was not said.
        """
        if self.metric is not None:
            return self.metric
        made_for = None if self.corrections is None else metric_of_corrections(self.corrections)
        return "l2" if made_for is None else made_for

    def steps(
        self,
        spelling: ArgumentSpelling = PYTHON,
        first: str = "codes",
        *,
        by_losses: bool = False,
    ) -> tuple[Step, ...]:
        """Return the stages of the search and how many rows each keeps; see `last_stage` for
        `by_losses`.
        """
        last = self.last_stage(spelling, by_losses=by_losses)
        k = DEFAULT_K if self.k is None else whole_number(self.k, "k", low=1, high=MOST_NEIGHBORS)
        oversample = (
            DEFAULT_OVERSAMPLE
            if self.oversample is None
            else whole_number(self.oversample, "oversample", low=1, high=MOST_NEIGHBORS)
        )
        possible = {"codes", last} | (set() if self.corrections is None else {"estimate"})
        return steps_to(last, frozenset(possible), k, oversample, first, ranks_only=by_losses)

    def last_stage(self, spelling: ArgumentSpelling = PYTHON, *, by_losses: bool = False) -> str:
        """Return the stage asked for, or the best that the files given make possible; raise for
        arguments that contradict each other.

        `by_losses` where the model is a WTAHash: its codes are scored without corrections.
        """
        stage = None if self.stage is None else one_of(self.stage, "stage", STAGES)
        if self.radius is not None:
            self._require_codes_alone(spelling)
            return "codes"
        if by_losses and self.corrections is not None:
            _refuse(
                "means nothing for a WTAHash: its codes are scored by themselves.", "corrections"
            )
        can_estimate = by_losses or self.corrections is not None
        if stage is None:
            stage = "exact" if self.vectors else "estimate" if can_estimate else "codes"
        if stage == "exact" and not self.vectors:
            _refuse(f"exact needs {spelling.name('vectors')}, the rows that were encoded.", "stage")
        if stage == "estimate" and not can_estimate:
            writer = spelling.command("save_corrections")
            _refuse(
                f"estimate needs {spelling.name('corrections')}, which {writer} writes.", "stage"
            )
        if stage == "codes" and self.vectors:
            _refuse(
                f"means nothing for {spelling.given('stage', stage)}, which counts symbols of "
                "codes and reads no vectors. Leave it out.",
                "vectors",
            )
        if stage == "codes":
            for argument in ("corrections", "oversample", "metric", "ids"):
                if getattr(self, argument) is not None:
                    _refuse(f"means nothing for {spelling.given('stage', stage)}.", argument)
        elif self.model is None:
            _refuse(
                f"must be given for {spelling.given('stage', stage)}: queries must be vectors, not "
                "codes.",
                "model",
            )
        if stage == "estimate" and by_losses:
            for argument in ("metric", "ids", "vectors"):
                if getattr(self, argument):
                    _refuse(
                        f"means nothing for {spelling.given('stage', stage)} of a WTAHash, whose "
                        "codes are scored by themselves.",
                        argument,
                    )
        if self.metric is not None:
            one_of(self.metric, "metric", METRICS)
        if self.first is not None:
            one_of(self.first, "first", FIRST_STAGES)
        if self.first == "estimate" and self.stage == "codes":
            _refuse(f"means nothing for {spelling.given('stage', stage)}.", "first")
        if self.first == "estimate" and not can_estimate:
            writer = spelling.command("save_corrections")
            _refuse(
                f"estimate needs {spelling.name('corrections')}, which {writer} writes.", "first"
            )
        return stage

    def _require_codes_alone(self, spelling: ArgumentSpelling) -> None:
        """Raise for arguments that mean nothing beside a radius."""
        radius = spelling.name("radius")
        if self.k is not None:
            _refuse(f"give {spelling.name('k')} or {radius}, not both.", "radius")
        others = {
            "first": self.first,
            "stage": None if self.stage == "codes" else self.stage,
            "oversample": self.oversample,
            "metric": self.metric,
            "vectors": self.vectors or None,
            "corrections": self.corrections,
            "ids": self.ids,
        }
        for argument, value in others.items():
            if value is not None:
                _refuse(f"means nothing with {radius}, which counts symbols of codes.", argument)


def describe_distances(stage: str, metric: str, *, by_losses: bool = False) -> str:
    """Return what the distances of a stage are, for people."""
    if stage == "codes":
        return "symbols of the codes that differ"
    if stage == "estimate" and by_losses:
        return "loss of the query, as a share of a random code's"
    return f"{metric} as estimated from codes" if stage == "estimate" else f"exact {metric}"


def _refuse(reason: str, argument: str) -> NoReturn:
    raise ArgumentError(reason, argument)
