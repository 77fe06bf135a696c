"""The stages of a search: each takes what the one before kept, and the last one keeps k."""

from __future__ import annotations

from typing import NamedTuple

STAGES = ("codes", "estimate", "exact")
_KEPT_BY_CODES = 10  # times what the estimate keeps


class Step(NamedTuple):
    """A stage, and how many rows a query it keeps."""

    stage: str
    keep: int


def steps_to(last: str, able: frozenset[str], k: int, oversample: int) -> tuple[Step, ...]:
    """Return the stages up to `last` that are possible: codes keep k · oversample · 10, the
    estimate k · oversample.
    """
    keeps = {"codes": k * oversample * _KEPT_BY_CODES, "estimate": k * oversample}
    before = [stage for stage in STAGES[: STAGES.index(last)] if stage in able]
    return (*(Step(stage, keeps[stage]) for stage in before), Step(last, k))


def best_of(able: frozenset[str]) -> str:
    """Return the last stage that is possible."""
    return next(stage for stage in reversed(STAGES) if stage in able)
