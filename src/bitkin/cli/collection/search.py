"""`bitkin collection search`: the nearest rows of vectors, texts or other rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from bitkin.choices import FIRST_STAGES, MOST_NEIGHBORS, STAGES
from bitkin.cli.arguments import Column, Dataset, Features, Json, ZeroBased, one_of_choices
from bitkin.cli.collection.arguments import (
    Embed,
    Folder,
    Where,
    load_embedder,
    open_collection,
    parse_ids,
    parse_where,
)
from bitkin.cli.collection.report import plain, print_rows, short_id, short_metadata, shorten
from bitkin.cli.help import complete_from
from bitkin.cli.output import print_json, printable, progress_bar
from bitkin.cli.shared import say
from bitkin.embedding import embedder_name
from bitkin.errors import InvalidInputError

if TYPE_CHECKING:
    from bitkin.collection.collection import Collection
    from bitkin.collection.results import Hits
    from bitkin.input_files import VectorFileOptions

_QUERIES_AT_ONCE = 1000


class _LookedFor(NamedTuple):
    """What is looked for."""

    names: list[str] | None
    """What each query is called; None where they are numbered."""
    total: int | None
    batches: Iterator[Any]
    of_row: Any = None
    """The id of the row whose neighbours are looked for: it is none of them."""
    by_codes: bool = False


def search(
    folder: Folder,
    file: Annotated[
        Path | None, typer.Argument(help="A file of vectors to look for.", show_default=False)
    ] = None,
    vector: Annotated[
        str | None, typer.Option(help="A vector to look for, as JSON: [0.5, 1.5, …].")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="A text to look for; repeat it for several.")
    ] = None,
    id_word: Annotated[
        str | None, typer.Option("--id", help="A row whose neighbours to look for.")
    ] = None,
    k: Annotated[
        int, typer.Option("-k", min=1, max=MOST_NEIGHBORS - 1, help="Neighbours per query.")
    ] = 10,
    where: Where = None,
    stage: Annotated[
        str | None,
        typer.Option(
            help="The last stage: codes, estimate or exact; if absent, the best there is.",
            autocompletion=complete_from(*STAGES),
        ),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            help="The stage that looks at all rows: codes or estimate; if absent, what pays.",
            autocompletion=complete_from(*FIRST_STAGES),
        ),
    ] = None,
    oversample: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_NEIGHBORS, help="The estimate keeps k · this rows."),
    ] = None,
    probes: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_NEIGHBORS, help="Cells to look into, where there are cells."),
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="Queries to show.")] = 10,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print what every stage took for the first queries."),
    ] = False,
    embed: Embed = None,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Find the nearest rows of texts, of vectors, or of a row of the collection.

    Example: bitkin collection search notes --text "boats in the rain" -k 5

    Example: bitkin collection search notes queries.npy --where '{"year": {"gte": 2020}}' --json
    """
    from bitkin.input_files import VectorFileOptions

    if stage is not None:
        one_of_choices(stage, "--stage", list(STAGES))
    if first is not None:
        one_of_choices(first, "--first", list(FIRST_STAGES))
    given = [one for one in (file, vector, text or None, id_word) if one is not None]
    if len(given) != 1:
        raise typer.BadParameter(
            "give one of FILE, --vector, --text and --id.", param_hint="'FILE'"
        )
    condition = parse_where(where)
    with open_collection(folder, read_only=True) as collection:
        files = VectorFileOptions(column, dataset, features, zero_based)
        queries = _open_queries(collection, file, vector, text, id_word, embed, files)
        if queries.by_codes and stage not in (None, "codes"):
            raise InvalidInputError(
                f"--stage must be codes with --id, got {stage}: {folder} keeps no vectors, and a "
                "row is looked for by its code. Leave it out, or give FILE or --vector."
            )
        options = {
            "stage": "codes" if queries.by_codes else stage,
            "first": first,
            "oversample": oversample,
            "probes": probes,
            "where": condition,
        }
        asked = k if queries.of_row is None else k + 1
        done = 0
        with progress_bar("searching", queries.total, "queries") as progress:
            for batch in queries.batches:
                explanation = None
                if explain and not done:
                    explanation = collection.explain(batch, asked, **options)
                    hits = explanation.hits
                else:
                    hits = collection.search(batch, asked, **options)
                for number, found in enumerate(_rows_of(hits, queries.of_row, k), start=done):
                    name = number if queries.names is None else queries.names[number]
                    if json:
                        _print_as_json(name, found)
                    elif number < show:
                        if number:
                            print()
                        _print_as_table(name, found, lone=queries.total == 1)
                done += len(hits)
                progress(done)
                if explanation is not None:
                    _print_explanation(explanation, json)
        if not json and done > show:
            say(f"\n{done - show:,} more queries: --show, or --json for all")


def _open_queries(
    collection: Collection,
    file: Path | None,
    vector: str | None,
    texts: list[str] | None,
    id_word: str | None,
    embed: str | None,
    files: VectorFileOptions,
) -> _LookedFor:
    if texts:
        embedder = load_embedder(embedder_name(collection, embed))
        return _LookedFor(texts, len(texts), iter([embedder(texts)]))
    if vector is not None:
        return _LookedFor(None, 1, iter([_parse_vector(vector)]))
    if id_word is not None:
        [name] = parse_ids(collection, [id_word], "--id")
        row = collection.get([name])
        by_codes = row.vectors is None
        query = row.codes if by_codes else row.vectors
        return _LookedFor([f"neighbours of {name}"], 1, iter([query]), name, by_codes)
    if file is None:
        raise typer.BadParameter("give a file.", param_hint="'FILE'")
    from bitkin.input_files import open_queries

    source = open_queries(file, files, collection.hasher)
    batches = (batch for _, batch in source.batches(_QUERIES_AT_ONCE))
    return _LookedFor(None, len(source), batches)


def _parse_vector(text: str) -> Any:
    import json

    import numpy as np

    try:
        numbers = json.loads(text)
        array = np.array(numbers, dtype=np.float64)
    except (ValueError, TypeError, OverflowError, RecursionError):
        array = None
    if array is None or array.ndim != 1 or not array.size or not isinstance(numbers, list):
        raise typer.BadParameter(
            f"must be a JSON list of numbers, such as [0.5, 1.5], got {shorten(text, 60)!r}.",
            param_hint="'--vector'",
        )
    return array[None]


Found = list[tuple[Any, Any, Any]]


def _rows_of(hits: Hits, of_row: Any, k: int) -> Iterator[Found]:
    """Yield id, distance and metadata of what every query found, padding left out."""
    metadata = hits.metadata
    for query in range(len(hits)):
        found: Found = []
        for place, (name, distance) in enumerate(
            zip(hits.ids[query], hits.distances[query], strict=True)
        ):
            missing = name is None or (not isinstance(name, str) and name < 0)
            if missing or (of_row is not None and name == of_row):
                continue
            about = None if metadata is None else metadata[query][place]
            found.append((plain(name), plain(distance), about))
        yield found[:k]


def _print_as_json(name: Any, found: Found) -> None:
    print_json(
        query=name,
        ids=[one for one, _, _ in found],
        distances=[distance for _, distance, _ in found],
        metadata=[about for _, _, about in found],
    )


def _print_as_table(name: Any, found: Found, *, lone: bool) -> None:
    if not lone:
        width = shutil.get_terminal_size().columns
        print(printable(shorten(f"query {name}" if isinstance(name, int) else name, width)))
    rows = [
        [
            str(distance) if isinstance(distance, int) else f"{distance:.4g}",
            short_id(one),
            short_metadata(about),
        ]
        for one, distance, about in found
    ]
    if rows:
        print_rows(["distance", "id", "metadata"], rows)
    else:
        print("nothing found")


def _print_explanation(explanation: Any, json: bool) -> None:
    if not json:
        print(f"\n{explanation}")
        return
    stages = {
        name: {
            "seconds": round(timing.seconds, 6),
            "rows_in": timing.rows_in,
            "rows_out": timing.rows_out,
        }
        for name, timing in explanation.stages.items()
    }
    print_json(
        explain={
            "index": explanation.index,
            "queries": len(explanation.hits),
            "first": explanation.first,
            "why": explanation.why,
            "stages": stages,
        }
    )
