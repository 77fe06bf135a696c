"""`bitkin encode`: a model and vectors in files → codes in a file."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.choices import METRICS
from bitkin.cli.arguments import (
    Column,
    Dataset,
    Features,
    Json,
    Vectors,
    ZeroBased,
    one_of_choices,
    out_option,
    require_other_file,
)
from bitkin.cli.clusters import as_workers_see, cluster_option, open_cluster
from bitkin.cli.help import complete_from
from bitkin.cli.output import print_json, progress_bar, task_bar
from bitkin.cli.shared import say

if TYPE_CHECKING:
    from bitkin.hashers.base import Hasher
    from bitkin.input_files import VectorFileOptions


def encode(
    model: Annotated[Path, typer.Argument(help="A model made by bitkin fit.", show_default=False)],
    vectors: Vectors,
    out: Annotated[Path, out_option("The codes to write.")],
    corrections: Annotated[
        Path | None,
        typer.Option(
            help="Also write two numbers per vector here, for bitkin search --stage estimate."
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Of the corrections: l2, cosine or ip; l2 if absent.",
            autocompletion=complete_from(*METRICS),
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin again where an earlier run was interrupted.")
    ] = False,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    dask: Annotated[str | None, cluster_option] = None,
    json: Json = False,
) -> None:
    """Encode vectors of any number in little memory; an interrupted run continues where it was.

    With --dask the workers of a cluster read the files, which may be folders of them then, and send
    the codes.

    --corrections needs a projection with orthonormal or random directions (a WTA model is searched
    without any); they are made in the same pass, and continue in the same way.

    Example: bitkin encode model.bitkin vectors.npy -o codes.bitkin

    Example: bitkin encode model.bitkin folder -o codes.bitkin --dask tcp://10.0.0.1:8786
    """
    from bitkin._load import load_hasher
    from bitkin.hashers.encoding import encode_to_file
    from bitkin.input_files import VectorFileOptions

    require_other_file(out, [model, *vectors])
    metric = _resolve_metric(corrections, metric)
    if corrections is not None:
        _require_place(corrections, out, [model, *vectors])
    hasher = load_hasher(model)
    options = VectorFileOptions(column, dataset, features, zero_based)
    if dask is not None:
        if corrections is not None:
            raise typer.BadParameter(
                "cannot be made with --dask. Leave one of them out.", param_hint="'--corrections'"
            )
        _encode_on_cluster(dask, hasher, vectors, options, out, fresh=fresh, json=json)
        return
    source = options.open(vectors, hasher)
    stamps = [
        (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in vectors
    ]
    identity = {"files": stamps, "options": list(options)}
    start = time.perf_counter()
    encode_all: Callable[..., int]
    if corrections is None:
        encode_all = partial(encode_to_file, hasher, source, out)
    else:
        from bitkin.hashers.wta.wta_hash import WTAHash
        from bitkin.rescoring.correction_files import encode_with_corrections_to_files
        from bitkin.rescoring.corrections import scorer_for

        if isinstance(hasher, WTAHash):
            raise typer.BadParameter(
                f"means nothing for {model}, a WTAHash: bitkin search scores its codes without "
                "corrections. Leave it out.",
                param_hint="'--corrections'",
            )
        scorer = scorer_for(hasher, metric, str(model))
        encode_all = partial(
            encode_with_corrections_to_files, hasher, scorer, source, out, corrections
        )
    with progress_bar("encoding", source.shape[0]) as done:
        begun = encode_all(identity=identity, fresh=fresh, progress=done)
    seconds = time.perf_counter() - start
    also = {} if corrections is None else {"corrections": corrections, "metric": metric}
    _tell(out, len(source), hasher, begun, seconds, json, also)


def _encode_on_cluster(
    address: str,
    hasher: Hasher,
    vectors: list[Path],
    options: VectorFileOptions,
    out: Path,
    *,
    fresh: bool,
    json: bool,
) -> None:
    """Let the workers of a cluster encode, and write their codes here in the order of the rows."""
    from bitkin.distributed.encoding import encode as encode_there

    start = time.perf_counter()
    with open_cluster(address) as client, task_bar("encoding") as progress:
        column, dataset, features, zero_based = options
        codes = encode_there(
            hasher,
            as_workers_see(vectors),
            column=column,
            dataset=dataset,
            n_features=features,
            zero_based=zero_based,
        )
        begun = codes.save_joined(out, fresh=fresh, client=client, progress=progress)
    _tell(out, len(codes), hasher, begun, time.perf_counter() - start, json, {})


def _tell(
    out: Path,
    rows: int,
    hasher: Hasher,
    begun: int,
    seconds: float,
    json: bool,
    also: dict[str, Any],
) -> None:
    """Say what was written, and what to do next."""
    if json:
        print_json(
            codes=out,
            rows=rows,
            resumed_at=begun,
            bytes=out.stat().st_size,
            seconds=round(seconds, 3),
            **also,
        )
        return
    resumed = f", from row {begun:,} on" if begun else ""
    say(
        f"{out}: {rows:,} codes of {hasher.spec_} in {seconds:.1f} s{resumed}, "
        f"{out.stat().st_size:,} bytes"
    )
    if also:
        corrections = also["corrections"]
        size = corrections.stat().st_size
        say(f"{corrections}: corrections for {also['metric']}, {size:,} bytes")
    say(f"next: bitkin index {shlex.quote(str(out))} -o index.bitkin")


def _resolve_metric(corrections: Path | None, metric: str | None) -> str:
    """Return the metric of the corrections; one without the other is wrong usage."""
    if corrections is None and metric is not None:
        raise typer.BadParameter("means nothing without --corrections.", param_hint="'--metric'")
    return one_of_choices("l2" if metric is None else metric, "--metric", list(METRICS))


def _require_place(corrections: Path, out: Path, inputs: list[Path]) -> None:
    """End with a usage error where the file is another one too, or is named like an array, which it
    is not.
    """
    if corrections.suffix == ".npy":
        raise typer.BadParameter(
            f"{corrections} must not end in .npy: what is written is a bitkin file, with the "
            "metric and the model.",
            param_hint="'--corrections'",
        )
    if corrections.resolve() == out.resolve():
        raise typer.BadParameter(
            f"{corrections} is also given to --out.", param_hint="'--corrections'"
        )
    require_other_file(corrections, inputs, "--corrections")
