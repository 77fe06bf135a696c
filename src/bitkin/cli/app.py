"""The app: all commands together, and what an error looks like.

Heavy imports happen inside commands, so that `bitkin --help` answers at once.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Annotated, Any

import typer

from bitkin._version import __version__
from bitkin.cli import classify, encode, fit, index, info, search, stream
from bitkin.cli.arguments import spell_options
from bitkin.cli.collection import commands as collection
from bitkin.cli.deduplicating import dedup
from bitkin.cli.help import Command, Group, StdinCommand
from bitkin.cli.machine import doctor, warmup
from bitkin.cli.measuring import compare, diagnose, evaluate, recommend
from bitkin.cli.output import checked_stdout, fail, plain_warnings
from bitkin.cli.serving import serve
from bitkin.cli.shared import with_shared_options
from bitkin.cli.showing import demo, papers
from bitkin.errors import BitkinError

app = typer.Typer(
    name="bitkin",
    cls=Group,
    help="Short codes that keep relatives close: hash vectors, search the codes at memory "
    "speed.\n\n"
    "Example: bitkin fit vectors.npy -o model.bitkin && bitkin encode model.bitkin vectors.npy -o "
    "codes.bitkin && "
    "bitkin index codes.bitkin -o index.bitkin && bitkin search index.bitkin queries.npy -m "
    "model.bitkin",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo.demo,
    fit.fit,
    encode.encode,
    index.index,
    search.search,
    diagnose.diagnose,
    compare.compare,
    recommend.recommend,
    evaluate.evaluate,
    dedup.dedup,
    stream.stream,
    serve.serve,
    papers.papers,
    info.info,
    doctor.doctor,
    warmup.warmup,
):
    kind = StdinCommand if command is stream.stream else Command
    app.command(cls=kind)(with_shared_options(command))
app.add_typer(classify.app, name="classify")
app.add_typer(collection.app, name="collection")


_INTERRUPTED = 130


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"bitkin {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options of the program itself."""


# The callback's docstring would replace the help of the app.
app.registered_callback.help = app.info.help  # type: ignore[union-attr]


@cache
def _parser() -> Any:
    """Return the parser of all commands, built once: that takes longer than many a command."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line: exit code 2 for wrong usage, 1 for a failure, with one clear line on
    stderr.
    """
    with checked_stdout():
        _run()


def _run() -> None:
    try:
        with plain_warnings(spell_options):
            _parser()()
    except BitkinError as error:
        fail(spell_options(str(error)))
    except MemoryError:
        fail("this does not fit in memory. Take fewer rows, queries or neighbours at a time.")
    except SystemExit as end:
        if end.code == _INTERRUPTED:  # Typer ends so on Ctrl-C, without a word
            hint = " It continues where it was when run again." if "encode" in sys.argv[1:2] else ""
            print(f"bitkin: interrupted.{hint}", file=sys.stderr)
        raise
