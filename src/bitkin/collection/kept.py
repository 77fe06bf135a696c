"""What a collection keeps of its rows beside their codes: the promises that every place to keep
them makes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Batch, Ids
from bitkin.codes import Codes
from bitkin.rescoring.estimate import Corrections


class NewRows(NamedTuple):
    """Rows to be kept, all checked; n of them."""

    numbers: Ids
    """All different; one that is there already is replaced."""
    codes: Codes
    vectors: list[Batch] | None
    """Batches of n rows together, in the form that the store's kind of vectors accepts."""
    corrections: Corrections | None


class RowIds(Protocol):
    """How ids, as a caller knows them, and row numbers belong together; see `integer_ids.py` and
    `string_ids.py`.
    """

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    def __len__(self) -> int:
        """Return how many ids are held here, those of removed rows included."""

    def is_one(self, value: object) -> bool:
        """Whether a value can be an id."""

    def checked(self, ids: Any, name: str = "ids") -> npt.NDArray[Any]:
        """Return ids as a 1-D array, in the order given."""

    def given(self, n_rows: int, ids: Any) -> npt.NDArray[Any] | None:
        """Return the ids that a caller gave for so many rows, all different; None where they are to
        be made here.

        It may run any code of the caller's, so it comes before the writer's lock is taken.
        """

    def numbers(self, ids: npt.NDArray[Any]) -> Ids:
        """Return the row number of every id, −1 where it cannot be there."""

    def entered(self, ids: npt.NDArray[Any]) -> Ids:
        """Return the row number of every id, whether it has been here or not. For the writer
        alone.
        """

    def of(self, numbers: Ids) -> npt.NDArray[Any]:
        """Return the id of every row number, whatever stands for nobody where that is −1."""

    def only(self, numbers: Ids) -> tuple[RowIds, Ids]:
        """Return what is needed for some rows alone, in ascending order, and the numbers that they
        have then.
        """


class HasVectors(Protocol):
    """Vectors by row number, at one moment."""

    @property
    def n_features(self) -> int:
        """Length of a vector."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of vectors."""

    @property
    def sparse(self) -> bool:
        """Whether vectors come as CSR."""

    def vectors(self, numbers: Ids) -> Batch:
        """Return the vectors of rows that are there, in that order."""


class Kept(HasVectors, Protocol):
    """What is kept of rows beside their codes, at one moment."""

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""

    def corrections(self, numbers: Ids) -> Corrections:
        """Return the two numbers a row that estimates need, in that order."""
