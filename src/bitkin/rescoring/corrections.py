"""Which fitted hashers can be scored, and the two numbers a vector that make their codes into
distances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bitkin.arrays import Batch
from bitkin.checks import one_of
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.estimators.feature_names import fitted_names
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.io.vectors import open_vectors
from bitkin.rescoring.estimate import Corrections, Scorer
from bitkin.rescoring.pair_distances import METRICS

_ORTHONORMAL = 1e-3  # how far PᵀP may be from 1: a tracked subspace is within 1e-4
# Models never change, and the product takes longer than a search for one query.
_known_orthonormal: WeakKeyDictionary[SignModel, bool] = WeakKeyDictionary()


def corrections(hasher: ProjectionHash, vectors: Any, metric: str = "l2") -> Corrections:
    """Return the two numbers a vector that, beside its code, give estimates of distances: float32
    (n, 2).

    They are what `rescore` and `EpochIndex.add_codes` take. Where codes leave before vectors are
    kept anywhere, as from a stream, compute both at once: the codes and these.

    Parameters
    ----------
    hasher : ProjectionHash
        Fitted, with orthonormal directions (PCA, Nystrom, OPAST, FrequentDirections) or a random
        projection; or a snapshot of such a one.
    vectors : array, CSR matrix, data frame or VectorSource
        The rows that were hashed.
    metric : {"l2", "cosine", "ip"}
        The metric to be estimated; the numbers differ by metric.

    Notes
    -----
    l2 keeps ‖x − μ‖² and f; ip keeps ⟨x, μ⟩ and f; cosine both divided by ‖x‖. f = ‖y‖² /
    √(‖y‖₁‖y‖) for principal directions and ‖x − μ‖² / √(‖y‖₁‖y‖) for random ones, y =
    `hasher.project(x)`; random are those of "random", and those with which a stream begins. Of very
    short vectors, whose squares float32 cannot hold, l2 keeps −‖x − μ‖, and the others a multiple
    of ⟨x, μ⟩. Distances are those of the vectors as given. With `normalize=True` use cosine or ip:
    l2 would need a third number, and is estimated less well without it.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((1000, 20)).astype(np.float32)
    >>> hasher = bitkin.ProjectionHash(n_bits=16).fit(X)
    >>> kept = bitkin.corrections(hasher, X)
    >>> kept.shape, bool(np.allclose(kept[:, 0], ((X - hasher.mean_) ** 2).sum(axis=1)))
    ((1000, 2), True)
    """
    return encoded(scorer_for(hasher, metric), vectors)[1]


def scorer_for(hasher: Any, metric: Any, name: str = "hasher") -> Scorer:
    """Return a frozen scorer of a fitted hasher; what is done to the hasher later does not reach
    it.
    """
    metric = one_of(metric, "metric", METRICS)
    if not isinstance(hasher, ProjectionHash):
        raise InvalidInputError(
            f"{name} must be a fitted ProjectionHash, got {type(hasher).__name__}. Codes of other "
            "hashers are compared "
            "by the symbols that differ, or rescored with stage='exact'."
        )
    check_is_fitted(hasher)
    model = hasher._model
    if not model.random and not _orthonormal(model):
        raise InvalidInputError(
            f"{name} must have orthonormal directions or a random projection for its codes to be "
            "scored, got "
            f"{hasher!r}. Fit one with PCA, Nystrom(orthonormalize=True), OPAST or "
            "FrequentDirections, or rescore with "
            "stage='exact'."
        )
    return Scorer(model, metric, fitted_names(hasher))


def encoded(scorer: Scorer, vectors: Any, name: str = "vectors") -> tuple[Codes, Corrections]:
    """Return codes and corrections of vectors in any form, read in batches."""
    parts = [scorer.rows(batch, name, first) for first, batch in batches_for(scorer, vectors, name)]
    nothing = Codes.from_symbols(np.empty((0, scorer.model.spec.n_symbols), dtype=bool), 1)
    codes = Codes.concatenate([nothing, *(part for part, _ in parts)]).with_fingerprint(
        scorer.model.fingerprint
    )
    return codes, np.concatenate(
        [np.empty((0, 2), dtype=np.float32), *(numbers for _, numbers in parts)]
    )


def batches_for(scorer: Scorer, vectors: Any, name: str) -> Iterator[tuple[int, Batch]]:
    """Yield row numbers and batches, all numbers finite, once their columns are known to be the
    model's.
    """
    source = open_vectors(vectors, name=name)
    source.require_columns(scorer.feature_names)
    wanted = len(scorer.model.components)
    if source.shape[1] != wanted:
        raise InvalidInputError(
            f"{source.name} must have {wanted} features, as the hasher was fitted on, got "
            f"{source.shape[1]}."
        )
    return source.batches()


def _orthonormal(model: SignModel) -> bool:
    if model not in _known_orthonormal:
        wide = model.components.astype(np.float64)
        _known_orthonormal[model] = bool(
            np.abs(wide.T @ wide - np.eye(wide.shape[1])).max() <= _ORTHONORMAL
        )
    return _known_orthonormal[model]
