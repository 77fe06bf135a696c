"""What a funnel asks of whatever scores codes by more than the symbols that differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from bitkin.arrays import Batch, Ids
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.errors import EnvironmentVariableError, InvalidInputError
from bitkin.hashers.base import Hasher, error_in_batch
from bitkin.index.results import Neighbors
from bitkin.rescoring.cells.scan import EstimateCells, scan_cells
from bitkin.rescoring.estimate import (
    CodedRows,
    PreparedQueries,
    Scorer,
    distances_from_scores,
)
from bitkin.rescoring.estimate_scan import (
    QUERY_BITS,
    EstimateRows,
    QuantizedQueries,
    scan_estimates,
)


class ScoredQueries(Protocol):
    """Queries as a scorer takes them."""

    @property
    def codes(self) -> Codes:
        """Their codes."""


class RowScorer(Protocol):
    """Scores rows for queries whose vectors are known: estimates of distances (`EstimateScorer`),
    or losses of winner-take-all codes (`LossScorer`). Smaller is nearer, ties go to the lower id.
    """

    @property
    def spec(self) -> CodeSpec:
        """Of the codes that it scores."""

    @property
    def fingerprint(self) -> str:
        """Of the hasher that made them."""

    @property
    def needs_corrections(self) -> bool:
        """Whether rows have numbers beside their codes."""

    @property
    def ranks_only(self) -> bool:
        """Whether scores only rank rows, and are not estimates of the metric: an exact stage then
        wants as many rows as codes would keep.
        """

    def prepare_queries(self, batch: Batch, name: str = "queries") -> ScoredQueries:
        """Return the codes of a batch of queries, and what scores are computed from."""

    def scan(self, rows: Any, queries: Any, k: int) -> Neighbors:
        """Return the best k of all rows for every query, with queries in a few bits.

        Rows are `EstimateRows`, or `EstimateCells` of those in cells.
        """

    def nearest(self, queries: Any, rows: CodedRows, ids: Ids, k: int) -> Neighbors:
        """Return the best k of a shortlist for every query."""

    def reported(self, found: Neighbors) -> Neighbors:
        """Return what was found with distances as users see them, float32."""


@dataclass(frozen=True, eq=False, slots=True)
class EstimateScorer:
    """Estimates of distances, by codes of signs and their corrections."""

    scorer: Scorer
    query_bits: int = QUERY_BITS
    """Of a number of the query in a scan."""
    needs_corrections = True
    ranks_only = False

    @property
    def spec(self) -> CodeSpec:
        """Of the codes that it scores."""
        return self.scorer.model.spec

    @property
    def fingerprint(self) -> str:
        """Of the model that made them."""
        return self.scorer.model.fingerprint

    def prepare_queries(self, batch: Batch, name: str = "queries") -> PreparedQueries:
        """Return the codes of a batch of queries, and what estimates are computed from."""
        return self.scorer.prepare_queries(batch, name)

    def scan(
        self, rows: EstimateRows | EstimateCells, queries: PreparedQueries, k: int
    ) -> Neighbors:
        """Return the best k of all rows, or of those in cells, by the estimate, with queries in a
        few bits.
        """
        if isinstance(rows, EstimateCells):
            return self.scan_cells(rows, lambda: queries, k)
        quantized = QuantizedQueries.from_prepared(queries, self.query_bits)
        return scan_estimates(rows, quantized, k, has_small=self._has_small)

    def scan_cells(
        self, rows: EstimateCells, prepare: Callable[[], PreparedQueries], k: int
    ) -> Neighbors:
        """Return the best k of rows in cells; queries are prepared only where codes of whole rows
        are compared with them.
        """

        def quantize() -> QuantizedQueries:
            return QuantizedQueries.from_prepared(prepare(), self.query_bits)

        return scan_cells(rows, quantize, k, has_small=self._has_small)

    @property
    def _has_small(self) -> bool:
        return self.scorer.metric == "l2"  # which keeps roots of small squares

    def nearest(self, queries: PreparedQueries, rows: CodedRows, ids: Ids, k: int) -> Neighbors:
        """Return the best k of a shortlist by the estimate."""
        return self.scorer.nearest(queries, rows, ids, k)

    def reported(self, found: Neighbors) -> Neighbors:
        """Return scores as distances."""
        return distances_from_scores(found, self.scorer.metric)


def encode_queries(
    hasher: Hasher, scorer: RowScorer | None, batch: Batch, name: str, first: int
) -> tuple[Codes, ScoredQueries | None]:
    """Return the codes of a batch of queries and, with a scorer, what scores are computed from;
    `first` is the number of its first row in the source called `name`.
    """
    if scorer is None:
        return hasher.encode_batch(batch, name, first), None
    try:
        prepared = scorer.prepare_queries(batch, name)
    except EnvironmentVariableError:
        raise  # which is about no vectors
    except InvalidInputError as error:
        raise error_in_batch(error, name, first) from error
    return prepared.codes, prepared
