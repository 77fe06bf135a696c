"""Plain text, one document per line. A blank line is an empty document, so that it is kept."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator

from bitkin.errors import InvalidInputError
from bitkin.io.line_files import Document, LineFiles, decode_line


class TextLines(LineFiles):
    """Every line of the files is a document; see `LineFiles`."""

    keeps_blank_lines = True

    def documents(self, progress: Callable[[int], None] | None = None) -> Iterator[Document]:
        """Yield every document in order; `progress` is told the bytes read, out of `n_bytes`."""
        found = False
        for file, line, data in self.numbered_lines(progress):
            found = True
            content = data.removeprefix(codecs.BOM_UTF8) if line == 1 else data
            try:
                if b"\0" in content:
                    raise InvalidInputError(
                        "a zero byte: this is no text. Name the format with --format, or "
                        "format= in Python."
                    )
                text = decode_line(content.rstrip(b"\r\n"))
            except InvalidInputError as flaw:
                raise self.located(flaw, file, line) from None
            yield Document(text, file, line, None)
        if not found:
            raise self.no_documents("Every line is one document.")
