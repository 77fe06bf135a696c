"""What estimators that take vectors share: arrays, CSR matrices, data frames and open sources,
checked in one way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError
from bitkin.estimators.feature_names import fitted_names
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.vectors.batch import plain_batch
from bitkin.io.vectors.columns import column_names, require_columns
from bitkin.io.vectors.rows import as_rows


class VectorInput(BaseEstimator):  # type: ignore[misc]
    """Turns the `X` of `fit` and its kin into rows, and remembers the number of features and their
    names.
    """

    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]

    def require_features(self, source: VectorSource) -> None:
        """Raise unless this is fitted and `source` has vectors of the length, and the columns, it
        was fitted on.
        """
        check_is_fitted(self)
        source.require_columns(fitted_names(self))
        if source.shape[1] != self.n_features_in_:
            raise InvalidInputError(
                f"{source.name} has {source.shape[1]} features, but {type(self).__name__} is "
                "expecting "
                f"{self.n_features_in_} features as input. Give it vectors of the kind it was "
                "fitted on."
            )

    @contextmanager
    def _or_stay(self) -> Iterator[None]:
        """Where what follows fails, be what was learned earlier: it must put new things in place of
        those it found.
        """
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
            return open_vectors(self._checked(X, reset=True), name="X")
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

    def _checked(self, X: Any, *, reset: bool) -> Batch:
        """Return `X` as scikit-learn's checks leave it; whether numbers are finite is asked batch
        by batch.
        """
        if isinstance(X, np.ma.MaskedArray):
            X = as_rows(X, "X")
        if not reset:
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
            if _is_flat(X):
                raise InvalidInputError(
                    "X must have two dimensions, a vector a row, got one dimension of "
                    f"{np.shape(X)[0]}. Reshape your "
                    "data: X[None, :] is one vector, X[:, None] are many of one feature."
                ) from error
            raise InvalidInputError(str(error)) from error
        except TypeError as error:
            if not hasattr(X, "dtypes"):
                raise  # scikit-learn's own contract, for arrays of objects
            as_rows(X, "X")  # names the column, where one holds no numbers
            raise InvalidInputError(str(error)) from error
        checked = as_rows(checked, "X")
        return plain_batch(checked, checked.dtype) if issparse(checked) else checked


class TakesVectors(VectorInput, ABC):
    """Learns from vectors alone, in one place."""

    @abstractmethod
    def _learn(self, source: VectorSource) -> None:
        """Set everything that ends in `_` from at least one row."""

    def _learn_or_stay(self, X: Any) -> None:
        """Learn from `X`; where that fails, be what was learned earlier, which still holds
        together.
        """
        with self._or_stay():
            self._learn(self._training_source(X))


def _is_flat(X: Any) -> bool:
    try:
        return int(np.ndim(X)) == 1
    except ValueError:  # ragged
        return False
