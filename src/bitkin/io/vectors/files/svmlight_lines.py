"""The lines of svmlight text: `label index:value index:value … # comment`.

Labels, `qid:` and comments are dropped; a line without a label (multilabel files have them) is
fine. Column numbers must grow along a line, as in scikit-learn. Blank lines are no rows.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from bitkin.errors import CorruptFileError
from bitkin.io.vectors.rows import MAX_COLUMNS

MAX_LINE = 2**26
_LONG_LINE = 1 << 20
_TOKENS_AT_ONCE = 1 << 16

_LABEL = re.compile(rb"[-+.\d][-+.\deE,]*")
_TOKEN = re.compile(rb"\S+")
_PAIRS = re.compile(rb"(?:\d{1,10}:[^\s:_]+(?: |$))*")


def features_of(line: bytes, where: str) -> bytes | None:
    """Return the `index:value` tokens of a line, as it has them, or None for a line without
    content.
    """
    text = line.partition(b"#")[0].strip()
    if not text:
        return None
    head, rest = _first_token(text)
    if b":" not in head:
        if not _LABEL.fullmatch(head):
            raise CorruptFileError(
                f"{where} must start with a number as its label, got {line[:40]!r}."
            )
        text = rest
    return _first_token(text)[1] if text.startswith(b"qid:") else text


def column_range(features: bytes, where: str) -> tuple[int, int]:
    """Return the first and the last column of a line; columns grow along it, which is checked when
    it is parsed.
    """
    return column_of(_first_token(features)[0], where), column_of(
        features.rsplit(None, 1)[-1], where
    )


def _first_token(text: bytes) -> tuple[bytes, bytes]:
    head, *rest = text.split(None, 1)
    return head, rest[0] if rest else b""


def _parts(features: bytes) -> Iterator[list[bytes]]:
    """Yield the tokens of a line, not all at once where it is long: each is a few Python objects
    while it is parsed.
    """
    if len(features) <= _LONG_LINE:
        yield features.split()
        return
    tokens = (found.group() for found in _TOKEN.finditer(features))
    while some := list(islice(tokens, _TOKENS_AT_ONCE)):
        yield some


def column_of(token: bytes, where: str) -> int:
    """Return the column number of one `index:value` token."""
    index = token.partition(b":")[0]
    if not index.isdigit() or len(index) > 10 or b":" not in token or int(index) >= MAX_COLUMNS:
        raise CorruptFileError(
            f"{where} must hold index:value pairs, index below 2**31 - 1, got {token[:40]!r}."
        )
    return int(index)


class RowBuilder:
    """Gathers parsed lines into one CSR array."""

    def __init__(self, n_columns: int, first_column: int) -> None:
        self._n_columns = n_columns
        self._first_column = first_column
        # Arrays of the standard library: a number in a list takes five times as much.
        self._columns = array("q")
        self._values = array("d")
        self._ends = [0]

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, features: bytes, where: str) -> None:
        """Append one line's tokens as a row."""
        before = -1
        for tokens in _parts(features) if features else ():
            before = self._add_some(tokens, before, where)
        self._ends.append(len(self._columns))

    def _add_some(self, tokens: list[bytes], before: int, where: str) -> int:
        """Append a part of a row, whose column numbers are above `before`, and return its last
        one.
        """
        # One match and one split for all tokens: a loop in Python over them would take far longer.
        text = b" ".join(tokens)
        if not _PAIRS.fullmatch(text):
            raise CorruptFileError(f"{where} must hold index:value pairs, got {text[:60]!r}.")
        flat = text.replace(b":", b" ").split()
        columns = list(map(int, flat[::2]))
        try:
            self._values.extend(map(float, flat[1::2]))
        except ValueError as failure:
            raise CorruptFileError(f"{where} must hold index:value pairs: {failure}.") from None
        # strictly growing within the part, and above the part before
        if columns[0] <= before or columns != sorted(set(columns)):
            raise CorruptFileError(f"{where} must have growing column numbers, got {text[:60]!r}.")
        if not (
            self._first_column <= columns[0] and columns[-1] < self._n_columns + self._first_column
        ):
            raise CorruptFileError(
                f"{where} must have column numbers from {self._first_column} to "
                f"{self._n_columns + self._first_column - 1}, got {columns[0]} to {columns[-1]}."
            )
        self._columns.extend(columns)
        return columns[-1]

    def take(self) -> csr_array:
        """Return the rows added since the last call, columns counted from 0."""
        values: npt.NDArray[np.float64] = np.array(self._values, dtype=np.float64)
        columns = (np.array(self._columns, dtype=np.int64) - self._first_column).astype(np.int32)
        rows = csr_array(
            (values, columns, np.array(self._ends)), shape=(len(self), self._n_columns)
        )
        self._columns, self._values, self._ends = array("q"), array("d"), [0]
        return rows
