"""`bitkin info`: what files of ours hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bitkin.cli.arguments import Json, spell_options
from bitkin.cli.output import complain, print_json, printable
from bitkin.errors import BitkinError


def info(
    files: Annotated[
        list[Path],
        typer.Argument(help="Files of any kind that bitkin writes or reads.", show_default=False),
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Read all of each file and compare its checksums.")
    ] = False,
    json: Json = False,
) -> None:
    """Say what files hold: models, codes, corrections, indexes, classifiers, streams, vectors,
    results of a search.

    Rows are not read, unless with --verify. A file that cannot be described is named on stderr, and
    the others follow; the exit code is 1 then.

    Example: bitkin info model.bitkin
    """
    from bitkin.file_info import describe_file

    n_described = 0
    for path in files:
        try:
            about = describe_file(path, verify=verify)
        except BitkinError as error:
            complain(spell_options(str(error)))
            continue
        n_described += 1
        if json:
            print_json(file=path, **about)
            continue
        if n_described > 1:
            print()
        print(printable(f"{path}: {about.pop('kind')}"))
        width = max(map(len, about))
        for name, value in about.items():
            print(printable(f"  {name.replace('_', ' ').ljust(width)}  {_shown(value)}"))
    if n_described < len(files):
        raise typer.Exit(1)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={each!r}" for name, each in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
