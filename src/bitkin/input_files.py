"""Files that hold what goes in: vectors and how to read them, .npy arrays of any shape, and ids."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.checks import id_array
from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.io.regular import open_regular
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.vectors.files.npy_header import PREFIX_BYTES, read_npy_header
from bitkin.io.vectors.formats import is_svmlight

_IDS_ARE = "an .npy file of whole numbers, or text with one per line"


class VectorFileOptions(NamedTuple):
    """How to read files of vectors, as far as it is said; see `bitkin.io.open_vectors`."""

    column: str | None = None
    """List column of a .parquet file."""
    dataset: str | None = None
    """Array of an .npz or HDF5 file."""
    n_features: int | None = None
    """Columns of svmlight text."""
    zero_based: bool | None = None
    """How svmlight text counts columns."""

    def open(self, paths: Sequence[Path], model: Any = None) -> VectorSource:
        """Open files as one; svmlight text for a fitted `model` has as many columns as that."""
        n_features = self.n_features
        if n_features is None and model is not None and any(map(is_svmlight, paths)):
            # a MinHash may be fitted without columns
            n_features = getattr(model, "n_features_in_", None)
        return open_vectors(
            list(paths),
            column=self.column,
            dataset=self.dataset,
            n_features=n_features,
            zero_based=self.zero_based,
        )


def open_queries(path: Path, options: VectorFileOptions, model: Any = None) -> VectorSource:
    """Open a file of queries; an .npy array of one dimension is one query."""
    if path.suffix == ".npy" and path.is_file():
        with open_regular(path) as file:
            prefix = file.read(PREFIX_BYTES)
            size = os.fstat(file.fileno()).st_size
        if len(read_npy_header(prefix, size, str(path)).shape) == 1:
            return open_vectors(map_npy(path)[None], name=str(path))
    return options.open([path], model)


def map_npy(path: Path) -> npt.NDArray[Any]:
    """Map an array of numbers, of any shape; its header is believed only where the size of the file
    agrees.
    """
    try:
        with open_regular(path) as file:
            prefix = file.read(PREFIX_BYTES)
            header = read_npy_header(prefix, os.fstat(file.fileno()).st_size, str(path))
        if header.n_bytes == 0:  # nothing cannot be mapped
            return np.empty(header.shape, dtype=header.dtype)
        order: Any = "F" if header.fortran_order else "C"
        return np.memmap(path, header.dtype, "r", header.offset, header.shape, order)
    except FileAccessError:
        raise
    except OSError as error:
        raise FileAccessError(f"{path} cannot be read: {error.strerror or error}.") from error


def read_ids(path: Path) -> npt.NDArray[np.int64]:
    """Return the ids in a file: an array where it ends in .npy, else text with one per line."""
    if path.suffix == ".npy":
        ids = map_npy(path)
        if ids.ndim != 1:
            raise InvalidInputError(
                f"{path} must hold one id per row, an array of shape (n,), got shape {ids.shape}."
            )
        return id_array(np.array(ids), str(path))
    try:
        lines = _read_id_lines(path)
    except OSError as error:
        raise FileAccessError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise InvalidInputError(f"{path} must be {_IDS_ARE}: {error}") from error
    return id_array(lines, str(path))


def _read_id_lines(path: Path) -> list[int]:
    """Return the number in every line; blank lines are passed over. Raises ValueError."""
    ids = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            text = line.strip()
            if not text:
                continue
            if not (text.isascii() and text.isdigit()):
                shown = text if len(text) <= 20 else f"{text[:20]}…"
                raise ValueError(f"line {number} is {shown!r}.")
            ids.append(int(text))
    return ids
