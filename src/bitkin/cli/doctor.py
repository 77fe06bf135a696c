"""`bitkin doctor`: what this machine has, and whether search runs at the speed it should."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bitkin.cli.arguments import Json
from bitkin.cli.output import print_json, print_table


def doctor(
    speed: Annotated[bool, typer.Option(help="Measure the speed of memory and of search.")] = True,
    json: Json = False,
) -> None:
    """Show versions, processor, threads, cache folder, and a speed test against this machine's
    memory.

    Example: bitkin doctor
    """
    from bitkin.cli import checkup

    sections: dict[str, dict[str, Any]] = {
        "versions": checkup.versions(),
        "processor": checkup.processor(),
        "kernels": checkup.kernel_cache(),
    }
    if speed:
        sections["speed"] = checkup.speed()
    if json:
        print_json(**sections)
        return
    for title, values in sections.items():
        print_table(
            title, ("", ""), [(key.replace("_", " "), str(value)) for key, value in values.items()]
        )
    if speed:
        print(checkup.verdict(sections["speed"]))
