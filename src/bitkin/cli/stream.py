"""`bitkin stream`: vectors on stdin → codes on stdout or in a file as they come, by a model that
goes on learning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitkin.cli.arguments import Json, a_file, file_or_stdout, one_of_choices
from bitkin.cli.output import print_json
from bitkin.errors import CorruptFileError, InvalidInputError

if TYPE_CHECKING:
    from bitkin.cli.streaming.news import News
    from bitkin.cli.streaming.opening import Opened, Places
    from bitkin.cli.streaming.run import StreamRun
    from bitkin.cli.streaming.signals import EpochRequests, StopRequests
    from bitkin.cli.streaming.state import Position
    from bitkin.cli.streaming.vectors_in import Block

_SAVE_EVERY = 10_000


def stream(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The file of codes, a packed code a row; stdout if absent.",
            callback=file_or_stdout,
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Save the model and the position here, and go on from it if it is there.",
            callback=a_file,
        ),
    ] = None,
    dim: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="Numbers a vector: raw float32.")
    ] = None,
    format: Annotated[
        str, typer.Option(help="What stdin holds: f32, npy, jsonl or auto.")
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
        str | None, typer.Option(help="opast or frequent-directions. [default: opast]")
    ] = None,
    rotation: Annotated[
        str | None, typer.Option(help="unifdiag, isohash, random or none. [default: unifdiag]")
    ] = None,
    forgetting: Annotated[
        float | None,
        typer.Option(help="Weight of the past at each vector, up to 1: opast. [default: 1]"),
    ] = None,
    refresh: Annotated[
        int | None,
        typer.Option(min=1, help="Vectors between two updates of the rotation. [default: 100]"),
    ] = None,
    epochs: Annotated[
        str | None,
        typer.Option(
            help="When the model that makes codes is replaced: request (once, when it has learned "
            "enough), a number of "
            "vectors, a share of the variance that may be lost, or none (at every vector). "
            "[default: request]"
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
            help="Also write two float32 a vector here: bitkin.EpochIndex scores codes by them, "
            "without the vectors.",
            callback=a_file,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Of the distances that they are for: l2, cosine or ip. [default: l2]"),
    ] = None,
    save_every: Annotated[
        int | None, typer.Option(min=1, help="Vectors between two saved states. [default: 10000]")
    ] = None,
    from_start: Annotated[
        bool,
        typer.Option(
            "--from-start", help="Stdin begins anew: skip the vectors that the state has taken."
        ),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, and replace what is there.")
    ] = False,
    position: Annotated[
        str | None,
        typer.Option(
            help="Print from where to feed again, and exit: vectors or bytes. 0 without a state."
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="End at a vector that is not finite, instead of skipping it."
        ),
    ] = False,
    output_format: Annotated[
        str | None, typer.Option(help="raw or jsonl. [default: raw; jsonl for stdout with --json]")
    ] = None,
    json: Json = False,
) -> None:
    """Turn a stream of vectors into codes without delay, by a model that goes on learning.

    Each code leaves before the model learns from its vector. Codes of one epoch can be compared
    with each other; the model of every epoch is kept beside the codes, with rows.jsonl, which says
    which rows it made. Throughput and drift are told on stderr.

    With --state the run can be stopped, or killed, at any time: the same command cuts the output
    back to the last state and goes on from the vector that it names. On stdout nothing can be cut
    back: drop the codes from that on.

    SIGUSR1 begins an epoch at the next vector, whatever --epochs says.

    Example: bitkin stream --dim 128 --bits 32 -o codes.bin --state state.bitkin < vectors.f32

    Example: bitkin stream --format jsonl --field embedding --json < vectors.jsonl

    Example: tail -c +$(($(bitkin stream --state state.bitkin --position bytes) + 1)) vectors.f32 |
    bitkin stream --dim 128 --bits 32 -o codes.bin --state state.bitkin
    """
    from bitkin.cli.streaming import usage
    from bitkin.cli.streaming.opening import Places

    places = Places(out, state, epochs_to or _beside(out or state), corrections)
    if position is not None:
        _print_position(state, one_of_choices(position, "--position", ["vectors", "bytes"]), json)
        return
    code_format = output_format or ("jsonl" if json and out is None else "raw")
    one_of_choices(format, "--format", ["auto", "f32", "npy", "jsonl"])
    one_of_choices(code_format, "--output-format", ["raw", "jsonl"])
    one_of_choices(metric or "l2", "--metric", ["l2", "cosine", "ip"])
    usage.require_given(
        "--state", state, {"--save-every": save_every, "--from-start": from_start or None}
    )
    usage.require_given("--corrections", corrections, {"--metric": metric})
    usage.require_different(places, model)
    usage.require_no_terminal(out, code_format, format)
    from bitkin.cli.streaming.news import News
    from bitkin.cli.streaming.opening import open_stream
    from bitkin.cli.streaming.options import hasher_for
    from bitkin.cli.streaming.run import Saving, StreamRun
    from bitkin.cli.streaming.signals import EpochRequests, StopRequests
    from bitkin.cli.streaming.vectors_in import stdin_reader, vectors_in

    hasher, options = hasher_for(
        model,
        {
            "--bits": bits,
            "--projection": projection,
            "--rotation": rotation,
            "--forgetting": forgetting,
            "--refresh": refresh,
            "--epochs": epochs,
            "--center": center,
            "--normalize": normalize,
            "--seed": seed,
        },
    )
    options["--output-format"] = code_format
    options["--out"] = "stdout" if out is None else _seen_from(state, out)
    options["--epochs-to"] = None if places.epochs is None else _seen_from(state, places.epochs)
    if corrections is not None:
        usage.require_epochs(hasher)
        options |= {"--corrections": _seen_from(state, corrections), "--metric": metric or "l2"}
    news = News(json)
    with StopRequests() as stop, EpochRequests() as epoch, ExitStack() as closing:
        opened = open_stream(places, options, fresh, stop, closing)
        hasher = hasher if opened.hasher is None else opened.hasher
        saving = None if state is None else Saving(state, save_every or _SAVE_EVERY, options)
        run = StreamRun(
            hasher,
            opened.position,
            opened.out,
            code_format,
            opened.kept,
            opened.corrections,
            saving,
            strict,
            news,
        )
        _announce(opened, places, hasher.epochs is not None, from_start, news)
        width = getattr(hasher, "n_features_in_", None)
        before = "" if from_start else opened.position.form
        blocks = vectors_in(stdin_reader(stop), format, dim, width, field, before)
        if from_start:
            blocks = _after(blocks, opened.position)
        _run(run, blocks, stop, epoch)
        news.end(hasher if hasattr(hasher, "n_features_in_") else None)
        _say_end(run, stop, places, news)
    if stop.number is not None:
        from bitkin.cli.streaming.signals import die_of

        die_of(stop.number)


def _run(run: StreamRun, blocks: Iterator[Block], stop: StopRequests, epoch: EpochRequests) -> None:
    """Take all blocks, or those that come before a request to stop; what is whole in the end is
    saved.
    """
    from bitkin.cli.streaming.signals import Stopped

    def heed_requests() -> None:
        if epoch.take():
            run.begin_epoch()
        stop.raise_if_any()

    try:
        for block in blocks:
            heed_requests()
            run.take(block, heed_requests)
    except Stopped:
        pass
    except (InvalidInputError, CorruptFileError):
        if run.whole:
            run.save()  # what came before the flaw is good
        raise
    if run.whole:
        run.save()


def _after(blocks: Iterator[Block], position: Position) -> Iterator[Block]:
    """Yield what comes after the vectors that were taken; their bytes are from here on those of
    this input.
    """
    n_skipped, passed, passed_bytes = position.n_vectors, 0, 0
    for block in blocks:
        skip = min(len(block.rows), n_skipped - passed)
        before = int(block.ends[skip - 1]) if skip else 0
        passed += skip
        passed_bytes += before
        if skip and passed == n_skipped:
            position.input_bytes, position.form = passed_bytes, block.form
        if skip < len(block.rows):
            yield block._replace(rows=block.rows[skip:], ends=block.ends[skip:] - before)
    if passed < n_skipped:
        raise InvalidInputError(
            f"stdin has {passed:,} vectors, and the state has taken {n_skipped:,} already. Feed "
            "the whole stream with "
            "--from-start, or only what comes after them without it."
        )


def _announce(
    opened: Opened, places: Places, has_epochs: bool, from_start: bool, news: News
) -> None:
    """Say where the stream goes on, and what will be missing later."""
    at = opened.position
    if opened.resumed:
        feed = (
            f"skips the first {at.n_vectors:,} vectors" if from_start else f"feed again from {at}"
        )
        cut = (
            "drop the codes from that on"
            if places.out is None
            else f"{places.out} is cut back to {at.output_bytes:,} bytes"
        )
        news.say(
            "resume", f"{places.state}: {feed}; {cut}.",
            vectors=at.n_vectors, bytes=at.byte, output_bytes=at.output_bytes,
        )  # fmt: skip
    if has_epochs and opened.kept is None:
        news.say(
            "warning",
            "warning: models of epochs are not kept, and codes cannot be searched without them. "
            "Give --out, "
            "--state or --epochs-to.",
        )


def _say_end(run: StreamRun, stop: StopRequests, places: Places, news: News) -> None:
    """Say what the state knows of: all of the stream, or from where to feed again."""
    if places.state is not None:
        at = run.saved
        if run.whole and stop.number is None:
            said = f"the whole stream is saved; what comes later goes on from {at}"
        else:
            said = f"feed again from {at}"
        cut = "" if run.whole else " Drop the codes from that on."
        news.say(
            "saved", f"{places.state}: {said}.{cut}", vectors=at.n_vectors, bytes=at.byte,
            output_bytes=at.output_bytes,
        )  # fmt: skip
    if stop.number is not None and places.state is None:
        news.say("stopped", f"stopped after {run.position}; there is no --state to go on from.")


def _print_position(state: Path | None, unit: str, json: bool) -> None:
    import numpy as np

    from bitkin.cli.streaming.state import Position, load_state
    from bitkin.cli.streaming.vectors_in import NPY

    if state is None:
        raise typer.BadParameter("needs --state.", param_hint="'--position'")
    at = load_state(state)[1] if state.exists() else Position()
    if json:
        print_json(vectors=at.n_vectors, bytes=at.byte, output_bytes=at.output_bytes)
    elif unit == "vectors" or at.byte is not None:
        print(at.n_vectors if unit == "vectors" else at.byte)
    else:
        raise InvalidInputError(
            f"{state} is of a stream that came as an .npy array of "
            f"{np.dtype(at.form[len(NPY) :]).name} numbers, "
            "which cannot be fed from the middle. Feed the whole array again with --from-start."
        )


def _beside(path: Path | None) -> Path | None:
    return None if path is None else path.with_name(f"{path.name}.epochs")


def _seen_from(state: Path | None, path: Path) -> str:
    """Return the path as the state knows it: all of a stream may be moved together, but no other
    file is cut back.
    """
    try:
        return os.path.relpath(path.resolve(), None if state is None else state.resolve().parent)
    except ValueError:  # on another drive
        return str(path.resolve())
