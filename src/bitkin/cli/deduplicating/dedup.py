"""`bitkin dedup`: near-duplicate texts in files → the lines to keep, and what was dropped and
why.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.cli.arguments import FORMATS as VECTOR_FORMATS
from bitkin.cli.arguments import Column, Dataset, Json, a_file, one_of_choices, usage_errors
from bitkin.cli.clusters import cluster_option
from bitkin.cli.deduplicating.report import (
    DedupOutputs,
    count_clusters,
    show_clusters,
    show_counts,
)
from bitkin.cli.help import complete_from
from bitkin.cli.output import complain, print_json, print_table, progress_bar
from bitkin.cli.shared import is_quiet, require_new

if TYPE_CHECKING:
    from bitkin.dedup import DuplicateFinder, Duplicates
    from bitkin.dedup.documents.opening import DocumentSource
    from bitkin.dedup.files import DocumentPlaces
    from bitkin.dedup.hashing import TextHashing

_KB = 1000
STDIN = Path("-")


# options that vectors have no use for, and those that texts have none for
_FOR_TEXTS = (
    *("field", "id_field", "lower", "strip_punctuation", "normalize"),
    *("shingle", "size", "hashes", "dask"),
)
_FOR_VECTORS = ("metric", "column", "dataset")


def dedup(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Files, read as one: .jsonl, .csv, .tsv, .txt (also .gz), .parquet; - for stdin; "
            "or files of vectors.",
            show_default=False,
        ),
    ],
    field: Annotated[
        str | None, typer.Option(help="Field or column of the text; text if absent.")
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="jsonl, csv, tsv, parquet, text or vectors; auto goes by the file's name.",
            autocompletion=complete_from(
                "auto", "jsonl", "csv", "tsv", "parquet", "text", "vectors"
            ),
        ),
    ] = "auto",
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            "-t",
            help="Jaccard similarity of shingles that makes two texts one, 0.8 if absent; for "
            "vectors the cosine, 0.95, or the largest l2 distance.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Write the lines to keep, byte for byte.", callback=a_file
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write a JSON line for every dropped line: what is kept for it, and why.",
            callback=a_file,
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Write a JSON line for every pair found; equal texts by the first of them.",
            callback=a_file,
        ),
    ] = None,
    id_field: Annotated[
        str | None, typer.Option("--id", help="A field that names lines in reports.")
    ] = None,
    lower: Annotated[bool, typer.Option("--lower", help="Compare without case.")] = False,
    strip_punctuation: Annotated[
        bool, typer.Option("--strip-punctuation", help="Compare without punctuation.")
    ] = False,
    normalize: Annotated[
        bool,
        typer.Option("--normalize", help="Compare in Unicode's form NFKC, with single spaces."),
    ] = False,
    shingle: Annotated[
        str,
        typer.Option(
            help="What texts are cut into: words or chars.",
            autocompletion=complete_from("words", "chars"),
        ),
    ] = "words",
    size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2**31 - 1,
            help="Words or characters per shingle; 3 words or 9 chars if absent.",
        ),
    ] = None,
    hashes: Annotated[
        int, typer.Option(min=1, max=2**20, help="MinHash symbols per text. More miss less.")
    ] = 128,
    metric: Annotated[
        str,
        typer.Option(
            help="Of vectors: cosine or l2.", autocompletion=complete_from("cosine", "l2")
        ),
    ] = "cosine",
    column: Column = None,
    dataset: Dataset = None,
    dask: Annotated[str | None, cluster_option] = None,
    show: Annotated[int, typer.Option(min=0, help="Clusters to show.")] = 5,
    json: Json = False,
) -> None:
    """Find near-duplicate texts or vectors; keep the first of every cluster.

    Two texts are near-duplicates when the Jaccard similarity of their shingles, which is always
    compared exactly, is at least the threshold. What is written is the original, whatever the
    options say about comparing. A text without a shingle is similar to nothing, and
    kept. The misses that are printed are an upper bound. Vectors are near-duplicates when their
    cosine similarity is at least the threshold, or their l2 distance at most that; --out is .npy.

    Example: bitkin dedup texts.jsonl --field text --threshold 0.8 --out kept.jsonl --report
    dropped.jsonl

    Example: bitkin dedup texts/*.jsonl --field text --out kept.jsonl --dask tcp://10.0.0.1:8786
    """
    from bitkin.dedup.documents.opening import FORMATS

    one_of_choices(form, "--format", ["auto", *FORMATS, "vectors"])
    one_of_choices(metric, "--metric", ["cosine", "l2"])
    outputs = DedupOutputs(out, report, pairs)
    _require_different_files(files, {"--out": out, "--report": report, "--pairs": pairs})
    if form == "vectors" or (form == "auto" and any(map(_holds_vectors, files))):
        from bitkin.cli.deduplicating.vectors import VectorOptions, dedup_vectors

        _refuse(context, _FOR_TEXTS, "vectors")
        options = VectorOptions(threshold, metric, column, dataset, outputs, show, json=json)
        dedup_vectors(files, options)
        return
    _refuse(context, _FOR_VECTORS, "texts")
    if dask is not None and STDIN in files:
        raise typer.BadParameter(
            "workers cannot read standard input. Give files that they can read.",
            param_hint="'--dask'",
        )
    threshold = 0.8 if threshold is None else threshold
    if not 0 < threshold <= 1:
        raise typer.BadParameter(
            f"{threshold} is not above 0 and up to 1.", param_hint="'--threshold'"
        )
    one_of_choices(shingle, "--shingle", ["words", "chars"])
    from bitkin.dedup.files import write_dropped, write_kept, write_pairs

    hashing: dict[str, Any] = {
        "threshold": threshold,
        "shingle": shingle,
        "size": size,
        "n_hashes": hashes,
        "lower": lower,
        "strip_punctuation": strip_punctuation,
        "normalize": normalize,
    }
    start = time.perf_counter()
    with _open_source(files, field, id_field, form) as source:
        outputs.require_writable()
        if dask is None:
            finder: DuplicateFinder | TextHashing
            finder, found, places = _find_here(source, hashing, every_pair=pairs is not None)
        else:
            from bitkin.cli.deduplicating.on_cluster import find_on_cluster

            finder, found, places = find_on_cluster(
                dask, source, (field, id_field, form), hashing, every_pair=pairs is not None
            )
        if out is not None:
            with progress_bar("writing lines to keep", source.n_bytes // _KB, "kB") as done:
                write_kept(
                    out, source, found.kept, len(found), lambda n_bytes: done(n_bytes // _KB)
                )
    if report is not None:
        with progress_bar("writing the report", len(found.dropped), "lines") as done:
            write_dropped(report, found, places, done)
    if pairs is not None:
        with progress_bar("writing pairs", len(found.pairs.first), "lines") as done:
            write_pairs(pairs, found, places, done)
    seconds = time.perf_counter() - start
    if json:
        print_json(
            **_figures(finder, found),
            seconds=round(seconds, 3),
            **outputs._asdict(),
        )
        return
    _show(finder, found, places, _name_texts(source), show, seconds)
    outputs.say(f"to write the lines to keep: --out kept{_kept_suffix(files)}")


def _find_here(
    source: DocumentSource, hashing: dict[str, Any], *, every_pair: bool
) -> tuple[DuplicateFinder, Duplicates, DocumentPlaces]:
    """Return what was found in this process, by what, and where the documents stand."""
    from bitkin.dedup.files import add_files
    from bitkin.dedup.finder import DuplicateFinder

    with DuplicateFinder(**hashing) as finder:
        with progress_bar("reading", source.n_bytes // _KB, "kB") as done:
            places = add_files(finder, source, lambda n_bytes: done(n_bytes // _KB))
        with progress_bar("comparing", finder.plan.bands, "bands") as done:
            found = finder.find(pairs="all" if every_pair else "links", progress=done)
    return finder, found, places


def _holds_vectors(path: Path) -> bool:
    """Whether the name of a file says that it holds vectors; .parquet may hold either."""
    suffixes = [one.lower() for one in path.suffixes if one.lower() != ".gz"]
    return bool(suffixes) and suffixes[-1] in set(VECTOR_FORMATS.split(", ")) - {".parquet"}


def _refuse(context: typer.Context, names: tuple[str, ...], what: str) -> None:
    """End with a usage error when an option was given that does nothing for what is compared."""
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and given is not None and given.name == "COMMANDLINE":
            option = parameter.opts[0]
            raise typer.BadParameter(f"does not go with {what}.", param_hint=f"'{option}'")


@contextmanager
def _open_source(
    files: list[Path], field: str | None, id_field: str | None, form: str
) -> Iterator[DocumentSource]:
    """Open the documents of files, or of standard input by way of a temporary file."""
    from bitkin.dedup.documents.opening import open_documents, spooled

    with usage_errors():
        if STDIN not in files:
            yield open_documents(files, field, id_field=id_field, format=form)
            return
        if len(files) > 1:
            raise typer.BadParameter(
                "- is standard input, which is read alone.", param_hint="'files'"
            )
        if sys.stdin is None or sys.stdin.isatty():
            raise typer.BadParameter(
                "- is standard input: send the texts to it with < or |.", param_hint="'files'"
            )
        with spooled(sys.stdin.buffer) as path:
            names = ["standard input"]
            yield open_documents([path], field, id_field=id_field, format=form, names=names)


def _kept_suffix(files: list[Path]) -> str:
    """Return the suffix for an output of the same format as the inputs."""
    suffixes = [one for one in files[0].suffixes if one != ".gz"]
    return suffixes[-1] if suffixes else ".jsonl" if files[0] != STDIN else ".txt"


def _require_different_files(files: list[Path], outputs: dict[str, Path | None]) -> None:
    """End with a usage error when an output would replace an input or another output."""
    seen: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        for file in files:
            if path.exists() and file.exists() and path.samefile(file):
                raise typer.BadParameter(
                    f"{path} is an input and would be replaced.", param_hint=f"'{option}'"
                )
        if path.resolve() in seen:
            raise typer.BadParameter(
                f"{path} is also given to {seen[path.resolve()]}.", param_hint=f"'{option}'"
            )
        seen[path.resolve()] = option
        require_new(path, option)


def _figures(finder: DuplicateFinder | TextHashing, found: Duplicates) -> dict[str, Any]:
    """Return the numbers alone."""
    plan = found.plan
    return {
        **count_clusters(found, {"empty": found.n_empty}),
        "threshold": found.threshold,
        "shingle": finder.shingle,
        "size": finder.size,
        "hashes": finder.n_hashes,
        **finder.cleaning._asdict(),
        "bands": plan.bands,
        "rows": plan.rows,
        "expected_miss_rate": plan.miss_rate(found.threshold),
        "expected_miss_rate_at_threshold": 1 - plan.probability(found.threshold),
        "expected_false_alarm_rate": plan.false_alarm_rate(found.threshold),
        "advice": found.advice,
    }


def _name_texts(source: DocumentSource) -> str:
    """Return what was compared: whole lines, or which field or column."""
    from bitkin.dedup.documents.text_lines import TextLines

    return "lines" if isinstance(source, TextLines) else f"field {source.field!r}"


def _show(
    finder: DuplicateFinder | TextHashing,
    found: Duplicates,
    places: DocumentPlaces,
    texts: str,
    show: int,
    seconds: float,
) -> None:
    figures = _figures(finder, found)
    in_clusters = figures["clusters"]
    alone = figures["kept"] - in_clusters - figures["empty"]
    counts = {
        "documents": figures["documents"],
        "kept": figures["kept"],
        "  like no other": alone,
        "  first of a cluster": in_clusters,
        "  empty, similar to nothing": figures["empty"],
        "dropped": figures["dropped"],
        "  same shingles as an earlier one": figures["dropped_equal"],
        f"  Jaccard {found.threshold:g} or more with another": figures["dropped_similar"],
    }
    unit = "words" if finder.shingle == "words" else "characters"
    title = f"{texts} by shingles of {finder.size} {unit}, {seconds:.1f} s"
    show_counts(title, counts, len(found))
    show_clusters(found, found.jaccard, show, places.name, measure="Jaccard", digits=".2f")
    if is_quiet():
        if found.advice is not None:
            complain(f"warning: {found.advice}")
        return
    t = f"{found.threshold:g}"
    how = [
        (f"expected misses, of pairs from {t} on", _percent(figures["expected_miss_rate"])),
        (f"expected misses right at {t}", _percent(figures["expected_miss_rate_at_threshold"])),
        (
            f"expected false alarms, of pairs below {t}",
            _percent(figures["expected_false_alarm_rate"]),
        ),
        ("candidates compared exactly", f"{found.n_compared:,}"),
    ]
    head = (f"{finder.n_hashes} hashes in bands × rows", f"{found.plan.bands} × {found.plan.rows}")
    print_table("how pairs were found", head, how)
    chained = int((found.jaccard < found.threshold).sum())
    if chained:
        print(
            f"{chained:,} of the dropped are less than {t} like the one kept: others of their\n"
            "cluster joined them to it. --report says which."
        )
    if found.advice is not None:
        print(textwrap.fill(found.advice, 80))


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%" if share >= 1e-9 else "none"
