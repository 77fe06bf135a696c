"""How help looks: examples that can be copied, whole sentences in the list of commands."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_EXAMPLE = "Example: "
_NOT_WRAPPED = "\b\n"  # a mark at the head of a paragraph that is printed as it is
_WIDTH = 76  # of a terminal of 80 columns, less the margin of the help text


class Command(TyperCommand):
    """A command whose examples are not wrapped like prose."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read options; an error shows the value that is wrong."""
        try:
            rest: list[str] = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            # newer versions of Typer check values by pydantic, and leave them out
            details: list[Any] = getattr(error.__cause__, "errors", list)()
            if details:
                error.message = f"{error.message.rstrip('.')}, got {details[0]['input']!r}."
            raise
        return rest

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the help text."""
        _with_examples(self, lambda: super(Command, self).format_help_text(ctx, formatter))

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence, however long: it is wrapped, not cut."""
        return _first_sentence(self)


class StdinCommand(Command):
    """A command that reads stdin and takes no files: where it is given one, it says so."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read options; end with a usage error where a word is left over."""
        given = list(args)
        ctx.allow_extra_args = True
        rest: list[str] = super().parse_args(ctx, args)
        if rest:
            file = rest[0]
            others = shlex.join(["bitkin", ctx.info_name, *(one for one in given if one != file)])
            raise typer.BadParameter(
                f"vectors come on stdin. Write: {others} < {shlex.quote(file)}",
                ctx,
                param_hint=f"'{file}'",
            )
        return rest


class Group(TyperGroup):
    """A group of commands whose examples are not wrapped like prose."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command; a wrong name suggests the one that is nearest to it.

        Typer suggests all that are near, such as recommend for encoed.
        """
        name = args[0] if args else ""
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            ctx.fail(f"No such command {name!r}." + "".join(f" Did you mean {n!r}?" for n in near))
        found: tuple[str | None, Any, list[str]] = super().resolve_command(ctx, args)
        return found

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the help text."""
        _with_examples(self, lambda: super(Group, self).format_help_text(ctx, formatter))

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence, however long: it is wrapped, not cut."""
        return _first_sentence(self)


def complete_from(*words: str) -> Callable[[str], list[str]]:
    """Return what completes an option that takes one of these words."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def _first_sentence(command: Any) -> str:
    text = " ".join((command.short_help or command.help or "").split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", text)[0]


def _with_examples(command: Any, write: Callable[[], None]) -> None:
    """Call `write` while the examples in the command's help are laid out line by line."""
    text = command.help
    paragraphs = re.split(r"\n\s*\n", text or "")
    command.help = "\n\n".join(
        _NOT_WRAPPED + _lay_out(paragraph) if paragraph.startswith(_EXAMPLE) else paragraph
        for paragraph in paragraphs
    )
    try:
        write()
    finally:
        command.help = text


def _lay_out(example: str) -> str:
    """Break an example into lines that a shell reads as one: before options and after `&&`."""
    command = " ".join(example.removeprefix(_EXAMPLE).split())
    if len(_EXAMPLE + command) <= _WIDTH:
        return _EXAMPLE + command
    steps = command.replace(" && ", " &&\n").split("\n")
    return "\n".join(["Example:", *("\n".join(_break(step)) for step in steps)])


def _break(step: str) -> list[str]:
    lines, line = [], " "
    # a word with its option, never apart from it
    for piece in re.split(r" (?=-{1,2}[a-z])|(?<= \|) ", step):
        if len(line) + len(piece) + 3 > _WIDTH and line.strip():
            lines.append(line + " \\")
            line = "   "
        line += " " + piece
    return [*lines, line]
