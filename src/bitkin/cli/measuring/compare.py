"""`bitkin compare`: vectors in files → what every method finds, and what it costs."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.choices import MOST_NEIGHBORS, TRUTH_METRICS
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
from bitkin.cli.output import print_json, progress_bar
from bitkin.cli.shared import is_quiet, say

if TYPE_CHECKING:
    from bitkin.evaluate.comparing.comparison import Comparison
    from bitkin.evaluate.comparing.report import Report
    from bitkin.io.vectors.source import VectorSource

_OPTIONS_OF_ARGUMENTS = {
    "bits": "--bits",
    "methods": "--method",
    "picture_shape": "--picture-shape",
    "texts": "--texts",
    "time_limit": "--time-limit",
}
_SECONDS_TO_WATCH, _LEAST_TO_SAY = 3.0, 15.0


def compare(
    vectors: Vectors,
    bits: Annotated[
        list[str] | None,
        typer.Option(
            "--bits",
            "-b",
            help="Sizes of codes, such as 64,128; repeat it or use commas. [default: "
            "32,64,128,256]",
        ),
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
    metric: Annotated[
        str,
        typer.Option(
            help="By which neighbours are the nearest: l2, cosine, ip; jaccard for sparse rows as "
            "sets.",
            autocompletion=complete_from(*TRUTH_METRICS),
        ),
    ] = "l2",
    k: Annotated[int, typer.Option("-k", min=1, max=MOST_NEIGHBORS, help="Neighbours.")] = 10,
    queries: Annotated[
        Path | None,
        typer.Option(help="Queries as yours will be. [default: rows that are held out]"),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines/--no-baselines",
            help="Also measure PQ, OPQ, RaBitQ, scalar quantizers and HNSW of FAISS, where that "
            "is installed.",
        ),
    ] = True,
    sample_rows: Annotated[
        int, typer.Option(min=1, help="Rows that methods learn from, at most.")
    ] = 20_000,
    n_queries: Annotated[
        int, typer.Option("--query-rows", min=1, help="Queries, at most.")
    ] = 1_000,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds after which nothing new is measured.")
    ] = None,
    picture_shape: Annotated[
        str | None,
        typer.Option(help="How rows lie in pictures, such as 28x28 or 32x32x3: for --html."),
    ] = None,
    texts: Annotated[
        Path | None, typer.Option(help="What rows stand for, one line per row: for --html.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with plots to this file.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write the tables to this Markdown file.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of all random draws.")] = 0,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Measure what codes of every method and size find of the true neighbours in your vectors, and
    what they cost.

    Methods learn from a sample; recall is that of a search of all rows, and times are CPU times of
    one thread on the sample. Prints the best at each size; all of it with --json, --html or
    --markdown.

    Example: bitkin compare vectors.npy --metric cosine --bits 64,128 --html report.html
    """
    one_of_choices(metric, "--metric", list(TRUTH_METRICS))
    check_targets(html, markdown, [*vectors, *filter(None, (queries, texts))])
    sizes, shape = _parse_bits(bits), _parse_shape(picture_shape)
    from bitkin.evaluate.comparing.settings import BITS, ComparisonSettings
    from bitkin.input_files import VectorFileOptions, open_queries

    options = VectorFileOptions(column, dataset, features, zero_based)
    source = options.open(vectors)
    columns = SimpleNamespace(n_features_in_=source.shape[1])
    asked = None if queries is None else open_queries(queries, options, columns)
    with _options_refused():
        settings = ComparisonSettings(
            methods=method,
            bits=sizes or BITS,
            k=k,
            metric=metric,
            baselines="auto" if baselines else False,
            n_queries=n_queries,
            sample_rows=sample_rows,
            random_state=seed,
            time_limit=time_limit,
            picture_shape=shape,
            texts=None if texts is None else _read_texts(texts),
            own_queries=queries is not None,
        )
        report = _run(source, asked, settings)
    report = replace(report, command=shlex.join(["bitkin", *sys.argv[1:]]))
    _write(report, html, markdown)
    if json:
        for measured in report.measurements:
            print_json(**measured.to_dict())
        print_json(facts=report.to_dict()["facts"], notes=list(report.notes))
    else:
        print(report)
        for path in filter(None, (html, markdown)):
            say(f"report: {path}")


@contextmanager
def _options_refused() -> Iterator[None]:
    """Let what the library refuses about an argument be a usage error of its option."""
    from bitkin.errors import InvalidInputError

    try:
        yield
    except InvalidInputError as error:
        name, _, said = str(error).partition(" ")
        option = _OPTIONS_OF_ARGUMENTS.get(name)
        if option is None or not said.startswith("must "):
            raise
        raise typer.BadParameter(said, param_hint=f"'{option}'") from None


def _run(source: VectorSource, queries: Any, settings: Any) -> Report:
    """Draw a sample, measure, and say after a few methods how long all will take."""
    from bitkin.evaluate.comparing.comparison import Comparison

    with progress_bar("finding the true neighbours", None, ""):
        comparison = Comparison(source, queries, settings)
    total = len(comparison.tasks)
    forecast = _Forecast(comparison)
    with progress_bar("measuring", total, "methods", "finishing") as show:

        def progress(done: int, _: int) -> None:
            show(done)
            forecast.update(done)

        return comparison.run(progress)


class _Forecast:
    """Says once how long a comparison will take, when it has been watched for some seconds."""

    def __init__(self, comparison: Comparison) -> None:
        self._work = [task.work for task in comparison.tasks]
        self._began = time.perf_counter()
        self._is_said = is_quiet()

    def update(self, done: int) -> None:
        """Take notice of how many methods are done."""
        passed = time.perf_counter() - self._began
        if self._is_said or passed < _SECONDS_TO_WATCH:
            return
        self._is_said = True
        seconds = passed * (sum(self._work) / sum(self._work[:done]) - 1.0)
        if seconds > _LEAST_TO_SAY:
            left = f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{seconds:.0f} seconds"
            print(f"{len(self._work)} methods will take about {left} more", file=sys.stderr)


def _parse_bits(given: list[str] | None) -> tuple[int, ...]:
    words = [word.strip() for text in given or [] for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise typer.BadParameter(
            f"{','.join(words)!r} is not a list of whole numbers such as 64,128.",
            param_hint="'--bits'",
        )
    return tuple(map(int, words))


def _parse_shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    words = text.lower().replace("×", "x").split("x")
    if len(words) not in (2, 3) or not all(word.isdecimal() for word in words):
        raise typer.BadParameter(
            f"{text!r} is not a height and a width such as 28x28, or 32x32x3.",
            param_hint="'--picture-shape'",
        )
    return tuple(map(int, words))


def _read_texts(path: Path) -> list[str]:
    from bitkin.errors import FileAccessError

    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FileAccessError(f"{path} cannot be read: {error.strerror or error}.") from None
    # splitlines would also end a line at characters that texts hold, such as a form feed
    return text.removesuffix("\n").split("\n") if text else []


def _write(report: Report, html: Path | None, markdown: Path | None) -> None:
    if html is not None:
        report.to_html(html)
    if markdown is not None:
        report.to_markdown(markdown)
