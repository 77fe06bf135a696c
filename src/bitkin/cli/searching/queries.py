"""Queries in files: codes, or vectors that a model encodes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from bitkin.cli.arguments import open_files

if TYPE_CHECKING:
    from bitkin.codes import Codes
    from bitkin.hashers.base import Hasher
    from bitkin.io.vectors import VectorSource
    from bitkin.rescoring.funnel import Timings


class FileOptions(NamedTuple):
    """How to read files of vectors; None where it was not said."""

    column: str | None
    dataset: str | None
    features: int | None
    zero_based: bool | None


class Queries(NamedTuple):
    """Queries to come: a batch of vectors, or None where they are codes, and their codes."""

    batches: Iterator[tuple[Any, Codes]]
    total: int


def stored_codes(path: Path, options: FileOptions, rows: int) -> Queries:
    """Return queries that are codes, so many at a time."""
    from bitkin._load import load
    from bitkin.codes import Codes
    from bitkin.errors import InvalidInputError
    from bitkin.io.vectors.formats import has_vector_suffix

    for name, value in options._asdict().items():
        if value is not None:
            raise typer.BadParameter(
                "means nothing without --model.", param_hint=f"'--{name.replace('_', '-')}'"
            )
    codes = None if has_vector_suffix(path) else load(path)
    if not isinstance(codes, Codes):
        raise InvalidInputError(
            f"{path} holds no codes. Give the model that encodes the queries with --model."
        )
    return Queries(((None, codes[i : i + rows]) for i in range(0, len(codes), rows)), len(codes))


def encoded(
    path: Path, options: FileOptions, hasher: Hasher, rows: int, timings: Timings
) -> Queries:
    """Return queries that are vectors, encoded so many at a time."""
    source = open_files([path], *options, hasher)
    hasher.require_features(source)

    def batches() -> Iterator[tuple[Any, Codes]]:
        for first, batch in source.batches(rows=rows):
            start = time.perf_counter()
            codes = hasher.encode_batch(batch, source.name, first)
            timings.add("encode", start, len(codes), len(codes))
            yield batch, codes

    return Queries(batches(), len(source))


def stored_vectors(
    paths: list[Path], options: FileOptions, queries: Path, hasher: Hasher
) -> VectorSource:
    """Open the vectors that were encoded; the options are meant for them too where the format is
    that of queries.
    """
    alike = all(path.suffix == queries.suffix for path in paths)
    source = open_files(paths, *(options if alike else FileOptions(None, None, None, None)), hasher)
    hasher.require_features(source)
    return source
