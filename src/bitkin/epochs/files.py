"""The file of an EpochIndex: every epoch's rows as `index.rows.files` keeps them, its corrections
and its model.

The tensors of epoch i are named `i.blocks`, `i.ids`, `i.searchable`, `i.corrections`,
`i.components` and `i.mean`; where the model was fitted on columns with names, those are
`i.feature_names`.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import is_ascending
from bitkin.choices import METRICS
from bitkin.epochs.epoch import Epoch, EpochCorrections
from bitkin.errors import InvalidInputError
from bitkin.estimators.feature_names import TENSOR, encode_names, read_names
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.index.rows.files import parameters_of, rows_from, tensors_of
from bitkin.io.layout import damaged
from bitkin.io.reader import StoredFile
from bitkin.io.writer import TensorChunks, write_file
from bitkin.rescoring.estimate import Scorer, are_no_squares


def save(
    path: str | os.PathLike[str], metric: str, next_id: int, epochs: tuple[Epoch, ...]
) -> None:
    """Write epochs to `path`: aside first, then in place at once."""
    tensors: dict[str, npt.NDArray[Any] | TensorChunks] = {}
    described = []
    for number, epoch in enumerate(epochs):
        model = epoch.scorer.model
        tensors |= {f"{number}.{name}": tensor for name, tensor in _tensors(epoch).items()}
        described.append(
            parameters_of(epoch.rows)
            | {
                "fingerprint": epoch.fingerprint,
                "normalize": model.normalize,
                "random": model.random,
            }
        )
    write_file(
        path,
        "EpochIndex",
        {"metric": metric, "next_id": next_id, "epochs": described},
        None,
        tensors,
    )


def _tensors(epoch: Epoch) -> dict[str, npt.NDArray[Any] | TensorChunks]:
    model, tensors = epoch.scorer.model, tensors_of(epoch.rows)
    tensors |= {
        "corrections": epoch.corrections.lookup(epoch.rows.ids()),
        "components": model.components,
    }
    tensors |= encode_names(epoch.scorer.feature_names)
    return tensors if model.mean is None else tensors | {"mean": model.mean}


def restore(stored: StoredFile) -> tuple[str, int, tuple[Epoch, ...]]:
    """Return metric, next id and epochs of a file."""
    metric, next_id, described = (stored.parameter(key) for key in ("metric", "next_id", "epochs"))
    if metric not in METRICS or type(next_id) is not int or not isinstance(described, list):
        raise damaged(stored.name, "has impossible parameters")
    if not all(isinstance(parameters, dict) for parameters in described):
        raise damaged(stored.name, "has impossible parameters")
    names = {str(number) for number in range(len(described))}
    strangers = [name for name in stored.tensor_names if name.split(".")[0] not in names]
    if strangers:
        raise damaged(stored.name, f"has tensors that do not belong there: {', '.join(strangers)}")
    epochs = tuple(
        _epoch(stored.part(f"{i}.", "FlatIndex", parameters), metric)
        for i, parameters in enumerate(described)
    )
    ids = np.sort(
        np.concatenate([np.empty(0, dtype=np.int64), *(epoch.rows.ids() for epoch in epochs)])
    )
    if not is_ascending(ids, strictly=True):
        raise damaged(stored.name, "holds an id in two epochs")
    if not (int(ids[-1]) if len(ids) else -1) < next_id <= 2**63:
        raise damaged(stored.name, f"has an impossible next id, {next_id}")
    if (
        len({epoch.fingerprint for epoch in epochs}) < len(epochs)
        or len({_width(epoch) for epoch in epochs}) > 1
    ):
        raise damaged(stored.name, "has epochs that do not fit together")
    return metric, next_id, epochs


def _epoch(part: StoredFile, metric: str) -> Epoch:
    normalize, random, n_symbols = (
        part.parameter(key) for key in ("normalize", "random", "n_symbols")
    )
    if (
        type(normalize) is not bool
        or type(random) is not bool
        or part.parameter("bits_per_symbol") != 1
    ):
        raise damaged(part.name, "has impossible parameters")
    components = part.tensor(
        "components", np.float32, (None, n_symbols if type(n_symbols) is int else -1)
    )
    mean = part.optional_tensor("mean", np.float64, (len(components),))
    numbers = part.tensor("corrections", np.float32, (None, 2))
    if part.mapped:
        part.verify("components", "mean", TENSOR)
    try:
        model = SignModel(components, mean, normalize, random=random)
    except InvalidInputError:
        raise damaged(part.name, "holds numbers that are not finite") from None
    if model.fingerprint != part.fingerprint:
        raise damaged(part.name, "holds a model that does not fit its fingerprint")
    scorer = Scorer(model, metric, read_names(part, len(components)))
    rows = rows_from(part)
    ids = rows.ids()
    if len(numbers) != len(ids):
        raise damaged(part.name, f"has {len(numbers)} corrections for {len(ids)} rows")
    epoch = Epoch(scorer, rows, EpochCorrections(ids, numbers, len(ids)))
    if not part.mapped:
        require_sound(epoch, part.name)
    return epoch


def require_sound(epoch: Epoch, name: str) -> None:
    """Raise unless all corrections are finite, and squares not below 0."""
    numbers = epoch.corrections.values[: epoch.corrections.n]
    if not np.isfinite(numbers).all() or (
        epoch.scorer.metric == "l2" and are_no_squares(numbers).any()
    ):
        raise damaged(name, "has corrections that are not finite, or squares below 0")


def _width(epoch: Epoch) -> int:
    return len(epoch.scorer.model.components)
