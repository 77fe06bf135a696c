"""`bitkin collection export`: rows to a file that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitkin.cli.arguments import Json, out_option
from bitkin.cli.collection.arguments import Folder, Where, open_collection, parse_where
from bitkin.cli.output import print_json, progress_bar
from bitkin.cli.shared import is_forced, require_new, say


def export(
    folder: Folder,
    out: Annotated[
        Path,
        out_option(
            "The file to write: .parquet, .jsonl, .jsonl.gz, or .npy, which gets the vectors, with "
            "ids and metadata beside it in NAME.rows.jsonl."
        ),
    ],
    where: Where = None,
    json: Json = False,
) -> None:
    """Write all rows, or those of --where, to a file; bitkin collection add reads it back.

    Rows are as of one moment, while other processes search and write.

    Example: bitkin collection export notes --out notes.parquet

    Example: bitkin collection export notes --where '{"lang": "en"}' --out english.jsonl.gz
    """
    from bitkin.collection.transfer.beside import metadata_beside
    from bitkin.collection.transfer.export import EXPORT_SUFFIXES, suffix_of

    condition = parse_where(where)
    if suffix_of(out) not in EXPORT_SUFFIXES:
        raise typer.BadParameter(
            f"{out} must end in one of {', '.join(EXPORT_SUFFIXES)}.", param_hint="'--out'"
        )
    require_new(out)
    beside = metadata_beside(out) if suffix_of(out) == ".npy" else None
    if beside is not None:
        require_new(beside)
    with open_collection(folder, read_only=True) as collection:
        total = collection.count(condition)
        with progress_bar("exporting", total) as progress:
            n_rows = collection.export(
                out,
                where=condition,
                overwrite=is_forced(),
                progress=lambda done, _: progress(done),
            )
    if json:
        print_json(folder=folder, file=out, rows=n_rows)
        return
    said = "" if beside is None else f", and {beside} with ids and metadata"
    say(f"{out}: {n_rows:,} rows{said}")
