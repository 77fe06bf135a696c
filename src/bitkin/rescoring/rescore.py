"""Rescoring: a shortlist in, the same rows by a better distance out."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from bitkin.arrays import Batch, Ids
from bitkin.checks import one_of, whole_number
from bitkin.choices import METRICS
from bitkin.codes import Codes, require_codes, require_comparable
from bitkin.errors import CodeMismatchError, InvalidInputError
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.sign_hash.sign_hash import SignHash
from bitkin.hashers.wta.wta_hash import WTAHash
from bitkin.index.base import RowIndex
from bitkin.index.results import Neighbors, no_neighbors, require_fitting
from bitkin.io.vectors import open_vectors
from bitkin.io.vectors.batch import stack
from bitkin.io.vectors.rows import lone_as_row
from bitkin.rescoring.corrections import (
    as_corrections,
    batches_for,
    require_sound,
    require_two_per_row,
    scorer_for,
)
from bitkin.rescoring.estimate import NO_CORRECTIONS, CodedRows, Corrections
from bitkin.rescoring.exact import nearest_by_vectors, require_scale
from bitkin.rescoring.losses import LossScorer
from bitkin.rescoring.row_scorer import EstimateScorer
from bitkin.rescoring.shortlist import Shortlist, rows_of

_STAGES = {"estimate": ("hasher", "codes", "corrections"), "exact": ("vectors",)}
_BY_LOSSES = ("hasher", "codes")  # what the estimate takes of a WTAHash

AnyScorer = EstimateScorer | LossScorer


def rescore(
    hits: Neighbors | npt.ArrayLike,
    queries: Any,
    *,
    stage: str,
    k: int | None = None,
    metric: str = "l2",
    hasher: ProjectionHash | SignHash | WTAHash | None = None,
    codes: Codes | RowIndex | None = None,
    corrections: Corrections | None = None,
    vectors: Any = None,
    scale: float | npt.ArrayLike | None = None,
    ids: npt.ArrayLike | None = None,
) -> Neighbors:
    """Score a shortlist again and return the best k of it: nearest first, ties by lower id.

    Parameters
    ----------
    hits : Neighbors or whole numbers (q, m)
        The shortlist of every query by id, from any index; −1 is no match and stays last, at
        infinity.
    queries : array, CSR matrix or data frame (q, n_features)
        The queries themselves, not their codes.
    stage : {"estimate", "exact"}
        "estimate" scores codes with the real-valued query and needs `hasher`, `codes` and, unless
        it is a WTAHash, `corrections`. "exact" measures stored `vectors`; only shortlisted rows are
        read.
    k : int, optional
        How many to keep; by default all of the shortlist.
    metric : {"l2", "cosine", "ip"}
        l2 is not squared, cosine is 1 − cosine, ip is negated: smaller is nearer. For "estimate" it
        must be the one that the corrections were made for; under a WTAHash it does not matter.
    hasher : ProjectionHash, SignHash or WTAHash
        The fitted hasher that made the codes. Under a WTAHash the estimate is what the query loses
        at the winners of a row, as a share of what a random code would lose (see
        `Collection.search`): it ranks rows and is no distance between vectors.
    codes : Codes or index
        n rows; empty ones are never returned. Of an index, such as FlatIndex, the codes of one
        moment are taken, all at once: ids that it no longer has drop out, as −1, whatever a writer
        does meanwhile. A row that was replaced since `corrections` were made has another code than
        they are for: keep both together, as a Collection does.
    corrections : float32 (n, 2)
        As `bitkin.corrections` makes them. Beside an index row i is of id i, or of `ids[i]`; there
        may be more rows than the index has.
    vectors : array, memory map, CSR matrix or VectorSource
        n rows, of any type of number: float16 and int8 take a half and a quarter of the space.
    scale : float or float32 (n,), optional
        What stored `vectors`, such as int8, are multiplied by to be those meant: one number, or one
        a row.
    ids : whole numbers (n,), optional
        The id of every row of `codes` or `vectors`, or of `corrections` beside an index; by default
        it is the row number.

    Returns
    -------
    Neighbors
        Distances are float32 from "estimate" and float64 from "exact". Estimates of l2 and cosine
        that fall below 0 rank by how far, and are reported as 0; those beyond float32 rank by how
        far, and are reported as infinity. So are exact ones beyond float64, or as 0 where they are
        too small for it.

    Notes
    -----
    Only shortlisted rows are looked at, each once however many queries share it.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((1000, 20)).astype(np.float32)
    >>> hasher = bitkin.ProjectionHash(n_bits=16).fit(X)
    >>> codes = hasher.encode(X)
    >>> index = bitkin.FlatIndex(codes.spec)
    >>> ids = index.add(codes)
    >>> hits = index.search(hasher.encode(X[:2]), k=100)
    >>> kept = bitkin.corrections(hasher, X)
    >>> rows = {"hasher": hasher, "codes": codes, "corrections": kept}
    >>> better = bitkin.rescore(hits, X[:2], stage="estimate", k=20, **rows)
    >>> bitkin.rescore(better, X[:2], stage="exact", k=1, vectors=X).ids.tolist()
    [[0], [1]]
    """
    stage = one_of(stage, "stage", tuple(_STAGES))
    metric = one_of(metric, "metric", METRICS)
    if isinstance(queries, Codes):  # which NumPy would take for vectors
        raise InvalidInputError(
            f"queries must be a matrix for stage={stage!r}, got codes. Give the vectors that they "
            "were made from."
        )
    if stage == "estimate":
        _require_same_shape(hasher, codes)
    # An argument that the stage does not use is an error, not ignored.
    by_losses = stage == "estimate" and isinstance(hasher, WTAHash)
    needed = _BY_LOSSES if by_losses else _STAGES[stage]
    given = {"hasher": hasher, "codes": codes, "corrections": corrections, "vectors": vectors}
    for name, value in given.items():
        if (value is not None) != (name in needed):
            must = "be given" if value is None else "be left out"
            of_hasher = " of a WTAHash" if by_losses else ""
            raise InvalidInputError(
                f"{name} must {must} for stage={stage!r}{of_hasher}, which takes "
                f"{', '.join(needed)}."
            )
    if stage != "exact" and scale is not None:
        raise InvalidInputError(
            "scale must be left out for stage='estimate': it is that of vectors."
        )
    shortlist = Shortlist.from_hits(hits)
    k = shortlist.ids.shape[1] if k is None else whole_number(k, "k", low=1)
    # an id of 8 bytes and a distance of up to 8, for every query and place
    require_fitting(len(shortlist.ids), k, pair_bytes=16)
    if stage == "exact":
        return _rescore_by_vectors(shortlist, queries, k, metric, vectors, scale, ids)
    scorer: AnyScorer
    if isinstance(hasher, WTAHash):
        check_is_fitted(hasher)
        scorer = LossScorer(hasher)
    else:
        scorer = EstimateScorer(scorer_for(hasher, metric))
    return _rescore_by_estimate(shortlist, queries, k, scorer, codes, corrections, ids)


def _require_same_shape(hasher: Any, codes: Any) -> None:
    """Raise where a hasher makes codes of another shape than those given; what is no hasher, or is
    not fitted, is said later.
    """
    made, given = getattr(hasher, "spec_", None), getattr(codes, "spec", None)
    if made is not None and given is not None and made != given:
        raise CodeMismatchError(
            f"hasher must be the one that made the codes, which are {given}, got a "
            f"{type(hasher).__name__} that makes {made} codes."
        )


def _rescore_by_vectors(
    shortlist: Shortlist,
    queries: Any,
    k: int,
    metric: str,
    vectors: Any,
    scale: Any,
    ids: npt.ArrayLike | None,
) -> Neighbors:
    source = open_vectors(vectors, name="vectors")
    asked = open_vectors(lone_as_row(queries), name="queries")
    asked.require_columns(source.feature_names, source.name)
    if asked.shape[1] != source.shape[1]:
        raise InvalidInputError(
            f"queries must have {source.shape[1]} features, as vectors have, got {asked.shape[1]}."
        )
    batches = [batch for _, batch in asked.batches()]
    _require_rows(sum(batch.shape[0] for batch in batches), len(shortlist.ids))
    # ids are looked up once each, however many shortlists name them
    rows = shortlist.spread(rows_of(shortlist.wanted, ids, len(source), "vectors"))
    scales = require_scale(scale, source)
    if not batches:
        return no_neighbors(0, k)
    return nearest_by_vectors(shortlist.ids, rows, source.gather, stack(batches), metric, k, scales)


def _rescore_by_estimate(
    shortlist: Shortlist,
    queries: Any,
    k: int,
    scorer: AnyScorer,
    codes: Any,
    corrections: Any,
    ids: npt.ArrayLike | None,
) -> Neighbors:
    batches = [batch for _, batch in _open_queries(scorer, queries)]
    prepared: Any = scorer.prepare_queries(stack(batches)) if batches else None
    _require_rows(sum(batch.shape[0] for batch in batches), len(shortlist.ids))
    taken, kept, row_of = _shortlisted_rows(shortlist, codes, corrections, ids, scorer)
    if prepared is None:
        return scorer.reported(no_neighbors(0, k))
    places = shortlist.places if row_of is None else shortlist.spread(row_of)
    # an id whose row is gone or empty becomes padding
    known_ids = shortlist.ids if row_of is None else np.where(places < 0, -1, shortlist.ids)
    if prepared.codes.empty is not None:  # queries with nothing to hash find nothing
        known_ids = np.where(prepared.codes.empty[:, None], -1, known_ids)
        places = np.where(prepared.codes.empty[:, None], -1, places)
    rows = CodedRows(taken.words[:, :, :, None], kept, places, places)
    return scorer.reported(scorer.nearest(prepared, rows, known_ids, k))


def _open_queries(scorer: AnyScorer, queries: Any) -> Iterator[tuple[int, Batch]]:
    """Yield batches of queries whose columns are those of the scorer's hasher."""
    if isinstance(scorer, LossScorer):
        return scorer.hasher.open_rows(lone_as_row(queries), "queries").batches()
    return batches_for(scorer.scorer, lone_as_row(queries), "queries")


def _shortlisted_rows(
    shortlist: Shortlist, codes: Any, corrections: Any, ids: npt.ArrayLike | None, scorer: AnyScorer
) -> tuple[Codes, Corrections, Ids | None]:
    """Return codes and corrections of shortlisted rows, and which of them each id in
    `shortlist.wanted` has.

    Empty rows have none, −1, nor have ids that an index no longer holds; None stands for 0, 1, 2, …
    """
    given = as_corrections(corrections) if scorer.needs_corrections else None
    wanted = shortlist.wanted
    known = np.ones(len(wanted), dtype=bool)
    if isinstance(codes, RowIndex):
        snapshot = codes.snapshot  # once: what a writer does from here on is not seen
        no_words = np.empty(
            (0, snapshot.spec.bits_per_symbol, snapshot.spec.plane_words), dtype=np.uint64
        )
        require_comparable(
            scorer.spec,
            scorer.fingerprint,
            Codes(no_words, snapshot.spec, fingerprint=snapshot.fingerprint),
            "codes",
        )
        known = snapshot.present(wanted)
        if given is not None:
            require_two_per_row(given, len(given))
            rows = rows_of(wanted[known], ids, len(given), "corrections")
        elif ids is not None:
            raise InvalidInputError(
                "ids must be left out beside an index, which knows its own, where there are no "
                "corrections that they would name."
            )
        taken = snapshot.codes(wanted[known])
    else:
        all_codes = require_codes(codes, "codes")
        require_comparable(scorer.spec, scorer.fingerprint, all_codes, "codes")
        if given is not None:
            require_two_per_row(given, len(all_codes))
        rows = rows_of(wanted, ids, len(all_codes), "codes")
        taken = all_codes if _are_all(rows, all_codes) else all_codes[rows]
    kept = NO_CORRECTIONS
    if given is not None and isinstance(scorer, EstimateScorer):
        kept = given if _are_all(rows, given) else given[rows]
        kept = require_sound(kept, taken, scorer.scorer.metric, rows)
    if known.all() and taken.empty is None:
        return taken, kept, None
    row_of = np.full(len(wanted), -1, dtype=np.int64)
    row_of[known] = np.where(taken.empty_rows(), -1, np.arange(len(taken)))
    return taken, kept, row_of


def _are_all(rows: Ids, values: Sized) -> bool:
    """Whether rows are all that there are, in their order: then nothing has to be copied."""
    return len(rows) == len(values) and bool((rows == np.arange(len(rows))).all())


def _require_rows(n_queries: int, wanted: int) -> None:
    if n_queries != wanted:
        raise InvalidInputError(
            f"queries must be one a row of hits, got {n_queries} for {wanted} rows."
        )
