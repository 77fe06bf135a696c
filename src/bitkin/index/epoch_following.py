"""The write of a stream: a live hasher codes vectors and learns from them; codes join the epochs that made them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.hashers.projection_hash import ProjectionHash
from bitkin.hashers.streams.epoch_codes import EpochCodes
from bitkin.index.epoch_state import State, begun, new_ids, scorer_in, with_codes
from bitkin.index.estimate import Corrections, Scorer
from bitkin.index.segment import Ids
from bitkin.io.vectors.batch import Batch, plain_batch
from bitkin.notices import warn_caller


def undone_on_error(hasher: Any) -> AbstractContextManager[None]:
    """Return a context in which a live hasher, one that has learned directions already, learns all or nothing."""
    if not isinstance(hasher, ProjectionHash) or not hasher._can_follow():
        raise InvalidInputError(
            "hasher must be a ProjectionHash that goes on learning, with projection='opast' or 'frequent-directions' "
            f"and a rotation other than 'itq', got {hasher!r}. Rows of other hashers are added by add(hasher, vectors)."
        )
    if (hasher.epochs if hasher._live is None else hasher._live.settings.epochs) is None:
        raise InvalidInputError(
            "hasher must have epochs, got epochs=None: codes of a model that moves cannot be searched. Make it with "
            "epochs='request'."
        )
    if hasher._live is None or hasher._live.warming_up:
        raise InvalidInputError(
            "hasher must have learned directions before it is followed; it still codes by random ones, and such rows "
            "would crowd out better ones in every search. Let it learn from the first vectors by hasher.fit(first), or "
            "by partial_fit and new_epoch(), and add those by index.add(hasher.epoch_, first)."
        )
    return hasher._as_before_on_error()


def followed(
    state: State, hasher: ProjectionHash, vectors: Any, ids: npt.ArrayLike | None, metric: str, strict: bool
) -> tuple[State, Ids]:
    """Return the state with all vectors as the hasher coded them on its way, and their ids."""
    of_epochs, n_rows = EpochCodes(hasher, strict=strict), 0
    parts: list[tuple[Codes, Corrections]] = []
    for item in hasher._stream_batches(vectors):
        for snapshot, codes, rows in of_epochs.of(item):
            scorer = scorer_in(state, snapshot, metric, "hasher")
            state = begun(state, scorer)
            parts.append((codes, _corrections(scorer, codes, rows, n_rows)))
            n_rows += len(codes)
    new, first = new_ids(state, n_rows, ids), 0
    for _, same in groupby(parts, key=lambda part: part[0].fingerprint):  # an epoch that has ended does not come back
        every, numbers = zip(*same, strict=True)
        codes = Codes.concatenate(every)
        state = with_codes(state, codes, np.concatenate(numbers), new[first : first + len(codes)])
        first += len(codes)
    if any(codes.empty_rows().any() for codes, _ in parts):
        warn_caller(
            "Vectors that are not finite in float32 were skipped: nothing is learned from them, and their ids are "
            "never found. `n_skipped_` of the hasher counts them; strict=True makes them an error."
        )
    return state, new


def _corrections(scorer: Scorer, codes: Codes, rows: Batch, first: int) -> Corrections:
    """Return the corrections of rows, the first of which is row `first` of the call; zeros where a code is empty."""
    rows = plain_batch(rows, rows.dtype)
    if codes.empty is None:
        return scorer.corrections(rows, "vectors", first)
    numbers = np.zeros((len(codes), 2), dtype=np.float32)
    usable = np.flatnonzero(~codes.empty)
    numbers[usable] = scorer.corrections(rows[usable], "vectors", first + usable)
    return numbers
