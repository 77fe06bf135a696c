"""Classifiers from files, and whether rows are of the kind they were trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitkin.errors import InvalidInputError

if TYPE_CHECKING:
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


def columns_of(
    classifier: HeshingClassifier, files: list[Path] | None, features: int | None
) -> int | None:
    """Return the number of columns to read svmlight text with: what the model was fitted on, unless
    said.
    """
    from bitkin.io.vectors.formats import is_svmlight

    return (
        classifier.n_features_in_
        if features is None and any(map(is_svmlight, files or []))
        else features
    )


def require_kind(classifier: HeshingClassifier, X: Any) -> None:
    """Raise where texts meet a model of vectors, or the other way round."""
    from bitkin.learn.texts import TEXT_COLUMNS

    want, got = classifier.n_features_in_, X.shape[1]
    if want != got and TEXT_COLUMNS in (want, got):
        kinds = ("texts", "vectors") if want == TEXT_COLUMNS else ("vectors", "texts")
        raise InvalidInputError(
            f"the model was trained on {kinds[0]} and cannot classify {kinds[1]}."
        )
