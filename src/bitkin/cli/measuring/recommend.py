"""`bitkin recommend`: vectors in files → the cheapest way to keep and search them."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.choices import METRICS, MOST_NEIGHBORS
from bitkin.cli.arguments import (
    Column,
    Dataset,
    Features,
    Json,
    Vectors,
    ZeroBased,
    one_of_choices,
)
from bitkin.cli.help import complete_from
from bitkin.cli.measuring.targets import check_targets
from bitkin.cli.output import fail, print_json, printable, progress_bar
from bitkin.cli.shared import is_quiet, say

if TYPE_CHECKING:
    from bitkin.evaluate.recommending.recommendation import Recommendation
    from bitkin.evaluate.recommending.watch import RecommendProgress
    from bitkin.input_files import VectorFileOptions
    from bitkin.io.vectors.source import VectorSource

_SECONDS_TO_WATCH, _LEAST_TO_SAY = 3.0, 15.0
_STEPS = 100  # of the bar
_INTERRUPTED = 130


def recommend(
    vectors: Vectors,
    recall: Annotated[
        float, typer.Option(help="Share of the true neighbours to find: above 0, up to 1.")
    ] = 0.95,
    k: Annotated[int, typer.Option("-k", min=1, max=MOST_NEIGHBORS, help="Neighbours.")] = 10,
    max_bytes: Annotated[
        float | None, typer.Option(help="Bytes per vector, at most. [default: any]")
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="By which neighbours are the nearest: l2, cosine or ip.",
            autocompletion=complete_from(*METRICS),
        ),
    ] = "l2",
    streaming: Annotated[
        bool,
        typer.Option("--streaming", help="Only hashers that learn from a stream, or never learn."),
    ] = False,
    queries: Annotated[
        Path | None,
        typer.Option(help="Queries as yours will be. [default: rows that are held out]"),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            help="What to try, such as pca, 'pca x itq' or wta; repeat it for several. [default: "
            "all that suit the rows]",
        ),
    ] = None,
    sample_rows: Annotated[
        int, typer.Option(min=1, help="Rows that methods learn from, at most.")
    ] = 20_000,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds after which the best so far is taken.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with plots to this file.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write the tables to this Markdown file.")
    ] = None,
    build: Annotated[
        Path | None,
        typer.Option(
            help="Make the collection that is recommended, with all rows, in this folder, which "
            "must not be there yet."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all random draws.")] = 0,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Find the cheapest code, stage and oversample that reach a recall on your vectors.

    Cheapest is of fewest bytes per vector. Most methods are tried only as far as it takes to see
    that they cannot win; recall and its interval are of queries that had no part in the choice.
    Ctrl-C prints the best so far. Where nothing reaches the recall, the best found is printed too,
    and the exit code is 1.

    Example: bitkin recommend vectors.npy

    Example: bitkin recommend vectors.npy --recall 0.8 --max-bytes 64 --metric cosine --json

    Example: bitkin recommend vectors.npy --build items
    """
    one_of_choices(metric, "--metric", list(METRICS))
    if build is not None and (build.exists() or build.is_symlink()):
        raise typer.BadParameter(f"{build} is there already.", param_hint="'--build'")
    _require_numbers(recall, max_bytes, time_limit)
    check_targets(html, markdown, [*vectors, *filter(None, [queries])])
    from bitkin.errors import TargetNotReachedError
    from bitkin.evaluate.recommending.run import RecommendInterrupt
    from bitkin.evaluate.recommending.settings import RecommendSettings
    from bitkin.input_files import VectorFileOptions, open_queries

    options = VectorFileOptions(column, dataset, features, zero_based)
    source = options.open(vectors)
    settings = RecommendSettings(
        recall=recall,
        k=k,
        max_bytes=max_bytes,
        metric=metric,
        streaming=streaming,
        methods=method,
        sample_rows=sample_rows,
        time_limit=time_limit,
        random_state=seed,
        own_queries=queries is not None,
    )
    columns = SimpleNamespace(n_features_in_=source.shape[1])
    asked = None if queries is None else open_queries(queries, options, columns)
    recipe = _write_recipe(vectors, queries, options, settings.call)
    try:
        found = _run(source, asked, settings)
    except (TargetNotReachedError, RecommendInterrupt) as stopped:
        if stopped.best is not None:
            _show(stopped.best, recipe, html, markdown, as_json=json)
        if isinstance(stopped, TargetNotReachedError):
            fail(_spell(str(stopped)))
        sys.exit(_INTERRUPTED)
    _show(found, recipe, html, markdown, as_json=json)
    if build is not None:
        with progress_bar("building the collection", None, ""):
            found.build(options.open(vectors), build).close()
        if not json:
            say(f"collection: {build}")


def _require_numbers(recall: float, max_bytes: float | None, time_limit: float | None) -> None:
    """End with a usage error where a number cannot be meant."""
    if not 0.0 < recall <= 1.0:
        raise typer.BadParameter(
            f"{recall:g} is not above 0 and up to 1, such as 0.95.", param_hint="'--recall'"
        )
    for value, option in ((max_bytes, "--max-bytes"), (time_limit, "--time-limit")):
        if value is not None and not value > 0.0:
            raise typer.BadParameter(f"{value:g} is not above 0.", param_hint=f"'{option}'")


def _spell(message: str) -> str:
    """Return a message with arguments as options."""
    return message.replace("max_bytes=", "--max-bytes ").replace("recall=", "--recall ")


def _run(source: VectorSource, queries: Any, settings: Any) -> Recommendation:
    """Find the true neighbours, then the recommendation, and say how long that will take."""
    from bitkin.evaluate.recommending.run import RecommendRun

    forecast = _RecommendForecast()
    with progress_bar("finding the true neighbours", None, ""):
        run = RecommendRun(source, queries, settings, forecast.update)
    with progress_bar("trying codes", _STEPS, "%", "finishing") as show:
        forecast.show = show
        return run.run()


class _RecommendForecast:
    """Moves the bar, and says once how long it will take, when some seconds have been watched."""

    def __init__(self) -> None:
        self.show: Any = None
        self._began: float | None = None
        self._is_said = is_quiet()

    def update(self, told: RecommendProgress) -> None:
        """Take notice of how far the recommendation is."""
        self.show(round(_STEPS * told.share))
        now = time.perf_counter()
        self._began = self._began or now
        if self._is_said or told.seconds_left is None or now - self._began < _SECONDS_TO_WATCH:
            return
        self._is_said = True
        seconds = told.seconds_left
        if seconds > _LEAST_TO_SAY:
            left = f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{seconds:.0f} seconds"
            print(f"this will take about {left} more; Ctrl-C takes the best so far",
                  file=sys.stderr)  # fmt: skip


def _write_recipe(
    vectors: list[Path], queries: Path | None, options: VectorFileOptions, call: str
) -> list[str]:
    """Return lines of Python that find the same for the same files, and build it."""
    said = {name: value for name, value in options._asdict().items() if value is not None}
    how = "".join(f", {name}={value!r}" for name, value in said.items())
    paths = [str(path) for path in vectors]
    recipe = [f"X = bitkin.io.open_vectors({(paths[0] if len(paths) == 1 else paths)!r}{how})"]
    if queries is not None:
        recipe.append(f"queries = bitkin.io.open_vectors({str(queries)!r}{how})")
    return [*recipe, f"best = {call}", "collection = best.build(X)  # ready to search"]


def _show(
    found: Recommendation,
    recipe: list[str],
    html: Path | None,
    markdown: Path | None,
    *,
    as_json: bool,
) -> None:
    """Write the files that were asked for, and print the recommendation."""
    from bitkin.evaluate.recommending.wording import describe

    found = replace(found, command=shlex.join(["bitkin", *sys.argv[1:]]))
    if html is not None:
        found.to_html(html)
    if markdown is not None:
        found.to_markdown(markdown)
    if as_json:
        print_json(**found.to_dict())
        return
    for line in describe(found, recipe=recipe).splitlines():
        print(printable(line))
    for path in filter(None, (html, markdown)):
        say(f"report: {path}")
