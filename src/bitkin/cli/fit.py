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
    open_files,
    out_option,
    repeated_options,
    require_other_file,
)
from bitkin.cli.methods import make_hasher, most_bits
from bitkin.cli.output import print_json, progress_bar


def fit(
    vectors: Vectors,
    out: Annotated[Path, out_option("The model to write.")],
    method: Annotated[
        str, typer.Option("--method", "-m", help="projection, wta or minhash.")
    ] = "projection",
    bits: Annotated[
        int | None,
        typer.Option(
            "--bits",
            "-b",
            min=1,
            help="Length of a code: projection. [default: 256, or what features allow]",
        ),
    ] = None,
    projection: Annotated[
        str | None,
        typer.Option(
            help="How directions are found: pca, nystrom, random, opast, frequent-directions. "
            "[default: pca]"
        ),
    ] = None,
    rotation: Annotated[
        str | None,
        typer.Option(
            help="How projected data is turned: itq, unifdiag, isohash, random, none. [default: "
            "itq]"
        ),
    ] = None,
    center: Annotated[
        bool | None,
        typer.Option("--center/--no-center", help="Subtract the mean first: projection."),
    ] = None,
    normalize: Annotated[
        bool | None,
        typer.Option(
            "--normalize/--no-normalize", help="Scale rows to length 1 first: projection."
        ),
    ] = None,
    hashes: Annotated[
        int | None, typer.Option(min=1, help="Symbols a code: wta, minhash. [default: 256, 128]")
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="Features a symbol compares, or auto: wta. [default: 4]")
    ] = None,
    degree: Annotated[
        int | None, typer.Option(min=1, max=64, help="Features multiplied: wta. [default: 1]")
    ] = None,
    densify: Annotated[
        str | None,
        typer.Option(help="How empty windows are filled: auto, rotation, optimal, none: wta."),
    ] = None,
    alphabet: Annotated[
        int | None, typer.Option(min=2, max=2**32, help="Values a symbol can take: wta.")
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="partition or independent windows: wta.")
    ] = None,
    symbol_bits: Annotated[
        int | None, typer.Option(min=1, max=32, help="Bits a symbol: minhash. [default: 8]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**64 - 1, help="Seed of all draws.")] = 0,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    json: Json = False,
) -> None:
    """Learn a model from vectors, in little memory.

    Example: bitkin fit vectors.npy -o model.bitkin

    Example: bitkin fit vectors.npy --bits 512 --projection random --rotation none -o model.bitkin

    Example: bitkin fit vectors.npy --bits 32 --projection opast --rotation unifdiag -o model.bitkin

    Example: bitkin fit bags.npz --method wta --window auto -o model.bitkin
    """
    options = {
        "--bits": bits,
        "--projection": projection,
        "--rotation": rotation,
        "--center": center,
        "--normalize": normalize,
        "--hashes": hashes,
        "--window": window,
        "--degree": degree,
        "--densify": densify,
        "--alphabet": alphabet,
        "--layout": layout,
        "--symbol-bits": symbol_bits,
    }
    hasher = make_hasher(method, options, seed)
    from bitkin.io.vectors.watched import WatchedSource

    require_other_file(out, vectors)
    source = open_files(vectors, column, dataset, features, zero_based)
    if method == "projection" and bits is None:
        hasher.set_params(n_bits=min(hasher.n_bits, most_bits(projection, source.shape[1])))
    with progress_bar("fitting", source.shape[0]) as done:
        hasher.fit(WatchedSource(source, done))
    hasher.save(out)
    spec, n_features = hasher.spec_, hasher.n_features_in_
    chosen = (
        {"window": hasher.window_, "empty_share": round(hasher.empty_share_, 4)}
        if method == "wta"
        else {}
    )
    if json:
        print_json(
            model=out, method=method, bits=spec.n_bits, symbols=spec.n_symbols, features=n_features,
            fingerprint=hasher.fingerprint_, **chosen,
        )  # fmt: skip
    else:
        length = f"{spec.n_bits} bits" if spec.bits_per_symbol == 1 else f"{spec} symbols"
        print(f"{out}: {length} from {n_features:,} features, fingerprint {hasher.fingerprint_}")
        if chosen:
            print(
                f"windows of {chosen['window']:,} features, {chosen['empty_share']:.0%} of them "
                "empty"
            )
        repeated = repeated_options(column, dataset, features)
        print(f"next: bitkin encode {out} {' '.join(map(str, vectors))}{repeated} -o codes.bitkin")
