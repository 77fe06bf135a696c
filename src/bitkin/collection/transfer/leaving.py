"""Rows on their way out of a collection, in pieces, all as of one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch, FloatRows, Ids
from bitkin.codes import Codes
from bitkin.collection.metadata.documents import split_fields
from bitkin.collection.settings import CollectionSettings
from bitkin.collection.snapshot import CollectionSnapshot
from bitkin.errors import InvalidInputError

ROWS_AT_ONCE = 4096
_MOST_NUMBERS = 1 << 22  # of the dense vectors of a piece
# What a column or a key of a file is called, so that no field of metadata can take its place there.
RESERVED = ("id", "vector", "metadata", "code", "corrections")


class LeavingRows(NamedTuple):
    """Some rows."""

    ids: npt.NDArray[Any]
    vectors: Batch | None
    """As they are kept, float32 for int8; None where none are kept."""
    codes: Codes
    corrections: FloatRows | None
    """Where codes are all there is of a row, and the collection makes estimates by them."""
    metadata: list[dict[str, Any]] | None

    def split(self, fields: dict[str, str]) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
        """Return the values of some fields for every row, and the rest of its metadata."""
        rows = self.metadata or [{} for _ in range(len(self.ids))]
        parts = [split_fields(one, fields, row) for row, one in enumerate(rows)]
        return [values for values, _ in parts], [rest for _, rest in parts]


@dataclass(frozen=True, eq=False, slots=True)
class RowsToExport:
    """The rows to export, as of one moment, which lasts as long as the transaction of `now`."""

    now: CollectionSnapshot
    row_ids: Ids
    settings: CollectionSettings

    def __post_init__(self) -> None:
        if self.now.older and not self.keeps_vectors:
            raise InvalidInputError(
                "rows of several epochs must have vectors to be exported: without them their codes "
                "do not compare, and this collection has vectors=None."
            )

    def __len__(self) -> int:
        return len(self.row_ids)

    @property
    def keeps_vectors(self) -> bool:
        """Whether rows have vectors."""
        return self.settings.vectors is not None

    @property
    def n_features(self) -> int:
        """Length of a vector; 0 where none are kept."""
        return 0 if self.now.kept.vectors is None else self.now.kept.vectors.n_features

    @property
    def has_corrections(self) -> bool:
        """Whether pieces have corrections: vectors make them again."""
        return not self.keeps_vectors and self.now.kept.corrections is not None

    @property
    def has_metadata(self) -> bool:
        """Whether rows have metadata."""
        return self.now.has_metadata

    @property
    def columns(self) -> dict[str, str]:
        """Declared fields that have a column of their own: names and types."""
        fields = self.settings.fields
        return {name: kind for name, kind in fields.items() if name not in RESERVED}

    def pieces(self) -> Iterator[LeavingRows]:
        """Yield all rows, some thousand at a time."""
        now = self.now
        dense = 1 if self.settings.vectors == "csr" else max(1, self.n_features)
        n_rows = max(1, min(ROWS_AT_ONCE, _MOST_NUMBERS // dense))
        for first in range(0, len(self.row_ids), n_rows):
            some = self.row_ids[first : first + n_rows]
            corrections = now.corrections(some) if self.has_corrections else None
            yield LeavingRows(
                now.ids.from_row_ids(some),
                now.vectors(some) if self.keeps_vectors else None,
                self._codes(some),
                corrections,
                now.metadata(some),
            )

    def _codes(self, row_ids: Ids) -> Codes:
        """Return codes of the current epoch, whichever one rows are of."""
        now = self.now
        if not now.older:
            return now.codes(row_ids)
        return now.epoch.encoder.encode_rows(now.vectors(row_ids), None).codes


def code_bytes(codes: Codes) -> list[bytes | None]:
    """Return every code as bytes, plane after plane; None where there was nothing to hash."""
    rows = np.ascontiguousarray(codes.to_bytes())
    empty = codes.empty_rows()
    return [None if nothing else row.tobytes() for row, nothing in zip(rows, empty, strict=True)]
