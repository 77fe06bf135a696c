"""What every tracker offers: directions, mean and second moments of a stream so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.errors import InvalidInputError
from bitkin.randomness import Draws

TrackerScalars = dict[str, int | float | str]
TrackerArrays = dict[str, npt.NDArray[Any]]


class Tracker(ABC):
    """Follows a subspace: fed vectors one after another, it knows the directions along which they
    vary most.

    Any cut of the same vectors into batches gives the same state to the last bit. One thread at a
    time.
    """

    mergeable: ClassVar[bool] = False
    """Whether trackers of several streams can be merged: `merge` gives that of all their rows."""

    n_features: int
    n_bits: int

    @property
    @abstractmethod
    def n_seen(self) -> int:
        """How many vectors were taken in, zero and clipped ones included."""

    @property
    @abstractmethod
    def n_clipped(self) -> int:
        """How many of them were too far away to be believed and were pulled back."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether directions were learned from vectors; until then they are random and the mean is
        zero.
        """

    @property
    @abstractmethod
    def directions(self) -> npt.NDArray[np.float32]:
        """The current basis: float32 (n_features, n_bits), a copy, orthonormal columns."""

    @property
    @abstractmethod
    def mean(self) -> npt.NDArray[np.float64]:
        """Mean of the stream, float64 (n_features,), a copy; zeros without centring."""

    @property
    @abstractmethod
    def covariance(self) -> npt.NDArray[np.float64]:
        """Second moment of the projected vectors about the mean, float64 (n_bits, n_bits), a copy,
        symmetric.
        """

    @property
    @abstractmethod
    def total_variance(self) -> float:
        """Mean squared distance of the vectors to their mean, weighted as `covariance` is."""

    @property
    @abstractmethod
    def recent_covariance(self) -> npt.NDArray[np.float64]:
        """Like `covariance`, of about the last 1,024 vectors."""

    @property
    @abstractmethod
    def recent_total_variance(self) -> float:
        """Like `total_variance`, of about the last 1,024 vectors."""

    @abstractmethod
    def update(self, rows: npt.NDArray[np.float32]) -> None:
        """Take in rows, float32 (n, n_features), C-contiguous and finite, one after another."""

    def vectors_to_next_change(self) -> int:
        """Return how many more vectors it takes until directions and mean may be others: 1 or
        more.
        """
        return 1

    @abstractmethod
    def flush(self) -> None:
        """Learn from vectors that wait for more of them to come. The stream may continue, but is
        another one then.
        """

    def begin_fit(self) -> None:
        """Prepare for rows that are all at hand and weigh the same, up to `end_fit`."""
        return  # what never forgets need not be told

    def end_fit(self) -> None:
        """Learn from vectors that wait, and continue as a stream from here on."""
        self.flush()

    @abstractmethod
    def state(self) -> tuple[TrackerScalars, TrackerArrays]:
        """Return everything `from_state` needs to continue to the last bit: plain numbers, and
        copies of arrays.
        """

    @classmethod
    def complete_state(cls, numbers: TrackerScalars) -> TrackerScalars:
        """Return the numbers of a state of any version, with what earlier ones did not keep."""
        return numbers

    @classmethod
    def from_state(cls, numbers: TrackerScalars, arrays: TrackerArrays) -> Self:
        """Return the tracker whose `state` this is."""
        tracker = cls.__new__(cls)
        tracker.restore(numbers, arrays)
        return tracker

    @abstractmethod
    def restore(self, numbers: TrackerScalars, arrays: TrackerArrays) -> None:
        """Become the tracker whose `state` this is, which may come from a file: it is checked."""

    def __reduce__(self) -> tuple[Any, tuple[TrackerScalars, TrackerArrays]]:
        # what is scratch is not pickled
        return type(self).from_state, self.state()


def draw_basis(n_features: int, n_bits: int, draws: Draws) -> npt.NDArray[np.float32]:
    """Return random orthonormal columns, float32 (n_features, n_bits)."""
    with threads.blas_in_one_thread():
        # Q of a normal matrix spans a subspace that is evenly distributed over all of them.
        return np.linalg.qr(draws.normals((n_features, n_bits)))[0].astype(np.float32)


def restore_array(
    arrays: TrackerArrays, name: str, like: npt.NDArray[Any], *, rows: int | None = None
) -> npt.NDArray[Any]:
    """Return a copy of an array of a state, of the type and shape of `like` or with so many `rows`
    instead.

    Kernels do not check what they are given, so it is done here.
    """
    shape = like.shape if rows is None else (rows, *like.shape[1:])
    array = arrays.get(name, like[:0])
    if array.dtype != like.dtype or array.shape != shape:
        raise InvalidInputError(
            f"arrays must have {name!r} of {like.dtype} and shape {shape}, got {array.dtype} and "
            f"{array.shape}."
        )
    return np.array(array, order="C")


def require_orthonormal(columns: npt.NDArray[Any], name: str, *, within: float) -> None:
    """Raise unless inner products of columns are those of orthonormal ones, or nearly."""
    wide = columns.astype(np.float64)
    with threads.blas_in_one_thread(), np.errstate(all="ignore"):
        off = np.abs(wide.T @ wide - np.eye(wide.shape[1])).max(initial=0.0)
    if not off <= within:
        raise InvalidInputError(
            f"{name} must have orthonormal columns, got inner products that are off by {off:g}."
        )


def require_semidefinite(matrix: npt.NDArray[np.float64], name: str, *, within: float) -> None:
    """Raise unless a matrix is symmetric to the last bit, and no eigenvalue is far below zero.

    `within` is how far it may be, as a share of the largest number on the diagonal: rounding leaves
    some.
    """
    largest = float(matrix.diagonal().max(initial=0.0))
    sound = (
        np.array_equal(matrix, matrix.T)
        # a semidefinite matrix has its largest entry on the diagonal
        and float(np.abs(matrix).max(initial=0.0)) <= (1 + within) * largest
    )
    # M / largest + within · I has a Cholesky factor exactly when no eigenvalue of M is at or below
    # −within · largest; it is cheaper than the eigenvalues themselves.
    if sound and largest > 0:
        try:
            with threads.blas_in_one_thread():
                np.linalg.cholesky(matrix / largest + within * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            sound = False
    if not sound:
        raise InvalidInputError(f"{name} must be symmetric and have no negative eigenvalue.")
