"""Arguments that the commands of `bitkin collection` share, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.cli.output import progress_bar
from bitkin.embedding import open_embedder
from bitkin.errors import FileAccessError

if TYPE_CHECKING:
    from bitkin.collection.collection import Collection
    from bitkin.embedding import Embedder

VECTOR_KINDS = ("float32", "float16", "int8", "csr", "none")
ID_KINDS = ("int", "str")
INDEX_KINDS = ("auto", "flat", "multi", "bands", "cells")
_MOST_DIGITS = 19  # of an id
SYNCHRONOUS_KINDS = ("normal", "full")
FIELD_KINDS = ("int", "float", "bool", "str")

Folder = Annotated[Path, typer.Argument(help="The folder of a collection.", show_default=False)]
Where = Annotated[
    str | None,
    typer.Option(help='Rows whose metadata matches, as JSON: {"year": {"gte": 2020}}.'),
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        help="Metadata that filters are quick on, as name:type, where the type is int, float, "
        "bool or str; repeat it for several.",
    ),
]
Embed = Annotated[
    str | None,
    typer.Option(
        help="What makes vectors of texts: sentence-transformers:MODEL (a name, a folder, or an "
        "installed package that holds one), or hash:256, which knows spelling and no meaning. The "
        "folder remembers it."
    ),
]


def open_collection(folder: Path, *, read_only: bool = False) -> Collection:
    """Open the collection in a folder; where there is none, the error says how to make one here."""
    from bitkin.collection.collection import Collection

    if not is_collection(folder):
        what = "is no collection" if folder.exists() else "is not there"
        raise FileAccessError(
            f"{folder} {what}. Make one with bitkin collection create, or give the folder of one."
        )
    return Collection.open(folder, read_only=read_only)


def load_embedder(name: str) -> Embedder:
    """Return what makes vectors of texts, with a bar while its model is loaded."""
    return open_embedder(name, lambda: progress_bar("loading the model", None, ""))


def is_collection(folder: Path) -> bool:
    """Tell whether a folder holds a collection."""
    return (folder / "collection.db").is_file()


def parse_where(text: str | None) -> Any:
    """Return the filter that --where gives; what is none is wrong usage."""
    if text is None:
        return None
    try:
        where = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"not JSON: {error}.", param_hint="'--where'") from None
    if not isinstance(where, dict):
        raise typer.BadParameter(
            'must be a JSON object such as {"year": {"gte": 2020}}.', param_hint="'--where'"
        )
    from bitkin.collection.metadata.filters import parse_filter
    from bitkin.errors import InvalidInputError

    try:
        parse_filter(where)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error), param_hint="'--where'") from None
    return where


def parse_fields(words: list[str] | None) -> dict[str, str]:
    """Return the fields that --field declares: names and types."""
    from bitkin.cli.arguments import one_of_choices

    fields: dict[str, str] = {}
    for word in words or []:
        name, colon, kind = word.rpartition(":")
        if not colon or not name:
            raise typer.BadParameter(
                f"{word!r} must be name:type, such as year:int.", param_hint="'--field'"
            )
        one_of_choices(kind, "--field", list(FIELD_KINDS))
        if name in fields:
            raise typer.BadParameter(f"{name!r} is declared twice.", param_hint="'--field'")
        fields[name] = kind
    return fields


def parse_ids(collection: Collection, words: Sequence[str], option: str = "IDS") -> list[Any]:
    """Return ids as the collection has them: the words, or the numbers that they are."""
    from bitkin.checks import shown  # which loads NumPy

    if collection.row_target.string_ids:
        return list(words)
    for word in words:
        # Python refuses to read thousands of digits
        digits = word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS
        if not (digits and int(word) < 2**63):
            raise typer.BadParameter(
                f"{shown(word)} is not the id of a row: ids of this collection are whole numbers.",
                param_hint=f"'{option}'",
            )
    return [int(word) for word in words]
