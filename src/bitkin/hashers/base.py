"""The contract of every hasher: scikit-learn's, and codes.

`__init__` only stores; `fit` starts afresh and learns; what was learned ends in `_`. A fitted
hasher has `spec_`, `fingerprint_` and `n_features_in_`, and two fitted hashers with the same
fingerprint make the same codes.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bitkin.code_spec import CodeSpec
from bitkin.codes import Codes
from bitkin.errors import EnvironmentVariableError, InvalidInputError
from bitkin.estimators.vector_input import VectorLearner

if TYPE_CHECKING:
    from bitkin.io.reader import StoredFile
from bitkin.io.vectors.rows import lone_as_row


@contextmanager
def naming_batch(name: str, first: int) -> Iterator[None]:
    """Let errors of the block name the batch that starts at row `first` of the source `name`."""
    try:
        yield
    except EnvironmentVariableError:
        raise  # it is not about vectors
    except InvalidInputError as error:
        raise error_in_batch(error, name, first) from error


def error_in_batch(error: InvalidInputError, name: str, first: int) -> InvalidInputError:
    """Return the error that says of which batch it is."""
    return InvalidInputError(f"{name}, in the batch from row {first} on: {error}")


class Hasher(ClassNamePrefixFeaturesOutMixin, TransformerMixin, VectorLearner):  # type: ignore[misc]
    """Base of all hashers: input in every form, output as symbols or packed codes, files."""

    may_be_empty: ClassVar[bool] = False
    """Whether some rows have nothing to hash, so that codes need `empty`."""

    spec_: CodeSpec
    fingerprint_: str

    @classmethod
    @abstractmethod
    def variants(
        cls, n_bits: int, *, sparse: bool, metric: str = "l2", random_state: Any = 0
    ) -> dict[str, Hasher]:
        """Return the forms of this hasher that `bitkin.compare` tries at about `n_bits` bits, not
        fitted, by the names that reports give them; none where they do not suit rows that are CSR
        (`sparse`) or dense, or the metric.
        """

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Return the symbols of every row: uint8, uint16 or uint32 (n, n_symbols)."""
        check_is_fitted(self)
        rows = [self._symbols(batch) for _, batch in self._batches(X)]
        nothing = np.empty((0, self.spec_.n_symbols), dtype=self.spec_.symbol_dtype)
        return np.concatenate([nothing, *rows])

    def encode(self, X: Any) -> Codes:
        """Return the codes of every row, packed, under this hasher's fingerprint; a lone vector is
        one row.
        """
        return self._encode_rows(lone_as_row(X))

    def _encode_rows(self, X: Any) -> Codes:
        check_is_fitted(self)
        parts = [self._codes(batch) for _, batch in self._batches(X)]
        if not parts:
            nothing = np.empty((0, self.spec_.n_symbols), dtype=np.uint8)
            parts = [Codes.from_symbols(nothing, self.spec_.bits_per_symbol)]
        codes = parts[0] if len(parts) == 1 else Codes.concatenate(parts)
        return codes.with_fingerprint(self.fingerprint_)

    def encode_batch(self, batch: Any, name: str, first: int) -> Codes:
        """Return the codes of a batch that starts at row `first` of the `VectorSource` called
        `name`.
        """
        with naming_batch(name, first):
            return self._codes(batch).with_fingerprint(self.fingerprint_)

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted hasher to `path`: aside first, then in place at once."""

    @classmethod
    @abstractmethod
    def from_stored(cls, stored: StoredFile) -> Hasher:
        """Return the fitted hasher that a file holds."""

    @abstractmethod
    def _symbols(self, batch: Any) -> npt.NDArray[Any]:
        """Return the symbols of one checked batch."""

    def _codes(self, batch: Any) -> Codes:
        """Return the codes of one checked batch; faster where a hasher packs by itself."""
        return Codes.from_symbols(self._symbols(batch), self.spec_.bits_per_symbol)

    @property
    def _n_features_out(self) -> int:
        return self.spec_.n_symbols

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags
