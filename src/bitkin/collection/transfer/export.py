"""Writing all rows of a collection to a file that other programs read."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import named_path
from bitkin.collection.transfer.beside import ARRAY, describe_array, metadata_beside
from bitkin.collection.transfer.leaving import LeavingRows, RowsToExport, code_bytes
from bitkin.collection.transfer.parquet_columns import write_parquet
from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.io.layout import checksum
from bitkin.io.writer import write_aside, write_pair_aside

Progress = Callable[[int, int], None]

JSON_SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
EXPORT_SUFFIXES = (".parquet", ".npy", *JSON_SUFFIXES)
_GZIP_LEVEL = 6
_NUMBERS_AT_ONCE = 1 << 16  # as text: NumPy takes 128 bytes for each


def export_rows(
    rows: RowsToExport, path: Any, *, overwrite: bool, progress: Progress | None = None
) -> int:
    """Write rows to a file by its suffix, aside and then in place, and return how many they are."""
    target = checked_target(path, overwrite=overwrite)
    suffix = suffix_of(target)
    if suffix == ".parquet":
        write_parquet(rows, target, progress)
    elif suffix == ".npy":
        _write_npy(rows, target, progress)
    else:
        packed = suffix.endswith(".gz")
        write_aside(target, lambda file: _write_lines(rows, file, packed, progress))
    return len(rows)


def suffix_of(path: Path) -> str:
    """Return the suffix that says what a file is, .gz with the one before it."""
    suffix = path.suffix.lower()
    return "".join(path.suffixes[-2:]).lower() if suffix == ".gz" else suffix


def checked_target(path: Any, *, overwrite: bool) -> Path:
    """Return where to export to; raise where the format is unknown, or a file is there."""
    target = named_path(path)
    if suffix_of(target) not in EXPORT_SUFFIXES:
        raise InvalidInputError(
            f"path must end in one of {', '.join(EXPORT_SUFFIXES)}, got {str(target)!r}."
        )
    beside = [metadata_beside(target)] if suffix_of(target) == ".npy" else []
    for one in (target, *beside):
        if os.path.lexists(one) and not overwrite:
            raise FileAccessError(
                f"{one} is there already. Give another path, or overwrite=True to replace it."
            )
    return target


def _write_npy(rows: RowsToExport, path: Path, progress: Progress | None) -> None:
    """Write vectors as one array, and ids and metadata beside it as JSON lines."""
    kept = rows.now.kept.vectors
    if kept is None or kept.sparse:
        what = "keeps no vectors" if kept is None else "keeps sparse vectors"
        raise InvalidInputError(
            f"path must not end in .npy, which holds dense vectors: this collection {what}. "
            "Export it to .parquet or .jsonl."
        )

    crc = 0

    def write_vectors(file: IO[bytes]) -> None:
        nonlocal crc
        dtype = np.dtype(kept.dtype).newbyteorder("<")
        header = {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (len(rows), kept.n_features),
        }
        begin = io.BytesIO()
        np.lib.format.write_array_header_1_0(begin, header)
        crc = checksum(begin.getvalue())
        file.write(begin.getvalue())
        done = 0
        for piece in rows.pieces():
            data = np.ascontiguousarray(piece.vectors, dtype=dtype).tobytes()
            crc = checksum(data, crc)
            file.write(data)
            done = _report(progress, done, piece, len(rows))

    def write_beside(file: IO[bytes]) -> None:
        said = f'"{ARRAY}": {_as_json(describe_array(len(rows), crc))}'
        for piece in rows.pieces():
            for row in range(len(piece.ids)):
                file.write(_line(piece, row, said).encode())
                said = ""

    # the array takes its place last: where it is, what belongs to it is there too
    write_pair_aside((path, write_vectors), (metadata_beside(path), write_beside))


def _write_lines(
    rows: RowsToExport, file: IO[bytes], packed: bool, progress: Progress | None
) -> None:
    """Write a JSON object per row."""
    out: Any = file
    if packed:  # no time and no name in it: the same rows give the same bytes
        out = gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0)
    done = 0
    for piece in rows.pieces():
        numbers = _vectors_as_json(piece)
        lines = [_line(piece, row, numbers[row]) for row in range(len(piece.ids))]
        out.write("".join(lines).encode())
        done = _report(progress, done, piece, len(rows))
    if packed:
        out.close()  # which writes the end of what is packed, and leaves `file` open


def _line(piece: LeavingRows, row: int, more: str) -> str:
    """Return a row as a line of JSON, with `more` members than its id and metadata."""
    name = piece.ids[row]
    parts = [f'"id": {_as_json(name if isinstance(name, str) else int(name))}']
    if more:
        parts.append(more)
    if piece.metadata is not None and piece.metadata[row]:
        parts.append(f'"metadata": {_as_json(piece.metadata[row])}')
    return "{" + ", ".join(parts) + "}\n"


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _vectors_as_json(piece: LeavingRows) -> list[str]:
    """Return the key and value of every row's vector, or of its code where none are kept."""
    if piece.vectors is None:
        codes = ["null" if code is None else f'"{code.hex()}"' for code in code_bytes(piece.codes)]
        if piece.corrections is None:
            return [f'"code": {code}' for code in codes]
        both = zip(codes, number_lists(piece.corrections), strict=True)
        return [f'"code": {code}, "corrections": {numbers}' for code, numbers in both]
    if not hasattr(piece.vectors, "indptr"):
        return [f'"vector": {numbers}' for numbers in number_lists(piece.vectors)]
    rows = piece.vectors
    values = number_texts(rows.data)
    columns = list(map(str, rows.indices.tolist()))
    found = []
    for first, last in zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True):
        indices, numbers = ", ".join(columns[first:last]), ", ".join(values[first:last])
        found.append(f'"vector": {{"indices": [{indices}], "values": [{numbers}]}}')
    return found


def number_lists(rows: npt.NDArray[Any]) -> list[str]:
    """Return rows of floats as JSON lists."""
    width = rows.shape[1]
    n_rows = max(1, _NUMBERS_AT_ONCE // max(1, width))
    lists: list[str] = []
    for start in range(0, len(rows), n_rows):
        texts = number_texts(rows[start : start + n_rows].reshape(-1))
        lists += [
            f"[{', '.join(texts[first : first + width])}]" for first in range(0, len(texts), width)
        ]
    return lists


def number_texts(numbers: npt.NDArray[Any]) -> list[str]:
    """Return floats as decimals, as short as read back to the same float by way of float64, as JSON
    is read.
    """
    texts = numbers.astype("U")
    back = texts.astype(np.float64).astype(numbers.dtype)
    listed: list[str] = texts.tolist()
    # a decimal next to the middle between two floats may be rounded twice, to the wrong one
    for wrong in np.flatnonzero(back != numbers).tolist():
        listed[wrong] = repr(float(numbers[wrong]))
    return listed


def _report(progress: Progress | None, done: int, piece: LeavingRows, total: int) -> int:
    done += len(piece.ids)
    if progress is not None:
        progress(done, total)
    return done
