"""`encode`: the codes of rows that a cluster holds, made where the rows are when they are asked
for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import dask
import dask.array
import numpy as np
from dask.delayed import Delayed, delayed
from distributed import get_client
from sklearn.utils.validation import check_is_fitted

from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.distributed.cluster import block, collect, require_same_bitkin
from bitkin.distributed.code_files import prepare_folder, write_codes
from bitkin.distributed.partitions import find_partitions
from bitkin.distributed.pieces import encode_batches
from bitkin.errors import InvalidInputError
from bitkin.hashers.base import Hasher
from bitkin.hashers.projection.projection_hash import ProjectionHash
from bitkin.input_files import VectorFileOptions


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
    partitions = find_partitions(X, compute_anywhere, column=column, options=options)
    width = getattr(X, "shape", (0, None))[1] if isinstance(X, dask.array.Array) else None
    if width is not None and width != getattr(hasher, "n_features_in_", width):
        raise InvalidInputError(
            f"X must have {hasher.n_features_in_} columns, as the rows that hasher was fitted on, "
            f"got {width}."
        )
    encoder = delayed(hasher, pure=False, traverse=False)  # sent once, for all pieces
    encoding = delayed(encode_piece, pure=False)
    parts = [
        encoding(piece, partitions.name_of(i), partitions.column, encoder)
        for i, piece in enumerate(partitions.pieces)
    ]
    return ShardedCodes(parts, hasher.spec_, hasher.fingerprint_, partitions.counts)


class ShardedCodes:
    """Codes in partitions, which are made when they are asked for; of `bitkin.distributed.encode`.

    Parameters
    ----------
    parts : sequence of Delayed
        What makes the `Codes` of every partition.
    spec : CodeSpec
    fingerprint : str or None
        Of the hasher.
    counts : sequence of int, or None
        Rows of every partition; None where only reading tells.

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
        spec: CodeSpec,
        fingerprint: str | None,
        counts: Sequence[int] | None,
    ) -> None:
        self._parts = tuple(parts)
        self.spec = spec
        self.fingerprint = fingerprint
        self.counts = None if counts is None else tuple(counts)

    @property
    def n_partitions(self) -> int:
        """How many partitions there are."""
        return len(self._parts)

    def to_delayed(self) -> list[Delayed]:
        """Return what makes the `Codes` of every partition."""
        return list(self._parts)

    def compute(self) -> Codes:
        """Make all codes, and return them here."""
        if not self._parts:
            nothing = np.empty((0, self.spec.n_symbols), dtype=np.uint8)
            codes = Codes.from_symbols(nothing, self.spec.bits_per_symbol)
            return codes.with_fingerprint(self.fingerprint)
        return Codes.concatenate(compute_anywhere(self._parts))

    def persist(self) -> ShardedCodes:
        """Make all codes, and keep them where they were made, in memory."""
        held = dask.persist(*self._parts)
        return ShardedCodes(held, self.spec, self.fingerprint, self.counts)

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
        if not blocks:
            return dask.array.zeros((0, n_bytes), dtype=np.uint8)
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

    def _write(self, folder: str | os.PathLike[str], form: str) -> list[str]:
        path = os.fspath(folder)
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
        return f"ShardedCodes({parts}, {rows}, {self.spec}, not made yet)"


@block
def encode_piece(piece: Any, name: str, column: str | None, hasher: Hasher) -> Codes:
    """Return the codes of the rows of a piece."""
    parts = [codes for _, codes in encode_batches(piece, name, column, hasher)]
    if parts:
        return Codes.concatenate(parts)
    return hasher.encode(np.empty((0, hasher.n_features_in_), dtype=np.float32))


def compute_anywhere(tasks: Sequence[Any]) -> list[Any]:
    """Do tasks where Dask does: on the workers of the client that it knows, or in threads here."""
    try:
        client = get_client()
    except ValueError:
        return list(dask.compute(*tasks))
    require_same_bitkin(client)
    return collect(client, tasks)
