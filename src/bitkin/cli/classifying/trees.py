"""The taxonomy to learn, from what the options say and the labels show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bitkin.cli.arguments import one_of_choices
from bitkin.cli.classifying.inputs import Truths

if TYPE_CHECKING:
    from bitkin.learn.taxonomy import Taxonomy


def require_one_way(path_given: bool, taxonomy: Path | None, layout: str, separator: str | None) -> None:
    """End with a usage error where options name the tree twice."""
    one_of_choices(layout, "--layout", ["paths", "parents"])
    ways = {"--path": path_given, "--taxonomy": taxonomy is not None, "--separator": separator is not None}
    given = [option for option, there in ways.items() if there]
    if len(given) > 1:
        raise typer.BadParameter(f"{' and '.join(given)} each give the tree; one of them can.", param_hint=given[1])


def tree_of(truths: Truths, taxonomy: Path | None, layout: str, separator: str | None) -> Taxonomy | None:
    """Return the tree; None where there are only labels."""
    from bitkin.learn.taxonomy import Taxonomy

    if taxonomy is not None:
        return Taxonomy.from_csv(taxonomy, layout=layout)
    different = list(dict.fromkeys(truths))
    if separator is not None:
        return Taxonomy.from_labels([path[-1] for path in different], sep=separator)
    return Taxonomy.from_paths(different) if any(len(path) > 1 for path in different) else None
