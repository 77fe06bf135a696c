"""What options of `bitkin stream` may not be together; each check ends with a usage error."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from bitkin.cli.streaming.opening import Places
    from bitkin.hashers.projection.projection_hash import ProjectionHash


def require_given(needed: str, value: object, options: dict[str, object]) -> None:
    """Refuse options that mean nothing where the one that they are about is absent."""
    for option, given in options.items():
        if value is None and given is not None:
            raise typer.BadParameter(f"means nothing without {needed}.", param_hint=f"'{option}'")


def require_different(places: Places, model: Path | None) -> None:
    """Refuse two files that are one."""
    seen: dict[Path, str] = {}
    files = {
        "--model": model,
        "--out": places.out,
        "--state": places.state,
        "--epochs-to": places.epochs,
        "--corrections": places.corrections,
    }
    for option, path in files.items():
        if path is None:
            continue
        if path.resolve() in seen:
            raise typer.BadParameter(
                f"{path} is also given to {seen[path.resolve()]}.", param_hint=f"'{option}'"
            )
        seen[path.resolve()] = option


def require_no_terminal(out: Path | None, code_format: str, form: str) -> None:
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


def require_epochs(hasher: ProjectionHash) -> None:
    """Refuse corrections for codes that can never be compared."""
    if hasher.epochs is None:
        raise typer.BadParameter(
            "needs epochs: codes of a model that moves cannot be scored. Leave out --epochs none.",
            param_hint="'--corrections'",
        )
