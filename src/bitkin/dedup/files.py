"""Near-duplicates in files: where every document stands, and the files that come out."""

from __future__ import annotations

import codecs
import gzip
import json
import os
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from bitkin.dedup.documents.opening import DocumentSource
from bitkin.dedup.documents.parquet_texts import ParquetTexts
from bitkin.dedup.duplicates import Clustered, Duplicates
from bitkin.dedup.finder import DuplicateFinder, text_batches
from bitkin.dedup.read_ahead import read_ahead
from bitkin.errors import FileAccessError
from bitkin.index.bands.bands import Rows
from bitkin.io.writer import regular_target, write_aside

Progress = Callable[[int], None]
Describe = Callable[[int, str], dict[str, Any]]
"""Returns where a document or row stands, as fields of a report whose names begin with a prefix."""

_LINES_BETWEEN_REPORTS = 1024
_PAIRS_AT_ONCE = 1 << 14  # that are Python objects


class DocumentPlaces:
    """File, line and id of every document; 12 bytes each, and the ids where a field was named."""

    def __init__(self, source: DocumentSource) -> None:
        self._names = source.names
        self._unit = source.unit
        self._with_ids = source.id_field is not None
        self._files = array("i")
        self._lines = array("q")
        self._ids: list[Any] = []

    def texts(self, source: DocumentSource, progress: Progress | None = None) -> Iterator[str]:
        """Yield the texts of `source`, and remember where they stand."""
        for document in source.documents(progress):
            self._files.append(document.file)
            self._lines.append(document.line)
            if self._with_ids:
                self._ids.append(document.id)
            yield document.text

    def add_file(self, file: int, lines: Rows, ids: list[Any] | None) -> None:
        """Remember where the documents of the next file stand, which was read elsewhere."""
        self._files.extend([file] * len(lines))
        self._lines.extend(lines.tolist())
        if ids is not None:
            self._ids.extend(ids)

    def name(self, document: int) -> str:
        """Return the id, or the line, with the file where there are several."""
        if self._with_ids:
            return str(self._ids[document])
        line = f"{self._unit} {self._lines[document]:,}"
        return (
            line
            if len(self._names) == 1
            else f"{Path(self._names[self._files[document]]).name}, {line}"
        )

    def record(self, document: int, prefix: str = "") -> dict[str, Any]:
        """Return file, line and id as fields of a report."""
        place: dict[str, Any] = {
            "file": self._names[self._files[document]],
            self._unit: self._lines[document],
        }
        if self._with_ids:
            place["id"] = self._ids[document]
        return {prefix + key: value for key, value in place.items()}


def add_files(
    finder: DuplicateFinder, source: DocumentSource, progress: Progress | None = None
) -> DocumentPlaces:
    """Give all documents of `source` to `finder`; `progress` is called with the bytes read."""
    places = DocumentPlaces(source)
    for batch in read_ahead(text_batches(places.texts(source, progress))):
        finder.add(batch)
    return places


def write_kept(
    path: str | os.PathLike[str],
    source: DocumentSource,
    kept: Rows,
    n: int,
    progress: Progress | None = None,
) -> None:
    """Write the lines of the documents to keep, of `n`, byte for byte; packed where the name ends
    in .gz. Of Parquet files, write the rows as a Parquet file.

    The header of CSV files comes once. Only where a line without a newline, the last of a file, is
    followed by another does it get one, and the byte order mark of a file that is not the first in
    the output is left out.
    """
    keep = np.zeros(n, dtype=np.bool_)
    keep[kept] = True

    if isinstance(source, ParquetTexts):
        write_aside(path, lambda file: source.write_kept(file, keep, progress))
        return

    def write_lines(file: IO[bytes]) -> None:
        file.write(source.header)
        begun, newline = bool(source.header), b""
        for line, wanted in zip(source.lines(progress), keep.tolist(), strict=True):
            if wanted:
                file.write(newline + (line.removeprefix(codecs.BOM_UTF8) if begun else line))
                begun, newline = True, b"" if line.endswith(b"\n") else b"\n"

    _write(path, write_lines)


def write_dropped(
    path: str | os.PathLike[str],
    found: Duplicates,
    places: DocumentPlaces,
    progress: Progress | None = None,
) -> None:
    """Write one JSON line for every dropped document: what was kept for it, how similar, and why
    they are together.

    `cluster` counts clusters of at least two from 0, in the order of their first documents.
    `progress` is called with the number of lines written.
    """
    measures = found.jaccard, found.like, found.like_jaccard
    write_dropped_members(path, found, measures, "jaccard", places.record, progress)


def write_pairs(
    path: str | os.PathLike[str],
    found: Duplicates,
    places: DocumentPlaces,
    progress: Progress | None = None,
) -> None:
    """Write one JSON line for every pair; `progress` is called with the number of lines written."""
    write_measured_pairs(path, found.pairs, "jaccard", places.record, progress)


def write_dropped_members(
    path: str | os.PathLike[str],
    found: Clustered,
    measures: tuple[npt.NDArray[Any], Rows, npt.NDArray[Any]],
    name: str,
    describe: Describe,
    progress: Progress | None = None,
) -> None:
    """Write one JSON line for every dropped member of a cluster: with `measures`, per dropped one,
    how near it is to the one kept for it, which joined it, and how near that is; `name` says what
    is measured.
    """
    kept_instead = found.cluster_of[found.dropped]
    clusters = np.unique(kept_instead, return_inverse=True)[1]
    columns = (found.dropped, clusters, kept_instead, *measures)

    def records() -> Iterator[dict[str, Any]]:
        for row in zip(*(column.tolist() for column in columns), strict=True):
            dropped, cluster, kept, measure, like, like_measure = row
            yield {
                **describe(dropped, ""),
                "cluster": cluster,
                **describe(kept, "kept_"),
                name: measure,
                **describe(like, "like_"),
                f"like_{name}": like_measure,
            }

    write_records(path, records(), progress)


def write_measured_pairs(
    path: str | os.PathLike[str],
    pairs: tuple[Rows, Rows, npt.NDArray[Any]],
    name: str,
    describe: Describe,
    progress: Progress | None = None,
) -> None:
    """Write one JSON line for every pair: the first, the second, and how near they are."""

    def records() -> Iterator[dict[str, Any]]:
        for start in range(0, len(pairs[0]), _PAIRS_AT_ONCE):
            columns = (column[start : start + _PAIRS_AT_ONCE].tolist() for column in pairs)
            for first, second, measure in zip(*columns, strict=True):
                yield {**describe(first, ""), **describe(second, "other_"), name: measure}

    write_records(path, records(), progress)


def write_records(
    path: str | os.PathLike[str], records: Iterator[dict[str, Any]], progress: Progress | None
) -> None:
    """Write JSON lines, aside first; packed where the name ends in .gz."""

    def write_lines(file: IO[bytes]) -> None:
        for i, record in enumerate(records):
            # ASCII, since an id or a path may hold half a character, which UTF-8 has no bytes for.
            file.write(json.dumps(record, allow_nan=False).encode("ascii") + b"\n")
            if progress is not None and i % _LINES_BETWEEN_REPORTS == 0:
                progress(i)

    _write(path, write_lines)


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise what writing to `path` would raise, as far as that can be told beforehand."""
    try:
        folder = regular_target(path).parent
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder {folder}")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(f"the folder {folder} cannot be written to")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise FileAccessError(f"{os.fspath(path)} cannot be written: {error}.") from error


def _write(path: str | os.PathLike[str], write_to: Callable[[IO[bytes]], object]) -> None:
    def write_packed(file: IO[bytes]) -> None:
        # Without a name and a time in it, the same lines are the same bytes.
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
            write_to(packed)  # type: ignore[arg-type]

    write_aside(path, write_packed if os.fspath(path).lower().endswith(".gz") else write_to)
