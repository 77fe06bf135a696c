"""Rows of a collection as columns of a .parquet file. Needs pyarrow.

`id`; a column per declared field; `metadata`, JSON of the rest; `vector`, lists of one length of
float32, or of csr the structure `indices` and `values`; `code`, bytes; `corrections` where codes
are all that is kept. What the codes were made by stands in the metadata of the schema.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from bitkin.collection.metadata.documents import encode_metadata
from bitkin.collection.transfer.leaving import LeavingRows, RowsToExport, code_bytes
from bitkin.errors import MissingExtraError
from bitkin.io.writer import write_aside

ABOUT = b"bitkin"  # key of what a file says about itself
FORMAT = 1


def write_parquet(
    rows: RowsToExport, path: Path, progress: Callable[[int, int], None] | None
) -> None:
    """Write all rows, a row group per piece."""
    arrow, parquet = _load("pyarrow"), _load("pyarrow.parquet")
    schema = _schema(arrow, rows)
    # dictionaries pay for text that repeats, and never for vectors
    repeated = [name for name, kind in rows.columns.items() if kind == "str"]

    def write_to(file: IO[bytes]) -> None:
        done = 0
        with parquet.ParquetWriter(file, schema, use_dictionary=repeated or False) as writer:
            for piece in rows.pieces():
                writer.write_batch(_as_batch(arrow, schema, rows, piece))
                done += len(piece.ids)
                if progress is not None:
                    progress(done, len(rows))

    write_aside(path, write_to)


def _schema(arrow: Any, rows: RowsToExport) -> Any:
    kinds = {
        "int": arrow.int64(),
        "float": arrow.float64(),
        "bool": arrow.bool_(),
        "str": arrow.string(),
    }
    settings, spec = rows.settings, rows.now.coded.spec
    columns = [("id", arrow.string() if settings.ids == "str" else arrow.int64())]
    columns += [(name, kinds[kind]) for name, kind in rows.columns.items()]
    if rows.has_metadata:
        columns.append(("metadata", arrow.string()))
    if settings.vectors == "csr":
        parts = {"indices": arrow.list_(arrow.int32()), "values": arrow.list_(arrow.float32())}
        columns.append(("vector", arrow.struct(list(parts.items()))))
    elif rows.keeps_vectors:
        columns.append(("vector", arrow.list_(arrow.float32(), rows.n_features)))
    columns.append(("code", arrow.binary()))
    if rows.has_corrections:
        columns.append(("corrections", arrow.list_(arrow.float32(), 2)))
    about = {
        "format": FORMAT,
        "fingerprint": rows.now.coded.fingerprint,
        "n_symbols": spec.n_symbols,
        "bits_per_symbol": spec.bits_per_symbol,
        "vectors": settings.vectors,
        "n_features": rows.n_features,
        "metric": settings.metric,
    }
    return arrow.schema(columns).with_metadata({ABOUT: json.dumps(about)})


def _as_batch(arrow: Any, schema: Any, rows: RowsToExport, piece: LeavingRows) -> Any:
    values, rests = piece.split(rows.columns)
    found: dict[str, Any] = {"id": arrow.array(piece.ids.tolist(), schema.field("id").type)}
    for place, name in enumerate(rows.columns):
        found[name] = arrow.array([one[place] for one in values], schema.field(name).type)
    if rows.has_metadata:
        texts = [encode_metadata(rest, row) if rest else None for row, rest in enumerate(rests)]
        found["metadata"] = arrow.array(texts, arrow.string())
    if rows.settings.vectors == "csr":
        found["vector"] = _sparse_lists(arrow, piece.vectors)
    elif piece.vectors is not None:
        found["vector"] = _lists(arrow, piece.vectors)
    found["code"] = arrow.array(code_bytes(piece.codes), arrow.binary())
    if piece.corrections is not None:
        found["corrections"] = _lists(arrow, piece.corrections)
    return arrow.record_batch([found[name] for name in schema.names], schema=schema)


def _lists(arrow: Any, rows: Any) -> Any:
    numbers = np.ascontiguousarray(rows, dtype=np.float32)
    flat = arrow.array(numbers.reshape(-1))
    return arrow.FixedSizeListArray.from_arrays(flat, numbers.shape[1])


def _sparse_lists(arrow: Any, rows: Any) -> Any:
    ends = arrow.array(rows.indptr.astype(np.int32))
    columns = arrow.array(rows.indices.astype(np.int32))
    values = arrow.array(rows.data.astype(np.float32))
    lists = [arrow.ListArray.from_arrays(ends, part) for part in (columns, values)]
    return arrow.StructArray.from_arrays(lists, ["indices", "values"])


def _load(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(
            "Writing .parquet files needs pyarrow, which is not installed: pip install 'bitkin[io]'"
        ) from None
