"""Options that commands share without taking them: --threads, --quiet and --force.

What they were given holds until the command ends.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

_VARIABLE = "BITKIN_QUIET"


@dataclass(slots=True)
class _Given:
    quiet: bool = False
    force: bool = False


_given = _Given()


def is_quiet() -> bool:
    """Tell whether only results, warnings and errors are printed."""
    return _given.quiet


def is_forced() -> bool:
    """Tell whether files that are there may be replaced."""
    return _given.force


def say(text: str) -> None:
    """Print what is said about a file that was written, unless in quiet."""
    if not _given.quiet:
        print(text)


def require_new(path: Path, option: str = "--out") -> None:
    """End with a usage error when a file would be replaced, unless that was asked for."""
    if path.is_file() and not _given.force:
        raise typer.BadParameter(
            f"{path} is there already. Give --force to replace it, or another name.",
            param_hint=f"'{option}'",
        )


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes --threads and --quiet too, and --force where it has --out or
    --html.
    """
    signature = inspect.signature(command, eval_str=True)
    names = ["threads", "quiet"]
    # a command that begins again by another option has its own --force
    if {"out", "html"} & signature.parameters.keys() and "state" not in signature.parameters:
        names.insert(0, "force")
    more = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for name, (annotation, default) in _OPTIONS.items()
        if name in names
    ]

    @functools.wraps(command)
    def run(
        *arguments: Any,
        force: bool = False,
        threads: int | None = None,
        quiet: bool = False,
        **options: Any,
    ) -> None:
        with _holding(force=force, threads=threads, quiet=quiet):
            command(*arguments, **options)

    added = {parameter.name: parameter.annotation for parameter in more}
    run.__annotations__ = {**inspect.get_annotations(command, eval_str=True), **added}
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *more]
    )
    return run


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "force": (
        Annotated[bool, typer.Option("--force", help="Replace files that are there.")],
        False,
    ),
    "threads": (
        Annotated[
            int | None,
            typer.Option(
                "--threads",
                min=1,
                max=1024,
                help="Threads to use; if absent BITKIN_NUM_THREADS, or all processors.",
            ),
        ],
        None,
    ),
    "quiet": (
        Annotated[bool, typer.Option("--quiet", help="Print results, warnings and errors alone.")],
        False,
    ),
}


@contextmanager
def _holding(*, force: bool, threads: int | None, quiet: bool) -> Iterator[None]:
    """Let the options hold while the block runs."""
    with ExitStack() as after:
        after.callback(_hold, _given.force, _given.quiet)
        _hold(force, quiet)
        if quiet:
            after.callback(_set_variable, os.environ.get(_VARIABLE))
            _set_variable("1")  # nothing about kernels that are compiled
        from bitkin.threads import get_threads, threads_held_at

        if threads is None:
            get_threads()  # a variable that makes no sense is told now, small as the work may be
        else:
            after.enter_context(threads_held_at(threads))
        yield


def _hold(force: bool, quiet: bool) -> None:
    _given.force, _given.quiet = force, quiet


def _set_variable(value: str | None) -> None:
    if value is None:
        del os.environ[_VARIABLE]
    else:
        os.environ[_VARIABLE] = value
