"""`bitkin dedup` of vectors: files of rows → the rows to keep, and what was dropped and why."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from bitkin.cli.deduplicating.report import (
    DedupOutputs,
    count_clusters,
    show_clusters,
    show_counts,
)
from bitkin.cli.output import print_json, progress_bar
from bitkin.cli.shared import say

if TYPE_CHECKING:
    from bitkin.dedup.vectors import DuplicateVectors
    from bitkin.io.vectors import VectorSource


class VectorOptions(NamedTuple):
    """What the command was told, as far as it concerns vectors."""

    threshold: float | None
    metric: str
    column: str | None
    dataset: str | None
    outputs: DedupOutputs
    show: int
    json: bool


def dedup_vectors(files: list[Path], options: VectorOptions) -> None:
    """Find near-duplicate vectors, write what was asked for, and print what was found."""
    from bitkin.dedup.vectors import find_duplicate_vectors
    from bitkin.dedup.vectors.files import (
        write_dropped_rows,
        write_kept_rows,
        write_pairs_of_rows,
    )
    from bitkin.input_files import VectorFileOptions

    _require_threshold(options)
    out, report, pairs = options.outputs
    if out is not None and out.suffix.lower() != ".npy":
        raise typer.BadParameter(f"vectors are written as .npy, got {out}.", param_hint="'--out'")
    start = time.perf_counter()
    source = VectorFileOptions(options.column, options.dataset).open(files)
    options.outputs.require_writable()
    n = source.shape[0] or 0
    with progress_bar("comparing", n, "rows") as done:
        found = find_duplicate_vectors(
            source,
            options.threshold,
            metric=options.metric,
            pairs="links" if pairs is None else "all",
            progress=done,
        )
    if out is not None:
        write_kept_rows(out, source, found.kept)
    if report is not None:
        write_dropped_rows(report, found)
    if pairs is not None:
        write_pairs_of_rows(pairs, found)
    seconds = time.perf_counter() - start
    if options.json:
        print_json(**_figures(found), seconds=round(seconds, 3), **options.outputs._asdict())
        return
    _show(found, source, options.show, seconds)
    options.outputs.say("to write the rows to keep: --out kept.npy")


def _require_threshold(options: VectorOptions) -> None:
    """End with a usage error unless the threshold suits the metric."""
    from bitkin.dedup.vectors import vector_threshold
    from bitkin.errors import InvalidInputError

    try:
        vector_threshold(options.threshold, options.metric)
    except InvalidInputError as error:
        if options.threshold is None:
            reason = "l2 needs one: the largest distance of near-duplicates."
        else:
            reason = str(error).removeprefix("threshold ")
        raise typer.BadParameter(reason, param_hint="'--threshold'") from None


def _figures(found: DuplicateVectors) -> dict[str, Any]:
    """Return the numbers alone."""
    from bitkin.dedup.vectors import MISS_RATE

    return {
        **count_clusters(found, {"zero": found.n_zero}),
        "metric": found.metric,
        "threshold": found.threshold,
        "bits": found.n_bits,
        "expected_miss_rate_at_threshold": MISS_RATE,
    }


def _show(found: DuplicateVectors, source: VectorSource, show: int, seconds: float) -> None:
    figures = _figures(found)
    within = (
        f"cosine {found.threshold:g} or more"
        if found.metric == "cosine"
        else f"l2 {found.threshold:g} or less"
    )
    counts = {
        "vectors": figures["vectors"],
        "kept": figures["kept"],
        "  first of a cluster": figures["clusters"],
        "  zero, similar to nothing": figures["zero"],
        "dropped": figures["dropped"],
        "  equal to an earlier one": figures["dropped_equal"],
        f"  {within} with another": figures["dropped_similar"],
    }
    title = f"near-duplicates of {source.shape[1]:,} dimensions, {seconds:.1f} s"
    show_counts(title, counts, len(found))
    show_clusters(
        found, found.measure, show, lambda row: f"row {row:,}", measure=found.metric, digits=".4g"
    )
    say(
        f"{found.n_compared:,} candidates were compared exactly; of pairs right at the\n"
        "threshold, about 1 in 10,000 is missed."
    )
