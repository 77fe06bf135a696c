"""Predictions as records for a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitkin.learn.heshing import HeshingClassifier


def predictions_of(model: HeshingClassifier, X: Any, k: int, min_margin: float | None) -> Iterator[dict[str, Any]]:
    """Yield for every row the node answered, its path and score, and the `k` best classes where more than one."""
    top = model.predict_top(X, k)
    paths = model.predict_path(X, min_margin=min_margin)
    for labels, scores, path, empty in zip(top.labels, top.scores.tolist(), paths, top.empty.tolist(), strict=True):
        record: dict[str, Any] = {"label": path[-1], "path": list(path[1:]), "score": scores[0]}
        if empty:
            record["empty"] = True
        if k > 1:
            record["top"] = [
                {"label": label, "score": score} for label, score in zip(labels.tolist(), scores, strict=True)
            ]
        yield record
