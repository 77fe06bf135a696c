"""`bitkin collection reencode`: rows of earlier epochs, or all rows by another hasher."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.cli.arguments import Json, one_of_choices
from bitkin.cli.collection.arguments import INDEX_KINDS, Folder, open_collection
from bitkin.cli.collection.fitting import fit_hasher
from bitkin.cli.help import complete_from
from bitkin.cli.output import print_json, progress_bar
from bitkin.cli.shared import say
from bitkin.errors import InvalidInputError

if TYPE_CHECKING:
    from bitkin.collection.collection import Collection

_MOST_TO_LEARN_FROM = 20_000


def reencode(
    folder: Folder,
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", help="Let this model make all codes from now on."),
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Learn such a model from the vectors that are kept.")
    ] = False,
    bits: Annotated[
        int | None, typer.Option(min=1, help="Of codes, with --learn. [default: as they are]")
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            help="How codes are searched from now on, with --model or --learn: auto, flat, multi, "
            "bands or cells. [default: as they are]",
            autocompletion=complete_from(*INDEX_KINDS),
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Encode rows again, from their vectors: those of earlier epochs or, with another model, all.

    It goes a batch at a time, while other processes search; what an interrupt leaves is done by the
    next run.

    Example: bitkin collection reencode notes

    Example: bitkin collection reencode notes --learn
    """
    if model is not None and learn:
        raise typer.BadParameter("give one of --model and --learn.", param_hint="'--learn'")
    if bits is not None and not learn:
        raise typer.BadParameter("belongs to --learn.", param_hint="'--bits'")
    if index is not None:
        if model is None and not learn:
            raise typer.BadParameter("belongs to --model or --learn.", param_hint="'--index'")
        one_of_choices(index, "--index", list(INDEX_KINDS))
    with open_collection(folder) as collection:
        hasher: Any = None
        if model is not None:
            from bitkin._load import load_hasher

            hasher = load_hasher(model)
        elif learn:
            hasher = _learned(collection, bits)
        with progress_bar("encoding again", len(collection)) as progress:
            if hasher is None:
                n_rows = collection.reencode(progress=lambda done, _: progress(done))
            else:
                n_rows = collection.replace_hasher(
                    hasher, index=index, progress=lambda done, _: progress(done)
                )
        about = collection.stats()
    if json:
        print_json(folder=folder, reencoded=n_rows, rows=about["rows"], codes=about["codes"])
    else:
        say(f"{folder}: {n_rows:,} rows encoded again, {about['codes']} codes")


def _learned(collection: Collection, bits: int | None) -> Any:
    """Return a hasher learned from rows that are spread over the whole collection."""
    if not collection.row_target.keeps_vectors:
        raise InvalidInputError(
            f"--learn needs vectors, and {collection.path} keeps none. Give --model."
        )
    ids = collection.ids
    some = ids[:: max(1, -(-len(ids) // _MOST_TO_LEARN_FROM))]
    vectors = collection.get(some).vectors
    n_bits = min(collection.hasher.spec_.n_bits, vectors.shape[1]) if bits is None else bits
    return fit_hasher(vectors, n_bits, normalize=collection.metric == "cosine")
