"""`bitkin info`: what files of ours hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bitkin.cli.arguments import Json
from bitkin.cli.output import print_json, printable


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
    """Say what files hold: models, codes, corrections, indexes, classifiers, streams, vectors.

    Rows are not read, unless with --verify.

    Example: bitkin info model.bitkin
    """
    from bitkin.file_info import describe_file

    for number, path in enumerate(files):
        about = describe_file(path, verify=verify)
        if json:
            print_json(file=path, **about)
            continue
        if number:
            print()
        print(printable(f"{path}: {about.pop('kind')}"))
        width = max(map(len, about))
        for name, value in about.items():
            print(printable(f"  {name.replace('_', ' ').ljust(width)}  {_shown(value)}"))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={each!r}" for name, each in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
