"""`bitkin search`: an index and queries in files → neighbours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitkin.cli.arguments import (
    Column,
    Dataset,
    Features,
    Json,
    ZeroBased,
    load_hasher,
    load_index,
    open_files,
    require_other_file,
)
from bitkin.cli.index import read_ids
from bitkin.cli.output import print_json, progress_bar

if TYPE_CHECKING:
    from bitkin.codes import Codes
    from bitkin.index.results import Neighbors, RaggedNeighbors

_QUERIES_AT_ONCE = 1024
_SHOWN = 10  # neighbours a line


def search(
    index: Annotated[Path, typer.Argument(help="An index made by bitkin index.", show_default=False)],
    queries: Annotated[Path, typer.Argument(help="Vectors (with --model) or codes to look for.", show_default=False)],
    model: Annotated[Path | None, typer.Option("--model", "-m", help="The model that encodes the queries.")] = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Neighbours a query; 10 if absent.")] = None,
    radius: Annotated[
        int | None, typer.Option(min=0, help="All within this distance, instead of the k nearest.")
    ] = None,
    allow: Annotated[Path | None, typer.Option(help="An .npy file of the ids that may be returned.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write ids and distances to this .npz file.")] = None,
    show: Annotated[int, typer.Option(min=0, help="Queries to show.")] = 10,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Find the nearest codes of every query, exactly; ties go to the lower id.

    Example: bitkin search index.bitkin queries.npy --model model.bitkin -k 10
    """
    if k is not None and radius is not None:
        raise typer.BadParameter("give -k or --radius, not both.", param_hint="'--radius'")
    if out is not None:
        if out.suffix != ".npz":
            raise typer.BadParameter(f"{out} must end in .npz.", param_hint="'--out'")
        require_other_file(out, [path for path in (index, queries, model, allow) if path is not None])
    opened = load_index(index)
    allowed = None if allow is None else read_ids(allow)
    batches, total = _query_codes(queries, model, column, dataset, features, zero_based)

    def find(codes: Codes) -> Neighbors | RaggedNeighbors:
        if radius is None:
            return opened.search(codes, 10 if k is None else k, allow=allowed)
        return opened.search_radius(codes, radius, allow=allowed)

    found: list[Neighbors | RaggedNeighbors] = []  # all of it to write it, else what is shown
    searching, done = 0.0, 0
    with progress_bar("searching", total, "queries") as report:
        for codes in batches:
            if done == 0:
                find(codes[:1])  # loads or compiles kernels, outside the clock
            start = time.perf_counter()
            result = find(codes)
            searching += time.perf_counter() - start
            if json:
                for q, (ids, distances) in enumerate(_rows(result)):
                    print_json(query=done + q, ids=ids, distances=distances)
            if out is not None or (done < show and not json):
                found.append(result)
            done += len(codes)
            report(done)
    if out is not None:
        _write(out, found or [find(opened.codes([]))])
    if not json:
        _show(found, done, min(show, done), searching, len(opened))


def _query_codes(
    path: Path,
    model: Path | None,
    column: str | None,
    dataset: str | None,
    features: int | None,
    zero_based: bool | None,
) -> tuple[Iterator[Codes], int]:
    """Return the queries as batches of codes, and how many there are."""
    from bitkin._load import load
    from bitkin.codes import Codes
    from bitkin.errors import InvalidInputError
    from bitkin.io.vectors.formats import has_vector_suffix

    if model is None:
        for value, option in (
            (column, "column"),
            (dataset, "dataset"),
            (features, "features"),
            (zero_based, "zero-based"),
        ):
            if value is not None:
                raise typer.BadParameter("means nothing without --model.", param_hint=f"'--{option}'")
        codes = None if has_vector_suffix(path) else load(path)
        if not isinstance(codes, Codes):
            raise InvalidInputError(f"{path} holds no codes. Give the model that encodes the queries with --model.")
        return (codes[i : i + _QUERIES_AT_ONCE] for i in range(0, len(codes), _QUERIES_AT_ONCE)), len(codes)
    hasher = load_hasher(model)
    source = open_files([path], column, dataset, features, zero_based, hasher)
    hasher.require_features(source)
    batches = source.batches(rows=_QUERIES_AT_ONCE)
    return (hasher.encode_batch(batch, source.name, first) for first, batch in batches), len(source)


def _rows(result: Neighbors | RaggedNeighbors) -> Iterator[tuple[list[int], list[int]]]:
    """Yield ids and distances of every query, padding left out."""
    from bitkin.index.results import Neighbors

    if isinstance(result, Neighbors):
        for ids, distances in zip(result.ids, result.distances, strict=True):
            yield ids[ids >= 0].tolist(), distances[ids >= 0].tolist()
    else:
        for first, last in zip(result.offsets[:-1], result.offsets[1:], strict=True):
            yield result.ids[first:last].tolist(), result.distances[first:last].tolist()


def _write(path: Path, found: list[Neighbors | RaggedNeighbors]) -> None:
    import numpy as np

    from bitkin.index.results import Neighbors
    from bitkin.io.writer import write_aside

    arrays = {
        "ids": np.concatenate([result.ids for result in found]),
        "distances": np.concatenate([result.distances for result in found]),
    }
    if not isinstance(found[0], Neighbors):
        counts = np.concatenate([np.diff(result.offsets) for result in found if not isinstance(result, Neighbors)])
        arrays["offsets"] = np.concatenate([[0], np.cumsum(counts)])
    write_aside(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def _show(found: list[Neighbors | RaggedNeighbors], n_queries: int, n_shown: int, seconds: float, n_rows: int) -> None:
    lines: list[str] = []
    for result in found:
        for ids, distances in _rows(result):
            if len(lines) == n_shown:
                break
            pairs = " ".join(f"{i}:{d}" for i, d in zip(ids[:_SHOWN], distances[:_SHOWN], strict=True))
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            lines.append(f"{len(lines):5d}  {pairs}{more}")
    if lines:
        print("query  neighbours as id:distance, nearest first (all of them: --json or --out found.npz)")
        print("\n".join(lines))
    each = 1e6 * seconds / max(1, n_queries)
    print(f"{n_queries:,} queries among {n_rows:,} codes in {seconds:.3f} s, {each:,.0f} µs a query")
