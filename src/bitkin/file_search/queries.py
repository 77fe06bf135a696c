"""What a search loads: a model, an index, and queries that are codes or vectors to be encoded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bitkin._load import load
from bitkin.arguments import PYTHON, ArgumentSpelling
from bitkin.codes import Codes
from bitkin.errors import ArgumentError, InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.index.base import RowIndex
from bitkin.input_files import VectorFileOptions, open_queries
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.formats import has_vector_suffix
from bitkin.rescoring.row_scorer import RowScorer, ScoredQueries, encode_queries
from bitkin.timings import Timings


def load_index(path: Path) -> RowIndex:
    """Map an index of any kind."""
    opened = load(path, mmap=True)
    if not isinstance(opened, RowIndex):
        raise InvalidInputError(
            f"{path} holds {type(opened).__name__}, not an index. Make one with bitkin index."
        )
    return opened


class QueryBatch(NamedTuple):
    """Some queries."""

    vectors: Any
    """None where all that is known of queries is their codes."""
    codes: Codes
    prepared: ScoredQueries | None = None
    """What scores are computed from, where there will be any."""
    first: int = 0
    """The number of the first of them."""


class QueryBatches(NamedTuple):
    """Queries to come."""

    batches: Iterator[QueryBatch]
    total: int


def read_codes(
    path: Path, options: VectorFileOptions, rows: int, spelling: ArgumentSpelling = PYTHON
) -> QueryBatches:
    """Return queries that are codes, so many at a time."""
    for argument, value in options._asdict().items():
        if value is not None:
            raise ArgumentError(f"means nothing without {spelling.name('model')}.", argument)
    codes = None if has_vector_suffix(path) else load(path)
    if not isinstance(codes, Codes):
        raise InvalidInputError(
            f"{path} holds no codes. Give the model that encodes the queries with "
            f"{spelling.name('model')}."
        )
    parts = (QueryBatch(None, codes[i : i + rows]) for i in range(0, len(codes), rows))
    return QueryBatches(parts, len(codes))


def encode_vectors(
    path: Path,
    options: VectorFileOptions,
    hasher: Hasher,
    scorer: RowScorer | None,
    rows: int,
    timings: Timings,
) -> QueryBatches:
    """Return queries that are vectors, encoded and, with a scorer, prepared for it, so many at a
    time.
    """
    source = open_queries(path, options, hasher)
    hasher.require_features(source)

    def encode_batches() -> Iterator[QueryBatch]:
        for first, batch in source.batches(rows=rows):
            if first == 0:  # loads and compiles kernels, outside the clock
                encode_queries(hasher, scorer, batch, source.name, first)
            start = time.perf_counter()
            codes, prepared = encode_queries(hasher, scorer, batch, source.name, first)
            timings.add("encode", start, len(codes), len(codes))
            yield QueryBatch(batch, codes, prepared, first)

    return QueryBatches(encode_batches(), len(source))


def open_encoded_vectors(
    paths: Sequence[Path], options: VectorFileOptions, queries: Path, hasher: Hasher
) -> VectorSource:
    """Open the vectors that were encoded; the options are meant for them too where the format is
    that of queries.
    """
    alike = all(path.suffix == queries.suffix for path in paths)
    source = (options if alike else VectorFileOptions()).open(paths, hasher)
    hasher.require_features(source)
    return source
