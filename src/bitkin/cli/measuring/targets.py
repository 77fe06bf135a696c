"""Files that a report is to be written to, checked before anything is measured."""

from __future__ import annotations

from pathlib import Path

import typer

from bitkin.cli.arguments import STDOUT, require_other_file


def check_targets(html: Path | None, markdown: Path | None, inputs: list[Path]) -> None:
    """End with a usage error where a report could not be written: measuring takes minutes."""
    for path, option in ((html, "--html"), (markdown, "--markdown")):
        if path is None:
            continue
        require_other_file(_require_target(path, option), inputs, option)
    if html is not None and markdown is not None and html.resolve() == markdown.resolve():
        raise typer.BadParameter(
            f"{markdown} is the file of --html. Give another name.", param_hint="'--markdown'"
        )


def _require_target(path: Path, option: str) -> Path:
    """Return the path of a report; it must be a file in a folder that is there."""
    if path.is_dir():
        said = f"{path} is a folder. Give the name of a file."
    elif path == STDOUT:
        said = f"{option} cannot write to stdout. Give a file."
    elif not path.parent.is_dir():
        said = f"{path.parent} is not a folder. Make it first."
    else:
        return path
    raise typer.BadParameter(said, param_hint=f"'{option}'")
