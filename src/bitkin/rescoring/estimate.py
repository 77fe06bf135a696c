"""The corrected estimate: what a sign code, two numbers beside it and a real-valued query say about
a distance.

A code keeps the signs s of y = Pᵀ(x − μ). For any v with z = Pᵀv, ⟨x − μ, v⟩ ≈ f · g · ⟨s, z⟩,
exact for v = x − μ. Principal directions are orthonormal and what they leave out hardly matters:
f = ‖y‖² / √(‖y‖₁‖y‖). Random ones see an even share of every vector: f = ‖x − μ‖² / √(‖y‖₁‖y‖). The
query's part is g = √(‖z‖ / ‖z‖₁). With all of it on the side of the row, f = ‖y‖² / ‖y‖₁, rows that
their signs fit badly get large factors, and their errors bring them to the top; the query resembles
the rows that matter, so its own fit says as much, and sharing the factor ranks better. The other
number of a row is what its metric needs exactly:

    l2      ‖x − q‖² = ‖x − μ‖² + ‖q − μ‖² − 2 ⟨x − μ, q − μ⟩        keeps ‖x − μ‖², f
    ip      ⟨x, q⟩ = a ⟨x, μ⟩ + ⟨x − μ, q − aμ⟩, a = ⟨q, μ⟩ / ‖μ‖²    keeps ⟨x, μ⟩, f
    cosine  the same of x / ‖x‖ and q / ‖q‖                          keeps ⟨x, μ⟩ / ‖x‖, f / ‖x‖

So the part of a query along the mean, which is the same for all rows and often the largest, is
never estimated.

Squares and products of short vectors would vanish in float32, in which they are kept. So l2 keeps
−‖x − μ‖ for a square below 2⁻¹²⁶, recognised by its sign, and a mean shorter than 2⁻⁶⁴ enters
⟨x, μ⟩ multiplied by a power of two; a ⟨x, μ⟩ is the same for every multiple of μ.

Distances are those of the vectors as they are given, also where the hasher scales them to length 1,
x = r · u: inner products then are r times those of u. Only l2 would need a third number: it keeps
r² and r · f, and ⟨u, μ⟩ is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Batch, Floats, Ids, Words
from bitkin.code_spec import WORD
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.sign_model import SignModel, buffer
from bitkin.hashers.projection.statistics.centred_rows import CentredRows
from bitkin.hashers.projection.statistics.sums import row_pieces
from bitkin.hashers.projection.training import prepare_rows
from bitkin.index.results import Neighbors
from bitkin.io.vectors.columns import Columns
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.estimate import (
    ENTRIES,
    LONG_ROW,
    NEAR_ROWS,
    SMALLEST_SQUARE,
    best_estimates_into,
    estimates_into,
    finish_queries_into,
    multiply_rows_into,
    prepare_query_into,
    sum_sizes_into,
)
from bitkin.rescoring.pair_distances import METRIC_CODES

Projections = npt.NDArray[np.float32]
Corrections = npt.NDArray[np.float32]

NO_CORRECTIONS: Corrections = np.empty((0, 2), dtype=np.float32)
LONGEST_ROOT = np.float32(2.0**-63)
_FEW_NUMBERS = 1 << 14  # of rows, whose lengths take less time than cutting them into pieces
_ROWS_AT_ONCE = 32  # multiplied together
_PAIRS_PER_PIECE = 1 << 14  # scored by one thread at a time


class PreparedQueries(NamedTuple):
    """What a model makes of queries: their codes, and what their estimates are computed from."""

    codes: Codes
    projected: Projections
    """Pᵀv of every query, float32 (q, n_bits), times the power of two that makes its largest number
    about 1.
    """
    terms: Floats
    """constant, onto, root and factor of every query, float64 (q, 4); see `kernels.estimate`."""


class CodedRows(NamedTuple):
    """Codes and corrections, and which of them are scored for q queries."""

    tiles: Words
    """uint64 (tiles, planes, words per plane, L), L a power of two: row r is `[r // L, :, :, r %
    L]`. Codes of signs have one plane.
    """
    corrections: Corrections
    """`NO_CORRECTIONS` where scores need none."""
    places: Ids
    """int64 (q, m): rows of `tiles`; −1 is no match."""
    slots: Ids
    """int64 (q, m): rows of `corrections`."""

    @classmethod
    def gathered(cls, words: Words, corrections: Corrections, places: Ids) -> CodedRows:
        """Take codes, uint64 (n, words per row), and corrections that stand in the same order."""
        return cls(words[:, None, :, None], corrections, places, places)


@dataclass(frozen=True, eq=False, slots=True)
class Scorer:
    """A model and the metric; nothing of it ever changes."""

    model: SignModel
    metric: str
    feature_names: Columns | None = None
    """Of the columns that the model was fitted on, where they had names."""
    mean: Floats = field(init=False)
    """μ: zeros where the model does not centre."""

    def __post_init__(self) -> None:
        mean = self.model.mean
        if mean is None:
            mean = np.zeros(self.model.n_features)
        object.__setattr__(self, "mean", mean)

    def encode(self, batch: Batch, name: str, first: int = 0) -> tuple[Codes, Corrections]:
        """Return the codes of a batch and its corrections, float32 (n, 2); `first` is the number of
        its first row.
        """
        projected = self.model.project(batch, name, _multiply_rows)
        return self._pack_signs(projected), self._corrections(projected, batch, name, first)

    def usual_corrections(self, n_rows: int) -> Corrections | None:
        """Return corrections for codes of which nothing else is known, or None where there are no
        usual ones.

        Under cosine, and without a mean, a row keeps f / ‖x‖ = √(‖x‖ / ‖x‖₁), in which its length
        does not matter. Rows with normal coordinates have ‖x‖₁ / ‖x‖ ≈ √(2d / π). The same number
        for all rows ranks them by ⟨s, q⟩.
        """
        model = self.model
        sees_all = model.mean is None and not model.random
        if self.metric != "cosine" or not sees_all or model.spec.n_symbols != model.n_features:
            return None
        kept: Corrections = np.zeros((n_rows, 2), dtype=np.float32)
        kept[:, 1] = (2 * model.n_features / np.pi) ** -0.25
        return kept

    def corrections(self, batch: Batch, name: str, first: int | Ids = 0) -> Corrections:
        """Return what `encode` does, without the codes; `first` may be the numbers of all rows."""
        projected = self.model.project(batch, name, _multiply_rows)
        return self._corrections(projected, batch, name, first)

    def _pack_signs(self, projected: Projections) -> Codes:
        """Return the codes of projected rows: their signs."""
        words = np.zeros((len(projected), 1, self.model.spec.plane_words), dtype=WORD)
        self.model.pack(projected, words[:, 0])
        return self._codes(words)

    def _codes(self, words: Words) -> Codes:
        """Wrap words, which must not change from now on."""
        words.flags.writeable = False
        return Codes.from_parts(words, self.model.spec, None, self.model.fingerprint)

    def _corrections(
        self, projected: npt.NDArray[np.float32], batch: Batch, name: str, first: int | Ids
    ) -> Corrections:
        model = self.model
        hashed = prepare_rows(batch, model.normalize, name, first)
        # f = ‖y‖² / √(‖y‖₁‖y‖), with ‖x − μ‖² above the line for random directions.
        squares = CentredRows(hashed, self.mean).lengths_squared()
        sums_of_sizes, sums_of_squares = np.empty((2, len(projected)))
        sum_sizes_into(read_only(projected), sums_of_sizes, sums_of_squares)
        factor = _divide(
            squares if model.random else sums_of_squares,
            np.sqrt(sums_of_sizes) * sums_of_squares**0.25,
        )
        needs_lengths = model.normalize or self.metric == "cosine"
        lengths = _lengths(batch, name) if needs_lengths else np.ones(len(projected))
        if model.normalize:  # x = r · u: inner products are r times those of u
            factor *= lengths
        if self.metric == "l2":
            kept = _with_roots_of_small(lengths**2 if model.normalize else squares)
        else:
            kept = _times(hashed, model.scaled_mean[0]) * (lengths if model.normalize else 1.0)
        if self.metric == "cosine":
            kept, factor = _divide(kept, lengths), _divide(factor, lengths)
        with np.errstate(over="ignore"):
            numbers: Corrections = np.stack([kept, factor], axis=1).astype(np.float32)
        if not np.isfinite(numbers).all():
            at = int(np.argmin(np.isfinite(numbers).all(axis=1)))
            row = first + at if isinstance(first, int) else first[at]
            raise InvalidInputError(
                f"{name} must have smaller numbers: what is kept of row {row} is beyond float32. "
                "Scale the data down."
            )
        return numbers

    def prepare_queries(self, batch: Batch, name: str = "queries") -> PreparedQueries:
        """Return the codes of a batch of queries, and what their estimates are computed from.

        The kernel makes of them, for a row with corrections (c, f) and signs s, the score

            constant + onto · c + root · √c + factor · f · ⟨s, projected⟩,

        where the root is needed by l2 of normalized vectors alone.
        """
        lone = self._prepare_lone(batch) if self.takes_lone(batch) else None
        if lone is not None:
            return lone
        model, mean = self.model, self.mean
        projected = model.project(batch, name)
        n_queries = len(projected)
        seen = projected.astype(np.float64)
        terms = np.zeros((n_queries, 4))
        constant, onto, root, factor = terms.T
        if self.metric == "l2" and not model.normalize:
            # ‖q − μ‖² + c − 2 f g ⟨s, Pᵀ(q − μ)⟩
            constant[:] = _squares(prepare_rows(batch, False, name), mean)
            onto[:] = 1
            factor[:] = -2
        else:
            seen += model.offset  # from Pᵀ(q − μ) to Pᵀq
            lengths = _lengths(batch, name)
            if model.normalize:
                seen *= lengths[:, None]
            if self.metric == "l2":
                # ‖q‖² + r² − 2 r ⟨μ, q⟩ − 2 r f g ⟨s, Pᵀq⟩ for x = r · u, where c = r²
                constant[:] = lengths**2
                onto[:] = 1
                root[:] = -2 * _times(prepare_rows(batch, False, name), mean)
                factor[:] = -2
            else:
                # −(a c + f g ⟨s, Pᵀ(q − aμ)⟩), a = ⟨q, μ⟩ / ‖μ‖²; cosine: 1 − the same of q / ‖q‖
                scaled, _ = model.scaled_mean
                along = _times(prepare_rows(batch, False, name), scaled)
                if self.metric == "cosine":
                    constant[:] = 1
                    seen, along = _divide(seen, lengths[:, None]), _divide(along, lengths)
                share = _divide(along, np.square(scaled).sum())
                # a · Pᵀμ is the same for every multiple of μ
                seen -= share[:, None] * model.scaled_offset
                onto[:] = -share
                factor[:] = -1
        return self._finish(projected, seen, terms)

    def takes_lone(self, batch: Batch) -> bool:
        """Whether a batch is a query that one kernel can prepare: a lone dense row, short enough
        for sums in float32.
        """
        return (
            isinstance(batch, np.ndarray)
            and batch.shape[0] == 1
            and batch.shape[1] <= LONG_ROW
            and bool(batch.dtype == np.float32)
            and not (self.model.normalize and self.metric == "l2")
        )

    def _prepare_lone(self, batch: Batch) -> PreparedQueries | None:
        """Return what `prepare_queries` does of one dense row, in one call and without what only
        batches need; None where numbers leave the range of float32.
        """
        model = self.model
        n_bits = model.spec.n_symbols
        terms = np.empty((1, 4))
        small = np.empty((1, n_bits), dtype=np.float32)
        words = np.zeros((1, 1, model.spec.plane_words), dtype=WORD)
        within = prepare_query_into(
            read_only(batch)[0],
            read_only(model.components),
            read_only(model.offset),
            read_only(self.mean),
            read_only(model.scaled_mean[0]),
            read_only(model.scaled_offset),
            METRIC_CODES[self.metric],
            model.normalize,
            np.empty(n_bits, dtype=np.float32),
            np.empty(n_bits),
            terms[0],
            small[0],
            words[0, 0],
        )
        return PreparedQueries(self._codes(words), small, terms) if within else None

    def _finish(self, projected: Projections, seen: Floats, terms: Floats) -> PreparedQueries:
        """Pack the signs of projections, and give the factor of every query its part of the
        correction, g = √(‖z‖ / ‖z‖₁), where z is what is `seen` of it.
        """
        model = self.model
        small = np.empty(projected.shape, dtype=np.float32)
        words = np.zeros((len(projected), 1, model.spec.plane_words), dtype=WORD)
        finish_queries_into(read_only(seen), read_only(projected), terms, small, words)
        return PreparedQueries(self._codes(words), small, terms)

    def scores(
        self, queries: PreparedQueries, words: Words, corrections: Corrections, places: Ids
    ) -> Floats:
        """Return what ranks row `places[i, k]` for query i: its estimated distance, squared for l2;
        infinity at −1.

        `words` is uint64 (n, words per row), `corrections` float32 (n, 2), `places` int64 (q, m);
        float64 (q, m) comes back, since float32 would make ties of what is beyond its range.
        Squares estimated below 0 are left so, which keeps the order; `distances_from_scores` makes
        distances of them.
        """
        out: Floats = np.empty(places.shape)
        rows = _as_input(CodedRows.gathered(words, corrections, places))

        def score(first: int) -> None:
            some = slice(first, first + step)
            estimates_into(*self._of_pairs(rows, queries, some), *_work_for(rows), out[some])

        step = max(1, _PAIRS_PER_PIECE // max(1, places.shape[1]))
        threads.run(score, range(0, len(places), step))
        return out

    def nearest(self, queries: PreparedQueries, rows: CodedRows, ids: Ids, k: int) -> Neighbors:
        """Return the best k of every query by `scores`, which come with them, ties by lower id.

        `ids` is (q, m), −1 for no match. Scores are ranked while they are in cache, and never all
        there.
        """
        n_queries, m = ids.shape
        best = Neighbors(np.empty((n_queries, k), dtype=np.int64), np.empty((n_queries, k)))
        rows, ids = _as_input(rows), read_only(ids)
        if n_queries == 1:  # nothing to cut
            best_estimates_into(
                *rows,
                self.metric == "l2",
                read_only(queries.projected),
                read_only(queries.terms),
                ids,
                *_work_for(rows),
                np.empty((1, m)),
                best.distances,
                best.ids,
            )
            return best

        def rank(first: int) -> None:
            some = slice(first, first + step)
            best_estimates_into(
                *self._of_pairs(rows, queries, some),
                ids[some],
                *_work_for(rows),
                np.empty((1, m)),
                best.distances[some],
                best.ids[some],
            )

        step = max(1, _PAIRS_PER_PIECE // max(1, m))
        threads.run(rank, range(0, n_queries, step))
        return best

    def _of_pairs(
        self, rows: CodedRows, queries: PreparedQueries, some: slice
    ) -> tuple[Any, Any, Any, Any, bool, Any, Any]:
        """Return what kernels take of rows and of some queries."""
        return (
            rows.tiles,
            rows.corrections,
            rows.places[some],
            rows.slots[some],
            self.metric == "l2",  # which keeps roots of small squares
            read_only(queries.projected[some]),
            read_only(queries.terms[some]),
        )


def _multiply_rows(rows: Projections, components: Projections) -> Projections:
    """Return the product of dense rows, each as it is in any other batch, so that equal rows get
    equal estimates.
    """
    n_bits = components.shape[1]
    product: Projections = buffer("product", (len(rows), n_bits), np.float32)
    work = buffer("work", (_ROWS_AT_ONCE, n_bits), np.float32)
    rows = np.ascontiguousarray(rows)
    multiply_rows_into(read_only(rows), read_only(components), work, product)
    return product


def are_no_squares(corrections: Corrections) -> npt.NDArray[np.bool_]:
    """Tell which corrections of l2 are neither a square nor the root of a small one."""
    flags: npt.NDArray[np.bool_] = corrections[:, 0] < -LONGEST_ROOT
    return flags


def distances_from_scores(found: Neighbors, metric: str) -> Neighbors:
    """Return estimates as they are reported: float32, roots of squares, no l2 or cosine distance
    below 0.
    """
    distances = found.distances if metric == "ip" else np.maximum(found.distances, 0)
    with np.errstate(over="ignore"):
        return Neighbors(
            found.ids, (np.sqrt(distances) if metric == "l2" else distances).astype(np.float32)
        )


def _as_input(rows: CodedRows) -> CodedRows:
    """Return the same rows as kernels take them."""
    return CodedRows(
        read_only(rows.tiles),
        read_only(rows.corrections),
        read_only(rows.places),
        read_only(rows.slots),
    )


def _work_for(rows: CodedRows) -> tuple[Any, Any, Any]:
    """Return the room that kernels work in: tables of a query, and rows gathered close by."""
    n_words = rows.tiles.shape[2]
    return (
        np.empty((n_words, ENTRIES), dtype=np.float32),
        np.empty((NEAR_ROWS, n_words), dtype=np.uint64),
        np.empty((NEAR_ROWS, 2)),
    )


def _squares(rows: Batch, centre: Floats) -> Floats:
    """Return ‖x − centre‖² of every row."""
    if isinstance(rows, np.ndarray) and rows.size <= _FEW_NUMBERS:
        apart = rows - centre
        squares: Floats = np.einsum("ij,ij->i", apart, apart)
        return squares
    return CentredRows(rows, centre).lengths_squared()


def _with_roots_of_small(squares: Floats) -> Floats:
    """Return squares, and −√ of those that float32 cannot hold; 0 stays."""
    small = (squares > 0) & (squares < SMALLEST_SQUARE)
    return np.where(small, -np.sqrt(squares), squares) if small.any() else squares


def _lengths(batch: Batch, name: str) -> Floats:
    lengths: Floats = np.sqrt(
        CentredRows(prepare_rows(batch, False, name), np.zeros(batch.shape[1])).lengths_squared()
    )
    return lengths


def _times(batch: Batch, vector: Floats) -> Floats:
    """Return the inner product of every row with a vector, by a sum of its own: BLAS takes rows
    together, and rounds by which ones.
    """
    if not isinstance(batch, np.ndarray):
        return CentredRows(batch, np.zeros(len(vector))).times(vector[:, None])[:, 0]
    products = np.empty(len(batch))
    for which in row_pieces(*batch.shape):
        products[which] = np.einsum("ij,j->i", batch[which].astype(np.float64), vector)
    return products


def _divide(above: Floats, below: Floats | np.floating) -> Floats:
    """Divide, `below` being of no more dimensions; by nothing is 0: a row of zeros, or one that
    lies on the mean.
    """
    return np.divide(above, below, out=np.zeros(above.shape), where=below != 0)
