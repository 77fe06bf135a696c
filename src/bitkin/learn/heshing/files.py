"""A HeshingClassifier as a file: parameters and numbers in the header, the taxonomy as JSON in a
tensor of its own.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import is_ascending, whole_number
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.estimators.feature_names import names_tensor
from bitkin.estimators.fingerprint import fingerprint
from bitkin.io.layout import damaged
from bitkin.io.vectors.rows import MAX_COLUMNS
from bitkin.io.writer import write_file
from bitkin.kernels.heshing import HeshingTables, OnlineTables
from bitkin.learn.heshing.model import HeshingModel
from bitkin.learn.heshing.online import are_possible_online, finish_online, rows_met
from bitkin.learn.heshing.rows import is_usable
from bitkin.learn.heshing.settings import HeshingSettings, check_settings
from bitkin.learn.heshing.sgd import (
    LearningMethod,
    are_possible,
    are_weights,
    finish_weights,
    steps_of,
)
from bitkin.learn.heshing.tree import build_tree
from bitkin.learn.taxonomy.taxonomy import Taxonomy
from bitkin.randomness import resolve_seed

if TYPE_CHECKING:
    from bitkin.io.reader import StoredFile
    from bitkin.learn.heshing.heshing_classifier import HeshingClassifier

_PLAIN_SETTINGS = [
    one.name for one in fields(HeshingSettings) if one.name not in ("taxonomy", "softmax", "alpha")
]
_MAX_STEPS = 2**53  # counted in float64


def write_model(
    classifier: HeshingClassifier, model: HeshingModel, path: str | os.PathLike[str]
) -> None:
    """Write a fitted classifier."""
    settings = model.settings
    parameters = {
        **{name: getattr(settings, name) for name in _PLAIN_SETTINGS},
        "loss": "softmax" if settings.softmax else "hinge",
        "alpha": "auto" if settings.alpha is None else settings.alpha,
        "has_taxonomy": settings.taxonomy is not None,
        "random_state": None if classifier.random_state is None else model.seed,
        "seed": model.seed,
        "n_features": classifier.n_features_in_,
        "chosen_alpha": model.method.alpha,
        "mean_square": model.method.mean_square,
        "intercept": model.method.intercept,
        "losses": model.losses,
        "steps": model.steps,
    }
    tensors: dict[str, npt.NDArray[Any]] = {
        "taxonomy": _taxonomy_to_bytes(model.taxonomy),
        "class_numbers": model.class_numbers,
        "class_counts": model.class_counts,
        "weights": model.weights,
    }
    # `get_params` must give back the taxonomy as it was set, even where classes were added since.
    if settings.taxonomy not in (None, model.taxonomy):
        tensors["given_taxonomy"] = _taxonomy_to_bytes(settings.taxonomy)
    if model.tables is not None:  # so that partial_fit continues as if nothing had happened
        kind = "online" if isinstance(model.tables, OnlineTables) else "learned"
        tensors |= {f"{kind}_{name}": array for name, array in model.tables._asdict().items()}
    write_file(
        path,
        "HeshingClassifier",
        parameters,
        _fingerprint(model),
        tensors | names_tensor(classifier),
    )


def read_parameters(stored: StoredFile) -> dict[str, Any]:
    """Return what the constructor takes, to be checked by `read_model`."""
    names = [*_PLAIN_SETTINGS, "loss", "alpha", "random_state"]
    parameters = {name: stored.parameter(name) for name in names}
    if stored.parameter("has_taxonomy") is True:
        tensor = stored.optional_tensor("given_taxonomy", np.uint8, (None,))
        parameters["taxonomy"] = (
            _read_taxonomy(stored) if tensor is None else _taxonomy_from_bytes(stored, tensor)
        )
    return parameters


def read_model(classifier: HeshingClassifier, stored: StoredFile) -> tuple[int, HeshingModel]:
    """Return the number of features and the model of a file, the classifier having the file's
    parameters.
    """
    taxonomy = _read_taxonomy(stored)
    try:
        settings = check_settings(classifier)
        seed = whole_number(stored.parameter("seed"), "seed", low=0, high=2**64 - 1)
        if resolve_seed(classifier.random_state) != seed and classifier.random_state is not None:
            raise InvalidInputError(f"seed must be random_state, got {seed}.")
        n_features = whole_number(
            stored.parameter("n_features"), "n_features", low=1, high=MAX_COLUMNS
        )
        steps = whole_number(stored.parameter("steps"), "steps", low=0, high=_MAX_STEPS)
        method = LearningMethod(
            softmax=settings.softmax,
            average=settings.average,
            alpha=_read_positive(stored, "chosen_alpha"),
            mean_square=_read_positive(stored, "mean_square"),
            intercept=_read_positive(stored, "intercept") if settings.fit_intercept else 0.0,
        )
        if settings.alpha not in (None, method.alpha):
            raise InvalidInputError(f"chosen_alpha must be alpha, got {method.alpha}.")
        # Both are squares of lengths that `measure_rows` let pass; no intercept counts as 1.
        squares = [method.mean_square, method.intercept * method.intercept or 1.0]
        if not all(map(is_usable, squares)):
            raise InvalidInputError(
                f"mean_square and intercept must be those of rows, got {squares} squared."
            )
        n_buckets = settings.buckets_for(taxonomy)
    except CorruptFileError:
        raise
    except ValueError as error:
        raise damaged(stored.name, f"has impossible parameters: {error}") from None
    losses = stored.parameter("losses")
    if not isinstance(losses, list) or not all(
        type(loss) is float and math.isfinite(loss) for loss in losses
    ):
        raise damaged(stored.name, "has losses that are not numbers")
    class_numbers = stored.tensor("class_numbers", np.int64, (None,)).copy()
    counts = stored.tensor("class_counts", np.int64, (len(class_numbers),)).copy()
    in_range = (
        len(class_numbers) and class_numbers[0] >= 0 and class_numbers[-1] < taxonomy.n_classes
    )
    if not in_range or not is_ascending(class_numbers, strictly=True):
        raise damaged(stored.name, "has classes that its taxonomy does not have")
    if counts.min() < 0 or counts.max() > _MAX_STEPS // len(counts):
        raise damaged(stored.name, "has counts of rows that cannot be")
    weights = stored.tensor("weights", np.float32, (taxonomy.n_levels - 1, n_buckets))
    if not are_weights(weights):
        raise damaged(stored.name, "has weights that are not finite")
    model = HeshingModel(
        settings=settings,
        seed=seed,
        taxonomy=taxonomy,
        class_numbers=class_numbers,
        class_counts=counts,
        method=method,
        tree=build_tree(taxonomy, class_numbers, seed),
        steps=steps,
        losses=losses,
        tables=_read_online(stored, weights, steps, n_features, average=method.average)
        or _read_tables(stored, weights, steps, average=method.average),
        finished=weights,
    )
    # Of the model as it was read: a file whose parts do not belong together is found here.
    if _fingerprint(model) != stored.fingerprint:
        raise damaged(stored.name, "holds a model that does not fit its fingerprint")
    return n_features, model


def _read_online(
    stored: StoredFile,
    finished: npt.NDArray[np.float32],
    steps: int,
    n_features: int,
    *,
    average: bool,
) -> OnlineTables | None:
    """Return the tables of a model that learns in one pass, copied; `finished` must come from
    them.
    """
    shape = finished.shape
    weights = stored.optional_tensor("online_weights", np.float32, shape)
    if weights is None:
        return None
    feature_sums = stored.tensor("online_feature_sums", np.float64, (None,))
    if len(feature_sums) not in (0, n_features):
        raise damaged(stored.name, "has means of other features")
    tables = OnlineTables(
        weights=weights.copy(),
        precisions=stored.tensor("online_precisions", np.float32, shape).copy(),
        sums=stored.tensor("online_sums", np.float32, shape if average else (1, 1)).copy(),
        numbers=stored.tensor("online_numbers", np.float64, (6,)).copy(),
        feature_sums=feature_sums.copy(),
    )
    if not are_possible_online(tables) or rows_met(tables) != steps:
        raise damaged(stored.name, "has counts of learning that cannot be")
    _require_finished(stored, finish_online, tables, finished)
    return tables


def _require_finished(
    stored: StoredFile, finish: Any, tables: Any, finished: npt.NDArray[np.float32]
) -> None:
    """Raise unless the weights that predict are, to the last bit, those that the tables give."""
    with np.errstate(over="ignore", invalid="ignore"):
        same = np.array_equal(finish(tables), finished)
    if not same:
        raise damaged(stored.name, "has weights that do not come from what was learned")


def _read_tables(
    stored: StoredFile, finished: npt.NDArray[np.float32], steps: int, *, average: bool
) -> HeshingTables | None:
    """Return the tables of a model that was being fitted in parts, copied; `finished` must come
    from them.
    """
    shape = finished.shape
    weights = stored.optional_tensor("learned_weights", np.float32, shape)
    if weights is None:
        return None
    sums = stored.tensor("learned_sums", np.float32, shape if average else (1, 1))
    numbers = stored.tensor("learned_numbers", np.float64, (5,))
    tables = HeshingTables(weights.copy(), sums.copy(), numbers.copy())
    if not are_possible(tables) or steps_of(tables) != steps:
        raise damaged(stored.name, "has counts of learning that cannot be")
    _require_finished(stored, finish_weights, tables, finished)
    return tables


def _taxonomy_to_bytes(taxonomy: Taxonomy) -> npt.NDArray[np.uint8]:
    return np.frombuffer(json.dumps(taxonomy.to_dict()).encode(), dtype=np.uint8)


def _read_taxonomy(stored: StoredFile) -> Taxonomy:
    return _taxonomy_from_bytes(stored, stored.tensor("taxonomy", np.uint8, (None,)))


def _taxonomy_from_bytes(stored: StoredFile, tensor: npt.NDArray[np.uint8]) -> Taxonomy:
    try:
        return Taxonomy.from_dict(json.loads(tensor.tobytes()))
    except (ValueError, RecursionError) as error:
        raise damaged(stored.name, f"has no taxonomy that can be read: {error}") from None


def _read_positive(stored: StoredFile, name: str) -> float:
    value = stored.parameter(name)
    if type(value) is not float or not (math.isfinite(value) and value > 0):
        raise damaged(stored.name, f"has an impossible {name}")
    return value


def _fingerprint(model: HeshingModel) -> str:
    """Return what tells models apart that predict differently."""
    settings = {
        "seed": model.seed,
        "intercept": model.method.intercept,
        "beam": model.settings.beam,
        "min_margin": model.settings.min_margin,
        "softmax": model.method.softmax,
        "taxonomy": model.taxonomy.to_dict(),
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "weights": model.weights,
        "class_numbers": model.class_numbers,
        "class_counts": model.class_counts,
    }
    if model.mean is not None:
        arrays["mean"] = model.mean
    return fingerprint("HeshingClassifier", settings, arrays)
