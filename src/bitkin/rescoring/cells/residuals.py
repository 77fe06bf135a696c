"""Estimates within cells around vectors: codes of what is left of rows once the centre of their
cell is taken away.

That is shorter than what is left once the mean of all rows is taken away, and the error of an
estimate grows with it: a third to a half as many rows have to be measured for the same recall. The
formulas stand in `kernels.vector_cells.queries`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import FloatRows, Floats, Ids, Words
from bitkin.code_spec import WORD
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.index.cells.centres import Cells
from bitkin.index.cells.vector_centres import VectorCentres, VectorTiles, group_centres
from bitkin.kernels.blocks import read_only
from bitkin.kernels.vector_cells.queries import prepare_for_cells_into
from bitkin.rescoring.cells.scan import InsideQueries
from bitkin.rescoring.estimate import Corrections
from bitkin.rescoring.estimate_scan import QUERY_BITS, QuantizedQueries
from bitkin.rescoring.pair_distances import METRIC_CODES

_QUERIES_PER_PIECE = 64


@dataclass(frozen=True, eq=False)
class ResidualCentres(VectorCentres):
    """Centres around which rows are coded by what is left of them."""

    model: SignModel | None = None
    metric: str = "l2"
    query_bits: int = QUERY_BITS
    residual = True

    @classmethod
    def around(
        cls, centres: VectorCentres, model: SignModel, metric: str, query_bits: int
    ) -> ResidualCentres:
        """Return centres with what makes codes of residuals, and queries of `query_bits` that they
        can be compared with.
        """
        return cls(
            centres.vectors, centres.n_rows, centres.frame, centres.by_product, centres.probes,
            model, metric, query_bits,
        )  # fmt: skip

    @property
    def _components(self) -> FloatRows:
        return read_only(_require(self.model).components)

    @cached_property
    def _seen(self) -> FloatRows:
        """Pᵀc of every centre, float32 (n_cells, n_bits)."""
        with threads.blas_in_one_thread():
            seen: FloatRows = self.vectors @ self._components
        return seen

    @cached_property
    def _direction(self) -> tuple[Floats, FloatRows]:
        """The direction of the mean, and as components see it."""
        mean = self.frame.mean
        length = float(np.sqrt(np.square(mean).sum()))
        direction = mean / length if 0 < length < np.inf else np.zeros(len(mean))
        with threads.blas_in_one_thread():
            seen = direction.astype(np.float32) @ self._components
        return read_only(direction), read_only(seen)

    def encode(self, rows: FloatRows, cells: Cells) -> tuple[Words, Corrections]:
        """Return codes of what is left of rows in their cells, uint64 (n, 1, words), and what
        scores need beside them, float32 (n, 2).

        Rows are float32 (n, n_features) as cells were found for them.
        """
        model = _require(self.model)
        left: FloatRows = self.frame.place(rows) - self.vectors[cells]
        with threads.blas_in_one_thread():
            seen: FloatRows = left @ self._components
        squares = np.einsum("ij,ij->i", left, left, dtype=np.float64)
        sizes = np.abs(seen).sum(axis=1, dtype=np.float64)
        # exact for the row itself: f = |y|² / |y|₁, with |r|² above the line for random directions
        above: Floats = squares
        if not model.random:
            above = np.einsum("ij,ij->i", seen, seen, dtype=np.float64)
        factors = np.divide(above, sizes, out=np.zeros(len(rows)), where=sizes > 0)
        if self.metric == "ip":
            kept = left.astype(np.float64) @ self._direction[0]
        else:
            of_centres = self._seen[cells]
            signed = np.where(seen >= 0, of_centres, -of_centres).sum(axis=1, dtype=np.float64)
            kept = squares + 2 * factors * signed
        words = np.zeros((len(rows), 1, model.spec.plane_words), dtype=WORD)
        model.pack(seen, words[:, 0])
        return words, np.stack([kept, factors], axis=1).astype(np.float32)

    def ask(self, queries: FloatRows, probes: int) -> tuple[Ids, InsideQueries] | None:
        """Return the cells that queries, float32 (q, n_features), look into, int64 (q, probes), and
        the queries as rows there are compared with them; None where one is not finite.
        """
        spec = _require(self.model).spec
        n_queries, n_chosen = len(queries), min(probes, len(self))
        planes = np.empty((n_queries, self.query_bits, spec.plane_words), dtype=np.uint64)
        totals, terms = np.empty(n_queries, dtype=np.int64), np.empty((n_queries, 4))
        cells = np.empty((n_queries, n_chosen), dtype=np.int64)
        constants = np.empty((n_queries, n_chosen))
        queries = read_only(queries)

        def prepare(first: int) -> int:
            some = slice(first, first + _QUERIES_PER_PIECE)
            arguments: Any = (
                queries[some], *self.for_queries, *self.room(n_chosen), planes[some],
                totals[some], terms[some], cells[some], constants[some],
            )  # fmt: skip
            return int(prepare_for_cells_into(*arguments))

        if n_queries <= _QUERIES_PER_PIECE:
            n_bad = prepare(0)
        else:
            n_bad = sum(threads.run(prepare, range(0, n_queries, _QUERIES_PER_PIECE)))
        if n_bad:
            return None
        quantized = QuantizedQueries(*map(read_only, (planes, totals, terms)))
        return cells, InsideQueries(quantized, constants)

    @cached_property
    def _for_choice(self) -> VectorTiles:
        """Centres that queries are compared with: as components see them, where those are fewer
        than features and leave little out.
        """
        if not self._by_seen:
            return self.to_choose
        seen = group_centres(self._seen)
        # lengths are known whole
        order = seen.numbers[: len(self)]
        halves = np.zeros_like(seen.halves)
        halves[: len(self)] = self.halves[order]
        if self.by_product:
            return seen._replace(halves=halves, group_halves=np.zeros_like(seen.group_halves))
        return seen._replace(halves=read_only(halves))

    @property
    def _by_seen(self) -> bool:
        n_features, n_bits = self._components.shape
        return n_bits < n_features and not _require(self.model).random

    @cached_property
    def for_queries(self) -> tuple[Any, ...]:
        """What the kernel takes after the queries, up to its work."""
        frame = self.frame
        return (
            read_only(frame.mean), float(frame.spread), METRIC_CODES[self.metric],
            self._components, *self._direction, *map(read_only, self._for_choice), len(self),
            self.vectors if self._by_seen else self.vectors[:0], self.halves,
        )  # fmt: skip

    def room(self, n_chosen: int) -> tuple[npt.NDArray[Any], ...]:
        """Return what the kernel works in where so many cells are chosen."""
        n_features, n_bits = self._components.shape
        return (
            np.empty((1, n_features), dtype=np.float32),
            np.empty((1, n_bits), dtype=np.float32),
            np.empty(n_bits, dtype=np.int32),
            np.empty(1),
            *self.choice_room(n_chosen),
            np.empty((1, n_chosen), dtype=np.float32),
        )


def _require(model: SignModel | None) -> SignModel:
    if model is None:
        raise TypeError("residual centres are made by ResidualCentres.around")
    return model
