"""A small report, for tests of what is done with reports."""

from __future__ import annotations

from typing import Any

from bitkin.papers.report import (
    Claim,
    Curve,
    MeanOfRuns,
    Panel,
    PaperReport,
    ResultFigure,
    ResultTable,
)

RUN: dict[str, Any] = {
    "quick": True, "minutes": 0.5, "processor_minutes": 0.4, "bitkin": "0", "machine": "a machine",
    "cores": 2, "threads": 1, "python": "3", "numpy": "2",
}  # fmt: skip


def small_report(paper: str = "nystrom", ours: str = "0.98") -> PaperReport:
    table = ResultTable(
        "precision",
        "How precise.",
        ("method", "32 bits", "note"),
        (("a|b", MeanOfRuns(0.123456, 0.01, 3), None), ("c", 0.5, "only one")),
    )
    seconds = ResultTable("seconds", "How long.", ("method", "s"), (("a", 1.25),))
    figure = ResultFigure(
        "figure-1", "A figure.", (Panel("set", "bits", "mAP", (Curve("a", (1, 2), (3, 4)),)),)
    )
    return PaperReport(
        paper,
        {"rows": 3000, "bits": [16, 32]},
        (table,),
        (figure,),
        (Claim("near", "It is near.", "0.99", ours, "holds", "Because."),),
        timings=(seconds,),
        timing_claims=(Claim("quick", "It is quick.", "2 ×", "3 ×", "holds", "So."),),
        notes=("A note.",),
    )
