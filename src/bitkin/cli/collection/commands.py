"""`bitkin collection`: all its commands together."""

from __future__ import annotations

import typer

from bitkin.cli.collection import add, create, export, get, reencode, remove, search, upkeep
from bitkin.cli.help import Command, Group
from bitkin.cli.shared import with_shared_options

app = typer.Typer(
    cls=Group,
    help="Keep vectors or texts in a folder, with metadata, and search them.\n\n"
    "Example: bitkin collection add notes notes.jsonl --text body --embed hash:256 && "
    'bitkin collection search notes --text "boats in the rain"\n\n',
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    create.create,
    add.add,
    search.search,
    get.get,
    remove.remove,
    upkeep.stats,
    upkeep.verify,
    upkeep.compact,
    upkeep.backup,
    export.export,
    reencode.reencode,
):
    app.command(cls=Command)(with_shared_options(command))
