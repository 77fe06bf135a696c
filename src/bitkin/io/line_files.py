"""Lines of text files, plain or packed as .gz: what files of documents have in common.

A missing newline at the end of a file is no flaw. Files are read twice (texts, then the lines to
keep), and must be the same both times.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.stable import StableFile, failure_is_corruption, stamp_of

MAX_LINE = 2**30

_BUFFER = 1 << 20
_LINES_BETWEEN_NEWS = 256
_GZIP = b"\x1f\x8b"
_MOST_LISTED = 8  # fields that a message names
_NAMED_BY = {
    "field": "--field NAME (field= in Python)",
    "id_field": "--id NAME (id_field= in Python)",
}


class Document(NamedTuple):
    """One document, and where it stands."""

    text: str
    file: int
    """Number of the file, from 0."""
    line: int
    """Number of the line, from 1; of a row of a table, from 0."""
    id: Any
    """Value of the id field; None where no field was named."""


def missing_field(
    name: str, there: Sequence[str], *, what: str = "field", option: str | None = None
) -> InvalidInputError:
    """Return the error of a field or column that is not there: which are, and which option and
    argument name one.
    """
    listed = ", ".join(map(repr, there[:_MOST_LISTED])) + (
        ", …" if len(there) > _MOST_LISTED else ""
    )
    hint = f" Name one of them by {_NAMED_BY[option]}." if option and there else ""
    return InvalidInputError(f"no {what} {name!r}. It has {listed or f'no {what}s'}.{hint}")


class NoDocumentsError(InvalidInputError):
    """Files hold no document."""


class DocumentFiles:
    """Files of documents, read as one: what all formats have in common.

    Parameters
    ----------
    paths : list of paths
        Regular files.
    field : str, default "text"
        The field or column that holds the text, where the format has such.
    id_field : str, optional
        A field or column that names the document in reports.
    names : list of str, optional
        What messages and reports call the files; their paths by default.
    """

    unit = "line"
    """What the number of a document counts."""

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        field: str = "text",
        *,
        id_field: str | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if isinstance(paths, (str, os.PathLike)) or not paths:
            raise InvalidInputError(f"paths must be a list of at least one path, got {paths!r}.")
        self.paths = [Path(path) for path in paths]
        self.names = list(map(str, self.paths if names is None else names))
        self.field = field
        self.id_field = id_field
        self._stamps = [stamp_of(path) for path in self.paths]

    @property
    def n_bytes(self) -> int:
        """Bytes of all files as they are stored."""
        return sum(stamp.size for stamp in self._stamps)

    def require_fields(self, there: Sequence[str], what: str = "column") -> None:
        """Raise unless the fields of text and id are among those `there`."""
        for name, option in ((self.field, "field"), (self.id_field, "id_field")):
            if name is not None and name not in there:
                raise missing_field(name, there, what=what, option=option)

    def no_documents(self, wanted: str) -> InvalidInputError:
        """Return the error of files without a document."""
        return NoDocumentsError(f"{', '.join(self.names)}: no documents. {wanted}")


class LineFiles(DocumentFiles):
    """Lines of several files, read as one; a name that ends in .gz is unpacked. Parameters are
    those of `DocumentFiles`.
    """

    header = b""
    """What stands once before all lines, in an output too."""
    keeps_blank_lines = False

    def located(self, flaw: InvalidInputError, file: int, line: int) -> InvalidInputError:
        """Return an error that says where its flaw is."""
        return InvalidInputError(f"{self.names[file]}, line {line}: {flaw}")

    def lines(self, progress: Callable[[int], None] | None = None) -> Iterator[bytes]:
        """Yield the line of every document in order, byte for byte, its newline included."""
        return (data for _, _, data in self.numbered_lines(progress))

    def numbered_lines(
        self, progress: Callable[[int], None] | None = None
    ) -> Generator[tuple[int, int, bytes], None, None]:
        """Yield number of the file, number of the line and the line, blank lines only where they
        count.
        """
        before = 0
        for file, (path, stamp) in enumerate(zip(self.paths, self._stamps, strict=True)):
            with StableFile(path, stamp) as stable, _unpacked(path, stable) as stream:
                number = 0
                while data := stream.readline(MAX_LINE):
                    number += 1
                    if len(data) == MAX_LINE:
                        raise CorruptFileError(
                            f"{self.names[file]}, line {number} is longer than {MAX_LINE} bytes."
                        )
                    # place in the packed file, so that shares of `n_bytes` are right for .gz too
                    if progress is not None and number % _LINES_BETWEEN_NEWS == 0:
                        progress(before + stable.buffered.tell())
                    if number == 1 and data.startswith(_GZIP) and stream is stable.buffered:
                        raise CorruptFileError(
                            f"{self.names[file]} is packed by gzip. Give it a name that ends in "
                            ".gz."
                        )
                    # a file may begin with a byte order mark, which is no content
                    content = data.removeprefix(codecs.BOM_UTF8) if number == 1 else data
                    if self.keeps_blank_lines or content.strip():
                        yield file, number, data
                stable.require_unchanged()
            before += stamp.size
            if progress is not None:
                progress(before)


def decode_line(data: bytes) -> str:
    """Return the text of a line in UTF-8, or raise an error that says what is wrong with it."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"not UTF-8 at byte {error.start}. Convert the file to UTF-8."
        ) from None


@contextmanager
def _unpacked(path: Path, stable: StableFile) -> Iterator[Any]:
    with failure_is_corruption(path, OSError, EOFError, zlib.error):
        if path.suffix.lower() != ".gz":
            yield stable.buffered
            return
        # GzipFile reads lines in Python; a reader around it does so in C.
        with (
            gzip.GzipFile(fileobj=stable.buffered) as packed,
            io.BufferedReader(packed, _BUFFER) as stream,
        ):
            yield stream
