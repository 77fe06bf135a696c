"""What estimators that take vectors share: arrays, CSR matrices, data frames and open sources,
checked in one way.

Vectors are checked once, at the door. Those in memory that make one batch stay that batch;
larger arrays, files and iterators become a `VectorSource`, which checks batches as they come.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.vectors.batch import (
    is_one_batch,
    plain_batch,
    require_finite,
    row_slice,
)
from bitkin.io.vectors.cells import vectors_in_cells
from bitkin.io.vectors.columns import Columns, column_names, require_columns
from bitkin.io.vectors.rows import as_rows, given_csr, is_in_memory, number_dtype, row_shape
from bitkin.io.vectors.stored import ArraySource


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Vectors that passed the door of a fitted estimator: one checked batch, or a source."""

    name: str
    """What messages call them: the argument, or the file."""

    rows: Batch | VectorSource

    n_rows: int | None
    """How many rows there are; None for an iterator."""

    def batches(self, at_most: int | None = None) -> Iterator[tuple[int, Batch]]:
        """Yield `(first_row, batch)` of all rows, with at most so many rows per batch."""
        rows = self.rows
        if isinstance(rows, VectorSource):
            n = rows.batch_rows if at_most is None else min(at_most, rows.batch_rows)
            yield from rows.batches(n)
            return
        n = rows.shape[0]
        step = n if at_most is None else min(at_most, n)
        for first in range(0, n, max(1, step)):
            yield first, rows if step == n else row_slice(rows, first, min(n, first + step))


class VectorInput(BaseEstimator):  # type: ignore[misc]
    """Turns the `X` of `fit` and its kin into rows, and remembers the number of features and their
    names.
    """

    notices_not_finite: ClassVar[bool] = False
    """Whether this comes across every NaN and infinity by itself, so that arrays need no pass to
    look for them.
    """

    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]

    def require_features(self, source: VectorSource) -> None:
        """Raise unless this is fitted and `source` has vectors of the length, and the columns, it
        was fitted on.
        """
        check_is_fitted(self)
        source.require_columns(fitted_names(self))
        self._require_n_features(source.shape[1], source.name)

    def open_rows(self, vectors: Any, name: str) -> CheckedRows:
        """Open and check vectors for this fitted estimator, whatever holds them: an array, a
        sparse matrix, a data frame, files, an iterator or a `VectorSource`. Messages call them
        `name`.
        """
        if self._is_plain_row(vectors):
            # the sum of squares is finite only where all numbers are
            if not math.isfinite(np.vdot(vectors, vectors)):
                require_finite(vectors, name, 0)
            return CheckedRows(name, vectors, 1)
        if not is_in_memory(vectors):
            return self._open_source(open_vectors(vectors, name=name))
        rows = as_rows(vectors, name)
        names = column_names(vectors) if hasattr(vectors, "columns") else None
        if not is_one_batch(rows):
            source = ArraySource(rows, name)
            source.feature_names = names
            return self._open_source(source)
        if not hasattr(self, "n_features_in_"):  # which asks scikit-learn only in doubt: 20 µs
            check_is_fitted(self)
        if names is not None:
            require_columns(names, fitted_names(self), name)
        self._require_n_features(rows.shape[1], name)
        batch = plain_batch(rows, number_dtype(rows.dtype, name))
        return CheckedRows(name, require_finite(batch, name, 0), batch.shape[0])

    def _is_plain_row(self, vectors: Any) -> bool:
        """Whether this is one vector, in an array that passes every check but that for finite
        numbers: a lone query should not wait for the questions that are asked of other input.
        """
        return (
            type(vectors) is np.ndarray
            and vectors.shape == (1, getattr(self, "n_features_in_", -1))
            and vectors.dtype.char in "fd"
            and vectors.dtype.isnative
            and vectors.flags.c_contiguous
        )

    def _open_source(self, source: VectorSource) -> CheckedRows:
        self.require_features(source)
        return CheckedRows(source.name, source, source.shape[0])

    def _require_n_features(self, n_features: int, name: str) -> None:
        """Raise unless rows have as many features as those that this was fitted on, if any: a
        MinHash may have been fitted on none.
        """
        if n_features != getattr(self, "n_features_in_", n_features):
            raise InvalidInputError(
                f"{name} has {n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input. Give it vectors of the kind it was "
                "fitted on."
            )

    def _batches(self, X: Any) -> Iterator[tuple[int, Batch]]:
        """Yield `(first_row, batch)` of `X`, checked by scikit-learn's rules; its numbers are
        finite unless `notices_not_finite`.
        """
        if isinstance(X, VectorSource):
            self.require_features(X)
            yield from X.batches()
            return
        rows = self._validate_rows(X, reset=False)
        if not self.notices_not_finite:
            yield from finite_batches(rows, "X")
        elif rows.shape[0]:
            yield 0, rows

    @contextmanager
    def _restored_on_failure(self) -> Iterator[None]:
        """On failure of the block, restore the previous state. The block must replace attributes,
        not change what they hold.
        """
        # a shallow copy is enough, since attributes are replaced and never changed
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _training_source(self, X: Any) -> VectorSource:
        """Return the rows to fit as a source, and remember the number of features and their
        names.
        """
        if not isinstance(X, VectorSource):
            return ArraySource(self._validate_rows(X, reset=True), "X")
        if X.shape[0] == 0:
            raise InvalidInputError(f"{X.name} has no rows. Give at least one row to fit.")
        self._remember_features(X)
        return X

    def _remember_features(self, source: VectorSource) -> None:
        """Be fitted on the columns of `source`, and on no others."""
        self.n_features_in_ = source.shape[1]
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if source.feature_names is not None:
            if not all(isinstance(name, str) for name in source.feature_names):
                raise InvalidInputError(
                    f"{source.name} must have column names that are all strings, or none that are. "
                    "Rename its columns."
                )
            self.feature_names_in_ = np.array(source.feature_names, dtype=object)

    def _validate_rows(self, X: Any, *, reset: bool) -> Batch:
        """Return `X` as scikit-learn's checks and ours leave it: an array, or a CSR array that is a
        batch. Whether numbers are finite is asked later, batch by batch.
        """
        if isinstance(X, np.ma.MaskedArray):
            X = as_rows(X, "X")
        if isinstance(X, str | os.PathLike):
            raise InvalidInputError(
                f"X must be vectors, got the text {os.fspath(X)!r}. To read a file, give "
                f"bitkin.io.open_vectors({os.fspath(X)!r})."
            )
        if isinstance(X, (list, tuple)) and len(X) and all(isinstance(x, str) for x in X):
            raise InvalidInputError(
                f"X must be vectors, got {len(X):,} texts. Make vectors of them first, such as "
                "with sentence-transformers or bitkin.text_features."
            )
        is_plain = issparse(X) or (isinstance(X, np.ndarray) and X.dtype != object)
        if not is_plain and not hasattr(X, "columns"):
            in_cells = vectors_in_cells(X, "X")
            X = X if in_cells is None else in_cells
        if hasattr(X, "columns") and not reset:
            require_columns(column_names(X), fitted_names(self), "X")
        try:
            checked = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype="numeric",
                ensure_all_finite=False,
                ensure_min_samples=1 if reset else 0,
            )
        except ValueError as error:
            if hasattr(X, "dtypes") and not _is_flat(X):
                as_rows(X, "X")
            if _is_flat(X) and len(X) == 0:
                raise InvalidInputError(
                    "X has no rows: at least one vector is needed, got an empty column or list."
                ) from None
            if _is_flat(X):
                raise InvalidInputError(
                    "X must have two dimensions, a vector a row, got one dimension of "
                    f"{np.shape(X)[0]}. Reshape your data: X[None, :] is one vector, X[:, None] "
                    "are many of one feature."
                ) from error
            raise InvalidInputError(str(error)) from error
        except TypeError as error:
            if not hasattr(X, "dtypes"):
                raise  # scikit-learn's own contract, for arrays of objects
            as_rows(X, "X")  # names the column, where one holds no numbers
            raise InvalidInputError(str(error)) from error
        # scikit-learn lets long doubles pass, and more columns than int32 can count.
        row_shape(checked.shape, "X")
        number_dtype(checked.dtype, "X")
        if not issparse(checked):
            return checked
        matrix = given_csr(checked, "X")
        return plain_batch(matrix, matrix.dtype)


class VectorLearner(VectorInput, ABC):
    """Learns from vectors alone, in one place."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the rows of an array, a CSR matrix, a data frame or an open `VectorSource`;
        `y` is ignored.
        """
        with self._restored_on_failure():
            self._learn(self._training_source(X))
        return self

    @abstractmethod
    def _learn(self, source: VectorSource) -> None:
        """Set everything that ends in `_` from at least one row."""


def fitted_names(estimator: VectorInput) -> Columns | None:
    """Return the names of the columns that an estimator was fitted on; None where they had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else tuple(names)


def finite_batches(rows: Batch, name: str) -> Iterator[tuple[int, Batch]]:
    """Yield `(first_row, batch)` of rows in memory that passed every check but this one: whether
    their numbers are finite.
    """
    if not is_one_batch(rows):
        yield from ArraySource(rows, name).batches()
    elif rows.shape[0]:
        yield 0, require_finite(plain_batch(rows, number_dtype(rows.dtype, name)), name, 0)


def _is_flat(X: Any) -> bool:
    try:
        return int(np.ndim(X)) == 1
    except ValueError:  # ragged
        return False
