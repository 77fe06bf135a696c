"""`bitkin evaluate`: what a search found, measured against what it should have found."""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.choices import MEASURES, MOST_NEIGHBORS, TRUTH_METRICS
from bitkin.cli.arguments import (
    Column,
    Dataset,
    Features,
    Json,
    ZeroBased,
    one_of_choices,
    require_other_file,
    usage_errors,
)
from bitkin.cli.help import complete_from
from bitkin.cli.output import print_json, print_table, printable, progress_bar
from bitkin.cli.shared import say

if TYPE_CHECKING:
    from bitkin.evaluate.found.evaluation import Evaluation
    from bitkin.evaluate.found.measures import Figure


def evaluate(
    found: Annotated[
        Path,
        typer.Argument(
            help="What bitkin search --out wrote; or ids alone, in .npy, .npz, .ivecs or HDF5.",
            show_default=False,
        ),
    ],
    truth: Annotated[
        Path | None,
        typer.Option(
            help="The ids that should have been found, nearest first: such a file, or the truth of "
            "a benchmark in .ivecs or HDF5."
        ),
    ] = None,
    vectors: Annotated[
        list[Path] | None,
        typer.Option(
            help="The vectors that were searched, whose true neighbours are found, exactly; repeat "
            "it for several files."
        ),
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="The vectors that were looked for, with --vectors.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="The label of every row: those of the query's label should have been found. .npy, "
            ".npz (sparse for several labels), or text, one per line."
        ),
    ] = None,
    query_labels: Annotated[
        Path | None, typer.Option(help="The label of every query, with --labels.")
    ] = None,
    relevant: Annotated[
        Path | None,
        typer.Option(
            help="Which rows should have been found, true or false for every query and row: .npy, "
            "HDF5 or .npz, dense or sparse."
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            min=1,
            max=MOST_NEIGHBORS,
            help="True neighbours per query; if absent all of --truth, or 10 of --vectors, fewer "
            "where fewer were found.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="By which the neighbours in --vectors are the nearest: l2, cosine, ip or jaccard; "
            "l2 if absent.",
            autocompletion=complete_from(*TRUTH_METRICS),
        ),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            help=f"{', '.join(MEASURES[:-1])} or {MEASURES[-1]}; repeat it for several. If absent "
            "recall of neighbours; with --labels and --relevant precision-recall and map.",
            autocompletion=complete_from(*MEASURES),
        ),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(help="Of error-at-recall: the share of matches to accept; 0.95 if absent."),
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            help="The ids of the rows of --vectors, --labels, --relevant or of a --truth of row "
            "numbers, if not 0, 1, 2, …"
        ),
    ] = None,
    per_query: Annotated[
        int, typer.Option(min=0, help="Also show so many of the worst queries.")
    ] = 0,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a page to this file.")
    ] = None,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache/--no-cache",
            help="Keep the true neighbours in --vectors for the next time, in BITKIN_CACHE or the "
            "user's cache folder.",
        ),
    ] = True,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Measure what a search found, against true neighbours, labels or relevant rows: the mean over
    the queries and its 95 % interval.

    recall@10 is the share of the 10 true neighbours among the first 10 found, and in the first 20,
    50, … where more were searched for. Rows at one distance count as in any order, but for recall.
    Queries with nothing to be found are left out and counted.

    Example: bitkin evaluate found.npz --vectors vectors.npy --queries queries.npy -k 10
    """
    for name in measure or []:
        one_of_choices(name, "--measure", list(MEASURES))
    if metric is not None:
        one_of_choices(metric, "--metric", list(TRUTH_METRICS))
    from bitkin.evaluate.found.evaluation import Evaluation
    from bitkin.evaluate.found.request import EvaluationRequest
    from bitkin.input_files import VectorFileOptions

    request = EvaluationRequest(
        found,
        truth=truth,
        vectors=tuple(vectors or []),
        queries=queries,
        labels=labels,
        query_labels=query_labels,
        relevant=relevant,
        ids=ids,
        k=k,
        metric=metric,
        measures=tuple(dict.fromkeys(measure or [])),
        recall=recall,
    )
    with usage_errors():
        request.require_sense()
        if html is not None:
            require_other_file(html, request.files, "--html")
    options = VectorFileOptions(column, dataset, features, zero_based)
    evaluation = Evaluation(request, options, cache=cache)
    total = evaluation.n_to_search
    task = "measuring" if total is None else "finding true neighbours"
    with progress_bar(task, total, then="measuring") as progress:
        figures = evaluation.figures(progress)
    if json:
        _print_lines(evaluation, figures, per_query)
    else:
        _print_figures(evaluation, figures)
        if per_query:
            _print_worst(evaluation, figures[0], per_query)
    if html is not None:
        _write_page(html, evaluation, figures)
        if not json:
            say(f"wrote {html}")


def _print_lines(evaluation: Evaluation, figures: list[Figure], n_worst: int) -> None:
    """Print a JSON line per figure, and one per query that is shown."""
    for figure in figures:
        print_json(**_describe(figure), queries=evaluation.rows.n_queries)
    for query, value in _worst(figures[0], n_worst):
        missed = evaluation.missed(query)
        print_json(
            query=query,
            measure=figures[0].name,
            value=value,
            **({} if missed is None else {"missed": missed}),
        )


def _describe(figure: Figure) -> dict[str, Any]:
    low, high = figure.interval or (None, None)
    left_out = 0 if figure.per_query is None else figure.per_query.n_left_out
    return {
        "measure": figure.name,
        "mean": figure.mean,
        "low": low,
        "high": high,
        "left_out": left_out,
    }


def _print_figures(evaluation: Evaluation, figures: list[Figure]) -> None:
    facts = evaluation.facts
    print(printable(f"{facts['found']}: {facts['queries']:,} queries, "
                    f"{facts['rows found per query']} rows each"))  # fmt: skip
    print(printable(f"truth: {facts['truth']}"))
    rows = [(figure.name, f"{figure.mean:.4f}", _interval_of(figure)) for figure in figures]
    print_table("", ("measure", "mean", "95 % interval"), rows)
    left_out = _count_left_out(figures)
    if left_out:
        print(f"{left_out:,} of {facts['queries']:,} queries have nothing to measure and are left "
              "out.")  # fmt: skip


def _interval_of(figure: Figure) -> str:
    if figure.interval is None:
        return "–"
    return f"{figure.interval[0]:.4f} to {figure.interval[1]:.4f}"


def _count_left_out(figures: list[Figure]) -> int:
    return max(0 if one.per_query is None else one.per_query.n_left_out for one in figures)


def _worst(figure: Figure, n: int) -> list[tuple[int, float]]:
    """Return the queries with the smallest values, and these; those left out are none of them."""
    if figure.per_query is None:
        return []
    values = figure.per_query.values
    order = values.argsort(kind="stable")[:n]  # NaN comes last
    return [(int(i), float(values[i])) for i in order if not math.isnan(values[i])]


def _print_worst(evaluation: Evaluation, figure: Figure, n: int) -> None:
    """Print the queries that have the lowest figure, and what they missed."""
    rows = []
    for query, value in _worst(figure, n):
        missed = evaluation.missed(query)
        shown = "" if missed is None else " ".join(map(str, missed))
        rows.append((str(query), f"{value:.4f}", *([] if missed is None else [shown])))
    if not rows:
        print(f"{figure.name} is one figure for all queries: none of them is the worst.")
        return
    columns = ("query", figure.name, "nearest true ids that were not found")[: len(rows[0])]
    print_table("worst queries", columns, rows)


def _write_page(path: Path, evaluation: Evaluation, figures: list[Figure]) -> None:
    """Write facts and figures as a page."""
    from bitkin.evaluate.reporting.page import ReportPage, write_html

    facts: dict[str, Any] = dict(evaluation.facts)
    for figure in figures:
        interval = "" if figure.interval is None else f" ({_interval_of(figure)}, 95 %)"
        facts[figure.name] = f"{figure.mean:.4f}{interval}"
    facts["queries left out"] = _count_left_out(figures)
    command = shlex.join(["bitkin", *sys.argv[1:]])
    write_html(ReportPage("What a search found", facts, command), path)
