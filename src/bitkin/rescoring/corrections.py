"""Which fitted hashers can be scored, and the two numbers per vector that make their codes into
distances: made here, and checked where a caller gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bitkin.arrays import Batch, Ids
from bitkin.checks import one_of
from bitkin.choices import METRICS
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.estimators.vector_input import fitted_names
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.sign_hash.sign_hash import SignHash
from bitkin.hashers.wta.wta_hash import WTAHash
from bitkin.io.vectors import open_vectors
from bitkin.rescoring.estimate import Corrections, Scorer, are_no_squares


def corrections(hasher: ProjectionHash | SignHash, vectors: Any, metric: str = "l2") -> Corrections:
    """Return the two numbers per vector that, beside its code, give estimates of distances: float32
    (n, 2).

    They are what `rescore` and `EpochIndex.add_codes` take. Where codes leave before vectors are
    kept anywhere, as from a stream, compute both at once: the codes and these.

    Parameters
    ----------
    hasher : ProjectionHash or SignHash
        Fitted; a ProjectionHash with orthonormal directions (PCA, Nystrom, OPAST,
        FrequentDirections) or a random projection, or a snapshot of such a one.
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
    return encode_with_corrections(scorer_for(hasher, metric), vectors)[1]


def scorer_for(hasher: Any, metric: Any, name: str = "hasher") -> Scorer:
    """Return a frozen scorer of a fitted hasher; what is done to the hasher later does not reach
    it.
    """
    metric = one_of(metric, "metric", METRICS)
    if not isinstance(hasher, (ProjectionHash, SignHash)):
        others = (
            "Codes of a WTAHash need no corrections: rescore, collections and bitkin search score "
            "them by what the query loses."
            if isinstance(hasher, WTAHash)
            else "Codes of other hashers are compared by the symbols that differ, or rescored "
            "with stage='exact'."
        )
        raise InvalidInputError(
            f"{name} must be a fitted ProjectionHash or SignHash, got {type(hasher).__name__}. "
            f"{others}"
        )
    check_is_fitted(hasher)
    # taken once: the model of a stream may be replaced while it learns
    model = hasher.model_
    if not model.random and not model.keeps_inner_products:
        raise InvalidInputError(
            f"{name} must have orthonormal directions or a random projection for its codes to be "
            f"scored, got {hasher!r}. Fit one with PCA, Nystrom(orthonormalize=True), OPAST or "
            "FrequentDirections, or rescore with stage='exact'."
        )
    return Scorer(model, metric, fitted_names(hasher))


def encode_with_corrections(
    scorer: Scorer,
    vectors: Any,
    name: str = "vectors",
    look_at: Callable[[Batch], None] | None = None,
) -> tuple[Codes, Corrections]:
    """Return codes and corrections of vectors in any form, read in batches; each batch is shown to
    `look_at`.
    """
    parts = []
    for first, batch in batches_for(scorer, vectors, name):
        if look_at is not None:
            look_at(batch)
        parts.append(scorer.encode(batch, name, first))
    no_codes = Codes.from_symbols(np.empty((0, scorer.model.spec.n_symbols), dtype=bool), 1)
    no_corrections = np.empty((0, 2), dtype=np.float32)
    codes = Codes.concatenate([no_codes, *(codes for codes, _ in parts)])
    kept = np.concatenate([no_corrections, *(kept for _, kept in parts)])
    return codes.with_fingerprint(scorer.model.fingerprint), kept


def batches_for(scorer: Scorer, vectors: Any, name: str) -> Iterator[tuple[int, Batch]]:
    """Yield row numbers and batches, all numbers finite, once their columns are known to be the
    model's.
    """
    source = open_vectors(vectors, name=name)
    source.require_columns(scorer.feature_names)
    wanted = scorer.model.n_features
    if source.shape[1] != wanted:
        raise InvalidInputError(
            f"{source.name} must have {wanted} features, as the hasher was fitted on, got "
            f"{source.shape[1]}."
        )
    return source.batches()


def require_corrections(corrections: Any, codes: Codes, metric: str) -> Corrections:
    """Return corrections of a metric, two finite numbers per code; those of empty rows do not
    matter, and become 0.
    """
    given = as_corrections(corrections)
    require_two_per_row(given, len(codes))
    return require_sound(given.copy(), codes, metric, np.arange(len(codes)))


def as_corrections(corrections: Any) -> Corrections:
    """Return what a caller gives as corrections, in float32."""
    try:
        return np.asarray(corrections, dtype=np.float32, order="C")
    except (TypeError, ValueError):
        raise InvalidInputError(
            "corrections must be numbers, as bitkin.corrections makes them."
        ) from None


def require_two_per_row(given: Corrections, n_rows: int) -> None:
    """Raise unless corrections are two numbers for each of `n_rows` codes."""
    if given.shape != (n_rows, 2):
        wanted = f"({n_rows}, 2)" if given.ndim else "(n, 2)"
        raise InvalidInputError(
            f"corrections must have shape {wanted}, two numbers a code, got {given.shape}. "
            "Make them with bitkin.corrections from the same vectors as the codes."
        )


def require_sound(given: Corrections, codes: Codes, metric: str, rows: Ids) -> Corrections:
    """Return corrections of codes, which are `rows` of what was given: finite, and zeros where a
    code is empty.
    """
    if codes.empty is not None:
        given = np.where(codes.empty[:, None], np.float32(0), given)
    if not np.isfinite(given).all():
        at = int(np.argmin(np.isfinite(given).all(axis=1)))
        raise InvalidInputError(
            f"corrections must be finite, got {given[at].tolist()} in row {rows[at]}."
        )
    if metric == "l2":
        require_squares(given, rows)
    return given


def require_squares(given: Corrections, rows: Ids) -> None:
    """Raise where corrections of `rows` cannot be those of l2, which are squares first."""
    wrong = are_no_squares(given)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InvalidInputError(
            f"corrections must be those of l2, squares first, got {given[at].tolist()} in row "
            f"{rows[at]}. Make them with metric='l2'."
        )
