"""`bitkin fit`: vectors in files → a model in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitkin.cli.arguments import (
    Column,
    Dataset,
    Features,
    Json,
    Vectors,
    ZeroBased,
    one_of_choices,
    open_files,
    out_option,
    repeated_options,
    require_other_file,
)
from bitkin.cli.output import print_json, progress_bar


def fit(
    vectors: Vectors,
    out: Annotated[Path, out_option("The model to write.")],
    bits: Annotated[int, typer.Option("--bits", "-b", min=1, help="Length of a code.")] = 256,
    projection: Annotated[str, typer.Option(help="How directions are found: random.")] = "random",
    rotation: Annotated[str, typer.Option(help="How projected data is turned: none.")] = "none",
    center: Annotated[bool, typer.Option(help="Subtract the mean first.")] = True,
    normalize: Annotated[bool, typer.Option(help="Scale rows to length 1 first, for cosine.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all draws.")] = 0,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Learn a model from vectors, in one pass and little memory.

    Example: bitkin fit vectors.npy --bits 256 -o model.bitkin
    """
    from bitkin.hashers.projection_hash import ProjectionHash
    from bitkin.hashers.slots import PROJECTIONS, ROTATIONS
    from bitkin.io.vectors.watched import WatchedSource

    one_of_choices(projection, "--projection", list(PROJECTIONS))
    one_of_choices(rotation, "--rotation", ["none", *ROTATIONS])
    require_other_file(out, vectors)
    source = open_files(vectors, column, dataset, features, zero_based)
    hasher = ProjectionHash(
        bits,
        projection=projection,
        rotation=None if rotation == "none" else rotation,
        center=center,
        normalize=normalize,
        random_state=seed,
    )
    with progress_bar("fitting", source.shape[0]) as done:
        hasher.fit(WatchedSource(source, done))
    hasher.save(out)
    if json:
        print_json(model=out, bits=bits, features=hasher.n_features_in_, fingerprint=hasher.fingerprint_)
    else:
        print(f"{out}: {bits} bits from {hasher.n_features_in_} features, fingerprint {hasher.fingerprint_}")
        options = repeated_options(column, dataset, features)
        print(f"next: bitkin encode {out} {' '.join(map(str, vectors))}{options} -o codes.bitkin")
