"""`bitkin classify`: texts or vectors → classes in a taxonomy, by a small table of hashed
weights.
"""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from bitkin.cli.arguments import (
    FORMATS,
    Column,
    Dataset,
    Features,
    Json,
    ZeroBased,
    file_or_stdout,
    one_of_choices,
    out_option,
    require_other_file,
)
from bitkin.cli.classifying.classes import build_tree, require_one_tree
from bitkin.cli.classifying.inputs import ExampleRows, RowOptions, Truths, open_input
from bitkin.cli.classifying.models import (
    LearningBars,
    load_classifier,
    read_all,
    require_kind,
    with_model_columns,
)
from bitkin.cli.classifying.report import (
    compute_figures,
    measure_peak_bytes,
    memory_rows,
    predict_records,
    print_figures,
    print_records,
)
from bitkin.cli.classifying.training import train_on_cluster
from bitkin.cli.clusters import cluster_option
from bitkin.cli.help import Command, Group, complete_from
from bitkin.cli.output import print_json, print_table, progress_bar
from bitkin.cli.shared import say, with_shared_options

app = typer.Typer(
    cls=Group,
    help="Classify texts or vectors into a taxonomy, by one small table of weights.\n\n"
    "Example: bitkin classify train --example icd10 -o model.bitkin && "
    "bitkin classify evaluate model.bitkin --example icd10\n\n",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        help=f"Texts (.jsonl, .jsonl.gz) or vectors ({FORMATS}), read as one.", show_default=False
    ),
]
Model = Annotated[
    Path, typer.Argument(help="What bitkin classify train wrote.", show_default=False)
]
Text = Annotated[str | None, typer.Option(help="Field of the text: JSON lines. [default: text]")]
Label = Annotated[str | None, typer.Option(help="Field of the class: JSON lines.")]
ClassPath = Annotated[
    str | None,
    typer.Option(
        "--path",
        help="Field that lists the labels from the top down, or fields, as in a/b/c: JSON lines.",
    ),
]
Labels = Annotated[
    Path | None, typer.Option(help="File of the classes: one line per vector, or .npy.")
]
Example = Annotated[
    str | None, typer.Option(help="icd10: texts of diagnoses, which ship with bitkin.")
]
Margin = Annotated[
    float | None,
    typer.Option(
        min=0, help="Answer with the lowest node that leads all classes outside it by this much."
    ),
]


@app.command(cls=Command)
@with_shared_options
def train(
    out: Annotated[Path, out_option("The model to write.")],
    files: Files = None,
    text: Text = None,
    label: Label = None,
    path: ClassPath = None,
    labels: Labels = None,
    example: Example = None,
    taxonomy: Annotated[
        Path | None, typer.Option(help="CSV of the tree above the labels, with a header.")
    ] = None,
    layout: Annotated[
        str,
        typer.Option(
            help="What a line of the CSV is: paths, or parents (node, parent).",
            autocompletion=complete_from("paths", "parents"),
        ),
    ] = "paths",
    separator: Annotated[
        str | None, typer.Option(help="Labels hold their paths, separated by this.")
    ] = None,
    buckets: Annotated[str, typer.Option(help="Weights per level, as 262144 or 2^18.")] = "2^18",
    max_bytes: Annotated[
        str | None,
        typer.Option(help="Memory of all weights, as 3000000 or 2^20; decides the buckets."),
    ] = None,
    loss: Annotated[
        str,
        typer.Option(
            help="hinge, or softmax, which has probabilities.",
            autocompletion=complete_from("hinge", "softmax"),
        ),
    ] = "hinge",
    alpha: Annotated[
        str, typer.Option(help="Strength of the L2 penalty, or auto: chosen on held-out rows.")
    ] = "auto",
    passes: Annotated[int, typer.Option(min=1, help="Passes over the rows.")] = 10,
    beam: Annotated[
        str, typer.Option(help="Nodes of a level to continue with: a number, auto or all.")
    ] = "auto",
    early_stopping: Annotated[
        bool,
        typer.Option(
            "--early-stopping", help="Stop when the error on a tenth of the rows stops falling."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**64 - 1, help="Seed of hashes and orders.")] = 0,
    dask: Annotated[str | None, cluster_option] = None,
    shards: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Parts of the rows that learn by themselves within a pass, with --dask. [default: "
            "one per 50,000 rows, at most 64]",
        ),
    ] = None,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Learn to classify rows into a taxonomy.

    Texts become words and pairs of words, hashed; labels become text. Without a tree, classes hang
    below one root. With --path, classes of one name at several places are told apart by their whole
    paths. With --dask the workers of a cluster read the files and learn them.

    Example: bitkin classify train notes.jsonl --text description --path chapter/section/category -o
    model.bitkin

    Example: bitkin classify train bags.npz --labels labels.txt --separator . --buckets 2^16 -o
    model.bitkin

    Example: bitkin classify train notes/*.jsonl --text description --label class -o model.bitkin
    --dask tcp://10.0.0.1:8786
    """
    from bitkin.dedup.files import require_writable
    from bitkin.input_files import VectorFileOptions
    from bitkin.learn.heshing.heshing_classifier import HeshingClassifier

    start = time.perf_counter()
    one_of_choices(loss, "--loss", ["hinge", "softmax"])
    require_one_tree(path is not None or example is not None, taxonomy, layout, separator)
    if dask is None and shards is not None:
        raise typer.BadParameter("--shards means nothing without --dask.", param_hint="'--shards'")
    if dask is not None and example is not None:
        raise typer.BadParameter("--dask takes files, no --example.", param_hint="'--dask'")
    model = HeshingClassifier(
        n_buckets=_parse_whole(buckets, "--buckets"),
        max_bytes=None if max_bytes is None else _parse_whole(max_bytes, "--max-bytes"),
        loss=loss,
        alpha=alpha if alpha == "auto" else _parse_positive(alpha, "--alpha"),
        max_iter=passes,
        beam={"auto": "auto", "all": None}[beam]
        if beam in ("auto", "all")
        else _parse_whole(beam, "--beam"),
        early_stopping=early_stopping,
        random_state=seed,
    )
    vector_files = VectorFileOptions(column, dataset, features, zero_based)
    options = RowOptions(vector_files, text, label, path, labels)
    rows = open_input(files or [], example, options, labelled=True, held_out=False)
    require_other_file(
        out, [*(files or []), *(one for one in (labels, taxonomy) if one is not None)]
    )
    require_writable(out)
    if dask is not None and not isinstance(rows, ExampleRows):
        build = partial(build_tree, taxonomy=taxonomy, layout=layout, separator=separator)
        with LearningBars() as bars:
            n_rows = train_on_cluster(model, dask, rows, files or [], options, build, shards, bars)
    else:
        X, truths = read_all(rows)
        n_rows = len(truths)
        model.taxonomy, named = build_tree(truths, taxonomy, layout, separator)
        with LearningBars() as model.progress:
            model.fit(X, named)
    model.save(out)
    figures = {
        "model": str(out),
        "rows": n_rows,
        "classes": len(model.classes_),
        "levels": model.taxonomy_.n_levels,
        "nodes": model.taxonomy_.n_nodes,
        "buckets": model.weights_.shape[1],
        "alpha": model.alpha_,
        "passes": model.n_iter_,
        "loss": model.losses_[-1],
        "weight_bytes": model.weights_.nbytes,
        "file_bytes": out.stat().st_size,
        "peak_bytes": measure_peak_bytes(),
        "seconds": round(time.perf_counter() - start, 3),
    }
    if json:
        print_json(**figures)
        return
    say(
        f"{out}: {figures['classes']:,} classes in {figures['levels']} levels, learned from "
        f"{figures['rows']:,} rows\n"
        f"in {figures['passes']} passes with alpha {figures['alpha']:.2g}, "
        f"{figures['seconds']:.1f} s"
    )
    print_table("memory", ("", "bytes"), memory_rows(figures))
    what = "--example icd10" if example else f"FILES{options.repeat()}"
    say(f"next: bitkin classify evaluate {shlex.quote(str(out))} {what}")


@app.command(cls=Command)
@with_shared_options
def predict(
    model: Model,
    files: Files = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Write JSON lines here, packed if the name ends in .gz. [default: stdout]",
            callback=file_or_stdout,
        ),
    ] = None,
    text: Text = None,
    example: Example = None,
    top: Annotated[int, typer.Option(min=1, help="Best classes per row.")] = 1,
    min_margin: Margin = None,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Write the class of every row, its path and its score: one JSON line per row.

    Of classes that share a name, the label is the whole path, joined by slashes.

    Example: bitkin classify predict model.bitkin notes.jsonl --text description

    Example: bitkin classify predict model.bitkin bags.npz --top 5 -o predictions.jsonl
    """
    from bitkin.dedup.files import require_writable, write_records
    from bitkin.input_files import VectorFileOptions

    classifier = load_classifier(model)
    start = time.perf_counter()
    vector_files = VectorFileOptions(column, dataset, features, zero_based)
    options = RowOptions(with_model_columns(vector_files, classifier, files or []), text)
    rows = open_input(files or [], example, options, labelled=False, held_out=True)
    if out is not None:
        require_other_file(out, [model, *(files or [])])
        require_writable(out)
    if top > len(classifier.classes_):
        raise typer.BadParameter(
            f"the model has {len(classifier.classes_)} classes.", param_hint="'--top'"
        )
    count = 0
    fills_terminal = out is None and sys.stdout.isatty()

    def records() -> Iterator[dict[str, Any]]:
        nonlocal count
        with (
            nullcontext(_show_nothing)
            if fills_terminal
            else progress_bar("predicting", rows.total, rows.unit) as done
        ):
            for X, _ in rows.batches(done):
                require_kind(classifier, X)
                for record in predict_records(classifier, X, top, min_margin):
                    yield {"row": count, **record}
                    count += 1

    if out is None:
        print_records(records())
        return
    write_records(out, records(), None)
    seconds = time.perf_counter() - start
    if json:
        print_json(predictions=str(out), rows=count, seconds=round(seconds, 3))
    else:
        say(f"{out}: {count:,} rows, {seconds:.1f} s")


@app.command(cls=Command)
@with_shared_options
def evaluate(
    model: Model,
    files: Files = None,
    text: Text = None,
    label: Label = None,
    path: ClassPath = None,
    labels: Labels = None,
    example: Example = None,
    min_margin: Margin = None,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Compare predictions with the truth: errors by level, and the memory used.

    With --path whole paths are compared, with --label and --labels names. Rows of a class that the
    model never met are counted, and count as wrong on every level but the upper ones of their path
    that the model knows.

    Example: bitkin classify evaluate model.bitkin --example icd10

    Example: bitkin classify evaluate model.bitkin more.jsonl --text description --path
    chapter/section/category
    """
    from bitkin.input_files import VectorFileOptions

    classifier = load_classifier(model)
    start = time.perf_counter()
    vector_files = with_model_columns(
        VectorFileOptions(column, dataset, features, zero_based), classifier, files or []
    )
    options = RowOptions(vector_files, text, label, path, labels)
    rows = open_input(files or [], example, options, labelled=True, held_out=True)
    truths: Truths = []
    predicted: list[Any] = []
    n_empty = 0
    with progress_bar("predicting", rows.total, rows.unit) as done:
        for X, part in rows.batches(done):
            require_kind(classifier, X)
            truths += part
            predicted += classifier.predict_path(X, min_margin=min_margin).tolist()
            n_empty += int(classifier.empty_rows(X).sum())
    figures = compute_figures(classifier, model, truths, predicted, n_empty, by_path=rows.by_path)
    seconds = time.perf_counter() - start
    if json:
        print_json(model=str(model), **figures, seconds=round(seconds, 3))
    else:
        print_figures(figures, seconds)


def _show_nothing(_: int) -> None:
    """Be a bar that is not there."""


def _parse_whole(text: str, option: str) -> int:
    """Read a whole number, or a power such as 2^18."""
    if not (found := re.fullmatch(r"(\d{1,12})(?:(?:\^|\*\*)(\d{1,2}))?", text.strip())):
        raise typer.BadParameter(
            f"{text!r} is no whole number such as 262144 or 2^18.", param_hint=f"'{option}'"
        )
    number: int = int(found[1]) ** int(found[2] or 1)
    if number < 1:
        raise typer.BadParameter(f"{text} is not at least 1.", param_hint=f"'{option}'")
    return number


def _parse_positive(text: str, option: str) -> float:
    """Read a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise typer.BadParameter(
            f"{text!r} is no number above 0, and not auto.", param_hint=f"'{option}'"
        )
    return number
