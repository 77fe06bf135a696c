"""`bitkin collection stats`, `verify`, `compact` and `backup`: a collection as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitkin.cli.arguments import Json
from bitkin.cli.collection.arguments import Folder, open_collection
from bitkin.cli.collection.report import in_bytes
from bitkin.cli.output import print_json, print_table, progress_bar
from bitkin.cli.shared import say
from bitkin.embedding import ATTRIBUTE


def stats(folder: Folder, json: Json = False) -> None:
    """Say how many rows there are, what they take, and how the collection was made.

    Example: bitkin collection stats notes
    """
    with open_collection(folder, read_only=True) as collection:
        about = {**collection.stats(), "embed": collection.attribute(ATTRIBUTE)}
    if json:
        print_json(folder=folder, **about)
        return
    fields = ", ".join(f"{name}: {kind}" for name, kind in about["fields"].items())
    in_memory, on_disk = about["bytes_in_memory"], about["bytes_on_disk"]
    width = about["n_features"]
    vectors = "none" if width is None else f"{about['vectors']}, {width:,} numbers"
    each = max(1, about["rows"])
    parts = about["epochs"]
    epochs = ", ".join(f"{part['rows']:,} rows of epoch {part['epoch']}" for part in parts)
    rows = [
        ("rows", f"{about['rows']:,}"),
        ("in memory", f"{in_bytes(in_memory)}, {in_memory / each:,.0f} bytes per row"),
        ("on disk", f"{in_bytes(on_disk)}, {on_disk / each:,.0f} bytes per row"),
        ("codes", f"{about['codes']}, {about['bytes_per_code']} bytes"),
        ("vectors", vectors),
        ("metric", about["metric"]),
        ("last stage", about["stage"]),
        ("ids", about["ids"]),
        ("fields", fields or "none declared"),
        ("index", about["index"]),
        ("hasher", about["hasher"]),
        ("epochs", epochs if len(parts) > 1 else "one"),
        ("embed", about["embed"] or "vectors only"),
    ]
    print_table(str(folder), None, rows)


def verify(folder: Folder, json: Json = False) -> None:
    """Read all of a collection and check everything that can be checked; a flaw ends with 1.

    Example: bitkin collection verify notes
    """
    with open_collection(folder, read_only=True) as collection:
        with progress_bar("verifying", None):
            collection.verify()
        n_rows = len(collection)
    if json:
        print_json(folder=folder, rows=n_rows, whole=True)
    else:
        say(f"{folder}: {n_rows:,} rows, all whole")


def compact(folder: Folder, json: Json = False) -> None:
    """Give the space of removed rows back to the disk.

    Example: bitkin collection compact notes
    """
    with open_collection(folder) as collection:
        before = collection.stats()["bytes_on_disk"]
        with progress_bar("compacting", None):
            collection.compact()
        after = collection.stats()["bytes_on_disk"]
    if json:
        print_json(folder=folder, bytes_before=before, bytes_after=after)
    else:
        say(f"{folder}: {in_bytes(before)} on disk before, {in_bytes(after)} now")


def backup(
    folder: Folder,
    target: Annotated[
        Path, typer.Argument(help="A folder that is not there yet.", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Copy a collection, as of one moment, while other processes search and write.

    Example: bitkin collection backup notes notes-copy
    """
    with open_collection(folder, read_only=True) as collection:
        n_rows = len(collection)
        with progress_bar("copying", 100, "%") as progress:
            collection.backup(
                target, progress=lambda done, total: progress(100 * done // max(1, total))
            )
    if json:
        print_json(folder=folder, backup=target)
    else:
        say(f"{target}: a copy of {folder}, {n_rows:,} rows")
