"""`bitkin collection create`: an empty folder for vectors, with the hasher of its codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.choices import METRICS
from bitkin.cli.arguments import Column, Dataset, Features, Json, ZeroBased, one_of_choices
from bitkin.cli.collection.arguments import (
    ID_KINDS,
    INDEX_KINDS,
    SYNCHRONOUS_KINDS,
    VECTOR_KINDS,
    Embed,
    Fields,
    load_embedder,
    parse_fields,
)
from bitkin.cli.collection.fitting import fit_hasher, texts_to_fit
from bitkin.cli.help import complete_from
from bitkin.cli.output import print_json
from bitkin.cli.shared import say
from bitkin.embedding import ATTRIBUTE, absolute_name

if TYPE_CHECKING:
    from bitkin.input_files import VectorFileOptions


def create(
    folder: Annotated[
        Path, typer.Argument(help="A folder that is not there yet.", show_default=False)
    ],
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The model that encodes vectors.")
    ] = None,
    fit: Annotated[
        Path | None,
        typer.Option(
            help="Learn a model from this file instead: of vectors, or with --text of texts."
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Key or column of the texts in the file of --fit.")
    ] = None,
    bits: Annotated[
        int | None,
        typer.Option(min=1, help="Of codes. [default: 256, or as many as there are columns]"),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(
            help="How vectors are kept: float32, float16, int8, csr or none. [default: float32, "
            "of texts float16]",
            autocompletion=complete_from(*VECTOR_KINDS),
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="l2, cosine or ip. [default: l2, of texts cosine]",
            autocompletion=complete_from(*METRICS),
        ),
    ] = None,
    ids: Annotated[
        str, typer.Option(help="int or str.", autocompletion=complete_from(*ID_KINDS))
    ] = "int",
    field: Fields = None,
    index: Annotated[
        str,
        typer.Option(
            help="How codes are searched: auto, flat, multi, bands or cells.",
            autocompletion=complete_from(*INDEX_KINDS),
        ),
    ] = "auto",
    synchronous: Annotated[
        str,
        typer.Option(
            help="normal, or full, which survives a power cut too, and waits for the disk.",
            autocompletion=complete_from(*SYNCHRONOUS_KINDS),
        ),
    ] = "normal",
    embed: Embed = None,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Make an empty collection in a folder.

    Give --model, or --fit for a ProjectionHash with all its defaults. With --embed alone, texts can
    be added at once: directions are random then, and lose more than learned ones, until bitkin
    collection reencode --learn.

    Example: bitkin collection create notes --fit vectors.npy --metric cosine --field year:int

    Example: bitkin collection create notes --fit notes.jsonl --text body --embed hash:256
    """
    metric = metric or ("l2" if embed is None else "cosine")
    vectors = vectors or ("float32" if embed is None else "float16")
    one_of_choices(vectors, "--vectors", list(VECTOR_KINDS))
    one_of_choices(metric, "--metric", list(METRICS))
    one_of_choices(ids, "--ids", list(ID_KINDS))
    one_of_choices(index, "--index", list(INDEX_KINDS))
    one_of_choices(synchronous, "--synchronous", list(SYNCHRONOUS_KINDS))
    fields = parse_fields(field)
    if model is not None and fit is not None:
        raise typer.BadParameter("give one of --model and --fit.", param_hint="'--fit'")
    if model is None and fit is None and embed is None:
        raise typer.BadParameter(
            "give --model, or --fit with a file to learn one from, or --embed for texts.",
            param_hint="'--model'",
        )
    if model is not None and bits is not None:
        raise typer.BadParameter("a model has its own.", param_hint="'--bits'")
    if text is not None and (fit is None or embed is None):
        raise typer.BadParameter("belongs to --fit with --embed.", param_hint="'--text'")
    from bitkin.collection.collection import Collection
    from bitkin.input_files import VectorFileOptions

    files = VectorFileOptions(column, dataset, features, zero_based)
    hasher = _make_hasher(model, fit, text, bits, embed, metric, files)
    with Collection.create(
        folder,
        hasher,
        vectors=None if vectors == "none" else vectors,
        metric=metric,
        ids=ids,
        fields=fields or None,
        index=index,
        synchronous=synchronous,
    ) as made:
        if embed is not None:
            made.set_attribute(ATTRIBUTE, absolute_name(embed))
        if json:
            print_json(folder=folder, **made.stats())
        else:
            kept = "no vectors" if vectors == "none" else f"{vectors} vectors"
            say(f"{folder}: {made.hasher.spec_} codes, {kept}, {metric}, {ids} ids")
            option = " --text KEY" if embed is not None else ""
            say(f"next: bitkin collection add {folder} FILE{option}")


def _make_hasher(
    model: Path | None,
    fit: Path | None,
    text: str | None,
    bits: int | None,
    embed: str | None,
    metric: str,
    files: VectorFileOptions,
) -> Any:
    from bitkin.collection.fitting import draw_hasher, hasher_for_texts

    embedder = None if embed is None else load_embedder(embed)
    if model is not None:
        from bitkin._load import load_hasher

        return load_hasher(model)
    if fit is None:
        # an embedder says how long its vectors are by making one
        return draw_hasher(embedder(["a"]).shape[1], bits) if embedder is not None else None
    if text is not None and embedder is not None:
        return hasher_for_texts(texts_to_fit(fit, text, embedder), bits)
    with files.open([fit]) as source:
        return fit_hasher(source, bits, normalize=metric == "cosine")
