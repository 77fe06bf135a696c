"""Numbers as options give them."""

from __future__ import annotations

import re

import typer


def whole(text: str, option: str) -> int:
    """Read a whole number, or a power such as 2^18."""
    if not (found := re.fullmatch(r"(\d{1,12})(?:(?:\^|\*\*)(\d{1,2}))?", text.strip())):
        raise typer.BadParameter(
            f"{text!r} is no whole number such as 262144 or 2^18.", param_hint=f"'{option}'"
        )
    number: int = int(found[1]) ** int(found[2] or 1)
    if number < 1:
        raise typer.BadParameter(f"{text} is not at least 1.", param_hint=f"'{option}'")
    return number


def positive(text: str, option: str) -> float:
    """Read a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise typer.BadParameter(
            f"{text!r} is no number above 0, and not auto.", param_hint=f"'{option}'"
        )
    return number
