"""`bitkin collection remove`: rows by their ids, or by their metadata."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from bitkin.cli.arguments import Json
from bitkin.cli.collection.arguments import Folder, Where, open_collection, parse_ids, parse_where
from bitkin.cli.output import print_json
from bitkin.cli.shared import say

_ROWS_AT_ONCE = 5000
_MOST_NUMBERS = 1 << 25  # of the vectors that come with the ids of a page


def remove(
    folder: Folder,
    ids: Annotated[list[str] | None, typer.Argument(help="Of rows.", show_default=False)] = None,
    where: Where = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, with --where.")] = False,
    json: Json = False,
) -> None:
    """Remove rows: all of them or, where something is wrong, none.

    Example: bitkin collection remove notes 7 12

    Example: bitkin collection remove notes --where '{"year": {"lt": 2000}}' --yes
    """
    condition = parse_where(where)
    if bool(ids) == (where is not None):
        raise typer.BadParameter("give ids, or --where.", param_hint="'IDS'")
    with open_collection(folder) as collection:
        if ids:
            gone: list[Any] = list(dict.fromkeys(parse_ids(collection, ids)))
        else:
            _ask(collection.count(condition), folder, yes=yes)
            gone = []
            # pages as large as memory allows: each of them goes through the filter again
            target = collection.row_target
            width = (target.n_features or 1) if target.keeps_vectors else 1
            n_rows = max(_ROWS_AT_ONCE, min(_MOST_NUMBERS // width, collection.count()))
            while True:
                page = collection.get(where=condition, limit=n_rows, offset=len(gone))
                if not len(page.ids):
                    break
                gone += page.ids.tolist()
        if gone:
            collection.remove(gone)
        if json:
            print_json(folder=folder, removed=len(gone), rows=len(collection))
        else:
            noun = "row" if len(gone) == 1 else "rows"
            say(f"{folder}: {len(gone):,} {noun} removed, {len(collection):,} left")


def _ask(n_rows: int, folder: Any, *, yes: bool) -> None:
    if yes or not n_rows:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"{n_rows:,} rows of {folder} would be removed. Give --yes to remove them.",
            param_hint="'--yes'",
        )
    typer.confirm(f"Remove {n_rows:,} rows of {folder}?", abort=True, err=True)
