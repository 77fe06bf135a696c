"""The write of a stream: a live hasher codes vectors and learns from them; codes join the epochs
that made them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from bitkin.arrays import Batch, Ids
from bitkin.codes import Codes
from bitkin.epochs.state import State, find_scorer, new_ids, with_codes, with_epoch
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.epoch_codes import EpochCodes
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.io.vectors.batch import plain_batch
from bitkin.notices import warn_caller
from bitkin.rescoring.estimate import Corrections, Scorer


class CodedPart(NamedTuple):
    """Rows that one epoch of a stream coded."""

    scorer: Scorer
    codes: Codes
    corrections: Corrections


def require_followable(hasher: Any) -> ProjectionHash:
    """Return a live hasher that has epochs and has learned directions already."""
    if not isinstance(hasher, ProjectionHash) or not hasattr(hasher, "sketch_stream"):
        raise InvalidInputError(
            "hasher must be a ProjectionHash that goes on learning, with projection='opast' or "
            f"'frequent-directions' and a rotation other than 'auto' and 'itq', got "
            f"{hasher!r}. Rows of other hashers are added by add(hasher, vectors)."
        )
    stream = getattr(hasher, "stream_", None)
    if (hasher.epochs if stream is None else stream.recipe.epochs) is None:
        raise InvalidInputError(
            "hasher must have epochs, got epochs=None: codes of a model that moves cannot be "
            "searched. Make it with epochs='auto'."
        )
    if stream is None or stream.warming_up:
        raise InvalidInputError(
            "hasher must have learned directions before it is followed; it still codes by random "
            "ones, and such rows would crowd out better ones in every search. Let it learn from "
            "the first vectors by hasher.fit(first), or by partial_fit and new_epoch(), and add "
            "those by index.add(hasher.epoch_, first)."
        )
    return hasher


def coded_by_stream(
    state: State,
    hasher: ProjectionHash,
    vectors: Any,
    metric: str,
    strict: bool,
    look_at: Callable[[Batch], None],
) -> list[CodedPart]:
    """Let the hasher code all vectors and learn from them; return the codes with the scorers of
    their epochs. Rows that were not skipped are shown to `look_at`.

    Scorers that `state` holds already are taken from there.
    """
    parts: list[CodedPart] = []
    n_rows = 0
    for snapshot, codes, rows in EpochCodes(hasher, strict=strict).sketch_stream(vectors):
        if parts and parts[-1].codes.fingerprint == codes.fingerprint:
            scorer = parts[-1].scorer
        else:
            scorer = find_scorer(state, snapshot, metric, "hasher")
        usable = np.flatnonzero(~codes.empty_rows())
        plain = plain_batch(rows, rows.dtype)
        plain = plain if len(usable) == len(codes) else plain[usable]
        look_at(plain)
        # a vector that was skipped has no corrections; zeros
        # stand for them, and its row is never found
        kept = np.zeros((len(codes), 2), dtype=np.float32)
        kept[usable] = scorer.corrections(plain, "vectors", n_rows + usable)
        parts.append(CodedPart(scorer, codes, kept))
        n_rows += len(codes)
    if any(part.codes.empty_rows().any() for part in parts):
        warn_caller(
            "Vectors that are not finite in float32 were skipped: nothing is learned from them, "
            "and their ids are never found. `n_skipped_` of the hasher counts them; strict=True "
            "makes them an error."
        )
    return parts


def with_parts(state: State, parts: Sequence[CodedPart], given: Ids | None) -> tuple[State, Ids]:
    """Return the state with all rows of a stream, and their ids: those given, or the next
    numbers.
    """
    new, first = new_ids(state, sum(len(part.codes) for part in parts), given), 0
    # An epoch that has ended does not come back.
    for _, same in groupby(parts, key=lambda part: part.codes.fingerprint):
        scorers, codes, corrections = zip(*same, strict=True)
        joined = Codes.concatenate(codes)
        stop = first + len(joined)
        state = with_codes(
            with_epoch(state, scorers[0]), joined, np.concatenate(corrections), new[first:stop]
        )
        first = stop
    return state, new
