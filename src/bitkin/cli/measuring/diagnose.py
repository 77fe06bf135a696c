"""`bitkin diagnose`: what vectors in files look like to a hasher."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from bitkin.choices import METRICS
from bitkin.cli.arguments import (
    Column,
    Dataset,
    Features,
    Json,
    Vectors,
    ZeroBased,
    one_of_choices,
    require_other_file,
)
from bitkin.cli.help import complete_from
from bitkin.cli.output import print_json, printable, progress_bar
from bitkin.cli.shared import say


def diagnose(
    vectors: Vectors,
    metric: Annotated[
        str,
        typer.Option(
            help="By which rows will be searched: l2, cosine or ip.",
            autocompletion=complete_from(*METRICS),
        ),
    ] = "l2",
    sample: Annotated[
        int, typer.Option(min=100, help="Rows on which directions and neighbours are measured.")
    ] = 20_000,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a page to this file.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**64 - 1, help="Seed of all draws.")] = 0,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Say what vectors look like to a code, what that means, and what to set because of it.

    Directions, mean, columns, lengths, rows far off, zeros, copies, ties, hubs and the order of the
    file: each is fine, worth knowing (notice), or costs neighbours unless something is done
    (warning). With --json a line per finding. Warnings do not change the exit code.

    Example: bitkin diagnose vectors.npy

    Example: bitkin diagnose vectors.npy --metric cosine --html page.html
    """
    one_of_choices(metric, "--metric", list(METRICS))
    if html is not None:
        require_other_file(html, vectors, "--html")
    from bitkin.evaluate.diagnosis.diagnose import diagnose as find_out
    from bitkin.input_files import VectorFileOptions
    from bitkin.io.vectors.source import WatchedSource

    source = VectorFileOptions(column, dataset, features, zero_based).open(vectors)
    with progress_bar("reading", source.shape[0], then="measuring") as done:
        watched = WatchedSource(source, _never_back(done))
        diagnosis = find_out(watched, metric=metric, sample_rows=sample, random_state=seed)
    if json:
        for found in diagnosis.findings:
            print_json(**found.to_dict())
    else:
        width = min(100, max(60, shutil.get_terminal_size((100, 24)).columns))
        for line in diagnosis.lines(width):
            print(printable(line))
    if html is not None:
        diagnosis.to_html(html, command=shlex.join(["bitkin", *sys.argv[1:]]))
        if not json:
            say(f"wrote {html}")


def _never_back(report: Callable[[int], None]) -> Callable[[int], None]:
    """Return a report that stays where it was when rows are read a second time."""
    most = 0

    def forwards(done: int) -> None:
        nonlocal most
        most = max(most, done)
        report(most)

    return forwards
