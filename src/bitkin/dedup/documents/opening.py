"""Opening files of documents: which format they have, and documents from standard input."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bitkin.checks import one_of
from bitkin.dedup.documents.csv_rows import CsvRows
from bitkin.dedup.documents.parquet_texts import ParquetTexts
from bitkin.dedup.documents.text_lines import TextLines
from bitkin.errors import ArgumentError, FileAccessError, InvalidInputError
from bitkin.io.json_lines import JsonLines
from bitkin.io.regular import open_regular
from bitkin.io.stable import stamp_of

DocumentSource = JsonLines | CsvRows | TextLines | ParquetTexts

FORMATS = ("jsonl", "csv", "tsv", "parquet", "text")
_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".txt": "text",
    ".text": "text",
}
_PACKED = b"\x1f\x8b"


def open_documents(
    paths: Sequence[str | os.PathLike[str]],
    field: str | None = None,
    *,
    id_field: str | None = None,
    format: str = "auto",
    names: Sequence[str] | None = None,
) -> DocumentSource:
    r"""Open files of documents, read as one: all of one format.

    Parameters
    ----------
    paths : list of paths
        Regular files; text formats may be packed as .gz.
    field : str, optional
        The field or column that holds the text, "text" by default. Plain text has none.
    id_field : str, optional
        A field or column that names documents in reports.
    format : {"auto", "jsonl", "csv", "tsv", "parquet", "text"}, default "auto"
        By default the suffix decides; without a known one, a file that begins with `{` is JSON
        lines and any other is plain text, one document per line.
    names : list of str, optional
        What messages and reports call the files; their paths by default.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "texts.csv"
    >>> _ = path.write_text('id,text\n7,"one, two"\n8,three\n')
    >>> [(d.text, d.line, d.id) for d in open_documents([path], id_field="id").documents()]
    [('one, two', 2, '7'), ('three', 3, '8')]
    """
    if isinstance(paths, (str, os.PathLike)) or not paths:
        raise InvalidInputError(f"paths must be a list of at least one path, got {paths!r}.")
    one_of(format, "format", ("auto", *FORMATS))
    files = [Path(path) for path in paths]
    formats = [guess_format(path) if format == "auto" else format for path in files]
    if len(set(formats)) > 1:
        raise InvalidInputError(
            f"files must have one format, got {formats[0]} ({files[0]}) and "
            f"{next(one for one in formats if one != formats[0])}. Read them one by one, or name "
            "the format."
        )
    if formats[0] == "text":
        for value, argument in ((field, "field"), (id_field, "id")):
            if value is not None:
                raise ArgumentError(f"plain text has no fields, got {value!r}", argument)
        return TextLines(files, names=names)
    field = "text" if field is None else field
    if formats[0] == "jsonl":
        return JsonLines(files, field, id_field=id_field, names=names)
    if formats[0] == "parquet":
        return ParquetTexts(files, field, id_field=id_field, names=names)
    delimiter = "\t" if formats[0] == "tsv" else ","
    return CsvRows(files, field, id_field=id_field, delimiter=delimiter, names=names)


def guess_format(path: Path) -> str:
    """Return the format of a file by its suffix, or by its first bytes."""
    bare = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    known = _SUFFIXES.get(bare.suffix.lower())
    if known is not None:
        return known
    stamp_of(path)  # refuses what is no file
    try:
        with open_regular(path) as file:
            head = file.read(4096)
            if bare is not path and head.startswith(_PACKED):
                file.seek(0)
                head = _unpacked_head(file)
    except FileAccessError:
        raise
    except OSError as error:
        raise FileAccessError(f"{path} cannot be read: {error.strerror or error}.") from error
    if head.startswith(b"PAR1"):
        return "parquet"
    # gzip under another name: the reader of lines says what to do
    return "jsonl" if head.strip()[:1] == b"{" or head.startswith(_PACKED) else "text"


def _unpacked_head(file: IO[bytes]) -> bytes:
    """Return the first unpacked bytes; none where the file is damaged, as its reader will say."""
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            return unpacked.read(4096)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return b""


@contextmanager
def spooled(stream: IO[bytes]) -> Iterator[Path]:
    """Copy a stream, which can be read once, to a temporary file that is gone after the block."""
    with tempfile.TemporaryDirectory(prefix="bitkin-") as folder:
        path = Path(folder) / "input"
        try:
            with path.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
        except OSError as error:
            raise FileAccessError(
                f"standard input cannot be read into {folder}: {error.strerror or error}. Set "
                "TMPDIR to a folder with more space."
            ) from error
        with path.open("rb") as file:
            if file.read(2) == _PACKED:
                path = path.rename(path.with_suffix(".gz"))
        yield path
