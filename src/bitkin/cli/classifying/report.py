"""What is written of predictions: records, and an evaluation with errors by level and the memory
used.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitkin.cli.classifying.classes import FIRST_NAMED, compare_classes, name_of, written_label
from bitkin.cli.classifying.inputs import Truths
from bitkin.cli.output import print_table, printable

if TYPE_CHECKING:
    from bitkin.learn.heshing.heshing_classifier import HeshingClassifier


def predict_records(
    model: HeshingClassifier, X: Any, k: int, min_margin: float | None
) -> Iterator[dict[str, Any]]:
    """Yield for every row the node answered, its path and score, and the `k` best classes where
    more than one.
    """
    top = model.predict_top(X, k)
    best = top.labels[:, 0].tolist()
    if min_margin is None and model.min_margin is None:
        path_of = {label: model.taxonomy_.path_of(label) for label in dict.fromkeys(best)}
        paths = [path_of[label] for label in best]
    else:
        # every node is scored for a margin
        paths = model.predict_path(X, min_margin=min_margin).tolist()
    for labels, scores, path, empty in zip(
        top.labels, top.scores.tolist(), paths, top.empty.tolist(), strict=True
    ):
        record: dict[str, Any] = {
            "label": written_label(path[-1]),
            "path": list(map(name_of, path[1:])),
            "score": scores[0],
        }
        if empty:
            record["empty"] = True
        if k > 1:
            record["top"] = [
                {"label": written_label(label), "score": score}
                for label, score in zip(labels.tolist(), scores, strict=True)
            ]
        yield record


def print_records(records: Iterable[dict[str, Any]]) -> None:
    """Write JSON lines to stdout as they come."""
    for record in records:
        sys.stdout.write(json.dumps(record, allow_nan=False) + "\n")
    sys.stdout.flush()


def compute_figures(
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
    truth = compare_classes(model, truths, by_path=by_path)
    by_level = level_errors(truth.taxonomy, truth.labels, predicted)
    whole = {tree.path_of(label) for label in tree.classes}
    shown = ~tree.node_is_copy
    scores = hierarchical_scores(truth.taxonomy, truth.labels, predicted)
    return {
        "rows": len(truths),
        "empty_rows": n_empty,
        "unknown_rows": truth.unknown_rows,
        "unknown_classes": len(truth.unknown),
        "first_unknown_classes": truth.unknown[:FIRST_NAMED],
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
        "peak_bytes": measure_peak_bytes(),
    }


def print_figures(figures: dict[str, Any], seconds: float) -> None:
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
        first = printable(", ".join(map(repr, figures["first_unknown_classes"])))
        more = f" and {n_unknown - FIRST_NAMED:,} more" if n_unknown > FIRST_NAMED else ""
        print(
            f"{figures['unknown_rows']:,} of the rows count as wrong because the model never met "
            f"their class: {first}{more}"
        )


def memory_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines of a table of the memory used."""
    names = {
        "weight_bytes": "weights",
        "file_bytes": "file of the model",
        "peak_bytes": "peak of this program",
    }
    return [(name, f"{figures[key]:,}") for key, name in names.items() if figures[key] is not None]


def measure_peak_bytes() -> int | None:
    """Return the most memory this process has had so far, or None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows has none
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
