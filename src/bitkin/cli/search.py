"""`bitkin search`: an index and queries in files → neighbours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.cli.arguments import (
    Column,
    Dataset,
    Features,
    Json,
    ZeroBased,
    load_hasher,
    load_index,
    require_other_file,
)
from bitkin.cli.correction_files import read_corrections
from bitkin.cli.id_files import read_ids
from bitkin.cli.output import print_json, progress_bar
from bitkin.cli.searching import queries as asking
from bitkin.cli.searching import report
from bitkin.cli.searching.plan import MOST, OVERSAMPLE, K, Wanted, last_stage

if TYPE_CHECKING:
    from bitkin.cli.searching.rows import FileRows
    from bitkin.codes import Codes
    from bitkin.hashers.base import Hasher
    from bitkin.index.base import RowIndex

_QUERIES_AT_ONCE = 1024


def search(
    index: Annotated[
        Path, typer.Argument(help="An index made by bitkin index.", show_default=False)
    ],
    queries: Annotated[
        Path,
        typer.Argument(help="Vectors (with --model) or codes to look for.", show_default=False),
    ],
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The model that encodes the queries.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", min=1, max=MOST, help="Neighbours a query; 10 if absent.")
    ] = None,
    radius: Annotated[
        int | None,
        typer.Option(min=0, help="All within this distance of codes, instead of the k nearest."),
    ] = None,
    stage: Annotated[
        str | None,
        typer.Option(
            help="codes, estimate or exact; if absent, the best that the files given permit."
        ),
    ] = None,
    oversample: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST,
            help="Codes keep k · this · 10 rows, the estimate k · this; 10 if absent.",
        ),
    ] = None,
    vectors: Annotated[
        list[Path] | None,
        typer.Option(help="The vectors that were encoded, for exact; repeat it for several files."),
    ] = None,
    corrections: Annotated[
        Path | None,
        typer.Option(
            help="What bitkin encode --corrections wrote, for estimate. An .npy array of them is "
            "taken as it is: for "
            "which metric and model it was made is not known."
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Of estimate and exact: l2, cosine or ip; l2 if absent.")
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(help="The ids of the rows of --vectors and --corrections, if not 0, 1, 2, …"),
    ] = None,
    allow: Annotated[
        Path | None,
        typer.Option(
            "--filter",
            "--allow",
            help="The ids that may be returned: an .npy file, or text, one a line.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write ids and distances to this .npz file.")
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="Queries to show.")] = 10,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Print what every stage took; with --json, as the last line."
        ),
    ] = False,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Find the nearest rows of every query: by codes, exactly, and then among the best of those by
    better distances.

    codes counts the symbols that differ. estimate, of the metric, needs --corrections and a
    projection; exact measures --vectors. Both score only what the stage before kept. Ties go to the
    lower id.

    Example: bitkin search index.bitkin queries.npy --model model.bitkin -k 10 --vectors vectors.npy
    --explain
    """
    files = vectors or []
    last = last_stage(Wanted(stage, k, radius, oversample, metric, model, files, corrections, ids))
    if out is not None:
        if out.suffix != ".npz":
            raise typer.BadParameter(f"{out} must end in .npz.", param_hint="'--out'")
        inputs = [index, queries, model, allow, corrections, ids, *files]
        require_other_file(out, [path for path in inputs if path is not None])

    from bitkin.collection.results import require_result_fits
    from bitkin.rescoring.corrections import scorer_for
    from bitkin.rescoring.funnel import Funnel, Timings, steps_to

    opened = load_index(index)
    allowed = None if allow is None else read_ids(allow)
    options = asking.FileOptions(column, dataset, features, zero_based)
    timings = Timings()
    hasher = None if model is None else load_hasher(model)
    able = frozenset({"codes", last} | (set() if corrections is None else {"estimate"}))
    steps = steps_to(
        last, able, K if k is None else k, OVERSAMPLE if oversample is None else oversample
    )
    metric = "l2" if metric is None else metric
    scores = any(step.stage == "estimate" for step in steps)
    funnel = Funnel(steps, scorer_for(hasher, metric) if scores else None, metric)
    at_once = min(_QUERIES_AT_ONCE, funnel.queries_at_once(len(opened)))
    if hasher is None:
        asked = asking.stored_codes(queries, options, at_once)
    else:
        asked = asking.encoded(queries, options, hasher, at_once, timings)
    if out is not None and radius is None:
        require_result_fits(asked.total, steps[-1])
    rows = _rows(opened, files, corrections, ids, options, queries, hasher, funnel.metric)

    def find(batch: Any, codes: Codes, timings: Timings) -> report.Found:
        if radius is None:
            return funnel.nearest(rows, batch, codes, allowed, timings=timings)
        start = time.perf_counter()
        found = opened.search_radius(codes, radius, allow=allowed)
        timings.add("codes", start, len(codes) * len(opened), len(found.ids))
        return found

    found: list[Any] = []  # all of it to write it, else what is shown
    searching, done = 0.0, 0
    with progress_bar("searching", asked.total, "queries") as progress:
        for batch, codes in asked.batches:
            if done == 0:
                # compiles kernels, outside the clock
                find(None if batch is None else batch[:1], codes[:1], Timings())
            start = time.perf_counter()
            result = find(batch, codes, timings)
            searching += time.perf_counter() - start
            if json:
                for q, (row_ids, distances) in enumerate(report.rows_of(result)):
                    print_json(query=done + q, ids=row_ids, distances=distances)
            if out is not None or (done < show and not json):
                found.append(result)
            done += len(codes)
            progress(done)
    if out is not None and radius is None:
        report.write_nearest(out, found, steps[-1], opened.spec)
    elif out is not None:
        report.write_within(out, found)
    if not json:
        report.show(found, done, min(show, done), searching, len(opened))
    if explain:
        report.explain(timings, done, type(opened).__name__, json)


def _rows(
    index: RowIndex,
    vectors: list[Path],
    corrections: Path | None,
    ids: Path | None,
    options: asking.FileOptions,
    queries: Path,
    hasher: Hasher | None,
    metric: str,
) -> FileRows:
    """Open what the stages need beside the index."""
    from bitkin.cli.searching.rows import FileCorrections, FileRows, FileVectors

    numbers = None if ids is None else read_ids(ids)
    stored = scores = None
    if vectors and hasher is not None:
        stored = FileVectors(
            asking.stored_vectors(vectors, options, queries, hasher), numbers, index
        )
    if corrections is not None and hasher is not None:
        read = read_corrections(corrections, metric, hasher.fingerprint_)
        scores = FileCorrections(read, numbers, index, str(corrections), metric)
    return FileRows(index, stored, scores)
