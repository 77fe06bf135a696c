"""The parameters of a HeshingClassifier, checked and kept as they were when it was fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bitkin.checks import one_of, whole_number
from bitkin.errors import InvalidInputError
from bitkin.kernels.heshing import MOST_BUCKETS, Tree
from bitkin.learn.taxonomy.taxonomy import Taxonomy

if TYPE_CHECKING:
    from bitkin.learn.heshing.heshing_classifier import HeshingClassifier

AUTO_BEAM = 8
"""What "auto" takes. Chosen on ICD-10-CM, on a fifth of its training rows held out by parent code,
never on test rows: flat errors of 4, 8, 16, 32 and all nodes were 0.195, 0.193, 0.194, 0.196 and
0.197.
"""
FULL_SEARCH_NODES = 256
"""Scoring this many costs less than choosing among them."""

_WEIGHT_BYTES = 4
_MUST_STAY = ("taxonomy", "n_buckets", "max_bytes", "softmax", "alpha", "average", "fit_intercept")
_PUBLIC_NAMES = {"softmax": "loss"}


@dataclass(frozen=True)
class HeshingSettings:
    """See `HeshingClassifier`; None for `alpha` means "auto"."""

    taxonomy: Taxonomy | None
    n_buckets: int
    max_bytes: int | None
    softmax: bool
    alpha: float | None
    max_iter: int
    average: bool
    fit_intercept: bool
    beam: int | str | None
    min_margin: float | None
    early_stopping: bool

    def buckets_for(self, taxonomy: Taxonomy) -> int:
        """Return the number of buckets per level."""
        if self.max_bytes is None:
            return self.n_buckets
        # One table of float32 for each level but the root's.
        n_tables = taxonomy.n_levels - 1
        least = n_tables * _WEIGHT_BYTES
        if self.max_bytes < least:
            raise InvalidInputError(
                f"max_bytes must be at least {least}, one bucket for each level below the root, "
                f"got {self.max_bytes}."
            )
        return min(self.max_bytes // least, MOST_BUCKETS)

    def require_room(self, n_levels: int, n_buckets: int) -> None:
        """Raise where tables for a tree that has become deeper would take more than `max_bytes`."""
        needed = (n_levels - 1) * n_buckets * _WEIGHT_BYTES
        if self.max_bytes is not None and needed > self.max_bytes:
            raise InvalidInputError(
                f"max_bytes must be at least {needed} for {n_levels} levels, got {self.max_bytes}: "
                f"a new class makes the tree deeper, and {n_buckets} buckets a level are in use. "
                "Shorten its path, or fit anew."
            )

    def require_compatible(self, current: HeshingSettings) -> None:
        """Raise where a parameter has changed that the weights depend on."""
        for name in _MUST_STAY:
            if getattr(current, name) != getattr(self, name):
                raise InvalidInputError(
                    f"{_PUBLIC_NAMES.get(name, name)} must stay what it was when the model was "
                    "begun, since partial_fit goes on with its weights, got another. Set it back, "
                    "or fit anew."
                )

    def beam_for(self, tree: Tree) -> int | None:
        """Return how many nodes of a level to continue with; None for all, which probabilities
        need: they are shares of all classes.
        """
        if isinstance(self.beam, str):
            return AUTO_BEAM if len(tree.seeds) > FULL_SEARCH_NODES and not self.softmax else None
        return self.beam


def check_settings(classifier: HeshingClassifier) -> HeshingSettings:
    """Return the current parameters of a classifier, every one of them usable."""
    taxonomy = classifier.taxonomy
    if taxonomy is not None and not isinstance(taxonomy, Taxonomy):
        raise InvalidInputError(
            f"taxonomy must be a Taxonomy or None, got {taxonomy!r}. Make one by "
            "Taxonomy.from_paths."
        )
    if taxonomy is not None and taxonomy.n_classes < 2:
        raise InvalidInputError(f"taxonomy must have at least two classes, got {taxonomy!r}.")
    if classifier.progress is not None and not callable(classifier.progress):
        raise InvalidInputError(
            f"progress must be a function of two numbers or None, got {classifier.progress!r}."
        )
    beam = classifier.beam
    if isinstance(beam, str):
        one_of(beam, "beam", ("auto",))
    elif beam is not None:
        beam = whole_number(beam, "beam", low=1)
    max_bytes = classifier.max_bytes
    return HeshingSettings(
        taxonomy=taxonomy,
        n_buckets=whole_number(classifier.n_buckets, "n_buckets", low=1, high=MOST_BUCKETS),
        max_bytes=None if max_bytes is None else whole_number(max_bytes, "max_bytes", low=1),
        softmax=one_of(classifier.loss, "loss", ("hinge", "softmax")) == "softmax",
        alpha=_check_alpha(classifier.alpha),
        max_iter=whole_number(classifier.max_iter, "max_iter", low=1),
        average=_check_flag(classifier.average, "average"),
        fit_intercept=_check_flag(classifier.fit_intercept, "fit_intercept"),
        beam=beam,
        min_margin=None if classifier.min_margin is None else check_margin(classifier.min_margin),
        early_stopping=_check_flag(classifier.early_stopping, "early_stopping"),
    )


def check_margin(value: Any) -> float:
    """Return a usable `min_margin`."""
    return _check_number(value, "min_margin", low=0.0)


def _check_alpha(value: Any) -> float | None:
    if isinstance(value, str):
        one_of(value, "alpha", ("auto",))
        return None
    alpha = _check_number(value, "alpha", low=0.0)
    if alpha == 0.0:
        raise InvalidInputError("alpha must be above 0, got 0. Pass a small number, such as 1e-9.")
    return alpha


def _check_number(value: Any, name: str, *, low: float) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise InvalidInputError(f"{name} must be a number, got {value!r}.")
    if not (math.isfinite(value) and value >= low):
        raise InvalidInputError(f"{name} must be finite and at least {low}, got {value!r}.")
    return float(value)


def _check_flag(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInputError(f"{name} must be True or False, got {value!r}.")
    return bool(value)
