"""`bitkin search`: an index and queries in files → neighbours."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.choices import FIRST_STAGES, METRICS, MOST_NEIGHBORS, STAGES
from bitkin.cli.arguments import (
    OPTIONS,
    Column,
    Dataset,
    Features,
    Json,
    ZeroBased,
    one_of_choices,
    require_other_file,
    usage_errors,
)
from bitkin.cli.clusters import cluster_option, open_cluster
from bitkin.cli.help import complete_from
from bitkin.cli.output import print_json, progress_bar

if TYPE_CHECKING:
    from bitkin.distributed.searching.files import ShardedFileSearch
    from bitkin.file_search import EpochFileSearch, FileSearch
    from bitkin.index.results import Neighbors, RaggedNeighbors

    Found = Neighbors | RaggedNeighbors
    Searching = FileSearch | EpochFileSearch | ShardedFileSearch

_SHOWN_PER_QUERY = 10  # neighbours


def search(
    index: Annotated[
        Path,
        typer.Argument(
            help="An index made by bitkin index; or a stream, by its state or its codes. With "
            "--dask also codes, or a folder of indexes or codes, that the workers read.",
            show_default=False,
        ),
    ],
    queries: Annotated[
        Path,
        typer.Argument(help="Vectors (with --model) or codes to look for.", show_default=False),
    ],
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The model that encodes the queries.")
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, max=MOST_NEIGHBORS, help="Neighbours per query; 10 if absent."),
    ] = None,
    radius: Annotated[
        int | None,
        typer.Option(min=0, help="All within this distance of codes, instead of the k nearest."),
    ] = None,
    stage: Annotated[
        str | None,
        typer.Option(
            help="codes, estimate or exact; if absent, the best that the files given permit.",
            autocompletion=complete_from(*STAGES),
        ),
    ] = None,
    oversample: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_NEIGHBORS,
            help="Codes keep k · this · 10 rows, the estimate k · this; 10 if absent.",
        ),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            help="The stage that looks at all rows: codes, or estimate, which needs --corrections "
            "or a WTA model, keeps k · oversample rows and loses less; if absent, the one that "
            "pays (--explain says why).",
            autocompletion=complete_from("codes", "estimate"),
        ),
    ] = None,
    probes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_NEIGHBORS,
            help="Cells that a query looks into, in an index of --kind cells: more take more time "
            "and miss less; those of the index if absent.",
        ),
    ] = None,
    vectors: Annotated[
        list[Path] | None,
        typer.Option(help="The vectors that were encoded, for exact; repeat it for several files."),
    ] = None,
    corrections: Annotated[
        Path | None,
        typer.Option(
            help="What bitkin encode --corrections wrote, for estimate; a WTA model needs none. An "
            ".npy array of them is taken as it is: for which metric and model it was made is not "
            "known."
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Of estimate and exact: l2, cosine or ip; that of --corrections if absent, else "
            "l2.",
            autocompletion=complete_from(*METRICS),
        ),
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
            help="The ids that may be returned: an .npy file, or text, one per line.",
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
    dask: Annotated[str | None, cluster_option] = None,
    json: Json = False,
) -> None:
    """Find the nearest rows of every query: by codes, as the index finds them, and then among the
    best of those by better distances.

    codes counts the symbols that differ. estimate, of the metric, needs --corrections and a
    projection; with a WTA model it needs nothing, and ranks rows by what the query loses at their
    symbols. exact measures --vectors. Both score only what the stage before kept. Ties go to the
    lower id.

    Codes of a stream, and an EpochIndex, have their models with them: queries are vectors without
    --model, and distances estimates, or exact with --vectors.

    With --dask the workers of a cluster hold the codes, a file each, and queries are compared with
    codes alone: the same neighbours as by one index of all rows.

    Example: bitkin search index.bitkin queries.npy --model model.bitkin -k 10 --vectors vectors.npy
    --explain

    Example: bitkin search folder queries.npy --model model.bitkin -k 10 --dask tcp://10.0.0.1:8786
    """
    from bitkin.file_search.request import SearchRequest
    from bitkin.file_search.search import open_search
    from bitkin.input_files import VectorFileOptions

    if stage is not None:
        one_of_choices(stage, "--stage", list(STAGES))
    if first is not None:
        one_of_choices(first, "--first", list(FIRST_STAGES))
    if metric is not None:
        one_of_choices(metric, "--metric", list(METRICS))
    request = SearchRequest(
        index,
        queries,
        model=model,
        k=k,
        radius=radius,
        stage=stage,
        oversample=oversample,
        metric=metric,
        vectors=tuple(vectors or []),
        corrections=corrections,
        ids=ids,
        allow=allow,
        first=first,
        probes=probes,
    )
    with usage_errors():
        if out is not None:
            if out.suffix != ".npz":
                raise typer.BadParameter(f"{out} must end in .npz.", param_hint="'--out'")
            require_other_file(out, request.files)
    with ExitStack() as until_the_end:
        client = None if dask is None else until_the_end.enter_context(open_cluster(dask))
        options = VectorFileOptions(column, dataset, features, zero_based)
        with usage_errors():
            if client is None:
                searching: Searching = open_search(request, options, OPTIONS)
            else:
                from bitkin.distributed.searching.files import ShardedFileSearch

                searching = ShardedFileSearch(request, options, client, OPTIONS)
        _print_found(searching, out, show, explain=explain, json=json)


def _print_found(
    searching: Searching, out: Path | None, show: int, *, explain: bool, json: bool
) -> None:
    """Search, and write or print what is found."""
    if out is not None:
        searching.require_result_fits()
    found: list[Any] = []  # all of it to write it, else what is shown
    done = 0
    with progress_bar("searching", searching.n_queries, "queries") as progress:
        for result in searching.batches():
            if json:
                for q, (row_ids, distances) in enumerate(_rows_of(result)):
                    print_json(query=done + q, ids=row_ids, distances=distances)
            if out is not None or (done < show and not json):
                found.append(result)
            done += _count_queries(result)
            progress(done)
    if out is not None:
        _write(out, searching.join(found))
    if not json:
        _show(found, done, min(show, done), searching)
    if explain:
        _explain(searching, done, json)


def _write(path: Path, found: Found) -> None:
    """Write a result to an .npz file."""
    import numpy as np

    from bitkin.io.writer import write_aside

    arrays: dict[str, Any] = found._asdict()
    write_aside(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def _count_queries(found: Found) -> int:
    from bitkin.index.results import Neighbors

    return len(found.ids) if isinstance(found, Neighbors) else len(found.offsets) - 1


def _rows_of(result: Found) -> Iterator[tuple[list[int], list[Any]]]:
    """Yield ids and distances of every query, padding left out."""
    from bitkin.index.results import Neighbors

    if isinstance(result, Neighbors):
        for ids, distances in zip(result.ids, result.distances, strict=True):
            yield ids[ids >= 0].tolist(), distances[ids >= 0].tolist()
    else:
        for first, last in zip(result.offsets[:-1], result.offsets[1:], strict=True):
            yield result.ids[first:last].tolist(), result.distances[first:last].tolist()


def _show(found: list[Found], n_queries: int, n_shown: int, searching: Searching) -> None:
    """Print the neighbours of a few queries, and the time that all took."""
    lines: list[str] = []
    for result in found:
        for ids, distances in _rows_of(result):
            if len(lines) == n_shown:
                break
            lines.append(_line(len(lines), ids, distances))
    if lines:
        print("query  neighbours as id:distance, nearest first (all: --json, --out found.npz)")
        print(f"       distance: {searching.distance_name}")
        print("\n".join(lines))
    seconds, n_rows = searching.seconds, len(searching.index)
    each = 1e6 * seconds / max(1, n_queries)
    print(
        f"{n_queries:,} queries among {n_rows:,} codes in {seconds:.3f} s, {each:,.0f} µs per query"
    )


def _line(query: int, ids: list[int], distances: list[Any]) -> str:
    """Return the nearest rows of a query: one line, or more where the terminal is narrow."""
    some = zip(ids[:_SHOWN_PER_QUERY], distances[:_SHOWN_PER_QUERY], strict=True)
    text = " ".join(f"{i}:{_short(d)}" for i, d in some)
    if len(ids) > _SHOWN_PER_QUERY:
        text += f" and {len(ids) - _SHOWN_PER_QUERY} more"
    first, width = f"{query:5d}  ", max(60, shutil.get_terminal_size().columns)
    indent = " " * len(first)
    lines = textwrap.wrap(text, width - len(indent), break_on_hyphens=False)  # of numbers below 0
    return first + f"\n{indent}".join(lines)


def _explain(searching: Searching, n_queries: int, json: bool) -> None:
    """Print what every stage took, and why the first one came first: a table, or one JSON
    object.
    """
    from bitkin.timings import describe_stages

    index, first = type(searching.index).__name__, searching.first
    each = max(1, n_queries)
    stages = {
        name: {
            "seconds": round(timing.seconds, 6),
            "microseconds_a_query": round(1e6 * timing.seconds / each, 1),
            "rows_in_a_query": round(timing.rows_in / each, 1),
            "rows_out_a_query": round(timing.rows_out / each, 1),
        }
        for name, timing in searching.timings.stages.items()
    }
    if json:
        chosen = {"first": first.stage, "why": first.why}
        print_json(explain={"index": index, "queries": n_queries, **chosen, "stages": stages})
        return
    width = shutil.get_terminal_size().columns
    print()
    timings = searching.timings.stages
    print(describe_stages(index, n_queries, first.stage, first.why, timings, max(60, width)))


def _short(distance: float) -> str:
    return str(distance) if isinstance(distance, int) else f"{distance:.4g}"
