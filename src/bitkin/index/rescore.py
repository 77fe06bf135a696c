"""Rescoring: a shortlist in, the same rows by a better distance out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.checks import one_of, whole_number
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection_hash import ProjectionHash
from bitkin.index.corrections import batches_for, scorer_for
from bitkin.index.estimate import Corrections
from bitkin.index.exact import exact_distances, require_scale
from bitkin.index.pair_distances import METRICS
from bitkin.index.results import Neighbors
from bitkin.index.row_index import RowIndex
from bitkin.index.scored_rows import scored_rows
from bitkin.index.segment import Ids
from bitkin.index.shortlist import Shortlist, rows_of
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
    codes: Codes | RowIndex | None = None,
    corrections: Corrections | None = None,
    vectors: Any = None,
    scale: float | npt.ArrayLike | None = None,
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
    codes : Codes or index
        n rows; empty ones are nobody. Of an index, such as FlatIndex, the codes of one moment are taken, all at once:
        ids that it no longer has drop out, as nobody, whatever a writer does meanwhile.
    corrections : float32 (n, 2)
        As `bitkin.corrections` makes them. Beside an index row i is of id i, or of `ids[i]`; there may be more rows
        than the index has.
    vectors : array, memory map, CSR matrix or VectorSource
        n rows, of any type of number: float16 and int8 take a half and a quarter of the space.
    scale : float or float32 (n,), optional
        What stored `vectors`, such as int8, are multiplied by to be those meant: one number, or one a row.
    ids : whole numbers (n,), optional
        The id of every row of `codes` or `vectors`, or of `corrections` beside an index; by default it is the row
        number.

    Returns
    -------
    Neighbors
        Distances are float32 from "estimate" and float64 from "exact". Estimates of l2 and cosine that fall below 0
        rank by how far, and are reported as 0; those beyond float32 rank by how far, and are
        reported as infinity.

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
    if stage != "exact" and scale is not None:
        raise InvalidInputError("scale must be left out for stage='estimate': it is that of vectors.")
    shortlist = Shortlist.of(hits)
    k = shortlist.ids.shape[1] if k is None else whole_number(k, "k", low=1)
    if stage == "exact":
        source = open_vectors(vectors, name="vectors")
        asked = _queries(queries, source, len(shortlist.ids))
        places = shortlist.spread(rows_of(shortlist.wanted, ids, len(source), "vectors"))
        distances = exact_distances(source, asked, places, metric, require_scale(scale, source))
        return nearest_first(shortlist.ids, distances, k)
    scorer = scorer_for(hasher, metric)
    batches = [batch for _, batch in batches_for(scorer.model, queries, "queries")]
    _require_rows(sum(batch.shape[0] for batch in batches), len(shortlist.ids))
    rows = scored_rows(shortlist, codes, corrections, ids, scorer.model, metric)
    if not batches:
        return reported(nearest_first(shortlist.ids, np.empty(shortlist.ids.shape), k), metric)
    distances = scorer.distances(scorer.questions(stack(batches)), *rows)
    ids_left = shortlist.ids if rows.places is shortlist.at else np.where(rows.places < 0, -1, shortlist.ids)
    return reported(nearest_first(ids_left, distances, k), metric)


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
