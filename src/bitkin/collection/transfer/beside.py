"""Ids and metadata of the vectors in an .npy file, as JSON lines beside it, and whether both belong
together.

The first line that `Collection.export` writes says of which array it is, under "npy": its rows and
the CRC-32 of its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bitkin.collection.transfer.arriving import RecordKeys
from bitkin.collection.transfer.json_rows import FileLines
from bitkin.errors import InvalidInputError
from bitkin.io.json_lines import parse_record
from bitkin.io.layout import checksum
from bitkin.io.stable import unreadable_is_access_error

ARRAY = "npy"  # key of what the first line says of the array
_BYTES_AT_ONCE = 1 << 20


def metadata_beside(path: Path) -> Path:
    """Return where ids and metadata of the vectors in an .npy file go."""
    return path.with_name(f"{path.stem}.rows.jsonl")


def describe_array(n_rows: int, crc: int) -> dict[str, int]:
    """Return what the first line says of the array."""
    return {"rows": n_rows, "crc32": crc}


def find_beside(path: Path, n_rows: int | None) -> Path | None:
    """Return the file beside an .npy file, None where there is none; raise where it belongs to
    another array.
    """
    beside = metadata_beside(path)
    if path.suffix.lower() != ".npy" or not beside.is_file():
        return None
    n_lines, said = 0, None
    for number, data in FileLines(beside):
        if not n_lines:
            said = _take_array(_parse(data, str(beside), number))
        n_lines += 1
    if n_lines != n_rows:
        raise _other_array(
            beside, path, f"{path} has {n_rows:,} vectors, and it has {n_lines:,} lines"
        )
    if said is not None and said != describe_array(n_lines, _checksum_of(path)):
        raise _other_array(beside, path, "it was written beside other vectors than are there now")
    return beside


def read_metadata(
    lines: Iterable[tuple[int, bytes]], name: str, id_key: str | None
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield id and metadata of every line."""
    keys = RecordKeys(id_key)
    first = True
    for number, data in lines:
        record = _parse(data, name, number)
        if first:
            _take_array(record)
            first = False
        try:
            yield keys.take(record)
        except InvalidInputError as flaw:
            raise InvalidInputError(f"{name}, line {number}: {flaw}") from None


def _parse(data: bytes, name: str, number: int) -> dict[str, Any]:
    try:
        return parse_record(data, keys_once=True)
    except InvalidInputError as flaw:
        raise InvalidInputError(f"{name}, line {number}: {flaw}") from None


def _take_array(record: dict[str, Any]) -> Any:
    """Take out of the first record what it says of the array; None where it says nothing."""
    said = record.get(ARRAY)
    if not isinstance(said, dict) or said.keys() != describe_array(0, 0).keys():
        return None  # metadata of that name
    del record[ARRAY]
    return said


def _checksum_of(path: Path) -> int:
    crc = 0
    with unreadable_is_access_error(path), path.open("rb") as file:
        while data := file.read(_BYTES_AT_ONCE):
            crc = checksum(data, crc)
    return crc


def _other_array(beside: Path, path: Path, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{beside} stands beside {path} and does not belong to it: {why}. Export both again, or "
        "name the ids and metadata of these vectors (ids=, metadata= or --ids, --metadata), or "
        "move it away."
    )
