"""`bitkin encode`: a model and vectors in files → codes in a file."""

from __future__ import annotations

import time
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
    load_hasher,
    open_files,
    out_option,
    require_other_file,
)
from bitkin.cli.output import print_json, progress_bar


def encode(
    model: Annotated[Path, typer.Argument(help="A model made by bitkin fit.", show_default=False)],
    vectors: Vectors,
    out: Annotated[Path, out_option("The codes to write.")],
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew where an earlier run was interrupted.")] = False,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Encode vectors of any number in little memory; an interrupted run goes on where it was.

    Example: bitkin encode model.bitkin vectors.npy -o codes.bitkin
    """
    from bitkin.hashers.encoding import encode_to_file

    require_other_file(out, [model, *vectors])
    hasher = load_hasher(model)
    source = open_files(vectors, column, dataset, features, zero_based, hasher)
    stamps = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in vectors]
    identity = {"files": stamps, "options": [column, dataset, features, zero_based]}
    start = time.perf_counter()
    with progress_bar("encoding", source.shape[0]) as done:
        begun = encode_to_file(hasher, source, out, identity=identity, fresh=fresh, progress=done)
    seconds = time.perf_counter() - start
    rows = len(source)
    if json:
        print_json(codes=out, rows=rows, resumed_at=begun, bytes=out.stat().st_size, seconds=round(seconds, 3))
    else:
        resumed = f", from row {begun:,} on" if begun else ""
        print(f"{out}: {rows:,} codes of {hasher.spec_} in {seconds:.1f} s{resumed}, {out.stat().st_size:,} bytes")
        print(f"next: bitkin index {out} -o index.bitkin")
