"""The taxonomy to learn, from what the options say and the labels show, and what rows are called in
it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bitkin.cli.arguments import one_of_choices
from bitkin.cli.classifying.classes import told_apart
from bitkin.cli.classifying.inputs import Truths

if TYPE_CHECKING:
    from bitkin.learn.taxonomy.taxonomy import Taxonomy


def require_one_way(
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


def tree_of(
    truths: Truths, taxonomy: Path | None, layout: str, separator: str | None
) -> tuple[Taxonomy | None, Sequence[Hashable]]:
    """Return the tree, None where there are only labels, and the label of every row in it."""
    from bitkin.learn.taxonomy.taxonomy import Taxonomy

    names = [path[-1] for path in truths]
    if taxonomy is not None:
        return Taxonomy.from_csv(taxonomy, layout=layout), names
    if separator is not None:
        return Taxonomy.from_labels(list(dict.fromkeys(names)), sep=separator), names
    paths = told_apart(truths)
    if all(len(path) == 1 for path in paths):
        return None, names
    return Taxonomy.from_paths(paths.values()), [paths[truth][-1] for truth in truths]
