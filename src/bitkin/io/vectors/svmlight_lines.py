"""The lines of svmlight text: `label index:value index:value … # comment`.

Labels, `qid:` and comments are dropped; a line without a label (multilabel files have them) is fine. Column numbers
must grow along a line, as in scikit-learn. Blank lines are no rows.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from bitkin.errors import CorruptFileError
from bitkin.io.vectors.rows import MAX_COLUMNS

MAX_LINE = 2**26

_LABEL = re.compile(rb"[-+.\d][-+.\deE,]*")
_PAIRS = re.compile(rb"(?:\d{1,10}:[^\s:_]+(?: |$))*")


def feature_tokens(line: bytes, where: str) -> list[bytes] | None:
    """Return the `index:value` tokens of a line, or None for a line without content."""
    tokens = line.partition(b"#")[0].split()
    if not tokens:
        return None
    if b":" not in tokens[0] and not _LABEL.fullmatch(tokens.pop(0)):
        raise CorruptFileError(f"{where} must start with a number as its label, got {line[:40]!r}.")
    if tokens and tokens[0].startswith(b"qid:"):
        del tokens[0]
    return tokens


def column_of(token: bytes, where: str) -> int:
    """Return the column number of one `index:value` token."""
    index = token.partition(b":")[0]
    if not index.isdigit() or len(index) > 10 or b":" not in token or int(index) >= MAX_COLUMNS:
        raise CorruptFileError(f"{where} must hold index:value pairs, index below 2**31 - 1, got {token[:40]!r}.")
    return int(index)


class RowBuilder:
    """Gathers parsed lines into one CSR array."""

    def __init__(self, n_columns: int, first_column: int) -> None:
        self._n_columns = n_columns
        self._first_column = first_column
        self._columns: list[int] = []
        self._values: list[float] = []
        self._ends = [0]

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, tokens: list[bytes], where: str) -> None:
        """Append one line's tokens as a row."""
        text = b" ".join(tokens)
        if not _PAIRS.fullmatch(text):
            raise CorruptFileError(f"{where} must hold index:value pairs, got {text[:60]!r}.")
        flat = text.replace(b":", b" ").split()
        columns = list(map(int, flat[::2]))
        try:
            self._values.extend(map(float, flat[1::2]))
        except ValueError as failure:
            raise CorruptFileError(f"{where} must hold index:value pairs: {failure}.") from None
        if columns != sorted(set(columns)):
            raise CorruptFileError(f"{where} must have growing column numbers, got {text[:60]!r}.")
        if columns and not (self._first_column <= columns[0] and columns[-1] < self._n_columns + self._first_column):
            raise CorruptFileError(
                f"{where} must have column numbers from {self._first_column} to "
                f"{self._n_columns + self._first_column - 1}, got {columns[0]} to {columns[-1]}."
            )
        self._columns.extend(columns)
        self._ends.append(len(self._columns))

    def take(self) -> csr_array:
        """Return the rows added since the last call, columns counted from 0."""
        values: npt.NDArray[np.float64] = np.array(self._values, dtype=np.float64)
        columns = (np.array(self._columns, dtype=np.int64) - self._first_column).astype(np.int32)
        rows = csr_array((values, columns, np.array(self._ends)), shape=(len(self), self._n_columns))
        self._columns, self._values, self._ends = [], [], [0]
        return rows
