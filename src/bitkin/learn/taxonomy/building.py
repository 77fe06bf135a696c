"""The ways to write a taxonomy down, each turned into the paths of its classes from the top.

One rule for all of them: what every path starts with is the root; where paths start differently, a
root is added above.
"""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from bitkin.checks import one_of
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.stable import unreadable_is_access_error
from bitkin.learn.taxonomy.growing import fits_memory, too_large
from bitkin.learn.taxonomy.labels import Path, plain_label, plain_labels, some_labels


def split_root(paths: Sequence[Path]) -> tuple[Hashable, list[Path]]:
    """Return the root and the paths below it: the first label where all share it, else a new
    one.
    """
    first = paths[0][0]
    if all(path[0] == first for path in paths):
        return first, [path[1:] for path in paths]
    return name_root(path[0] for path in paths), list(paths)


def name_root(tops: Iterable[Hashable]) -> Hashable:
    """Return a name for an added root that none of the nodes below it has: `root`, in brackets
    where that is taken.
    """
    taken = set(tops)
    name = "root"
    while name in taken:
        name = f"({name})"
    return name


def paths_from_labels(labels: Any, sep: str) -> list[Path]:
    """Return the paths of labels such as `comp.sys.mac`, whose nodes are called `comp`, `comp.sys`,
    `comp.sys.mac`.
    """
    if not isinstance(sep, str) or not sep:
        raise InvalidInputError(f"sep must be a string of one character or more, got {sep!r}.")
    paths: list[Path] = []
    for row, label in enumerate(plain_labels(labels, "labels")):
        if not isinstance(label, str) or not all(label.split(sep)):
            raise InvalidInputError(
                f"labels must be strings of parts joined by {sep!r}, none empty, got {label!r} at "
                f"position {row}."
            )
        parts = label.split(sep)
        paths.append(tuple(sep.join(parts[: level + 1]) for level in range(len(parts))))
    return paths


def paths_from_parents(parents: Mapping[Any, Any], classes: Any) -> list[Path]:
    """Return the paths of `classes`, or of all leaves, in a map from each label to its parent's;
    None is no parent.
    """
    if not isinstance(parents, Mapping):
        raise InvalidInputError(
            f"parents must be a dict from label to the parent's label, got {parents!r}."
        )
    return paths_from_edges(
        [(parent, child) for child, parent in parents.items()], classes, "parents"
    )


def paths_from_edges(edges: Any, classes: Any, name: str = "edges") -> list[Path]:
    """Return the paths of `classes`, or of all leaves, in a list of (parent, child) pairs; None is
    no parent.
    """
    if isinstance(edges, (str, bytes)) or not isinstance(edges, Iterable):
        raise InvalidInputError(f"{name} must be a list of pairs (parent, child), got {edges!r}.")
    parent_of: dict[Hashable, Hashable] = {}
    nodes: dict[Hashable, None] = {}  # in order of appearance
    for row, edge in enumerate(edges):
        parent, child = _check_edge(edge, f"{name}[{row}]")
        if child is None:
            raise InvalidInputError(
                f"{name} must not have None for a child: it stands for no parent. Rename that node."
            )
        if parent_of.setdefault(child, parent) != parent:
            raise InvalidInputError(
                f"{name} must give a node one parent, got {parent_of[child]!r} and {parent!r} for "
                f"{child!r}. Name the two places differently."
            )
        nodes.update(dict.fromkeys([child] if parent is None else [parent, child]))
    if classes is None:
        # a leaf is the parent of no node
        inner = set(parent_of.values())
        wanted = [node for node in nodes if node not in inner]
        depths = _measure_depths(nodes, parent_of, name)
    else:
        wanted = plain_labels(classes, "classes")
        if unknown := [label for label in wanted if label not in nodes]:
            raise InvalidInputError(
                f"classes must be nodes of {name}, got {some_labels(unknown)}, which are not."
            )
        depths = _measure_depths(wanted, parent_of, name)
    # Checked before any path is made: paths may need memory quadratic in the number of nodes.
    depth = max((depths[node] for node in wanted), default=0)
    if not fits_memory(len(wanted), depth, len(nodes)):
        raise too_large(len(wanted), depth)
    return [_path_to(node, parent_of) for node in wanted]


def paths_from_nested(tree: Mapping[Any, Any]) -> list[Path]:
    """Return the paths of dicts in dicts; a leaf is a key of nothing, or a member of a list."""
    if not isinstance(tree, Mapping) or not tree:
        raise InvalidInputError(
            "tree must be a dict from label to what is below it, with one key or more, got "
            f"{tree!r}."
        )
    paths: list[Path] = []
    # what is below a path, and what it is within
    stack: list[tuple[Any, Path, tuple[int, ...]]] = [(tree, (), ())]
    while stack:
        below, path, within = stack.pop()
        # by identity, along this branch only: the same dict at two places is no cycle
        if id(below) in within:
            raise InvalidInputError(f"{_name_place(path)} must end somewhere, but it holds itself.")
        if below is None or (isinstance(below, (Mapping, list, tuple)) and not below):
            paths.append(path)
        elif isinstance(below, Mapping):
            inside = (*within, id(below))
            names = [(*path, plain_label(key, "a key of tree")) for key in below]
            # last in, first out: reversed, so that paths come in the order they were written
            stack += reversed(
                [(part, name, inside) for part, name in zip(below.values(), names, strict=True)]
            )
        elif isinstance(below, (list, tuple)):
            paths += [(*path, plain_label(label, "a leaf of tree")) for label in below]
        else:
            raise InvalidInputError(
                f"{_name_place(path)} must be a dict, a list of leaves, or None, got {below!r}."
            )
    return paths


def _name_place(path: Path) -> str:
    return f"tree at {' / '.join(map(str, path))}"


def _check_edge(edge: Any, name: str) -> tuple[Hashable, Hashable]:
    if isinstance(edge, (str, bytes)) or not isinstance(edge, Iterable):
        raise InvalidInputError(f"{name} must be a pair (parent, child), got {edge!r}.")
    pair = [plain_label(label, f"a label of {name}") for label in edge]
    if len(pair) != 2:
        raise InvalidInputError(f"{name} must be a pair (parent, child), got {edge!r}.")
    return pair[0], pair[1]


def _measure_depths(
    nodes: Iterable[Hashable], parent_of: Mapping[Hashable, Hashable], name: str
) -> dict[Hashable, int]:
    """Return how many nodes there are from the top down to each; raise for a cycle, which hangs
    below no top.
    """
    depths: dict[Hashable, int] = {None: 0}  # what is above a top
    for start in nodes:
        # Climb until a node of known depth; the nodes passed on the way are then known too, so that
        # every node is climbed from once.
        climbed: dict[Hashable, None] = {}
        node = start
        while node not in depths and node not in climbed:
            climbed[node] = None
            node = parent_of.get(node)
        if node in climbed:
            order = list(climbed)
            ring = [*order[order.index(node) :], node]
            raise InvalidInputError(
                f"{name} must form a tree, but no root is above the cycle "
                f"{' → '.join(map(repr, ring))}. Give the topmost of them the parent None."
            )
        depths.update(zip(reversed(climbed), itertools.count(depths[node] + 1)))
    return depths


def _path_to(node: Hashable, parent_of: Mapping[Hashable, Hashable]) -> Path:
    path = []
    at: Hashable = node
    while at is not None:
        path.append(at)
        at = parent_of.get(at)
    return tuple(reversed(path))


def paths_from_csv(
    path: str | os.PathLike[str], layout: str, header: bool, delimiter: str
) -> list[Path]:
    """Return the paths of the classes in a file, by the rules of `Taxonomy.from_csv`."""
    one_of(layout, "layout", ("paths", "parents"))
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise InvalidInputError(
            f"delimiter must be one character, no quote and no newline, got {delimiter!r}."
        )
    lines = list(_csv_lines(FilePath(path), delimiter))[bool(header) :]
    if not lines:
        raise InvalidInputError(
            f"{os.fspath(path)} must have at least one line of cells{' below its header' * header}."
        )
    if layout == "paths":
        return [_csv_path(path, number, cells) for number, cells in lines]
    return paths_from_edges(
        [_csv_edge(path, number, cells) for number, cells in lines], None, os.fspath(path)
    )


def _csv_lines(path: FilePath, delimiter: str) -> Iterator[tuple[int, list[str]]]:
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


def _csv_path(path: str | os.PathLike[str], number: int, cells: list[str]) -> Path:
    while not cells[-1]:
        cells = cells[:-1]
    if not all(cells):
        raise InvalidInputError(
            f"{os.fspath(path)} must have empty cells at the end of a line only, got {cells} at "
            f"line {number}."
        )
    return tuple(cells)


def _csv_edge(
    path: str | os.PathLike[str], number: int, cells: list[str]
) -> tuple[str | None, str]:
    if len(cells) < 2 or not cells[0] or any(cells[2:]):
        raise InvalidInputError(
            f"{os.fspath(path)} must have two columns, a node and its parent (empty for a top), "
            f"got {cells} at line {number}."
        )
    return cells[1] or None, cells[0]
