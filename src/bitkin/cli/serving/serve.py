"""`bitkin serve`: collections over HTTP, and a page to look at them."""

from __future__ import annotations

import importlib
import ipaddress
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from bitkin.cli.arguments import one_of_choices
from bitkin.cli.help import complete_from
from bitkin.cli.shared import is_quiet
from bitkin.errors import MissingExtraError

if TYPE_CHECKING:
    from fastapi import FastAPI

_LOGS = ("auto", "text", "json", "none")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def serve(
    path: Annotated[
        Path,
        typer.Argument(
            help="The folder of a collection, or one that holds several, or an empty one to make "
            "them in.",
            show_default=False,
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Where to listen; 0.0.0.0 is everywhere.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen; 0 is any that is free.")
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Lines of 'read TOKEN' and 'write TOKEN'. If absent, all may do all."),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen beyond this machine without --token-file."),
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse all writes.")] = False,
    embed: Annotated[
        str | None,
        typer.Option(
            help="What makes vectors of texts, such as hash:256 or sentence-transformers:MODEL, "
            "for collections that do not remember it."
        ),
    ] = None,
    backups: Annotated[
        Path | None, typer.Option(help="The folder that copies may be written to.")
    ] = None,
    max_body: Annotated[
        str, typer.Option(help="The largest request, such as 512k, 64m or 1g.")
    ] = "64m",
    max_k: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="The most neighbours of a query.")
    ] = 1000,
    max_queries: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="The most queries of a search.")
    ] = 1000,
    max_seconds: Annotated[
        float, typer.Option(min=0.001, max=86400, help="The longest that a search may take.")
    ] = 30.0,
    log: Annotated[
        str,
        typer.Option(
            help="Requests as text, as json, or none; auto is text on a terminal, else json.",
            autocompletion=complete_from(*_LOGS),
        ),
    ] = "auto",
) -> None:
    """Serve collections over HTTP: an API under /v1, and a page to look at them.

    Example: bitkin serve notes --port 8000

    Example: bitkin serve collections --host 0.0.0.0 --token-file tokens.txt --log json
    """
    one_of_choices(log, "--log", list(_LOGS))
    if token_file is None and not insecure and not _is_this_machine(host):
        raise typer.BadParameter(
            f"{host} can be reached from other machines, and nobody would need a token. Give "
            "--token-file, or --insecure where that is meant.",
            param_hint="'--host'",
        )
    body = _bytes_in(max_body)
    service = import_service()
    limits = service.ServiceLimits(body=body, k=max_k, queries=max_queries, seconds=max_seconds)
    tokens = None if token_file is None else service.Tokens.from_file(token_file)
    app = service.create_app(
        path,
        tokens=tokens,
        limits=limits,
        read_only=read_only,
        embed=embed,
        backups=backups,
        any_host=insecure,
    )
    run_service(app, host, port, log)


def run_service(
    app: FastAPI,
    host: str,
    port: int,
    log: str,
    on_start: Callable[[str], object] = lambda url: None,
) -> None:
    """Serve an app until it is told to end, and say where it is to be found."""

    def tell(url: str) -> None:
        if not is_quiet():
            print(f"bitkin is at {url} (Ctrl-C ends it)", flush=True)
        on_start(url)

    if log == "auto":
        log = "text" if sys.stderr.isatty() else "json"
    log = "none" if is_quiet() else log
    import_service().run(app, host=host, port=port, log=log, on_start=tell)


def import_service() -> ModuleType:
    """Return `bitkin.service`; where a library that it needs is absent, say how to install it."""
    try:
        return importlib.import_module("bitkin.service")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"bitkin serve needs {error.name}, which is not installed: pip install "
            "'bitkin[service]'"
        ) from None


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bytes_in(text: str) -> int:
    """Return the bytes that "64m" says."""
    number, unit = text.lower().removesuffix("b").removesuffix("i"), ""
    if number and number[-1] in "kmg":
        number, unit = number[:-1], number[-1]
    if not (number.isascii() and number.isdigit() and len(number) < 16 and int(number) > 0):
        raise typer.BadParameter(
            f"must be bytes, such as 512k, 64m or 1g, got {text!r}.", param_hint="'--max-body'"
        )
    return int(number) * _UNITS[unit]
