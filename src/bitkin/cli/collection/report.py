"""Rows of a collection as a terminal shows them, and as JSON lines hold them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from typing import Any

from bitkin.cli.output import printable

_NARROWEST = 60
_LONGEST_ID = 30
_LONGEST_VALUE = 200  # of text, of which only the beginning can be seen anyway


def print_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns side by side, numbers to the right; the last one is cut where the line ends."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [
        max(len(one) for one in column)
        for column in zip(header[:-1], *(row[:-1] for row in cells), strict=True)
    ]
    width = max(_NARROWEST, shutil.get_terminal_size().columns)
    for row in (header, *cells):
        line = "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=False))
        print(shorten(f"{line}  {row[-1]}".rstrip(), width))


def shorten(text: str, width: int) -> str:
    """Return the beginning of a text that is too long."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def short_id(value: Any) -> str:
    """Return an id as a table shows it."""
    return shorten(str(value), _LONGEST_ID)


def short_metadata(metadata: dict[str, Any] | None) -> str:
    """Return metadata in one line."""
    return "  ".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"[
            :_LONGEST_VALUE
        ].replace("\n", " ")
        for name, value in (metadata or {}).items()
    )


def plain(value: Any) -> Any:
    """Return an id or a number of NumPy as Python's."""
    return value.item() if hasattr(value, "item") else value


def vector_as_json(row: Any) -> Any:
    """Return a vector as JSON lines hold it, of CSR the indices and values."""
    if hasattr(row, "indices"):
        return {"indices": row.indices.tolist(), "values": row.data.tolist()}
    return row.tolist()


def in_bytes(n_bytes: int) -> str:
    """Return a number of bytes as people read it."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= size:
            return f"{n_bytes / size:,.1f} {unit}"
    return f"{n_bytes:,} bytes"
