"""`bitkin warmup`: kernels compiled before anybody waits for them."""

from __future__ import annotations

from typing import Annotated

import typer

from bitkin.choices import WARMUP_TASKS
from bitkin.cli.arguments import Json, one_of_choices
from bitkin.cli.help import complete_from
from bitkin.cli.output import print_json, print_table, progress_bar


def warmup(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"What to compile for: {', '.join(WARMUP_TASKS)}; all of them if absent.",
            autocompletion=complete_from(*WARMUP_TASKS),
            show_default=False,
        ),
    ] = None,
    bits: Annotated[
        list[int] | None,
        typer.Option(
            "--bits",
            "-b",
            min=1,
            help="Length of the codes that will be searched; may be repeated. [default: 256]",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Compile kernels and keep them, so that no later first call waits for the compiler.

    For an image of a container, or a CI cache: run it once where the program will run, and keep
    the folder that `bitkin doctor` shows. What is compiled already is only loaded.

    Example: bitkin warmup

    Example: bitkin warmup search collection --bits 128 --bits 512
    """
    chosen = [one_of_choices(task, "TASKS", list(WARMUP_TASKS)) for task in tasks or WARMUP_TASKS]
    from bitkin.warming import WarmUp
    from bitkin.warming import warmup as warm_up

    done: list[WarmUp] = []
    with progress_bar("compiling", len(chosen), unit="tasks") as report:

        def note(task: WarmUp) -> None:
            done.append(task)
            report(len(done))

        warm_up(chosen, bits or 256, note)
    if json:
        for task in done:
            print_json(task=task.task, kernels=task.kernels, seconds=round(task.seconds, 2))
        return
    rows = [(task.task, f"{task.kernels:,}", f"{task.seconds:.1f}") for task in done]
    print_table("compiled", ("task", "kernels", "seconds"), rows)
