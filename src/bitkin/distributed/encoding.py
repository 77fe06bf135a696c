"""`encode`: the codes of rows that a cluster holds, made where the rows are when they are asked
for.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any

import dask
import dask.array
import numpy as np
from dask.delayed import Delayed, delayed
from distributed import Client, get_client
from sklearn.utils.validation import check_is_fitted

from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.distributed.cluster import (
    Progress,
    block,
    collect,
    current_client,
    require_same_bitkin,
    results_in_order,
)
from bitkin.distributed.code_files import prepare_folder, write_codes
from bitkin.distributed.partitions import find_partitions
from bitkin.distributed.pieces import encode_batches, no_codes
from bitkin.errors import InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.hashers.encoding import code_tensors, codes_file
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.input_files import VectorFileOptions
from bitkin.io.partial import PartialFile


def encode(
    hasher: Hasher,
    X: Any,
    *,
    column: str | None = None,
    dataset: str | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
) -> ShardedCodes:
    """Return the codes of vectors that a cluster holds, which are made when they are asked for.

    Parameters
    ----------
    hasher : Hasher
        Fitted; every partition is encoded by this one.
    X, column, dataset, n_features, zero_based
        As `bitkin.distributed.fit` takes them. Only files, and data frames, are looked at now.

    Examples
    --------
    >>> import bitkin, dask.array as da
    >>> X = da.random.default_rng(0).standard_normal((1000, 16), chunks=(250, -1))
    >>> hasher = bitkin.ProjectionHash(n_bits=8, projection="random").fit(X[:250].compute())
    >>> codes = bitkin.distributed.encode(hasher, X)
    >>> codes
    ShardedCodes(4 partitions, 1,000 rows, 8 × 1-bit, not made yet)
    >>> codes.compute() == hasher.encode(X.compute())
    True
    >>> codes.to_dask_array()[:2].compute().shape
    (2, 1)
    """
    if not isinstance(hasher, Hasher):
        raise InvalidInputError(
            "hasher must be a ProjectionHash, WTAHash, MinHash or SignHash, got a "
            f"{type(hasher).__name__}."
        )
    check_is_fitted(hasher)
    if isinstance(hasher, ProjectionHash):
        hasher = hasher.snapshot()  # a stream may learn on before the codes are made
    options = VectorFileOptions(None, dataset, n_features, zero_based)
    width = getattr(hasher, "n_features_in_", None)  # a MinHash may be fitted without columns
    partitions = find_partitions(X, compute_anywhere, column=column, options=options, width=width)
    if isinstance(X, dask.array.Array) and X.shape[1] != (width or X.shape[1]):
        raise InvalidInputError(
            f"X must have {width} columns, as the rows that hasher was fitted on, got {X.shape[1]}."
        )
    encoder = delayed(hasher, pure=False, traverse=False)  # sent once, for all pieces
    encoding = delayed(encode_piece, pure=False)
    counts = partitions.counts or [None] * len(partitions.pieces)
    parts = [
        encoding(piece, partitions.name_of(i), partitions.column, encoder, count)
        for i, (piece, count) in enumerate(zip(partitions.pieces, counts, strict=True))
    ]
    return ShardedCodes(parts, hasher, partitions.counts, partitions.stamps, shared=[encoder])


class ShardedCodes:
    """Codes in partitions, which are made when they are asked for; of `bitkin.distributed.encode`.

    Parameters
    ----------
    parts : sequence of Delayed
        What makes the `Codes` of every partition.
    hasher : Hasher
        Fitted, and what makes them.
    counts : sequence of int, or None
        Rows of every partition; None where only reading tells.
    made_of : list, or None
        What tells files from what they were at another time.
    shared : sequence of Delayed
        What all parts need, and workers are sent once.

    Notes
    -----
    `dask.compute` takes the items of `to_delayed`. Codes of data frames are in the order of their
    rows; their index stays with `X`.

    Examples
    --------
    >>> import bitkin, dask.array as da
    >>> X = da.random.default_rng(0).standard_normal((600, 16), chunks=(200, -1))
    >>> hasher = bitkin.ProjectionHash(n_bits=64, projection="random").fit(X.compute())
    >>> codes = bitkin.distributed.encode(hasher, X)
    >>> codes.n_partitions, codes.counts, codes.to_dask_array().chunks
    (3, (200, 200, 200), ((200, 200, 200), (8,)))
    """

    def __init__(
        self,
        parts: Sequence[Delayed],
        hasher: Hasher,
        counts: Sequence[int] | None,
        made_of: Sequence[Any] | None = None,
        *,
        shared: Sequence[Delayed] = (),
    ) -> None:
        self._parts = tuple(parts)
        self.hasher = hasher
        self.counts = None if counts is None else tuple(counts)
        self._made_of = made_of
        self._shared = tuple(shared)
        self._persisted = False

    @property
    def spec(self) -> CodeSpec:
        """Shape of a code."""
        return self.hasher.spec_

    @property
    def fingerprint(self) -> str:
        """Of the hasher."""
        return self.hasher.fingerprint_

    @property
    def n_partitions(self) -> int:
        """How many partitions there are."""
        return len(self._parts)

    def to_delayed(self) -> list[Delayed]:
        """Return what makes the `Codes` of every partition."""
        return list(self._parts)

    def compute(self) -> Codes:
        """Make all codes, and return them here."""
        return Codes.concatenate(compute_anywhere(self._parts))

    def persist(self) -> ShardedCodes:
        """Make all codes, and keep them where they were made, in memory."""
        held = dask.persist(*self._parts)
        codes = ShardedCodes(held, self.hasher, self.counts, self._made_of)
        codes._persisted = True
        return codes

    def to_dask_array(self) -> dask.array.Array:
        """Return the bytes of the codes as a Dask array: uint8 (n, n_bytes) as of `Codes.to_bytes`,
        a chunk per partition. Rows with nothing to hash are all zeros in it.
        """
        n_bytes, pack = self.spec.n_bytes, delayed(Codes.to_bytes, pure=False)
        meta = np.empty((0, n_bytes), dtype=np.uint8)
        counts: Sequence[float] = self.counts or [np.nan] * self.n_partitions
        blocks = [
            dask.array.from_delayed(pack(part), shape=(n, n_bytes), meta=meta)
            for part, n in zip(self._parts, counts, strict=True)
        ]
        return dask.array.concatenate(blocks, allow_unknown_chunksizes=self.counts is None)

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write a file of codes per partition, part-0.bitkin and so on, and return their paths.

        Workers write them, each aside first and then in place at once. The folder must be new or
        empty.
        """
        return self._write(folder, "bitkin")

    def to_parquet(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write a Parquet file per partition, and return their paths.

        Column `code` has the bytes of `Codes.to_bytes`, fixed_size_binary; `empty` tells rows with
        nothing to hash. Spec and fingerprint are in the metadata of the schema, and
        `read_codes_parquet` makes `Codes` of a file again.
        """
        return self._write(folder, "parquet")

    def save_joined(
        self,
        path: str | os.PathLike[str],
        *,
        fresh: bool = False,
        client: Client | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Write all codes to one file here, as `Codes.save` does, and return the row that this call
        began with.

        Codes come from the workers partition by partition, a few ahead of what is written. After an
        interruption the same call continues where it was, unless `fresh`.
        """
        if self.counts is None:
            raise InvalidInputError(
                "Codes of a data frame cannot be joined in a file: how many there are is not known "
                "before. Use save, for a file per partition."
            )
        client = current_client(client)
        file, counts = codes_file(self.hasher, path), self.counts
        work = {"fingerprint": file.fingerprint, "counts": list(counts), "made_of": self._made_of}
        # what is no file may be something else now
        fresh = fresh or self._made_of is None
        with PartialFile(*file[:5], sum(counts), work, fresh=fresh) as partial:
            begun = partial.rows_done
            ends = list(accumulate(counts))
            # what is written ends with a partition: rows count all together, or not at all
            left = bisect_right(ends, begun)
            results = results_in_order(client, self._parts[left:], self._shared)
            with closing(results) as made:
                for i, codes in enumerate(made, left):
                    partial.append(code_tensors(self.hasher, codes))
                    partial.checkpoint()
                    if progress is not None:
                        progress(i + 1, len(counts))
            partial.finish()
        return begun

    def _write(self, folder: str | os.PathLike[str], form: str) -> list[str]:
        path = str(Path(folder).absolute())  # workers may run elsewhere in the same file system
        compute_anywhere([delayed(prepare_folder, pure=False)(path)])
        write = delayed(write_codes, pure=False)
        return compute_anywhere([write(path, i, part, form) for i, part in enumerate(self._parts)])

    def __len__(self) -> int:
        if self.counts is None:
            raise InvalidInputError(
                "How many rows a data frame has is not known before it is read: count the codes of "
                "compute()."
            )
        return sum(self.counts)

    def __repr__(self) -> str:
        rows = "rows not counted" if self.counts is None else f"{sum(self.counts):,} rows"
        parts = f"{self.n_partitions} partition{'s' * (self.n_partitions != 1)}"
        state = "persisted" if self._persisted else "not made yet"
        return f"ShardedCodes({parts}, {rows}, {self.spec}, {state})"


@block
def encode_piece(
    piece: Any, name: str, column: str | None, hasher: Hasher, n_rows: int | None
) -> Codes:
    """Return the codes of the rows of a piece, which are so many where that is known."""
    parts = [codes for _, codes in encode_batches(piece, name, column, hasher, n_rows)]
    return Codes.concatenate(parts) if parts else no_codes(hasher)


def compute_anywhere(tasks: Sequence[Any]) -> list[Any]:
    """Do tasks where Dask does: on the workers of the client that it knows, or in threads here; and
    where `dask.config` names another scheduler, as that does.
    """
    try:
        client = get_client()
    except ValueError:
        return list(dask.compute(*tasks))
    if dask.config.get("scheduler", None) not in (None, "distributed", "dask.distributed"):
        return list(dask.compute(*tasks))
    require_same_bitkin(client)
    return collect(client, tasks)
