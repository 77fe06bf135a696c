"""`bitkin fit`: vectors in files → a model in a file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.cli.arguments import (
    Column,
    Dataset,
    Features,
    Forgetting,
    Json,
    RotationStart,
    Vectors,
    ZeroBased,
    one_of_choices,
    out_option,
    parse_forgetting,
    parse_rotation,
    repeat_options,
    require_other_file,
)
from bitkin.cli.clusters import as_workers_see, cluster_option, open_cluster
from bitkin.cli.help import complete_from
from bitkin.cli.methods import METHODS, OF_PROJECTIONS, OF_ROTATIONS
from bitkin.cli.output import print_json, progress_bar, task_bar
from bitkin.cli.shared import say

if TYPE_CHECKING:
    from bitkin.hashers.base import Hasher
    from bitkin.input_files import VectorFileOptions
    from bitkin.io.vectors import VectorSource


def fit(
    vectors: Vectors,
    out: Annotated[Path, out_option("The model to write.")],
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            help="projection, wta, minhash or sign.",
            autocompletion=complete_from("projection", "wta", "minhash", "sign"),
        ),
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
            "[default: pca]",
            autocompletion=complete_from(
                "pca", "nystrom", "random", "opast", "frequent-directions"
            ),
        ),
    ] = None,
    rotation: Annotated[
        str | None,
        typer.Option(
            help="How projected data is rotated: auto (itq or random, as held-out rows have it), "
            "itq, unifdiag, isohash, random, none. [default: auto]",
            autocompletion=complete_from("auto", "itq", "unifdiag", "isohash", "random", "none"),
        ),
    ] = None,
    rotation_start: RotationStart = None,
    forgetting: Forgetting = None,
    sample_rows: Annotated[
        str | None,
        typer.Option(
            help="Rows to sample, a count or a share such as 0.05: nystrom. [default: 0.05]"
        ),
    ] = None,
    sample_features: Annotated[
        str | None,
        typer.Option(help="Features of them to sample, likewise: nystrom. [default: 0.3]"),
    ] = None,
    sampling: Annotated[
        str | None,
        typer.Option(
            help="How both are drawn: uniform or norms: nystrom.",
            autocompletion=complete_from("uniform", "norms"),
        ),
    ] = None,
    truncate: Annotated[
        float | None, typer.Option(help="The γ of the modified method: nystrom. [default: none]")
    ] = None,
    rotation_rows: Annotated[
        int | None,
        typer.Option(min=1, help="Rows to learn the rotation from: auto, itq. [default: 32768]"),
    ] = None,
    rotation_iterations: Annotated[
        int | None,
        typer.Option(min=1, help="Iterations at most: auto, itq, isohash. [default: 50, 50, 100]"),
    ] = None,
    center: Annotated[
        bool | None,
        typer.Option(
            "--center/--no-center",
            help="Subtract the mean of every feature first: projection, wta. [default: projection "
            "does, wta as the values suggest: dense ones yes, bags no]",
        ),
    ] = None,
    scale: Annotated[
        bool | None,
        typer.Option(
            "--scale/--no-scale",
            help="Divide every feature by its standard deviation first: wta. [default: where units "
            "are far apart]",
        ),
    ] = None,
    normalize: Annotated[
        bool | None,
        typer.Option(
            "--normalize/--no-normalize", help="Scale rows to length 1 first: projection."
        ),
    ] = None,
    hashes: Annotated[
        int | None, typer.Option(min=1, help="Symbols per code: wta, minhash. [default: 256, 128]")
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="Features that a symbol compares, or auto: wta. [default: 4]")
    ] = None,
    degree: Annotated[
        int | None, typer.Option(min=1, max=64, help="Features multiplied: wta. [default: 1]")
    ] = None,
    coefficients: Annotated[
        bool | None,
        typer.Option(
            "--coefficients/--no-coefficients",
            help="Weight products as the polynomial kernel does: wta. [default: no]",
        ),
    ] = None,
    densify: Annotated[
        str | None,
        typer.Option(
            help="How empty windows are filled: auto, rotation, optimal, none: wta.",
            autocompletion=complete_from("auto", "rotation", "optimal", "none"),
        ),
    ] = None,
    alphabet: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=2**32,
            help="Values a symbol can take: wta. [default: as many as a window, up to 256]",
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            help="partition or independent windows: wta.",
            autocompletion=complete_from("partition", "independent"),
        ),
    ] = None,
    symbol_bits: Annotated[
        int | None, typer.Option(min=1, max=32, help="Bits per symbol: minhash. [default: 8]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**64 - 1, help="Seed of all draws.")] = 0,
    column: Column = None,
    dataset: Dataset = None,
    features: Features = None,
    zero_based: ZeroBased = None,
    dask: Annotated[str | None, cluster_option] = None,
    json: Json = False,
) -> None:
    """Learn a model from vectors, in little memory.

    With --dask the workers of a cluster read the files, which may be folders of them then.

    Example: bitkin fit vectors.npy -o model.bitkin

    Example: bitkin fit vectors.npy --bits 512 --projection random --rotation none -o model.bitkin

    Example: bitkin fit vectors.npy --bits 32 --projection opast --rotation unifdiag -o model.bitkin

    Example: bitkin fit bags.npz --method wta --window auto -o model.bitkin

    Example: bitkin fit folder -o model.bitkin --dask tcp://10.0.0.1:8786
    """
    parameters = {
        "--bits": bits,
        "--projection": projection,
        "--rotation": rotation,
        "--rotation-start": rotation_start,
        "--forgetting": forgetting,
        "--center": center,
        "--scale": scale,
        "--normalize": normalize,
        "--sample-rows": sample_rows,
        "--sample-features": sample_features,
        "--sampling": sampling,
        "--truncate": truncate,
        "--rotation-rows": rotation_rows,
        "--rotation-iterations": rotation_iterations,
        "--hashes": hashes,
        "--window": window,
        "--degree": degree,
        "--coefficients": coefficients,
        "--densify": densify,
        "--alphabet": alphabet,
        "--layout": layout,
        "--symbol-bits": symbol_bits,
    }
    hasher = _make_hasher(method, parameters, seed)
    from bitkin.hashers.projection.registry import rotation_name
    from bitkin.input_files import VectorFileOptions

    require_other_file(out, vectors)
    options = VectorFileOptions(column, dataset, features, zero_based)
    if dask is not None:
        from bitkin.distributed.fitting import warn_where_rows_come_here

        warn_where_rows_come_here(hasher)
    with _open_rows(vectors, options, dask) as source:
        if method == "projection" and bits is None:
            hasher.set_params(n_bits=min(hasher.n_bits, _most_bits(projection, source.shape[1])))
        hasher.fit(source)
    hasher.save(out)
    spec, n_features = hasher.spec_, hasher.n_features_in_
    chosen: dict[str, Any] = {}
    if method == "wta":
        chosen = {
            "window": hasher.window_,
            "empty_share": round(hasher.empty_share_, 4),
            "center": hasher.center_,
            "scale": hasher.scale_,
        }
    elif method == "projection" and rotation in (None, "auto"):
        chosen = {"rotation": rotation_name(hasher.rotation_)}
    if json:
        print_json(
            model=out, method=method, bits=spec.n_bits, symbols=spec.n_symbols, features=n_features,
            fingerprint=hasher.fingerprint_, **chosen,
        )  # fmt: skip
    else:
        length = f"{spec.n_bits} bits" if spec.bits_per_symbol == 1 else f"{spec} symbols"
        say(f"{out}: {length} from {n_features:,} features, fingerprint {hasher.fingerprint_}")
        if "rotation" in chosen:
            say(f"rotation {chosen['rotation']}, chosen on held-out rows")
        if "window" in chosen:
            say(
                f"windows of {chosen['window']:,} features"
                f"{', centred' if chosen['center'] else ''}{', scaled' if chosen['scale'] else ''}"
                f", {chosen['empty_share']:.0%} of them empty"
            )
        repeated = repeat_options(options)
        files = shlex.join(map(str, [out, *vectors]))
        there = "" if dask is None else f" --dask {shlex.quote(dask)}"
        say(f"next: bitkin encode {files}{repeated} -o codes.bitkin{there}")


@contextmanager
def _open_rows(
    vectors: Sequence[Path], options: VectorFileOptions, dask: str | None
) -> Iterator[VectorSource]:
    """Give the rows to learn from, here or on the workers of a cluster, with a progress bar."""
    from bitkin.io.vectors.source import WatchedSource

    if dask is None:
        source = options.open(vectors)
        with progress_bar("reading", source.shape[0], then="learning") as done:
            yield WatchedSource(source, done)
        return
    from bitkin.distributed.cluster import collect
    from bitkin.distributed.partitions import find_partitions

    with open_cluster(dask) as client, task_bar("learning") as progress:
        files = as_workers_see(vectors)
        partitions = find_partitions(files, partial(collect, client), options=options)
        with partitions.open(client, progress) as rows:
            yield rows


def _make_hasher(method: str, options: Mapping[str, Any], seed: int) -> Hasher:
    """Return the hasher that `method` and the options given (those not None) describe."""
    import bitkin

    one_of_choices(method, "--method", list(METHODS))
    class_name, known = METHODS[method]
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in known:
            owners = [name for name, (_, theirs) in METHODS.items() if option in theirs]
            raise typer.BadParameter(
                f"means nothing for --method {method}; it belongs to {' and '.join(owners)}.",
                param_hint=f"'{option}'",
            )
    _require_choices(given)
    parameters: dict[str, Any] = {known[option]: value for option, value in given.items()}
    if method == "projection":
        parameters |= _projection_slots(given)
    for name in ("rotation", "densify"):
        if parameters.get(name) == "none":
            parameters[name] = None
    if method == "projection":
        from bitkin.hashers.projection.registry import PROJECTIONS, ROTATIONS

        name = given.get("--projection", "pca")
        _fill_slot(parameters, "projection", name, OF_PROJECTIONS, PROJECTIONS)
        name = given.get("--rotation", "auto")
        _fill_slot(parameters, "rotation", name, OF_ROTATIONS, ROTATIONS)
    if parameters.get("window", "auto") != "auto":
        parameters["window"] = _parse_window(parameters["window"])
    if method != "sign":  # which draws nothing
        parameters["random_state"] = seed
    hasher: Hasher = getattr(bitkin, class_name)(**parameters)
    return hasher


def _projection_slots(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return projection and rotation where options of theirs are given, as `ProjectionHash` takes
    them.
    """
    slots: dict[str, Any] = {}
    if "--forgetting" in given:
        from bitkin.hashers.projection.projections import OPAST

        projection = given.get("--projection", "pca")
        slots["projection"] = OPAST(parse_forgetting(given["--forgetting"], projection))
    if "--rotation-start" in given:
        rotation = given.get("--rotation", "auto")
        slots["rotation"] = parse_rotation(rotation, given["--rotation-start"])
    return slots


def _fill_slot(
    parameters: dict[str, Any],
    slot: str,
    name: str,
    owners: Mapping[str, tuple[str, ...]],
    kinds: Mapping[str, Any],
) -> None:
    """Put the object that a name and its options describe in the place of both."""
    settings = {option: parameters.pop(option) for option in owners if option in parameters}
    spelling = {parameter: option for option, parameter in METHODS["projection"][1].items()}
    for option, value in settings.items():
        if name not in owners[option]:
            raise typer.BadParameter(
                f"means nothing for --{slot} {name}; it belongs to {' and '.join(owners[option])}.",
                param_hint=f"'{spelling[option]}'",
            )
        if option in ("samples", "features"):
            settings[option] = _parse_count_or_share(value, spelling[option])
    if settings:
        parameters[slot] = kinds[name](**settings)


def _parse_count_or_share(text: str, option: str) -> int | float:
    if text.strip().isdecimal():
        return int(text)
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither a count nor a share such as 0.05.", param_hint=f"'{option}'"
        ) from None


def _most_bits(projection: str | None, n_features: int) -> int:
    """Return how many bits vectors of so many features can have; learned directions are no more
    than features.
    """
    from bitkin.code_spec import MAX_SYMBOLS
    from bitkin.hashers.projection.projections.base import StreamingProjection
    from bitkin.hashers.projection.registry import projection_for

    if projection == "random":
        return MAX_SYMBOLS
    follows = isinstance(projection_for(projection or "pca"), StreamingProjection)
    return max(1, n_features - follows)


def _require_choices(given: Mapping[str, Any]) -> None:
    """End with a usage error where a word is not among an option's words."""
    from bitkin.hashers.projection.registry import PROJECTIONS, ROTATIONS

    choices = {
        "--projection": list(PROJECTIONS),
        "--rotation": ["none", *ROTATIONS],
        "--densify": ["auto", "rotation", "optimal", "none"],
        "--layout": ["partition", "independent"],
        "--sampling": ["uniform", "norms"],
    }
    for option, words in choices.items():
        if option in given:
            one_of_choices(given[option], option, words)


def _parse_window(window: str) -> int:
    if not window.strip().isdecimal() or int(window) < 2:
        raise typer.BadParameter(
            f"{window!r} is neither a number from 2 on nor 'auto'.", param_hint="'--window'"
        )
    return int(window)
