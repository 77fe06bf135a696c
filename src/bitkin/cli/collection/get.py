"""`bitkin collection get`: rows by their ids, or by their metadata."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bitkin.cli.arguments import Json
from bitkin.cli.collection.arguments import Folder, Where, open_collection, parse_ids, parse_where
from bitkin.cli.collection.report import (
    plain,
    print_rows,
    short_id,
    short_metadata,
    vector_as_json,
)
from bitkin.cli.output import print_json
from bitkin.cli.shared import say

_FEW = 10
_ROWS_AT_ONCE = 1000


def get(
    folder: Folder,
    ids: Annotated[
        list[str] | None, typer.Argument(help="Of rows; without, those of --where, or all.")
    ] = None,
    where: Where = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Rows at most, without ids. [default: 10]")
    ] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="Rows to pass over first.")] = None,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Print vectors too: with --json.")
    ] = False,
    json: Json = False,
) -> None:
    """Show rows with their metadata.

    Lines of --json --vectors are such as bitkin collection add takes.

    Example: bitkin collection get notes 7 12

    Example: bitkin collection get notes --where '{"year": {"gte": 2020}}' --limit 100 --json
    """
    condition = parse_where(where)
    if ids:
        for option, given in (("--where", where), ("--limit", limit), ("--offset", offset)):
            if given is not None:
                raise typer.BadParameter("goes without ids.", param_hint=f"'{option}'")
    if vectors and not json:
        raise typer.BadParameter("needs --json.", param_hint="'--vectors'")
    with open_collection(folder, read_only=True) as collection:
        if ids:
            _print(collection.get(parse_ids(collection, ids)), vectors=vectors, json=json)
            return
        first, left = offset or 0, _FEW if limit is None else limit
        shown = 0
        while left > 0:  # in pages: vectors of all rows at once may be too much
            n_rows = min(left, _ROWS_AT_ONCE)
            page = collection.get(where=condition, limit=n_rows, offset=first + shown)
            if not len(page.ids):
                break
            _print(page, vectors=vectors, json=json)
            shown, left = shown + len(page.ids), left - len(page.ids)
        n_all = collection.count(condition)
        if not json and n_all > first + shown:
            say(f"{n_all - first - shown:,} more: --limit, --offset")
        elif not json and not shown:
            say("no rows")


def _print(rows: Any, *, vectors: bool, json: bool) -> None:
    metadata = rows.metadata or [{} for _ in rows.ids]
    if not json:
        lines = [
            [short_id(one), short_metadata(about)]
            for one, about in zip(rows.ids, metadata, strict=True)
        ]
        print_rows(["id", "metadata"], lines)
        return
    for place, (one, about) in enumerate(zip(rows.ids, metadata, strict=True)):
        record: dict[str, Any] = {"id": plain(one)}
        if vectors and rows.vectors is not None:
            record["vector"] = vector_as_json(rows.vectors[place])
        print_json(**record, metadata=about)
