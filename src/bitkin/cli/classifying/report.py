"""What an evaluation says: errors by level, and the memory used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitkin.cli.classifying.classes import FIRST, compared
from bitkin.cli.classifying.inputs import Truths
from bitkin.cli.output import print_table, printable

if TYPE_CHECKING:
    from bitkin.learn.heshing.heshing_classifier import HeshingClassifier


def figures_of(
    model: HeshingClassifier,
    file: Path,
    truths: Truths,
    predicted: list[Any],
    n_empty: int,
    *,
    by_path: bool,
) -> dict[str, Any]:
    """Return all numbers of an evaluation; predictions are paths from the root."""
    from bitkin.learn.metrics import hierarchical_scores, level_errors

    tree = model.taxonomy_
    truth = compared(model, truths, by_path=by_path)
    by_level = level_errors(truth.taxonomy, truth.labels, predicted)
    whole = {tree.path_of(label) for label in tree.classes}
    shown = ~tree.node_is_copy
    scores = hierarchical_scores(truth.taxonomy, truth.labels, predicted)
    return {
        "rows": len(truths),
        "empty_rows": n_empty,
        "unknown_rows": truth.unknown_rows,
        "unknown_classes": len(truth.unknown),
        "first_unknown_classes": truth.unknown[:FIRST],
        "flat_error": float(by_level[-1]),
        "hierarchical_error": float(by_level.sum()),
        "hierarchical_f1": scores.f1,
        "level_errors": [float(error) for error in by_level],
        "level_nodes": [
            int((shown & (tree.node_levels == level)).sum()) for level in range(1, tree.n_levels)
        ],
        "stopped_above_a_class": sum(path not in whole for path in predicted),
        "weight_bytes": model.weights_.nbytes,
        "file_bytes": file.stat().st_size,
        "peak_bytes": peak_bytes(),
    }


def show(figures: dict[str, Any], seconds: float) -> None:
    """Print the figures as tables."""
    levels = [
        (f"level {level}", f"{nodes:,}", f"{error:.2%}")
        for level, (nodes, error) in enumerate(
            zip(figures["level_nodes"], figures["level_errors"], strict=True), start=1
        )
    ]
    print_table(f"{figures['rows']:,} rows, {seconds:.1f} s", ("", "nodes", "wrong"), levels)
    counts = [
        ("wrong class (flat error)", f"{figures['flat_error']:.2%}"),
        (
            "levels up to a common ancestor, on average (hierarchical error)",
            f"{figures['hierarchical_error']:.4f}",
        ),
        ("F1 of nodes on the paths", f"{figures['hierarchical_f1']:.4f}"),
    ]
    if figures["empty_rows"]:
        counts.append(
            ("rows without a feature, answered by the prior", f"{figures['empty_rows']:,}")
        )
    if figures["stopped_above_a_class"]:
        counts.append(
            ("predictions that stop above a class", f"{figures['stopped_above_a_class']:,}")
        )
    print_table("errors", ("", ""), counts)
    print_table("memory", ("", "bytes"), memory_rows(figures))
    if n_unknown := figures["unknown_classes"]:
        first = ", ".join(map(repr, figures["first_unknown_classes"]))
        print(
            f"{figures['unknown_rows']:,} of the rows count as wrong because the model never met "
            "their class: "
            f"{printable(first)}{f' and {n_unknown - FIRST:,} more' if n_unknown > FIRST else ''}"
        )


def memory_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines of a table of the memory used."""
    names = {
        "weight_bytes": "weights",
        "file_bytes": "file of the model",
        "peak_bytes": "peak of this program",
    }
    return [(name, f"{figures[key]:,}") for key, name in names.items() if figures[key] is not None]


def peak_bytes() -> int | None:
    """Return the most memory this process has had so far, or None where the system does not say."""
    import sys

    try:
        import resource
    except ImportError:  # Windows has none
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
