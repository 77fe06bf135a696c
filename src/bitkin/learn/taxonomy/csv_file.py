"""Taxonomies in CSV files: a path a line, or a node and its parent a line."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path as FilePath

from bitkin.checks import one_of
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.stable import unreadable_is_access_error
from bitkin.learn.taxonomy.building import paths_from_edges
from bitkin.learn.taxonomy.labels import Path


def paths_from_csv(
    path: str | os.PathLike[str], layout: str, header: bool, delimiter: str
) -> list[Path]:
    """Return the paths of the classes in a file, by the rules of `Taxonomy.from_csv`."""
    one_of(layout, "layout", ("paths", "parents"))
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise InvalidInputError(
            f"delimiter must be one character, no quote and no newline, got {delimiter!r}."
        )
    lines = list(_cells(FilePath(path), delimiter))[bool(header) :]
    if not lines:
        raise InvalidInputError(
            f"{os.fspath(path)} must have at least one line of cells{' below its header' * header}."
        )
    if layout == "paths":
        return [_path(path, number, cells) for number, cells in lines]
    return paths_from_edges(
        [_edge(path, number, cells) for number, cells in lines], None, os.fspath(path)
    )


def _cells(path: FilePath, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of every line that has any."""
    with unreadable_is_access_error(path), path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            for line in lines:
                cells = [cell.strip() for cell in line]
                if any(cells):
                    yield lines.line_num, cells
        except UnicodeDecodeError as error:
            raise CorruptFileError(f"{path} is not text in UTF-8: {error}.") from error
        except csv.Error as error:
            raise CorruptFileError(
                f"{path} is no CSV file at line {lines.line_num}: {error}."
            ) from error


def _path(path: str | os.PathLike[str], number: int, cells: list[str]) -> Path:
    while not cells[-1]:
        cells = cells[:-1]
    if not all(cells):
        raise InvalidInputError(
            f"{os.fspath(path)} must have empty cells at the end of a line only, got {cells} at "
            f"line {number}."
        )
    return tuple(cells)


def _edge(path: str | os.PathLike[str], number: int, cells: list[str]) -> tuple[str | None, str]:
    if len(cells) < 2 or not cells[0] or any(cells[2:]):
        raise InvalidInputError(
            f"{os.fspath(path)} must have two columns, a node and its parent (empty for a top), "
            f"got {cells} at line {number}."
        )
    return cells[1] or None, cells[0]
