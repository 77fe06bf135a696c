"""How commands speak: results on stdout, as text or JSON lines; progress and errors on stderr."""

from __future__ import annotations

import codecs
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from bitkin.cli.shared import is_quiet

if TYPE_CHECKING:
    from rich.progress import Progress


def _encode_bytes_or_mark(error: UnicodeError) -> tuple[str | bytes, int]:
    """Do as "surrogateescape" does for a byte that could not be decoded, and as "replace" for all
    else.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    number = ord(error.object[error.start])
    is_byte = 0xDC80 <= number <= 0xDCFF
    return bytes([number - 0xDC00]) if is_byte else "?", error.start + 1


# A file name goes out byte for byte where it came in so, and what the encoding lacks becomes "?".
_LENIENT = {"strict": "replace", "surrogateescape": "bitkin.bytes-or-mark"}
codecs.register_error(_LENIENT["surrogateescape"], _encode_bytes_or_mark)


@contextmanager
def checked_stdout() -> Iterator[None]:
    """Let the block print to a stdout of any encoding; where it cannot be written, end in one clear
    line and with 1.

    A reader that has gone, such as `head`, is no failure to report: that ends quietly, with 1 too.
    """
    out = sys.stdout
    if out is None:  # as Python leaves it where the file descriptor is closed
        fail("stdout is closed. Send it to /dev/null where nobody is to read it.")
    errors = out.errors
    if isinstance(out, TextIOWrapper) and errors in _LENIENT:
        out.reconfigure(errors=_LENIENT[errors])
    try:
        yield
        out.flush()
    except BrokenPipeError:
        _drop(out)
        sys.exit(1)
    except OSError as error:
        if error.filename is not None or _can_be_written(out):  # errors of stdout have no name
            raise
        _fail_to_write(out, error)
    except SystemExit as end:
        try:
            out.flush()
        except OSError as error:
            if end.code or isinstance(error, BrokenPipeError):
                _drop(out)
                sys.exit(end.code or 1)
            _fail_to_write(out, error)
        raise
    finally:
        if isinstance(out, TextIOWrapper) and out.errors != errors:
            with suppress(OSError):  # it flushes first
                out.reconfigure(errors=errors)


def _can_be_written(out: TextIO) -> bool:
    """Whether what is left to be written can be, and one more newline: after a failure often
    nothing is left.
    """
    try:
        out.write("\n")
        out.flush()
    except OSError:
        return False
    return True


def _fail_to_write(out: TextIO, error: OSError) -> NoReturn:
    _drop(out)
    fail(f"stdout cannot be written: {error.strerror or error}.")


def _drop(out: TextIO) -> None:
    """Let what is left to be written go nowhere: Python would try again at exit, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, out.fileno())
    os.close(nowhere)


def fail(message: str) -> NoReturn:
    """Print one line on stderr and exit with 1."""
    complain(message)
    sys.exit(1)


def complain(message: str) -> None:
    """Print one line on stderr."""
    print("bitkin: " + "\n".join(map(printable, message.split("\n"))), file=sys.stderr)


@contextmanager
def plain_warnings(spell: Callable[[str], str] = str) -> Iterator[None]:
    """Let a warning be one line on stderr, with its words as `spell` returns them."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_: complain(f"warning: {spell(str(message))}")
        yield


def print_json(**values: Any) -> None:
    """Print one JSON line."""
    print(json.dumps(values, default=str), flush=True)


def printable(text: str) -> str:
    """Return `text` without what could steer a terminal or cannot be written at all: each of those
    becomes U+FFFD.
    """
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def print_table(title: str, columns: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> None:
    """Print a small table of plain text; the first column is text, the others are numbers.

    Without names of columns it has two, both of text, and no header.
    """
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(printable(title), style="table.title"),
        title_justify="left",
        box=SIMPLE,
        pad_edge=False,
        show_header=columns is not None,
    )
    for i, column in enumerate(columns or ("", "")):
        is_text = i == 0 or columns is None
        # what is too long, such as a path, goes on in the next line, and is never cut
        table.add_column(
            Text(printable(column)), justify="left" if is_text else "right", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))  # a string would be read as markup
    Console(highlight=False).print(table)


@contextmanager
def progress_bar(
    what: str, total: int | None, unit: str = "rows", then: str | None = None
) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr while the block runs, if that is a terminal; call what it gives with the
    number done.

    When all is done and the block goes on, a bar with `then` moves to and fro instead of standing
    at 100 %.
    """
    with _bars(unit) as progress:
        counted = progress.add_task(what, total=total)
        uncounted = progress.add_task(then or what, total=None, visible=False)

        def report(done: int) -> None:
            finished = then is not None and total is not None and done >= total
            progress.update(counted, completed=done, visible=not finished)
            progress.update(uncounted, completed=done, visible=finished)

        yield report


@contextmanager
def task_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on stderr as `progress_bar` does; what it gives is called with how many tasks are
    done, and how many there are: those of one pass after another.
    """
    with _bars("tasks") as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, n_tasks: progress.update(bar, completed=done, total=n_tasks)


def _bars(unit: str) -> Progress:
    """Return what shows bars on stderr, if that is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn(f"{{task.completed:,.0f}} {unit}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=is_quiet() or not console.is_terminal,
    )
