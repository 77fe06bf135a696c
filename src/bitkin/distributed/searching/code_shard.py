"""CodeShard: codes or an index of codes as a worker holds them."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bitkin._load import load
from bitkin.arguments import PYTHON
from bitkin.arrays import Ids
from bitkin.codes import Codes
from bitkin.distributed.cluster import block
from bitkin.distributed.code_files import read_codes_parquet
from bitkin.distributed.folders import PARQUET, missing_on_worker
from bitkin.distributed.searching.sources import (
    CodeFile,
    ShardHeader,
    require_codes_of_dask,
)
from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError
from bitkin.file_search.rows import FileRows, FileVectors
from bitkin.hashers.lengths import NO_LENGTHS, Lengths
from bitkin.index.base import RowIndex
from bitkin.index.flat import FlatIndex
from bitkin.index.results import Neighbors, RaggedNeighbors
from bitkin.io.layout import checksum
from bitkin.io.reader import read_file
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.rescoring.funnel import Funnel
from bitkin.rescoring.row_lengths import sample_lengths

_BYTES_PER_ID = 8


class VectorQueries(NamedTuple):
    """Queries, and their codes."""

    vectors: Any
    codes: Codes


class CodeShard:
    """An index on a worker that knows where it comes from.

    A copy on another worker, or one that Dask has put on disk, holds nothing at first: it is read
    from its source again when it is asked. So a shard is never sent, and what was lost with a
    worker comes back from the file.
    """

    def __init__(
        self, source: CodeFile | None, header: ShardHeader, index: RowIndex | None = None
    ) -> None:
        self.header = header
        self._source = source
        self._index = index
        self._rows: FileRows | None = None
        self._lock = threading.Lock()

    @property
    def index(self) -> RowIndex:
        """The index, loaded when it is first asked for."""
        with self._lock:
            if self._index is None:
                if self._source is None:
                    raise InvalidInputError("source must be known to load a shard.")
                self._index = _load_index(self._source, self.header)
            return self._index

    def nearest(self, queries: Codes, k: int, allow: Ids | None, first_id: int) -> Neighbors:
        """Return the k nearest rows of every query, whose ids are counted from `first_id`."""
        found = self.index.search(queries, k, allow=None if allow is None else allow - first_id)
        found.ids[found.ids >= 0] += first_id
        return found

    def within_radius(
        self, queries: Codes, radius: int, allow: Ids | None, first_id: int
    ) -> RaggedNeighbors:
        """Return all rows within `radius` of every query, whose ids are counted from `first_id`."""
        allow = None if allow is None else allow - first_id
        found = self.index.search_radius(queries, radius, allow=allow)
        return found._replace(ids=found.ids + first_id)

    def nearest_by_vectors(
        self, queries: VectorQueries, funnel: Funnel, allow: Ids | None, first_id: int
    ) -> Neighbors:
        """Return what comes out of the funnel, whose ids are counted from `first_id`."""
        rows = self._rows_with_vectors()
        allow = None if allow is None else allow - first_id
        found = funnel.nearest(rows, queries.vectors, queries.codes, allow)
        found.ids[found.ids >= 0] += first_id
        return found

    def _rows_with_vectors(self) -> FileRows:
        index = self.index
        with self._lock:
            if self._rows is None:
                if self._source is None or self._source.vectors is None:
                    raise InvalidInputError("vectors must be given to measure rows by them.")
                vectors = _open_vectors(self._source.vectors)
                self._rows = FileRows(index, FileVectors(vectors, None, index, PYTHON), None)
            return self._rows

    def id_keys(self, low: int, high: int, first_id: int) -> Ids:
        """Return the ids from `low` up to `high`, ascending."""
        ids = self.index.ids
        first = np.searchsorted(ids, low - first_id, side="left")
        last = np.searchsorted(ids, high - first_id, side="right")
        return ids[first:last] + first_id

    def name_of(self, key: int) -> int:
        """Return the id that has this key: ids are their own."""
        return key

    def verify(self) -> None:
        """Check everything that can be checked, the file it came from included."""
        if self._source is not None:
            _load_index(self._source._replace(mmap=False), self.header)
        self.index.verify()

    def __sizeof__(self) -> int:
        index = self._index
        return self.header.n_bytes if index is None else index.nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        if self._source is None:  # of codes that were computed
            return CodeShard, (None, self.header, self.index)
        return CodeShard, (self._source, self.header)


@block
def describe_code_file(source: CodeFile) -> ShardHeader:
    """Return what a file says of its codes."""
    opened, contents = _open_file(source.path)
    if isinstance(opened, Codes):
        header = _header_of_codes(opened, source.path, contents)
        return header if source.vectors is None else _with_vectors(header, source.vectors)
    if source.vectors is not None:
        raise InvalidInputError(
            f"vectors must go with files of codes, row by row, and {source.path} holds "
            f"{type(opened).__name__}."
        )
    if not isinstance(opened, RowIndex):
        raise InvalidInputError(
            f"{source.path} holds {type(opened).__name__}, neither codes nor an index of codes."
        )
    ids = opened.ids
    return ShardHeader(
        source.path,
        len(opened),
        opened.nbytes,
        opened.spec,
        opened.fingerprint,
        low=int(ids[0]) if len(ids) else 0,
        high=int(ids[-1]) if len(ids) else -1,
        next_id=opened.snapshot.next_id,
        own_ids=True,
        contents=contents,
    )


@block
def lengths_in_file(source: CodeFile, at_most: int) -> Lengths:
    """Return the lengths of some of the vectors that go with a file of codes."""
    if source.vectors is None:
        return NO_LENGTHS
    with _open_vectors(source.vectors) as vectors:
        return sample_lengths(vectors, at_most)


@block
def load_code_shard(source: CodeFile, header: ShardHeader) -> CodeShard:
    """Return a shard with its index in memory."""
    shard = CodeShard(source, header)
    _ = shard.index
    return shard


@block
def index_codes(codes: Any, name: str) -> CodeShard:
    """Return a shard of codes that Dask computed."""
    codes = require_codes_of_dask(codes, name)
    return CodeShard(None, _header_of_codes(codes, name, None), _index_of(codes))


@block
def header_of(shard: CodeShard) -> ShardHeader:
    """Return what is known of a shard."""
    return shard.header


def _header_of_codes(codes: Codes, name: str, contents: str | None) -> ShardHeader:
    n = len(codes)
    return ShardHeader(
        name,
        n,
        codes.nbytes + _BYTES_PER_ID * n,
        codes.spec,
        codes.fingerprint,
        low=0,
        high=n - 1,
        next_id=n,
        contents=contents,
    )


def _with_vectors(header: ShardHeader, path: str) -> ShardHeader:
    """Return what is known of codes and of their vectors in a file."""
    with _open_vectors(path) as vectors:
        if len(vectors) != header.n_rows:
            raise InvalidInputError(
                f"vectors must be those of the codes, row by row: {header.name} has "
                f"{header.n_rows} rows, {path} {len(vectors)}. Give as many files as of codes, in "
                "the same order."
            )
        return replace(header, settings={"n_features": vectors.shape[1]})


def _open_vectors(path: str) -> VectorSource:
    try:
        return open_vectors(path)
    except FileAccessError as error:
        raise missing_on_worker(error) from None


def _open_file(path: str) -> tuple[Any, str]:
    """Return what a file holds, mapped where it can be, and what tells that from all else."""
    try:
        if path.endswith(PARQUET):
            codes = read_codes_parquet(path)
            sums = checksum(codes.words.data), checksum(codes.empty_rows().data)
            return codes, f"{codes.spec} {codes.fingerprint} {len(codes)} {sums}"
        return load(path, mmap=True), read_file(path, mmap=True).contents
    except FileAccessError as error:
        raise missing_on_worker(error) from None


def _load_index(source: CodeFile, header: ShardHeader) -> RowIndex:
    opened, contents = _open_file(source.path)
    if contents != header.contents:
        raise CorruptFileError(
            f"{source.path} holds something else than when it was opened. Open the shards again."
        )
    if isinstance(opened, Codes):  # copied out of the mapped file, and never held twice
        opened.verify()
        return _index_of(opened)
    index: RowIndex = opened if source.mmap else load(source.path)
    return index


def _index_of(codes: Codes) -> FlatIndex:
    index = FlatIndex(codes.spec)
    index.add(codes)
    return index
