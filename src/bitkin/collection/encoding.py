"""Vectors on their way in: the frozen hasher of a collection, and what it makes of rows and
queries.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bitkin.arrays import Batch
from bitkin.codes import Codes, require_codes, require_comparable
from bitkin.collection.rows import Pieces
from bitkin.collection.vectors import Parts, StagedVectors
from bitkin.errors import InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.hashers.lengths import NO_LENGTHS, Lengths
from bitkin.hashers.minhash.minhash import MinHash
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.hashers.wta.wta_hash import WTAHash
from bitkin.io.vectors.rows import lone_as_row
from bitkin.rescoring.corrections import require_corrections, scorer_for
from bitkin.rescoring.estimate import Scorer
from bitkin.rescoring.estimate_scan import QUERY_BITS
from bitkin.rescoring.losses import LEVEL_BITS, LossScorer
from bitkin.rescoring.row_lengths import LengthGuard
from bitkin.rescoring.row_scorer import (
    EstimateScorer,
    RowScorer,
    ScoredQueries,
    encode_queries,
)
from bitkin.sets.members import is_matrix

Accept = Callable[[Batch, str, int], Parts]


class EncodedRows(NamedTuple):
    """What is to be kept of n rows, in no more memory than it takes once it is kept."""

    codes: Codes
    vectors: StagedVectors | None
    corrections: Pieces | None
    lengths: Lengths = NO_LENGTHS
    """Of the rows, where those can spoil codes."""


@dataclass(frozen=True, eq=False, slots=True)
class Encoder:
    """A hasher of our own, and what scores its codes where they can be scored."""

    hasher: Hasher
    scorer: Scorer | None
    """What makes corrections; None where none are needed, or codes cannot be scored."""
    row_scorer: RowScorer | None
    why_not: str = ""
    """Why codes cannot be scored."""
    takes_sets: bool = False
    """Whether there may be sets in the place of vectors, as a MinHash takes them."""
    guard: LengthGuard | None = None
    """What knows rows whose lengths codes and metric see differently."""

    @property
    def ranks_only(self) -> bool:
        """Whether scores rank rows and estimate no distance, as losses of a WTAHash do."""
        return self.row_scorer is not None and self.row_scorer.ranks_only

    @classmethod
    def from_hasher(cls, hasher: Any, metric: str, query_bits: int | None = None) -> Encoder:
        """Freeze a fitted hasher: what is done to it later, such as another `fit`, does not reach
        the encoder. `query_bits` are those of a query in a scan, None for as many as are good.
        """
        own = freeze_hasher(hasher)
        guard = LengthGuard(own, metric)
        try:
            if isinstance(own, WTAHash):
                return cls(own, None, LossScorer(own, query_bits or LEVEL_BITS), guard=guard)
            scorer = scorer_for(own, metric)
            return cls(own, scorer, EstimateScorer(scorer, query_bits or QUERY_BITS), guard=guard)
        except InvalidInputError as error:
            return cls(own, None, None, str(error), isinstance(own, MinHash), guard)

    def encode_rows(
        self, vectors: Any, accept: Accept | None, *, are_first: bool = False
    ) -> EncodedRows:
        """Read, check and encode vectors a batch at a time, all of them before anything changes.

        `accept` turns a batch into what is kept of it, None keeps nothing. The batch itself is let
        go. Of the rows that `are_first` such as codes would not serve are refused.
        """
        if self.takes_sets and not is_matrix(vectors):
            if accept is not None:
                raise InvalidInputError(
                    "vectors must be a matrix, got sets, of which no vectors can be kept. Create "
                    "the collection with vectors=None, or give a CSR matrix."
                )
            return EncodedRows(self.hasher.encode(vectors), None, None)
        source = self.hasher.open_rows(lone_as_row(vectors), "vectors")
        codes: list[Codes] = []
        kept, corrections = StagedVectors(), Pieces()
        lengths = NO_LENGTHS
        for first, batch in source.batches():
            if self.scorer is None:
                codes.append(self.hasher.encode_batch(batch, source.name, first))
            else:
                some, numbers = self.scorer.encode(batch, source.name, first)
                codes.append(some)
                corrections.append(numbers)
            if self.guard is not None and self.guard.watches:
                lengths = lengths.with_rows(batch)
                if are_first:
                    self.guard.require(lengths, source.name)
            if accept is not None:
                kept.append(accept(batch, source.name, first))
        return EncodedRows(
            codes[0] if len(codes) == 1 else Codes.concatenate([self._no_codes(), *codes]),
            None if accept is None else kept,
            None if self.scorer is None else corrections,
            lengths,
        )

    def lengths_warning(self, before: Lengths, new: Lengths) -> str | None:
        """Return what to say of rows that come to others; nothing where it was said before."""
        return None if self.guard is None else self.guard.warning(before, new, "vectors")

    def accept_codes(self, codes: Any, corrections: Any, *, keeps_vectors: bool) -> EncodedRows:
        """Check codes that were made elsewhere, and corrections of them where the collection keeps
        those; None takes the usual ones, if there are any.
        """
        codes = self.require_own(require_codes(codes, "codes"), "codes")
        if keeps_vectors:
            raise InvalidInputError(
                "codes have no vectors, and this collection keeps some for the exact stage. Create "
                "it with vectors=None, or add the vectors."
            )
        if self.scorer is None:
            if corrections is not None:
                raise InvalidInputError(
                    "corrections must be None in this collection, "
                    + (
                        f"which makes no estimates: {self.why_not}"
                        if self.row_scorer is None
                        else "whose rows are scored by their codes alone."
                    )
                )
            return EncodedRows(codes, None, None)
        if corrections is None:
            kept = self.scorer.usual_corrections(len(codes))
            if kept is None:
                raise InvalidInputError(
                    "corrections must be given with codes in this collection, whose estimates need "
                    "two numbers a row. Make them from the vectors by bitkin.corrections(hasher, "
                    f"vectors, metric={self.scorer.metric!r}). Only a SignHash under "
                    "metric='cosine' can do without."
                )
        else:
            kept = require_corrections(corrections, codes, self.scorer.metric)
        staged = Pieces()
        staged.append(kept)
        return EncodedRows(codes, None, staged)

    def require_own(self, codes: Codes, name: str) -> Codes:
        """Return codes of this hasher, or of unknown origin and its shape, as its own."""
        require_comparable(self.hasher.spec_, self.hasher.fingerprint_, codes, name)
        return codes.with_fingerprint(self.hasher.fingerprint_)

    def encode_queries(
        self, batch: Batch, name: str, first: int, *, prepare: bool
    ) -> tuple[Codes, ScoredQueries | None]:
        """Return the codes of a batch of queries and, to `prepare` estimates, what those need."""
        scorer = self.row_scorer if prepare else None
        return encode_queries(self.hasher, scorer, batch, name, first)

    def _no_codes(self) -> Codes:
        spec = self.hasher.spec_
        nothing = np.empty((0, spec.n_symbols), dtype=np.uint8)
        return Codes.from_symbols(
            nothing, spec.bits_per_symbol, fingerprint=self.hasher.fingerprint_
        )


def freeze_hasher(hasher: Any) -> Hasher:
    """Return a fitted hasher that is shared with no one."""
    if not isinstance(hasher, Hasher):
        raise InvalidInputError(
            "hasher must be a fitted ProjectionHash, SignHash, WTAHash or MinHash, got "
            f"{type(hasher).__name__}. Fit one, such as bitkin.ProjectionHash().fit(X), or let "
            "bitkin.recommend(X) choose."
        )
    try:
        check_is_fitted(hasher)
    except NotFittedError:
        raise InvalidInputError(
            f"hasher must be fitted, got {hasher!r}, which is not. Call its fit with vectors like "
            "those to come."
        ) from None
    # the model of a stream moves; a snapshot holds its current model without the stream
    return hasher.snapshot() if isinstance(hasher, ProjectionHash) else copy.deepcopy(hasher)
