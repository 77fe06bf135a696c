"""Predictions as records, for a file or stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bitkin.cli.classifying.classes import name_of, shown

if TYPE_CHECKING:
    from bitkin.learn.heshing.heshing_classifier import HeshingClassifier


def predictions_of(
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
            "label": shown(path[-1]),
            "path": list(map(name_of, path[1:])),
            "score": scores[0],
        }
        if empty:
            record["empty"] = True
        if k > 1:
            record["top"] = [
                {"label": shown(label), "score": score}
                for label, score in zip(labels.tolist(), scores, strict=True)
            ]
        yield record


def print_records(records: Iterable[dict[str, Any]]) -> None:
    """Write JSON lines to stdout as they come."""
    for record in records:
        sys.stdout.write(json.dumps(record, allow_nan=False) + "\n")
    sys.stdout.flush()
