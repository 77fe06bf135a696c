"""Texts in Parquet files: a column of strings, one document per row. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from bitkin.errors import InvalidInputError
from bitkin.io.line_files import Document, DocumentFiles
from bitkin.io.stable import StableFile, failure_is_corruption
from bitkin.io.vectors.limits import load_extra

_ROWS_AT_ONCE = 1 << 12
_PLAIN = (str, int, bool, type(None))


class ParquetTexts(DocumentFiles):
    """Rows of several Parquet files that have the same columns, counted from 0 in each. Parameters
    are those of `DocumentFiles`.
    """

    unit = "row"

    def documents(self, progress: Callable[[int], None] | None = None) -> Iterator[Document]:
        """Yield every document in order; `progress` is told the bytes read, out of `n_bytes`."""
        columns = [self.field, *([] if self.id_field is None else [self.id_field])]
        row = 0
        last_file = -1
        for file, batch in self._batches(columns, progress):
            row = 0 if file != last_file else row
            last_file = file
            texts = batch.column(0).to_pylist()
            ids = [None] * len(texts) if self.id_field is None else batch.column(1).to_pylist()
            for text, name in zip(texts, ids, strict=True):
                if text is None:
                    raise InvalidInputError(
                        f"{self.names[file]}, row {row}: column {self.field!r} is null. Drop such "
                        "rows, or make them empty texts."
                    )
                yield Document(text, file, row, name if isinstance(name, _PLAIN) else str(name))
                row += 1
        if last_file < 0:
            raise self.no_documents("Every row is one document.")

    def write_kept(
        self,
        out: IO[bytes],
        keep: npt.NDArray[np.bool_],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Write the rows that `keep` says, with all columns, as one Parquet file."""
        arrow = load_extra("pyarrow", ".parquet")
        parquet = load_extra("pyarrow.parquet", ".parquet")
        with self._open(0) as (file, _):
            schema = file.schema_arrow
        first = 0
        with parquet.ParquetWriter(out, schema) as writer:
            for _, batch in self._batches(None, progress):
                wanted = arrow.array(keep[first : first + batch.num_rows])
                writer.write_batch(batch.filter(wanted).cast(schema))
                first += batch.num_rows
        if first != len(keep):
            raise InvalidInputError(f"{', '.join(self.names)} changed while they were read.")

    def _batches(
        self, columns: list[str] | None, progress: Callable[[int], None] | None
    ) -> Iterator[tuple[int, Any]]:
        """Yield number of the file and some of its rows, of all columns where None is given."""
        before = 0
        schema = None
        for i, stamp in enumerate(self._stamps):
            with self._open(i) as (file, stable):
                self._require_columns(i, file.schema_arrow, schema)
                schema = file.schema_arrow if schema is None else schema
                done = 0
                for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
                    yield i, batch if columns is None else batch.select(columns)
                    done += batch.num_rows
                    if progress is not None:
                        progress(before + stamp.size * done // file.metadata.num_rows)
                stable.require_unchanged()
            before += stamp.size

    def _require_columns(self, i: int, schema: Any, first: Any) -> None:
        types = load_extra("pyarrow", ".parquet").types
        kinds = {field.name: field.type for field in schema}
        try:
            self.require_fields(list(kinds))
        except InvalidInputError as absent:
            raise InvalidInputError(f"{self.names[i]}: {absent}") from None
        kind = kinds[self.field]
        if not (types.is_string(kind) or types.is_large_string(kind)):
            raise InvalidInputError(
                f"{self.names[i]}: column {self.field!r} must hold strings, got {kind}."
            )
        if first is not None and not schema.equals(first):
            raise InvalidInputError(
                f"{self.names[i]}: other columns than {self.names[0]}. Files that are read as one "
                "have the same columns."
            )

    @contextmanager
    def _open(self, i: int) -> Iterator[tuple[Any, StableFile]]:
        arrow = load_extra("pyarrow", ".parquet")
        parquet = load_extra("pyarrow.parquet", ".parquet")
        with (
            StableFile(self.paths[i], self._stamps[i]) as stable,
            failure_is_corruption(self.paths[i], arrow.ArrowException, OSError, ValueError),
        ):
            yield parquet.ParquetFile(stable.buffered, pre_buffer=False), stable
