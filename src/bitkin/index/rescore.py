"""Rescoring: a shortlist in, the same rows by a better distance out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.checks import id_array, one_of, whole_number
from bitkin.codes import Codes, require_codes, require_comparable
from bitkin.errors import InvalidInputError, UnknownIdError
from bitkin.hashers.projection_hash import ProjectionHash
from bitkin.index.corrections import batches_for, scorer_for
from bitkin.index.estimate import Corrections
from bitkin.index.exact import exact_distances
from bitkin.index.pair_distances import METRICS
from bitkin.index.results import Neighbors
from bitkin.index.segment import Ids
from bitkin.index.snapshot import some_of
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.vectors.batch import stack
from bitkin.kernels.blocks import read_only
from bitkin.kernels.selection import nearest_into

_STAGES = {"estimate": ("hasher", "codes", "corrections"), "exact": ("vectors",)}
_PAIRS_A_PIECE = 1 << 16  # ranked by one thread at a time


def rescore(
    hits: Neighbors | npt.ArrayLike,
    queries: Any,
    *,
    stage: str,
    k: int | None = None,
    metric: str = "l2",
    hasher: ProjectionHash | None = None,
    codes: Codes | None = None,
    corrections: Corrections | None = None,
    vectors: Any = None,
    ids: npt.ArrayLike | None = None,
) -> Neighbors:
    """Score a shortlist anew and return the best k of it: nearest first, ties by lower id.

    Parameters
    ----------
    hits : Neighbors or whole numbers (q, m)
        The shortlist of every query by id, from any index; −1 is nobody and stays last, at infinity.
    queries : array, CSR matrix or data frame (q, n_features)
        The queries themselves, not their codes.
    stage : {"estimate", "exact"}
        "estimate" scores codes with the real-valued query and needs `hasher`, `codes` and `corrections`. "exact"
        measures stored `vectors`; only shortlisted rows are read.
    k : int, optional
        How many to keep; by default all of the shortlist.
    metric : {"l2", "cosine", "ip"}
        l2 is not squared, cosine is 1 − cosine, ip is negated: smaller is nearer. For "estimate" it must be the one
        that the corrections were made for.
    hasher : ProjectionHash
        The fitted hasher that made the codes.
    codes : Codes
        n rows; empty ones are nobody.
    corrections : float32 (n, 2)
        As `bitkin.corrections` makes them.
    vectors : array, memory map, CSR matrix or VectorSource
        n rows.
    ids : whole numbers (n,), optional
        The id of every row of `codes` or `vectors`; by default it is the row number.

    Returns
    -------
    Neighbors
        Distances are float32 from "estimate" and float64 from "exact". Estimates of l2 and cosine that fall below 0
        rank by how far, and are reported as 0; those beyond float32 rank by how far, and are
        reported as infinity.

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
    >>> better = bitkin.rescore(hits, X[:2], stage="estimate", k=20, hasher=hasher, codes=codes, corrections=kept)
    >>> bitkin.rescore(better, X[:2], stage="exact", k=1, vectors=X).ids.tolist()
    [[0], [1]]
    """
    stage = one_of(stage, "stage", tuple(_STAGES))
    metric = one_of(metric, "metric", METRICS)
    given = {"hasher": hasher, "codes": codes, "corrections": corrections, "vectors": vectors}
    for name, value in given.items():
        if (value is not None) != (name in _STAGES[stage]):
            must = "be given" if value is None else "be left out"
            raise InvalidInputError(f"{name} must {must} for stage={stage!r}, which takes {', '.join(_STAGES[stage])}.")
    shortlist = _shortlist(hits)
    k = shortlist.shape[1] if k is None else whole_number(k, "k", low=1)
    if stage == "exact":
        source = open_vectors(vectors, name="vectors")
        asked = _queries(queries, source, len(shortlist))
        places = _places(shortlist, ids, len(source), "vectors")
        return nearest_first(shortlist, exact_distances(source, asked, places, metric), k)
    scorer = scorer_for(hasher, metric)
    rows = require_codes(codes, "codes")
    require_comparable(scorer.model.spec, scorer.model.fingerprint, rows, "codes")
    numbers = require_corrections(corrections, rows, metric)
    batches = [batch for _, batch in batches_for(scorer.model, queries, "queries")]
    places = _places(shortlist, ids, len(rows), "codes")
    places[places >= 0] = np.where(rows.empty_rows()[places[places >= 0]], -1, places[places >= 0])
    _require_rows(sum(batch.shape[0] for batch in batches), len(shortlist))
    if not batches:
        return reported(nearest_first(shortlist, np.empty(shortlist.shape), k), metric)
    distances = scorer.distances(scorer.questions(stack(batches)), rows.words[:, 0], numbers, places)
    return reported(nearest_first(np.where(places < 0, -1, shortlist), distances, k), metric)


def nearest_first(ids: Ids, distances: npt.NDArray[np.floating], k: int) -> Neighbors:
    """Return the best k of every row, nearest first, ties by lower id; id −1 is nobody, and ends up last."""
    best = Neighbors(np.full((len(ids), k), -1, dtype=np.int64), np.full((len(ids), k), np.inf, dtype=distances.dtype))
    step = max(1, _PAIRS_A_PIECE // max(1, ids.shape[1]))

    def select(first: int) -> None:
        some = slice(first, first + step)
        nearest_into(read_only(distances[some]), read_only(ids[some]), best.distances[some], best.ids[some])

    threads.run(select, range(0, len(ids), step))
    return best


def reported(found: Neighbors, metric: str) -> Neighbors:
    """Return estimates, ranked in float64, as they are reported: float32, and no l2 or cosine distance below 0."""
    distances = found.distances if metric == "ip" else np.maximum(found.distances, 0)
    with np.errstate(over="ignore"):
        return Neighbors(found.ids, distances.astype(np.float32))


def require_corrections(corrections: Any, codes: Codes, metric: str) -> Corrections:
    """Return corrections of a metric, two finite numbers a code; those of empty rows do not matter, and become 0."""
    try:
        numbers = np.array(corrections, dtype=np.float32, order="C")
    except (TypeError, ValueError):
        raise InvalidInputError("corrections must be numbers, as bitkin.corrections makes them.") from None
    if numbers.shape != (len(codes), 2):
        raise InvalidInputError(
            f"corrections must have shape ({len(codes)}, 2), two numbers a code, got {numbers.shape}. "
            "Make them with bitkin.corrections from the same vectors as the codes."
        )
    if codes.empty is not None:
        numbers[codes.empty] = 0
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers).all(axis=1)))
        raise InvalidInputError(f"corrections must be finite, got {numbers[row].tolist()} in row {row}.")
    if metric == "l2" and (numbers[:, 0] < 0).any():
        row = int(np.argmax(numbers[:, 0] < 0))
        raise InvalidInputError(
            f"corrections must be those of l2, squares first, got {numbers[row].tolist()} in row {row}. "
            "Make them with metric='l2'."
        )
    return numbers


def _shortlist(hits: Any) -> Ids:
    ids = np.asarray(hits.ids if isinstance(hits, Neighbors) else hits)
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        raise InvalidInputError(
            f"hits must be Neighbors, or whole numbers of shape (n_queries, m), got {ids.dtype} {ids.shape}."
        )
    return np.ascontiguousarray(ids, dtype=np.int64)


def _queries(queries: Any, source: VectorSource, wanted: int) -> Any:
    asked = open_vectors(queries, name="queries")
    if asked.shape[1] != source.shape[1]:
        raise InvalidInputError(f"queries must have {source.shape[1]} features, as vectors have, got {asked.shape[1]}.")
    rows = asked.gather(np.arange(len(asked)))
    _require_rows(rows.shape[0], wanted)
    return rows


def _require_rows(n_queries: int, wanted: int) -> None:
    if n_queries != wanted:
        raise InvalidInputError(f"queries must be one a row of hits, got {n_queries} for {wanted} rows.")


def _places(shortlist: Ids, ids: npt.ArrayLike | None, n_rows: int, name: str) -> Ids:
    """Return the row of every shortlisted id, −1 for nobody."""
    if ids is None:
        beyond = shortlist[shortlist >= n_rows]
        if len(beyond):
            raise UnknownIdError(
                f"hits must be rows of {name}, which has {n_rows}, got {some_of(beyond)}. Give ids where ids are not "
                "row numbers."
            )
        return np.maximum(shortlist, -1)
    numbers = id_array(ids)
    if len(numbers) != n_rows:
        raise InvalidInputError(f"ids must be one a row of {name}, got {len(numbers)} for {n_rows} rows.")
    order = np.argsort(numbers, kind="stable")
    if len(numbers) == 0:
        order, numbers = np.zeros(1, dtype=np.int64), np.full(1, -1, dtype=np.int64)
    at = order[np.minimum(np.searchsorted(numbers, shortlist, sorter=order), len(numbers) - 1)]
    unknown = (numbers[at] != shortlist) & (shortlist >= 0)
    if unknown.any():
        raise UnknownIdError(f"hits must be among ids; not there: {some_of(shortlist[unknown])}.")
    return np.where(shortlist < 0, -1, at)
