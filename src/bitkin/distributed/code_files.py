"""Codes of partitions in files that workers write: our own, or Parquet for other programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import shown
from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.distributed.cluster import block
from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError, MissingExtraError

_KEY = b"bitkin"  # of the schema's metadata


@block
def prepare_folder(folder: str) -> None:
    """Make a folder for files of codes; raise where it holds anything."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        inside = next(path.iterdir(), None)
    except OSError as error:
        raise FileAccessError(f"{path} cannot be a folder of codes: {error.strerror}.") from None
    if inside is not None:
        raise InvalidInputError(
            f"folder must be new or empty, got {path} with {shown(inside.name)} in it."
        )


@block
def write_codes(folder: str, number: int, codes: Codes, form: str) -> str:
    """Write the codes of a partition, and return the path."""
    path = Path(folder) / f"part-{number}.{form}"
    if form == "bitkin":
        codes.save(path)
    else:
        _write_parquet(path, codes)
    return str(path)


def read_codes_parquet(path: str | os.PathLike[str]) -> Codes:
    """Return the codes of a Parquet file that `ShardedCodes.to_parquet` wrote.

    Examples
    --------
    >>> import tempfile, dask.array as da, bitkin
    >>> X = da.random.default_rng(0).standard_normal((600, 16), chunks=(300, -1))
    >>> hasher = bitkin.ProjectionHash(n_bits=64, projection="random").fit(X.compute())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = bitkin.distributed.encode(hasher, X).to_parquet(folder)
    ...     bitkin.distributed.read_codes_parquet(paths[1]) == hasher.encode(X[300:].compute())
    True
    """
    parquet = _pyarrow("pyarrow.parquet")
    try:
        table = parquet.ParquetFile(os.fspath(path)).read()
    except OSError as error:
        raise FileAccessError(f"{os.fspath(path)} cannot be read: {error}.") from None
    except ValueError as error:  # as all of pyarrow's own errors are
        raise CorruptFileError(f"{os.fspath(path)} is no Parquet file: {error}.") from None
    try:
        said = json.loads((table.schema.metadata or {})[_KEY])
        spec = CodeSpec(said["n_symbols"], said["bits_per_symbol"])
        packed = np.empty((len(table), spec.n_bytes), dtype=np.uint8)
        stop = 0
        for chunk in table.column("code").chunks:
            start, stop = stop, stop + len(chunk)
            packed[start:stop] = _bytes_of(chunk, spec.n_bytes)
        codes = Codes.from_bytes(packed, spec)
        empty = None
        if "empty" in table.column_names:
            empty = table.column("empty").to_numpy().astype(bool, copy=False)
        return Codes(codes.words, spec, empty=empty, fingerprint=said["fingerprint"])
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            f"{os.fspath(path)} is no file of codes that ShardedCodes.to_parquet wrote: {error}."
        ) from None


def _bytes_of(chunk: Any, n_bytes: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of codes in a chunk of a column, which are not copied."""
    if chunk.null_count or str(chunk.type) != f"fixed_size_binary[{n_bytes}]":
        raise ValueError(f"codes must be {n_bytes} bytes each, got {chunk.type}")
    held = np.frombuffer(chunk.buffers()[1] or b"", dtype=np.uint8)
    first = chunk.offset * n_bytes
    return held[first : first + len(chunk) * n_bytes].reshape(len(chunk), n_bytes)


def _write_parquet(path: Path, codes: Codes) -> None:
    arrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    kind = arrow.binary(codes.spec.n_bytes)
    packed = arrow.py_buffer(np.ascontiguousarray(codes.to_bytes()))
    columns = {"code": arrow.FixedSizeBinaryArray.from_buffers(kind, len(codes), [None, packed])}
    if codes.empty is not None:
        columns["empty"] = arrow.array(codes.empty)
    said = {
        "n_symbols": codes.spec.n_symbols,
        "bits_per_symbol": codes.spec.bits_per_symbol,
        "fingerprint": codes.fingerprint,
    }
    table = arrow.table(columns).replace_schema_metadata({_KEY: json.dumps(said).encode()})
    # aside first: whoever lists the folder finds whole files alone
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        parquet.write_table(table, aside)
        aside.replace(path)
    except OSError as error:
        raise FileAccessError(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        aside.unlink(missing_ok=True)


def _pyarrow(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(
            "Parquet files need pyarrow, which is not installed: pip install 'bitkin[io]'"
        ) from None
