"""Classifiers: from files, for which rows they were trained, and how far learning is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitkin.cli.classifying.inputs import RowInput, Truths
from bitkin.cli.output import progress_bar
from bitkin.closing import Closes
from bitkin.errors import InvalidInputError

if TYPE_CHECKING:
    from bitkin.input_files import VectorFileOptions
    from bitkin.learn.heshing.heshing_classifier import HeshingClassifier


def load_classifier(path: Path) -> HeshingClassifier:
    """Load a fitted classifier."""
    from bitkin._load import load
    from bitkin.learn.heshing.heshing_classifier import HeshingClassifier

    model = load(path)
    if not isinstance(model, HeshingClassifier):
        raise InvalidInputError(
            f"{path} holds {type(model).__name__}, not a classifier. Make one with bitkin classify "
            "train."
        )
    return model


def with_model_columns(
    options: VectorFileOptions, classifier: HeshingClassifier, files: list[Path]
) -> VectorFileOptions:
    """Return the options, svmlight text with as many columns as the model was fitted on unless
    said.
    """
    from bitkin.io.vectors.formats import is_svmlight

    if options.n_features is None and any(map(is_svmlight, files)):
        return options._replace(n_features=classifier.n_features_in_)
    return options


def require_kind(classifier: HeshingClassifier, X: Any) -> None:
    """Raise where texts meet a model of vectors, or the other way round."""
    from bitkin.learn.texts import TEXT_COLUMNS

    want, got = classifier.n_features_in_, X.shape[1]
    if want != got and TEXT_COLUMNS in (want, got):
        kinds = ("texts", "vectors") if want == TEXT_COLUMNS else ("vectors", "texts")
        raise InvalidInputError(
            f"the model was trained on {kinds[0]} and cannot classify {kinds[1]}."
        )


def read_all(rows: RowInput) -> tuple[Any, Truths]:
    """Return all rows at once."""
    import numpy as np
    from scipy.sparse import issparse, vstack

    with progress_bar("reading", rows.total, rows.unit) as done:
        parts = list(rows.batches(done))
    truths = [truth for _, part in parts for truth in part]
    if not truths:
        raise InvalidInputError("there are no rows to learn. Give files with at least one row.")
    batches = [batch for batch, _ in parts]
    return (
        vstack(batches, format="csr") if issparse(batches[0]) else np.concatenate(batches)
    ), truths


class LearningBars(Closes):
    """The `progress` of a classifier: a bar for every trial while alpha is chosen, then one for
    learning.
    """

    def __init__(self) -> None:
        self._bar = ExitStack()
        self._shown = ""
        self._done: Callable[[int], None] | None = None

    def close(self) -> None:
        """Take the bar away."""
        self._bar.close()

    def choosing_alpha(self, trial: int, learned: int, total: int) -> None:
        """Show how far a trial is."""
        self._show(f"choosing alpha, trial {trial}", learned, total)

    def __call__(self, learned: int, total: int) -> None:
        """Show how far learning is."""
        self._show("learning", learned, total)

    def _show(self, what: str, learned: int, total: int) -> None:
        if self._done is None or what != self._shown:
            self._bar.close()
            self._done, self._shown = self._bar.enter_context(progress_bar(what, total)), what
        self._done(learned)
