"""Which stages a search has, by the options given; options that contradict each other end with a
usage error.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import typer

from bitkin.cli.arguments import one_of_choices

STAGES = ["codes", "estimate", "exact"]
METRICS = ["l2", "cosine", "ip"]
K, OVERSAMPLE = 10, 10
MOST = 2**31 - 1  # neighbours a query, and what multiplies them


class Wanted(NamedTuple):
    """Options as they were given; None where they were not."""

    stage: str | None
    k: int | None
    radius: int | None
    oversample: int | None
    metric: str | None
    model: Path | None
    vectors: list[Path]
    corrections: Path | None
    ids: Path | None


def last_stage(wanted: Wanted) -> str:
    """Return the stage asked for, or the best that the files given make possible."""
    stage = None if wanted.stage is None else one_of_choices(wanted.stage, "--stage", STAGES)
    if wanted.radius is not None:
        _require_codes_alone(wanted, stage)
        return "codes"
    if stage is None:
        stage = "exact" if wanted.vectors else "codes" if wanted.corrections is None else "estimate"
    if stage == "exact" and not wanted.vectors:
        _refuse("exact needs --vectors, the rows that were encoded.", "--stage")
    if stage == "estimate" and wanted.corrections is None:
        _refuse(
            "estimate needs --corrections, which bitkin encode --corrections writes.", "--stage"
        )
    if stage != "exact" and wanted.vectors:
        _refuse(f"means nothing for --stage {stage}.", "--vectors")
    if stage == "codes":
        options = {
            "--corrections": wanted.corrections,
            "--oversample": wanted.oversample,
            "--metric": wanted.metric,
        }
        for option, value in {**options, "--ids": wanted.ids}.items():
            if value is not None:
                _refuse("means nothing for --stage codes.", option)
    elif wanted.model is None:
        _refuse(
            f"must be given for --stage {stage}: queries must be vectors, not codes.", "--model"
        )
    if wanted.metric is not None:
        one_of_choices(wanted.metric, "--metric", METRICS)
    return stage


def _require_codes_alone(wanted: Wanted, stage: str | None) -> None:
    if wanted.k is not None:
        _refuse("give -k or --radius, not both.", "--radius")
    others = {
        "--stage": None if stage == "codes" else stage,
        "--oversample": wanted.oversample,
        "--metric": wanted.metric,
        "--vectors": wanted.vectors or None,
        "--corrections": wanted.corrections,
        "--ids": wanted.ids,
    }
    for option, value in others.items():
        if value is not None:
            _refuse("means nothing with --radius, which counts symbols of codes.", option)


def _refuse(why: str, option: str) -> None:
    raise typer.BadParameter(why, param_hint=f"'{option}'")
