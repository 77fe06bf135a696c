"""`bitkin collection add`: rows of a file into a collection, and from texts a collection itself."""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitkin.cli.arguments import (
    FORMATS,
    STDOUT,
    Column,
    Dataset,
    Features,
    Json,
    ZeroBased,
)
from bitkin.cli.collection.arguments import (
    Embed,
    Fields,
    is_collection,
    load_embedder,
    open_collection,
    parse_fields,
)
from bitkin.cli.output import print_json, progress_bar
from bitkin.cli.shared import say
from bitkin.embedding import embedder_name, remember_embedder
from bitkin.errors import FileAccessError, InvalidInputError

if TYPE_CHECKING:
    from bitkin.collection.collection import Collection
    from bitkin.collection.transfer.arriving import RecordFile, RowFileOptions, RowTarget


def add(
    folder: Annotated[
        Path,
        typer.Argument(
            help="The folder of a collection; with --text and --embed it is made if need be.",
            show_default=False,
        ),
    ],
    file: Annotated[
        Path,
        typer.Argument(
            help=f"JSON lines (.jsonl, .jsonl.gz; - for stdin), vectors ({FORMATS}), or codes in a "
            "binary index of FAISS (.faiss).",
            show_default=False,
        ),
    ],
    id_key: Annotated[
        str | None,
        typer.Option("--id", help='Key or column of the id. [default: "id", where there is one]'),
    ] = None,
    vector: Annotated[
        str | None, typer.Option(help='Key or column of the vector. [default: "vector"]')
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Key or column of a text to embed, instead of a vector.")
    ] = None,
    embed: Embed = None,
    ids: Annotated[
        Path | None,
        typer.Option(help="The ids of a file of vectors: .npy, or text with one per line."),
    ] = None,
    metadata: Annotated[
        Path | None,
        typer.Option(help="JSON lines with the metadata, and perhaps the ids, of such a file."),
    ] = None,
    upsert: Annotated[
        bool, typer.Option("--upsert", help="Replace rows whose ids are there.")
    ] = False,
    field: Fields = None,
    bits: Annotated[
        int | None, typer.Option(min=1, help="Of codes, for a new collection. [default: 256]")
    ] = None,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Add the rows of a file, a batch at a time.

    A line of JSON is {"id": 7, "vector": [0.5, …], "year": 2020, …}: what is neither id nor vector
    is metadata. Every batch is kept at once; where a file stops with an error, the rows before are
    there, and --upsert runs over them again. --field and --bits are for a collection that is made
    here: cosine, float16 vectors, a hasher learned from the first texts.

    Example: bitkin collection add notes notes.jsonl --text body --embed hash:256

    Example: bitkin collection add notes vectors.npy --ids ids.txt --metadata metadata.jsonl
    """
    from bitkin.collection.transfer.arriving import RowFileOptions
    from bitkin.input_files import VectorFileOptions

    options = RowFileOptions(
        id_key,
        vector,
        text,
        None,
        ids,
        metadata,
        VectorFileOptions(column, dataset, features, zero_based),
    )
    fields = parse_fields(field)
    if is_collection(folder):
        for option, given in (("--field", field), ("--bits", bits)):
            if given is not None:
                raise typer.BadParameter(
                    f"{folder} is there, and has its own.", param_hint=f"'{option}'"
                )
        with open_collection(folder) as collection:
            name = None if text is None else embedder_name(collection, embed)
            if name is not None:
                options = options._replace(embed=load_embedder(name))
            rows = _open_rows(file, options, collection.row_target)
            n_rows = _add(collection, rows, name, upsert=upsert)
            _report(collection, folder, n_rows, upsert=upsert, json=json)
        return
    if text is None or folder.exists():
        open_collection(folder)  # which says what is wrong
    if embed is None:
        raise FileAccessError(
            f"{folder} is not there. Give --embed, which makes vectors of texts, to make it."
        )
    from bitkin.collection.transfer.arriving import RowTarget

    options = options._replace(embed=load_embedder(embed))
    rows = _open_rows(file, options, RowTarget())
    with contextlib.ExitStack() as undo:
        collection = _create(folder, rows, fields, bits)
        undo.callback(shutil.rmtree, folder)  # once it is closed, unless rows are in it
        with collection:
            try:
                n_rows = _add(collection, rows, embed, upsert=upsert)
            finally:
                if len(collection):
                    undo.pop_all()
            _report(collection, folder, n_rows, upsert=upsert, json=json)


def _open_rows(file: Path, options: RowFileOptions, target: RowTarget) -> RecordFile:
    from bitkin.collection.transfer.importing import open_row_file
    from bitkin.collection.transfer.json_rows import JsonRowFile, NumberedLines

    if file == STDOUT:  # which is stdin where something is read
        try:
            stdin = io.BufferedReader(io.FileIO(0, closefd=False))
        except OSError as error:
            raise FileAccessError(f"stdin cannot be read: {error.strerror or error}.") from error
        return JsonRowFile(NumberedLines(stdin, "stdin"), options, target)
    return open_row_file(file, options, target)


def _create(folder: Path, rows: RecordFile, fields: dict[str, str], bits: int | None) -> Collection:
    """Make a collection that suits the first texts of a file."""
    import numpy as np

    from bitkin.collection.collection import Collection
    from bitkin.collection.fitting import ROWS_TO_FIT, hasher_for_texts

    with progress_bar("embedding", rows.total, rows.unit) as progress:
        first = rows.look_ahead(ROWS_TO_FIT, lambda: progress(rows.done))
    if not first:
        raise InvalidInputError(f"{rows.name}: no rows, of which a collection could be made.")
    vectors = np.concatenate([batch.vectors for batch in first])
    names = first[0].ids
    return Collection.create(
        folder,
        hasher_for_texts(vectors, bits),
        vectors="float16",
        metric="cosine",
        ids="str" if names is not None and isinstance(names[0], str) else "int",
        fields=fields or None,
    )


def _add(collection: Collection, rows: RecordFile, embed: str | None, *, upsert: bool) -> int:
    n_added = 0

    def after_batch(n_rows: int) -> None:
        nonlocal n_added
        n_added = n_rows
        if embed is not None:
            remember_embedder(collection, embed)
        progress(rows.done)

    try:
        with progress_bar("adding", rows.total, rows.unit) as progress:
            return collection.import_file(rows, upsert=upsert, progress=after_batch)
    except KeyboardInterrupt:
        again = "run it again" if upsert else "run it again with --upsert, which replaces them"
        print(f"bitkin: {n_added:,} rows of {rows.name} were added: {again}.", file=sys.stderr)
        raise


def _report(collection: Collection, folder: Path, n_rows: int, *, upsert: bool, json: bool) -> None:
    if json:
        print_json(folder=folder, added=n_rows, rows=len(collection))
        return
    noun = "row" if n_rows == 1 else "rows"
    did = "added or replaced" if upsert else "added"
    say(f"{folder}: {n_rows:,} {noun} {did}, {len(collection):,} now")
