"""Pages to report on: made up, but with everything in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from bitkin.evaluate.reporting.page import (
    CodeStatistics,
    HardQuery,
    ReportChoice,
    ReportPage,
    ShownRow,
)
from bitkin.evaluate.trials.measurement import OVERSAMPLES, Measurement

PLOTS = ("recall", "oversample", "spectrum", "cumulative", "entropy", "correlation")
NAMES = (
    "<script>alert(1)</script>",
    "🦊🎉 fam × 漢字",
    "x" * 500,
    "\"quoted' & <b>",
    "pca × itq",
    "wta",
    "\u202eevil",
    "many words " * 40,
)


@dataclass(frozen=True)
class Finding:
    name: str = "far-off mean"
    level: str = "warning"
    measured: str = "4.2 spreads from 0"
    sentence: str = "Signs of coordinates say little."
    setting: str | None = "projection='pca'"


def measurement(
    method: str = "pca × itq",
    n_bits: int = 128,
    size: float = 400.0,
    recall: float = 0.9,
    *,
    seed: int = 0,
    n_queries: int = 20,
    **more: Any,
) -> Measurement:
    """A measurement whose curve climbs from about `recall` to 1."""
    rng = np.random.default_rng(seed)
    climbing = recall + (1 - recall) * np.log(OVERSAMPLES) / np.log(100)
    recalls = np.clip(climbing + rng.normal(0, 0.05, (n_queries, len(OVERSAMPLES))), 0, 1)
    stage = more.pop("stage", "exact")
    return Measurement(
        method,
        n_bits,
        stage,
        "int8" if stage == "exact" else None,
        size,
        more.pop("oversample", 10 if stage == "exact" else 1),
        np.sort(recalls, axis=1),
        **{"fit_seconds": 1.5, "encode_us": 2.25, "search_us": 30.0, **more},
    )


def of_recall(recalls: Any, size: float = 100.0, **more: Any) -> Measurement:
    """A measurement with one recall per query, the same at every oversample."""
    column = np.asarray(recalls, dtype=np.float64)[:, None]
    values = np.repeat(column, len(OVERSAMPLES), axis=1)
    return Measurement("pca × itq", 128, "codes", None, size, 1, values, **more)


def several() -> list[Measurement]:
    """Methods of four families at four sizes, and a baseline."""
    made = [
        measurement(method, bits, bits / 8 + 400.0 * (stage == "exact"), 0.1 + 0.0025 * bits,
                    seed=bits + len(method), stage=stage)
        for method in ("pca × itq", "pca × none", "wta", "random")
        for bits in (32, 64, 128, 256)
        for stage in ("codes", "exact")
    ]  # fmt: skip
    baselines = [
        measurement("faiss PQ", 8 * m, float(m), 0.4 + 0.01 * m, stage="estimate", ours=False)
        for m in (8, 16, 32)
    ]
    return made + baselines


def hard_queries(pictures: bool = True, n: int = 2) -> list[HardQuery]:
    """Queries with pictures or with texts."""
    rng = np.random.default_rng(1)

    def row(number: int, far: float | None) -> ShownRow:
        picture = rng.integers(0, 256, (28, 28), dtype=np.uint8) if pictures else None
        return ShownRow(number, far, picture, None if pictures else f"text <{number}> & more")

    return [
        HardQuery(
            row(1000 + q, None),
            0.25,
            [row(i, i / 7) for i in range(6)],
            [row(i, i / 5) for i in range(4, 10)],
        )
        for q in range(n)
    ]


def full_page(**changes: Any) -> ReportPage:
    """A page with all parts."""
    rng = np.random.default_rng(2)
    measurements = several()
    bits = (rng.random((500, 60)) < rng.random(60)).astype(np.float64)
    parts: dict[str, Any] = {
        "title": "Which code & <why>",
        "facts": {"rows": 10_000, "metric": "l2", "seconds": 46.2, "normalized": False},
        "command": "bitkin recommend x.npy --recall 0.95",
        "choice": ReportChoice(
            "wta, 128 bits", measurements[20], measurements[5], ["It is the smallest."]
        ),
        "measurements": [*measurements, Measurement("broken", 8, "exact", error="no <rows>")],
        "findings": [Finding(), Finding("duplicates", "fine", "none", "All differ.", None)],
        "spectrum": np.sort(rng.dirichlet(np.full(200, 0.3)))[::-1],
        "code": CodeStatistics("wta, 60 bits", bits.mean(axis=0), np.asarray(np.corrcoef(bits.T))),
        "hard_queries": hard_queries(),
        "notes": ["300 rows were held out."],
    }
    return ReportPage(**{**parts, **changes})


@cache
def thousand() -> Sequence[Measurement]:
    """As many measurements as a page shows, of odd names, 1 to 100,000 bytes."""
    rng = np.random.default_rng(3)
    return tuple(
        measurement(
            f"{NAMES[i % 8]}{i // 50 if i % 3 else ''}",
            int(rng.integers(1, 5000)),
            float(10 ** rng.uniform(0, 5)),
            rng.uniform(0, 1),
            seed=i,
            n_queries=5,
            stage=("exact", "codes", "estimate")[i % 3],
            ours=i % 7 != 0,
        )
        for i in range(1_000)
    )


def largest_page() -> ReportPage:
    """A page with far too much of everything, all of it in letters that HTML writes with six."""
    rng = np.random.default_rng(4)
    huge = rng.integers(0, 256, (4096, 4096, 3), dtype=np.uint8)
    noise = rng.integers(0, 256, (200, 200, 3), dtype=np.uint8)
    measurements = thousand()

    def rows(first: int) -> Sequence[ShownRow]:
        return [ShownRow(first + i, float(i), noise, "'" * 5_000) for i in range(25)]

    finding = Finding("<" * 500, "warning", "'" * 5_000, '"' * 5_000, "&" * 5_000)
    failures = [Measurement("'" * 500, i, "exact", error='"' * 5_000) for i in range(1_000)]
    return ReportPage(
        "'" * 5_000,
        {f"{'&' * 500}{i}": "'" * 5_000 for i in range(1_000)},
        "<" * 9_999,
        ReportChoice('"' * 9_999, measurements[0], measurements[1], ['"' * 9_999] * 500),
        [*measurements, *failures],
        [finding] * 1_000,
        rng.dirichlet(np.ones(10_000)),
        CodeStatistics("'" * 500, rng.uniform(0, 1, 1_024), rng.uniform(-1, 1, (1_024, 1_024))),
        [HardQuery(ShownRow(i, None, huge), 0.1, rows(0), rows(5)) for i in range(30)],
        ["'" * 9_999] * 500,
    )
