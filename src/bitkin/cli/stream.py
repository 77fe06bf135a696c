"""`bitkin stream`: vectors on stdin → codes on stdout or in a file as they come, by a model that
keeps learning.

`bitkin.StreamRun` does the work; here are its options, the signals, and what is said on stderr.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.choices import METRICS
from bitkin.cli.arguments import (
    OPTIONS,
    Forgetting,
    Json,
    RotationStart,
    a_file,
    file_or_stdout,
    one_of_choices,
    parse_forgetting,
    parse_rotation,
    usage_errors,
)
from bitkin.cli.help import complete_from
from bitkin.cli.output import print_json
from bitkin.errors import InvalidInputError

if TYPE_CHECKING:
    from bitkin.cli.streaming.news import News
    from bitkin.hashers.projection.projection_hash import ProjectionHash
    from bitkin.stream_files.opening import StreamPlaces
    from bitkin.stream_files.run import StreamRun

_PROJECTIONS = ["opast", "frequent-directions"]

# Options of a new hasher and what they are where they are absent.
_HASHER_DEFAULTS: dict[str, Any] = {
    "--bits": 32,
    "--projection": "opast",
    "--rotation": "auto",
    "--rotation-start": None,
    "--forgetting": None,
    "--refresh": 100,
    "--epochs": "auto",
    "--center": True,
    "--normalize": False,
    "--seed": 0,
}


def stream(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The file of codes, one packed code per row; stdout if absent.",
            callback=file_or_stdout,
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Save the model and the position here, and continue from it if it is there.",
            callback=a_file,
        ),
    ] = None,
    dim: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="Numbers per vector: raw float32.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help="What stdin holds: f32, npy, jsonl or auto.",
            autocompletion=complete_from("auto", "f32", "npy", "jsonl"),
        ),
    ] = "auto",
    field: Annotated[
        str, typer.Option(help="The field of JSON objects that holds the vector.")
    ] = "vector",
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", "-m", help="Begin with this model, fitted with --projection opast."
        ),
    ] = None,
    bits: Annotated[
        int | None, typer.Option("--bits", "-b", min=1, help="Length of a code. [default: 32]")
    ] = None,
    projection: Annotated[
        str | None,
        typer.Option(
            help="opast or frequent-directions. [default: opast]",
            autocompletion=complete_from("opast", "frequent-directions"),
        ),
    ] = None,
    rotation: Annotated[
        str | None,
        typer.Option(
            help="auto (random), unifdiag, isohash, random or none. [default: auto]",
            autocompletion=complete_from("auto", "unifdiag", "isohash", "random", "none"),
        ),
    ] = None,
    rotation_start: RotationStart = None,
    forgetting: Forgetting = None,
    refresh: Annotated[
        int | None,
        typer.Option(min=1, help="Vectors between two updates of the rotation. [default: 100]"),
    ] = None,
    epochs: Annotated[
        str | None,
        typer.Option(
            help="When the model that makes codes is replaced: auto (some times while it is new, "
            "then where the stream drifts), request (once, when it has learned enough), a number "
            "of vectors, a share of the variance that may be lost, or none (at every vector). "
            "[default: auto]"
        ),
    ] = None,
    center: Annotated[
        bool | None, typer.Option("--center/--no-center", help="Subtract the running mean.")
    ] = None,
    normalize: Annotated[
        bool | None,
        typer.Option("--normalize/--no-normalize", help="Scale vectors to length 1 first."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**64 - 1, help="Seed of all draws. [default: 0]")
    ] = None,
    epochs_to: Annotated[
        Path | None,
        typer.Option(
            help="The folder that keeps the model of every epoch. [default: OUT.epochs, or "
            "STATE.epochs]"
        ),
    ] = None,
    corrections: Annotated[
        Path | None,
        typer.Option(
            help="Also write two float32 per vector here: by them bitkin search ranks codes "
            "without the vectors.",
            callback=a_file,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Of the distances that they are for: l2, cosine or ip. [default: l2]",
            autocompletion=complete_from(*METRICS),
        ),
    ] = None,
    save_every: Annotated[
        int | None, typer.Option(min=1, help="Vectors between two saved states. [default: 10000]")
    ] = None,
    from_start: Annotated[
        bool | None,
        typer.Option(
            "--from-start/--continue",
            help="Whether stdin is the stream from its start, so that what the state has taken is "
            "skipped, or continues it. If absent, its first vectors tell.",
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", "--force", help="Begin again, and replace what is there.")
    ] = False,
    position: Annotated[
        str | None,
        typer.Option(
            help="Print from where to feed again, and exit: vectors or bytes. 0 without a state.",
            autocompletion=complete_from("vectors", "bytes"),
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="End at a vector that is not finite, instead of skipping it."
        ),
    ] = False,
    output_format: Annotated[
        str | None,
        typer.Option(
            help="raw or jsonl. [default: raw; jsonl for stdout with --json]",
            autocompletion=complete_from("raw", "jsonl"),
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Turn a stream of vectors into codes without delay, by a model that keeps learning.

    Each code leaves before the model learns from its vector. Codes of one epoch can be compared
    with each other; the model of every epoch is kept beside the codes, with rows.jsonl, which says
    which rows it made. Throughput and drift are reported on stderr.

    With --state the run can be stopped, or killed, at any time: the same command cuts the output
    back to the last state and continues. Stdin may begin again, as a file does: vectors that were
    taken are recognized and skipped; or it continues from the vector that the command names
    (--continue says so: without it, few vectors that equal the last ones are refused). On
    stdout nothing can be cut back: drop the codes from there on.

    SIGUSR1 begins an epoch at the next vector, whatever --epochs says.

    Example: bitkin stream --dim 128 --bits 32 -o codes.bin --state state.bitkin < vectors.f32

    Example: bitkin stream --format jsonl --field embedding --json < vectors.jsonl

    Example: tail -c +$(($(bitkin stream --state state.bitkin --position bytes) + 1)) vectors.f32 |
    bitkin stream --dim 128 --bits 32 -o codes.bin --state state.bitkin --continue
    """
    from bitkin.stream_files.opening import StreamPlaces
    from bitkin.stream_files.run import require_with

    if position is not None:
        _print_position(state, one_of_choices(position, "--position", ["vectors", "bytes"]), json)
        return
    code_format = output_format or ("jsonl" if json and out is None else "raw")
    one_of_choices(format, "--format", ["auto", "f32", "npy", "jsonl"])
    one_of_choices(code_format, "--output-format", ["raw", "jsonl"])
    one_of_choices(metric or "l2", "--metric", list(METRICS))
    places = StreamPlaces.from_arguments(out, state, epochs_to, corrections)
    with usage_errors():
        given = {"save_every": save_every, "from_start": from_start or None}
        require_with("state", state, given, OPTIONS)
        places.require_different(OPTIONS, model)
    _require_no_terminal(out, code_format, format)
    hasher = _make_hasher(
        model,
        {
            "--bits": bits,
            "--projection": projection,
            "--rotation": rotation,
            "--rotation-start": rotation_start,
            "--forgetting": forgetting,
            "--refresh": refresh,
            "--epochs": epochs,
            "--center": center,
            "--normalize": normalize,
            "--seed": seed,
        },
    )
    from bitkin.cli.streaming.news import News
    from bitkin.cli.streaming.signals import EpochRequests, Stopped, StopRequests, die_of
    from bitkin.cli.streaming.stdio import StandardIn, StandardOut
    from bitkin.stream_files.run import StreamRun

    news = News(json)
    with StopRequests() as stop, EpochRequests() as requests:

        def heed_requests() -> None:
            if requests.take():
                _say_epoch(run, news)
            stop.raise_if_any()

        def report(n_vectors: int) -> None:
            news.count(n_vectors, run.hasher)
            heed_requests()

        with usage_errors():
            run = StreamRun(
                hasher,
                StandardOut(stop) if out is None else out,
                state=state,
                save_every=save_every,
                epochs_to=epochs_to,
                corrections=corrections,
                metric=metric,
                output_format=code_format,
                fresh=fresh,
                strict=strict,
                progress=report,
                on_skip=lambda row, text: news.say("skipped", f"warning: {text}", vector=row),
                on_repeat=lambda n_vectors, text: None,  # said at the end, see `_say_repeated`
                spelling=OPTIONS,
            )
        with run:
            _announce(run, places, news)
            source: Any = StandardIn(stop, heed_requests)
            with contextlib.suppress(Stopped):
                run.encode_file(
                    source, format=format, dim=dim, field=field, from_start=from_start, name="stdin"
                )
                if run.n_awaited:
                    raise InvalidInputError(run.describe_awaited("stdin"))
            _say_repeated(run, news)
            news.end(run.hasher if hasattr(run.hasher, "n_features_in_") else None)
        if stop.number is None and not json:
            _say_next(run, places, news)
        _say_end(run, places, news, stopped=stop.number is not None)
    if stop.number is not None:
        die_of(stop.number)


def _make_hasher(model: Path | None, given: Mapping[str, Any]) -> ProjectionHash:
    """Return the hasher that the options describe; `given` has every option of one, None where it
    is absent.
    """
    if model is not None:
        for option, value in given.items():
            if value is not None:
                raise typer.BadParameter(
                    "means nothing with --model, which has its own.", param_hint=f"'{option}'"
                )
        return _load_streaming_hasher(model)
    options = {
        name: default if given[name] is None else given[name]
        for name, default in _HASHER_DEFAULTS.items()
    }
    from bitkin.hashers.projection.registry import STREAM_ROTATIONS

    one_of_choices(options["--projection"], "--projection", _PROJECTIONS)
    one_of_choices(options["--rotation"], "--rotation", ["auto", *STREAM_ROTATIONS, "none"])
    rotation = parse_rotation(options["--rotation"], options["--rotation-start"])
    epochs = _parse_epochs(options["--epochs"])
    projection: Any = options["--projection"]
    from bitkin.hashers.projection.projection_hash import ProjectionHash
    from bitkin.hashers.projection.projections import OPAST

    if options["--forgetting"] is not None:
        projection = OPAST(parse_forgetting(options["--forgetting"], projection))
    return ProjectionHash(
        options["--bits"],
        projection=projection,
        rotation=rotation,
        center=options["--center"],
        normalize=options["--normalize"],
        refresh=options["--refresh"],
        epochs=epochs,
        random_state=options["--seed"],
    )


def _load_streaming_hasher(path: Path) -> ProjectionHash:
    from bitkin._load import load_hasher
    from bitkin.hashers.projection.projection_hash import ProjectionHash

    hasher = load_hasher(path)
    if not isinstance(hasher, ProjectionHash) or not hasattr(hasher, "partial_fit"):
        raise InvalidInputError(
            f"{path} holds a model that does not keep learning. Fit one by bitkin fit "
            "--projection opast --rotation random, or begin without --model."
        )
    return hasher


def _parse_epochs(text: Any) -> Any:
    """Return what the word or the number stands for, as `ProjectionHash` takes it."""
    if text in ("auto", "request", "none"):
        return None if text == "none" else text
    try:
        number = int(text) if text.strip().isdecimal() else float(text)
    except ValueError:
        number = 0
    if not (number >= 1 if isinstance(number, int) else 0 < number < 1):
        raise typer.BadParameter(
            f"{text!r} is not auto, request, none, a number of vectors from 1 on or a share "
            "between 0 and 1.",
            param_hint="'--epochs'",
        )
    return number


def _require_no_terminal(out: Path | None, code_format: str, form: str) -> None:
    """Refuse bytes from or to a terminal."""
    if out is None and code_format == "raw" and sys.stdout.isatty():
        raise typer.BadParameter(
            "codes are bytes, not text for a terminal. Give a file, or --json.",
            param_hint="'--out'",
        )
    if form != "jsonl" and sys.stdin is not None and sys.stdin.isatty():
        raise typer.BadParameter(
            "vectors come on stdin, which is a terminal: bitkin stream ... < vectors",
            param_hint="stdin",
        )


def _announce(run: StreamRun, places: StreamPlaces, news: News) -> None:
    """Say where the stream continues, and what will be missing later."""
    at = run.position
    if run.resumed:
        feed = f"continues from {at.describe(OPTIONS)}"
        cut = (
            "drop the codes from there on"
            if places.out is None
            else f"{places.out} is cut back to {at.output_bytes:,} bytes"
        )
        news.say(
            "resume", f"{places.state}: {feed}; {cut}.",
            vectors=at.n_vectors, bytes=at.byte, output_bytes=at.output_bytes,
        )  # fmt: skip
    if run.hasher.epochs is not None and not run.keeps_models:
        news.say(
            "warning",
            "warning: models of epochs are not kept, and codes cannot be searched without them. "
            "Give --out, --state or --epochs-to.",
        )


def _say_repeated(run: StreamRun, news: News) -> None:
    """Say how much of stdin was not new."""
    if run.n_repeated:
        news.say(
            "repeated",
            f"stdin began again: its first {run.n_repeated:,} vectors were coded before, and "
            "skipped.",
            vectors=run.n_repeated,
        )


def _say_epoch(run: StreamRun, news: News) -> None:
    """Begin an epoch as requested, and say what became of that."""
    done = run.begin_epoch()
    at = f"at vector {done.row:,}."
    said = {
        None: f"a new epoch begins {at}",
        "no epochs": "no epoch begins: the run has --epochs none.",
        "no vectors": "no epoch begins: no vector has come yet.",
        "nothing learned": f"no epoch begins, since nothing was learned since the last one, {at}",
    }[done.reason]
    news.say("epoch", said, vector=done.row, begun=done.begun)


def _say_end(run: StreamRun, places: StreamPlaces, news: News, *, stopped: bool) -> None:
    """Say what the state knows of: all of the stream, or from where to feed again."""
    if places.state is not None:
        at = run.saved
        if run.whole and not stopped:
            said = (
                f"the whole stream is saved; what comes later continues from {at.describe(OPTIONS)}"
            )
        else:
            said = f"feed again from {at.describe(OPTIONS)}"
        cut = "" if run.whole else " Drop the codes from there on."
        news.say(
            "saved", f"{places.state}: {said}.{cut}", vectors=at.n_vectors, bytes=at.byte,
            output_bytes=at.output_bytes,
        )  # fmt: skip
    elif stopped:
        at = run.position
        news.say(
            "stopped",
            f"stopped after {at.describe(OPTIONS)}; there is no --state to continue from.",
        )


def _say_next(run: StreamRun, places: StreamPlaces, news: News) -> None:
    """Say how the codes are searched, and what that needs."""
    if places.out is None or run.position.n_vectors == 0:
        return
    known_by_state = places.state is not None
    stream = shlex.quote(str(places.state or places.out))
    command = f"bitkin search {stream} queries.npy"
    if run.hasher.epochs is None:
        said = (
            f"{places.out} cannot be searched: with --epochs none every code has a model of its "
            "own, which is not kept."
        )
    elif places.corrections is not None:
        named = "" if known_by_state else f" --corrections {shlex.quote(str(places.corrections))}"
        said = (
            f"next: {command}{named}, and with --vectors VECTORS, where the stream is in a file, "
            "far more exact"
        )
    else:
        said = (
            f"next: {command} --vectors VECTORS, which needs the vectors of the stream in a file "
            "(.npy and others). To search without them, stream again with --corrections FILE."
        )
    news.say("next", said)


def _print_position(state: Path | None, unit: str, json: bool) -> None:
    import numpy as np

    from bitkin.stream_files.state import StreamPosition
    from bitkin.stream_files.vectors_in import NPY

    if state is None:
        raise typer.BadParameter("needs --state.", param_hint="'--position'")
    at = StreamPosition.from_state(state)
    if json:
        print_json(vectors=at.n_vectors, bytes=at.byte, output_bytes=at.output_bytes)
    elif unit == "vectors" or at.byte is not None:
        print(at.n_vectors if unit == "vectors" else at.byte)
    else:
        raise InvalidInputError(
            f"{state} is of a stream that came as an .npy array of "
            f"{np.dtype(at.form[len(NPY) :]).name} numbers, which cannot be fed from the middle. "
            "Feed the whole array again."
        )
