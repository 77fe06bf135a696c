"""A pairwise kernel by name or as a function, with its parameters: what it takes, and its
values.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse
from sklearn.metrics.pairwise import KERNEL_PARAMS, PAIRWISE_KERNEL_FUNCTIONS

from bitkin.arrays import Batch
from bitkin.errors import InvalidInputError

HISTOGRAM_KERNELS = ("additive_chi2", "chi2")
"""Kernels that take no negative numbers. They are also the ones that scikit-learn has for dense
rows alone.
"""

_MANY_COLUMNS = 1 << 20
"""Above so many columns, those without a number are left out of sparse matrices."""

_BOUNDS = {
    "gamma": (math.ulp(0.0), "a finite number above 0"),
    "degree": (1.0, "a finite number of at least 1"),
    "coef0": (-sys.float_info.max, "a finite number"),
}


@dataclass(frozen=True, slots=True)
class PairwiseKernel:
    """A kernel whose name and settings were checked by `kernel_for`."""

    kernel: str | Callable[[Any, Any], Any]
    settings: dict[str, float]

    @property
    def of_histograms(self) -> bool:
        """Whether rows must be free of negative numbers, and are made dense."""
        return self.kernel in HISTOGRAM_KERNELS

    @property
    def may_run_in_threads(self) -> bool:
        """Whether it is scikit-learn's: a user's function need not be safe in threads."""
        return isinstance(self.kernel, str)

    def require_acceptable(self, batch: Batch, name: str, first: int = 0) -> None:
        """Raise where a batch, which starts at row `first` of `name`, has numbers that the kernel
        does not take.
        """
        if not self.of_histograms:
            return
        values = batch.data if issparse(batch) else batch
        if values.size and values.min() < 0:
            row, column = (int(places[0]) for places in (batch < 0).nonzero())
            raise InvalidInputError(
                f"Negative values in data: {name} has {batch[row, column]} at row {first + row}, "
                f"column {column}, and the kernel {self.kernel!r} compares histograms. Shift or "
                "clip the data, or take another kernel."
            )

    def values(self, rows: Batch, anchors: Batch) -> npt.NDArray[Any]:
        """Return the kernel of every row and every anchor; they may come out infinite or NaN."""
        with np.errstate(all="ignore"):
            if not isinstance(self.kernel, str):
                return _require_shape(self.kernel(rows, anchors), (rows.shape[0], anchors.shape[0]))
            if self.of_histograms:  # dense and, as scikit-learn's loop asks for no less, writable
                rows = np.require(rows.toarray() if issparse(rows) else rows, requirements="W")
                anchors = np.require(anchors, requirements="W")
            settings = self.settings
            if issparse(rows) and issparse(anchors) and rows.shape[1] > _MANY_COLUMNS:
                if "gamma" in KERNEL_PARAMS[self.kernel]:
                    # scikit-learn's default, 1 / n_features, before columns are left out
                    settings = {"gamma": 1.0 / rows.shape[1], **settings}
                rows, anchors = _drop_empty_columns(rows, anchors)
            return np.asarray(PAIRWISE_KERNEL_FUNCTIONS[self.kernel](rows, anchors, **settings))


def kernel_for(kernel: Any, **settings: Any) -> PairwiseKernel:
    """Return the kernel for a name or a function; settings that are None are left to
    scikit-learn.
    """
    if isinstance(kernel, str) and kernel in PAIRWISE_KERNEL_FUNCTIONS:
        takes = [name for name in _BOUNDS if name in KERNEL_PARAMS[kernel]]
    elif callable(kernel):
        takes = []
    else:
        names = ", ".join(map(repr, sorted(PAIRWISE_KERNEL_FUNCTIONS)))
        raise InvalidInputError(f"kernel must be one of {names} or a function, got {kernel!r}.")
    given = {name: value for name, value in settings.items() if value is not None}
    for name, value in given.items():
        if name not in takes:
            has = f"has {', '.join(takes)}" if takes else "has no parameter"
            raise InvalidInputError(
                f"{name} must be None for the kernel {kernel!r}, which {has}; got {value!r}."
            )
        lowest, words = _BOUNDS[name]
        number = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
        # neither NaN nor an integer beyond float
        if not number or not lowest <= value <= sys.float_info.max:
            raise InvalidInputError(f"{name} must be {words}, or None, got {value!r}.")
    return PairwiseKernel(kernel, {name: _to_python_number(value) for name, value in given.items()})


def _to_python_number(value: Any) -> int | float:
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _drop_empty_columns(rows: Batch, anchors: Batch) -> tuple[Batch, Batch]:
    """Return two CSR matrices without the columns that are zero in both: kernels for sparse rows
    are functions of x·y, ‖x‖ and ‖y‖, or of ‖x − y‖₁, which do not depend on them.

    A product of sparse matrices takes memory for every column there is, 8 GB for 2**31 of them.
    """
    used = np.unique(np.concatenate([rows.indices, anchors.indices]))
    width = max(1, len(used))

    def narrow(matrix: Batch) -> Batch:
        # every index is in `used`, so its place there is its new number
        columns = np.searchsorted(used, matrix.indices).astype(np.int32)
        return csr_array((matrix.data, columns, matrix.indptr), shape=(matrix.shape[0], width))

    return narrow(rows), narrow(anchors)


def _require_shape(values: Any, shape: tuple[int, int]) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.shape != shape or array.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"kernel must be a function of two matrices that returns numbers of shape {shape} for "
            f"{shape[0]} rows and {shape[1]} anchors, got {array.dtype} of shape {array.shape}."
        )
    return array
