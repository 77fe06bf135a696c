"""An index of what a stream run wrote: codes, models, and corrections or vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bitkin.arrays import Ids
from bitkin.errors import InvalidInputError
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.notices import warn_caller
from bitkin.rescoring.corrections import encode_with_corrections, scorer_for
from bitkin.rescoring.estimate import Corrections, Scorer
from bitkin.stream_files.written import StreamPart, WrittenStream

if TYPE_CHECKING:
    from bitkin.epochs.epoch_index import EpochIndex

_ROWS_AT_ONCE = 1 << 13


def index_stream(stream: WrittenStream, kind: type[EpochIndex], vectors: Any) -> EpochIndex:
    """Return an index of all rows of a stream; see `EpochIndex.from_stream`."""
    index = kind(stream.metric)
    source = None if vectors is None else _open_source(stream, vectors)
    if source is None and not stream.has_corrections:
        raise InvalidInputError(
            f"{stream.path} has no corrections, and without them no distance to its codes can be "
            "estimated. If the stream wrote some, search its state, which knows them, or name the "
            "file (corrections=, --corrections). Give the vectors of the stream else, or have "
            "corrections written with the codes (corrections= of StreamRun, bitkin stream "
            "--corrections)."
        )
    parts = list(stream.parts())
    if source is None:
        _warn_of_random_rows(parts)
    learned = [*(after for _, after in pairwise(parts)), None]
    for part, after in zip(parts, learned, strict=True):
        ids = np.arange(part.first_row, part.first_row + len(part.codes), dtype=np.int64)
        if source is not None and after is not None and part.model.model_.random:
            _add_encoded_again(index, part, after, source, ids)
            continue
        index.begin(part.model)
        kept = part.corrections
        if kept is None and source is not None:
            kept = _corrections_of(source, part, scorer_for(part.model, stream.metric), ids)
        if kept is not None:
            index.add_codes(part.codes, kept, ids)
    return index


def _warn_of_random_rows(parts: Sequence[StreamPart]) -> None:
    """Warn of rows that were coded before anything was learned, where others were coded later."""
    random = sum(len(part.codes) for part in parts if part.model.model_.random)
    n_rows = sum(len(part.codes) for part in parts)
    if 0 < random < n_rows:
        warn_caller(
            f"The first {random:,} of {n_rows:,} rows were coded by random directions, before "
            "anything was learned: their estimates are noisy, and they take places of nearer rows "
            "in answers. Give the vectors of the stream (vectors=, --vectors), and they are coded "
            f"again. Or, in Python, leave them out: index.remove(range({random}))."
        )


def _open_source(stream: WrittenStream, vectors: Any) -> VectorSource:
    source = open_vectors(vectors, name="vectors")
    if source.shape[0] is not None and source.shape[0] < stream.n_rows:
        raise InvalidInputError(
            f"vectors must be all of the stream, got {source.shape[0]:,} for {stream.n_rows:,} "
            "codes."
        )
    return source


def _add_encoded_again(
    index: EpochIndex, part: StreamPart, after: StreamPart, source: VectorSource, ids: Ids
) -> None:
    """Add the rows of random directions as those of the model that came after them."""
    index.begin(after.model)
    scorer = scorer_for(after.model, index.metric)
    usable = ids[~part.codes.empty_rows()]
    for first in range(0, len(usable), _ROWS_AT_ONCE):
        some = usable[first : first + _ROWS_AT_ONCE]
        codes, kept = encode_with_corrections(scorer, source.gather(some), source.name)
        index.add_codes(codes, kept, some)


def _corrections_of(
    source: VectorSource, part: StreamPart, scorer: Scorer, ids: Ids
) -> Corrections:
    """Return the corrections of the rows of one epoch; zeros for vectors that were skipped."""
    kept = np.zeros((len(ids), 2), dtype=np.float32)
    usable = np.flatnonzero(~part.codes.empty_rows())
    for first in range(0, len(usable), _ROWS_AT_ONCE):
        some = usable[first : first + _ROWS_AT_ONCE]
        kept[some] = scorer.corrections(source.gather(ids[some]), source.name, ids[some])
    return kept
