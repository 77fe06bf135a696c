"""`bitkin dedup` of vectors: files of rows → the rows to keep, and what was dropped and why."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from bitkin.cli.output import print_json, print_table, printable, progress_bar

if TYPE_CHECKING:
    from bitkin.dedup.vectors import DuplicateVectors
    from bitkin.io.vectors import VectorSource


class VectorOptions(NamedTuple):
    """What the command was told, as far as it concerns vectors."""

    threshold: float | None
    metric: str
    column: str | None
    dataset: str | None
    out: Path | None
    report: Path | None
    pairs: Path | None
    show: int
    json: bool


def dedup_vectors(files: list[Path], options: VectorOptions) -> None:
    """Find near-duplicate vectors, write what was asked for, and print what was found."""
    from bitkin.dedup.files import require_writable
    from bitkin.dedup.vector_files import (
        write_dropped_rows,
        write_kept_rows,
        write_pairs_of_rows,
    )
    from bitkin.dedup.vectors import find_duplicate_vectors
    from bitkin.input_files import VectorFileOptions

    _require_threshold(options)
    if options.out is not None and options.out.suffix.lower() != ".npy":
        raise typer.BadParameter(
            f"vectors are written as .npy, got {options.out}.", param_hint="'--out'"
        )
    start = time.perf_counter()
    source = VectorFileOptions(options.column, options.dataset).open(files)
    for output in (options.out, options.report, options.pairs):
        if output is not None:
            require_writable(output)  # before all the work
    n = source.shape[0] or 0
    with progress_bar("comparing", n, "rows") as done:
        found = find_duplicate_vectors(
            source,
            options.threshold,
            metric=options.metric,
            pairs="links" if options.pairs is None else "all",
            progress=done,
        )
    if options.out is not None:
        write_kept_rows(options.out, source, found.kept)
    if options.report is not None:
        write_dropped_rows(options.report, found)
    if options.pairs is not None:
        write_pairs_of_rows(options.pairs, found)
    seconds = time.perf_counter() - start
    if options.json:
        print_json(
            **_figures(found),
            seconds=round(seconds, 3),
            out=options.out,
            report=options.report,
            pairs=options.pairs,
        )
        return
    _show(found, source, options.show, seconds)
    for what, path in (
        ("kept", options.out),
        ("dropped", options.report),
        ("pairs", options.pairs),
    ):
        if path is not None:
            print(f"{what}: {printable(str(path))}")
    if options.out is None:
        print("to write the rows to keep: --out kept.npy")


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
        "vectors": len(found),
        "kept": len(found.kept),
        "dropped": len(found.dropped),
        "dropped_equal": found.n_equal,
        "dropped_similar": len(found.dropped) - found.n_equal,
        "zero": found.n_zero,
        "clusters": len(found.clusters),
        "largest_cluster": max(map(len, found.clusters), default=0),
        "pairs_compared": found.n_compared,
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
    shares = [
        (what, f"{count:,}", "" if what.startswith(" ") else f"{count / len(found):.1%}")
        for what, count in counts.items()
    ]
    print_table(
        f"near-duplicates of {source.shape[1]:,} dimensions, {seconds:.1f} s",
        ("", "count", "share"),
        shares,
    )
    largest = sorted(found.clusters, key=len, reverse=True)[:show]
    if largest:
        rows = [_describe_cluster(found, members) for members in largest]
        head = ("kept", "dropped", f"{found.metric} to the kept one")
        print_table(f"largest of {figures['clusters']:,} clusters", head, rows)
    print(f"{found.n_compared:,} candidates were compared exactly; of pairs right at the")
    print("threshold, about 1 in 10,000 is missed.")


def _describe_cluster(found: DuplicateVectors, members: Any) -> tuple[str, str, str]:
    from numpy import searchsorted

    measure = found.measure[searchsorted(found.dropped, members[1:])]
    low, high = f"{measure.min():.4g}", f"{measure.max():.4g}"
    return (
        f"row {members[0] + 1:,}",
        f"{len(members) - 1:,}",
        low if low == high else f"{low} to {high}",
    )
