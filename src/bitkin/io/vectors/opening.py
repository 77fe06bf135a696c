"""`open_vectors`: choose the reader for whatever holds the vectors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bitkin.checks import shown, whole_number
from bitkin.errors import InvalidInputError
from bitkin.io.vectors.cells import pick_column
from bitkin.io.vectors.columns import column_names
from bitkin.io.vectors.formats import FORMAT_OPTIONS, FormatOptions, open_paths, refuse_unused
from bitkin.io.vectors.iterator import IteratorSource
from bitkin.io.vectors.rows import are_paths, as_rows, is_in_memory
from bitkin.io.vectors.source import VectorSource
from bitkin.io.vectors.stored import ArraySource


def open_vectors(
    source: Any,
    *,
    column: str | None = None,
    dataset: str | None = None,
    n_features: int | None = None,
    zero_based: bool | str | None = None,
    batch_rows: int | None = None,
    name: str = "source",
) -> VectorSource:
    """Open vectors to read them a batch at a time, wherever they are.

    Parameters
    ----------
    source : array, sparse matrix, data frame, iterator, path, list of paths or VectorSource
        Anything NumPy can turn into a 2-D array; any SciPy sparse matrix; a data frame of numbers,
        or a column of one whose cells are vectors (pandas, polars); an iterator of batches; a file
        or several files read as one, by suffix: .npy, .npz (dense, or sparse as of
        `scipy.sparse.save_npz`), .fvecs, .bvecs, .ivecs, .parquet (a list column), .h5, .hdf5, and
        svmlight text as .svm, .svmlight, .libsvm, plain or .gz. A `VectorSource` is returned as it
        is.
    column : str, optional
        List column of a .parquet file; may be left out when there is only one. Of a data frame, the
        column whose cells are vectors.
    dataset : str, optional
        Array of an .npz or HDF5 file; may be left out when only one is 2-D.
    n_features : int, optional
        Columns of svmlight text; by default the highest column found in any of the files.
    zero_based : bool or "auto", optional
        Whether svmlight columns count from 0. "auto", the default, says no exactly when none of the
        files has a column 0, as scikit-learn does; a file counted from 0 whose column 0 is never
        used is then read one off.
    batch_rows : int, optional
        Rows of a batch unless `batches` is told otherwise; by default as many as make about 8 MB.
    name : str, default "source"
        What messages call an array or an iterator; a file goes by its path.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = [Path(folder) / "a.npy", Path(folder) / "b.npy"]
    ...     np.save(paths[0], np.ones((3, 2), dtype=np.float32))
    ...     np.save(paths[1], np.zeros((2, 2), dtype=np.float32))
    ...     source = open_vectors(paths)
    ...     print(source.shape, source.dtype)
    ...     print([(first, batch.shape) for first, batch in source.batches(rows=4)])
    ...     print(source.gather([4, 0]).tolist())
    (5, 2) float32
    [(0, (4, 2)), (4, (1, 2))]
    [[0.0, 0.0], [1.0, 1.0]]
    """
    if batch_rows is not None:
        batch_rows = whole_number(batch_rows, "batch_rows", low=1)
    options = FormatOptions(column, dataset, n_features, zero_based, batch_rows)
    if isinstance(source, VectorSource):
        refuse_unused(options, (*FORMAT_OPTIONS, "batch_rows"), "an open VectorSource")
        return source
    if isinstance(source, (str, os.PathLike)):
        return open_paths([Path(source)], options)
    if are_paths(source):
        return open_paths([Path(path) for path in source], options)
    if column is not None and hasattr(source, "columns"):
        refuse_unused(options, [one for one in FORMAT_OPTIONS if one != "column"], "a data frame")
        rows = pick_column(source, column, name)
        return ArraySource(as_rows(rows, name), f"{name}, column {shown(column)}", batch_rows)
    refuse_unused(options, FORMAT_OPTIONS, "vectors in memory")
    if is_in_memory(source):
        array = ArraySource(as_rows(source, name), name, batch_rows)
        array.feature_names = column_names(source)
        return array
    if isinstance(source, Iterator):
        return IteratorSource(source, name, batch_rows)
    raise InvalidInputError(
        f"{name} must be an array, a sparse matrix, a data frame, an iterator of batches, a path "
        f"or a list of paths, got {type(source).__name__}."
    )
