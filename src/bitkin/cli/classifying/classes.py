"""Classes by their paths: the tree that options name, names that stand at several places of it, and
rows of classes that a model never met.

A class is known by its name. Where several have one name, each of them is known by its whole path,
a tuple of names, in the tree and in the model; all other labels are text, so that a tuple is always
a path. In what is written it is joined by slashes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from bitkin.cli.arguments import one_of_choices
from bitkin.cli.classifying.inputs import Truths
from bitkin.errors import InvalidInputError

if TYPE_CHECKING:
    from bitkin.learn.heshing.heshing_classifier import HeshingClassifier
    from bitkin.learn.taxonomy.taxonomy import Taxonomy

Names = tuple[str, ...]
FIRST_NAMED = 5  # classes that are named where there may be many


def distinguish_paths(paths: Truths) -> dict[Names, tuple[Hashable, ...]]:
    """Return for each different path the labels of its nodes, the last of them that of the class
    and no other's.
    """
    different = dict.fromkeys(paths)
    ends = Counter(path[-1] for path in different)
    several = {path for path in different if ends[path[-1]] > 1}
    nodes = {path: [path[: depth + 1] for depth in range(len(path))] for path in different}
    return {
        path: tuple(node if node in several else node[-1] for node in nodes[path])
        for path in different
    }


def name_of(label: Any) -> str:
    """Return what a node is called, whatever its label."""
    return str(label[-1] if isinstance(label, tuple) else label)


def written_label(label: Any) -> str:
    """Return a label as it is written: a path joined by slashes."""
    return "/".join(map(str, label)) if isinstance(label, tuple) else str(label)


class ComparedTruth(NamedTuple):
    """The truth of rows, as metrics take it."""

    taxonomy: Taxonomy
    """The model's, with the classes that it does not have."""
    labels: list[Hashable]
    unknown_rows: int
    """Rows of classes that the model cannot answer with."""
    unknown: list[str]
    """Those classes, in order of appearance."""


def compare_classes(model: HeshingClassifier, truths: Truths, *, by_path: bool) -> ComparedTruth:
    """Find the classes of rows, by their paths or by their names alone.

    A class that the model does not have becomes one more below the lowest node of its path that the
    model has, or the root: no prediction is right, and those below that node are right down to it.
    """
    if not truths:
        raise InvalidInputError("there are no rows to compare. Give files with at least one row.")
    known = _KnownNodes(model.taxonomy_)
    labels = {path: known.label(path, by_path=by_path) for path in dict.fromkeys(truths)}
    answers = set(model.classes_.tolist())
    unknown = [path for path, label in labels.items() if label not in answers]
    if len(unknown) == len(labels):
        met = known.paths() if by_path else map(written_label, model.classes_.tolist())
        raise InvalidInputError(
            "at least one row must be of a class that the model knows, got "
            f"{_name_some(map(written_label, unknown))}. It knows {_name_some(met)}. Name the "
            f"{'fields of --path' if by_path else 'labels'} as in training."
        )
    new = {path: known.place(path, by_path=by_path) for path in unknown if labels[path] is None}
    tree = model.taxonomy_.with_paths(new.values()) if new else model.taxonomy_
    labels |= {path: place[-1] for path, place in new.items()}
    unmet = set(unknown)
    n_unmet = sum(path in unmet for path in truths)
    return ComparedTruth(
        tree, [labels[path] for path in truths], n_unmet, [written_label(path) for path in unknown]
    )


class _KnownNodes:
    """Where the nodes of a tree are, by names."""

    def __init__(self, tree: Taxonomy) -> None:
        self._tree = tree
        self._root = name_of(tree.root_label)
        self._classes: dict[Names, Hashable] = {}
        self._called: dict[str, list[Hashable]] = {}
        self._nodes: dict[Names, tuple[Hashable, ...]] = {(): ()}
        for label in tree.classes:
            below = tree.path_of(label)[1:]
            names = tuple(map(name_of, below))
            self._classes[names] = label
            for called in {name_of(label), written_label(label), "/".join(names)}:
                self._called.setdefault(called, []).append(label)
            for depth in range(1, len(below) + 1):
                self._nodes[names[:depth]] = below[:depth]

    def paths(self) -> list[str]:
        """Return the paths of all classes, as they are written."""
        return ["/".join(names) for names in self._classes]

    def label(self, path: Names, *, by_path: bool) -> Hashable | None:
        """Return the label of a class; None where there is no such class."""
        if by_path:
            return next(
                (
                    self._classes[names]
                    for names in self._below_the_root(path)
                    if names in self._classes
                ),
                None,
            )
        found = self._called.get(path[-1], [])
        if len(found) > 1:
            places = ["/".join(names) for names, label in self._classes.items() if label in found]
            raise InvalidInputError(
                f"a label must name one class, got {path[-1]!r}, which may be "
                f"{_name_some(places)}. Give whole paths, by --path or joined by slashes."
            )
        return found[0] if found else None

    def place(self, path: Names, *, by_path: bool) -> tuple[Hashable, ...]:
        """Return where to put a class that is not there, no deeper than all others; it gets a label
        that no other node has.
        """
        above: Names = ()
        for names in self._below_the_root(path) if by_path else []:
            for depth in range(1, min(len(names), self._tree.n_levels - 2) + 1):
                if names[:depth] in self._nodes and depth > len(above):
                    above = names[:depth]
        return (self._tree.root_label, *self._nodes[above], (None, *path))

    def _below_the_root(self, path: Names) -> list[Names]:
        """Return what a path may mean, the likelier first: it may start at the root, or right below
        it.
        """
        return [path[1:], path] if path[0] == self._root else [path]


def _name_some(names: Iterable[str]) -> str:
    several = list(names)
    more = f" and {len(several) - FIRST_NAMED:,} more" if len(several) > FIRST_NAMED else ""
    return ", ".join(map(repr, several[:FIRST_NAMED])) + more


def require_one_tree(
    path_given: bool, taxonomy: Path | None, layout: str, separator: str | None
) -> None:
    """End with a usage error where options name the tree twice."""
    one_of_choices(layout, "--layout", ["paths", "parents"])
    ways = {
        "--path": path_given,
        "--taxonomy": taxonomy is not None,
        "--separator": separator is not None,
    }
    given = [option for option, there in ways.items() if there]
    if len(given) > 1:
        raise typer.BadParameter(
            f"{' and '.join(given)} each give the tree; one of them can.", param_hint=given[1]
        )


def build_tree(
    truths: Truths, taxonomy: Path | None, layout: str, separator: str | None
) -> tuple[Taxonomy | None, Sequence[Hashable]]:
    """Return the tree, None where there are only labels, and the label of every row in it."""
    from bitkin.learn.taxonomy.taxonomy import Taxonomy

    names = [path[-1] for path in truths]
    if taxonomy is not None:
        return Taxonomy.from_csv(taxonomy, layout=layout), names
    if separator is not None:
        return Taxonomy.from_labels(list(dict.fromkeys(names)), sep=separator), names
    paths = distinguish_paths(truths)
    if all(len(path) == 1 for path in paths):
        return None, names
    return Taxonomy.from_paths(paths.values()), [paths[truth][-1] for truth in truths]
