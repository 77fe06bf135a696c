"""KernelMap: vectors as kernel values against anchors, so that any hasher works in a kernel's
space.
"""

from __future__ import annotations

import operator
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bitkin import threads
from bitkin.arrays import Batch
from bitkin.checks import one_of, whole_number
from bitkin.errors import CorruptFileError, EnvironmentVariableError, InvalidInputError
from bitkin.estimators.feature_names import names_tensor, restore_names
from bitkin.estimators.fingerprint import fingerprint
from bitkin.estimators.vector_input import VectorLearner, fitted_names
from bitkin.hashers.kernel_map.pairwise_kernel import HISTOGRAM_KERNELS, PairwiseKernel, kernel_for
from bitkin.io.layout import damaged
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.vectors.batch import first_not_finite, plain_batch, row_slice
from bitkin.io.vectors.columns import require_columns
from bitkin.io.vectors.rows import MAX_COLUMNS, as_rows
from bitkin.io.vectors.stored import ArraySource
from bitkin.io.writer import write_file
from bitkin.notices import warn_caller
from bitkin.randomness import Draws, resolve_seed

if TYPE_CHECKING:
    from bitkin.io.reader import StoredFile

_BLOCK_NUMBERS = 1 << 19
"""Numbers worked on at a time, by one thread: 4 MB."""


class KernelMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, VectorLearner):  # type: ignore[misc]
    """Map vectors to their kernel values against chosen anchors: component j of x is k(x, anchorⱼ).

    `make_pipeline(KernelMap(...), WTAHash(...))` is the kernel version of winner-take-all (WTA,
    section 4.3): its codes compare the order in which two vectors are near to the anchors.

    Parameters
    ----------
    kernel : str or callable, default "rbf"
        A scikit-learn pairwise kernel: "additive_chi2", "chi2", "cosine", "laplacian", "linear",
        "poly", "polynomial", "rbf", "sigmoid". Or a function of two matrices, rows and anchors as
        they were given (arrays or CSR arrays), that returns an array (n_rows, n_anchors); it is
        called for one block of rows after another.
    anchors : int, array or CSR matrix, default 256
        How many of the fitted rows to draw, each at most once (all, with a warning, where they are
        fewer), or the anchors themselves, one a row.
    gamma, degree, coef0 : float or None, default None
        Parameters of the named kernel, where it has them; None leaves scikit-learn's default.
    random_state : int or None, default 0
        The seed of the draw; None takes a fresh one, kept as `seed_` and in files.

    Attributes
    ----------
    anchors_ : array or csr_array (n_anchors, n_features)
        float32 where float32 or float16 was fitted, else float64; kernel values have the same type.
    seed_ : int
    n_features_in_ : int

    Notes
    -----
    scikit-learn has "chi2" and "additive_chi2" for dense rows only: sparse rows are made dense a
    block at a time, and the anchors are kept dense.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((1000, 20))
    >>> near = bitkin.KernelMap("rbf", anchors=64, gamma=0.1).fit_transform(X)
    >>> near.shape, bool(near.max() <= 1)
    ((1000, 64), True)
    """

    anchors_: Batch
    seed_: int
    n_features_in_: int

    def __init__(
        self,
        kernel: Any = "rbf",
        anchors: Any = 256,
        *,
        gamma: float | None = None,
        degree: float | None = None,
        coef0: float | None = None,
        random_state: int | None = 0,
    ) -> None:
        self.kernel = kernel
        self.anchors = anchors
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the anchors from an array, a CSR matrix, a data frame or an open `VectorSource`;
        `y` is ignored.
        """
        return super().fit(X)

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Return the kernel values of every row: (n, n_anchors)."""
        check_is_fitted(self)
        if isinstance(X, VectorSource):
            self.require_features(X)
            source = X
        else:
            source = ArraySource(self._validate_rows(X, reset=False), "X")
        out = np.empty((len(source), self.anchors_.shape[0]), dtype=self.anchors_.dtype)
        for first, batch in source.batches():
            self._pairwise.require_acceptable(batch, source.name, first)
            self._values_into(batch, first, out[first : first + batch.shape[0]])
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted map to `path`: aside first, then in place at once. A function as kernel
        cannot be saved.
        """
        check_is_fitted(self)
        if not isinstance(self._pairwise.kernel, str):
            raise InvalidInputError(
                f"kernel {self._pairwise.kernel!r} cannot be saved: files hold no code. "
                "Use a kernel by name, or pickle the map."
            )
        parameters = {
            "kernel": self._pairwise.kernel,
            "settings": self._pairwise.settings,
            "drawn": self._drawn,
            "sparse": issparse(self.anchors_),
            "dtype": self.anchors_.dtype.name,
            "shape": list(self.anchors_.shape),
            "random_state": self._random_state,
            "seed": self.seed_,
        }
        tensors = _anchor_tensors(self.anchors_) | names_tensor(self)
        write_file(path, "KernelMap", parameters, self._fingerprint(), tensors)

    @classmethod
    def from_stored(cls, stored: StoredFile) -> KernelMap:
        """Return the fitted map that a file holds."""
        anchors = _read_anchors(stored)
        kernel, settings, drawn = map(stored.parameter, ("kernel", "settings", "drawn"))
        try:
            if not isinstance(kernel, str) or not isinstance(settings, dict):
                raise InvalidInputError("a kernel has a name and settings.")
            if not set(settings) <= {"gamma", "degree", "coef0"}:
                raise InvalidInputError(f"a kernel has no settings {settings!r}.")
            made = cls(
                kernel,
                anchors.shape[0] if drawn is True else anchors,
                random_state=stored.parameter("random_state"),
                **settings,
            )
            made.seed_ = whole_number(stored.parameter("seed"), "seed", low=0, high=2**64 - 1)
            if resolve_seed(made.random_state) != made.seed_ and made.random_state is not None:
                raise InvalidInputError(f"seed must be random_state, got {made.seed_}.")
            made.n_features_in_ = anchors.shape[1]
            pairwise = made._resolve_kernel()
            if pairwise.of_histograms and issparse(anchors):
                raise InvalidInputError(f"anchors must be dense for {kernel!r}.")
            # tries the kernel on one row, so that impossible settings are found here
            made._set_model(pairwise, anchors)
        except EnvironmentVariableError:
            raise  # with which the file has nothing to do
        except ValueError as error:
            raise damaged(stored.name, f"has impossible parameters: {error}") from None
        restore_names(made, stored)
        stored.require_no_more_tensors()
        if made._fingerprint() != stored.fingerprint:
            raise damaged(stored.name, "holds a model that does not fit its fingerprint")
        return made

    def _learn(self, source: VectorSource) -> None:
        pairwise = self._resolve_kernel()
        self.seed_ = resolve_seed(self.random_state)
        # all rows are read once, so that a bad number is found though its row is no anchor
        count = partial(_count_acceptable, pairwise, source.name)
        n_rows = source.fold(int, count, operator.add)  # raises for NaN and infinity
        if _is_count(self.anchors):
            anchors = source.gather(
                Draws(self.seed_, "anchors").choice(n_rows, self._check_count(n_rows))
            )
        else:
            given = open_vectors(self.anchors, name="anchors")
            require_columns(given.feature_names, fitted_names(self), "anchors", source.name)
            if given.shape[1] != source.shape[1] or len(given) == 0:
                raise InvalidInputError(
                    f"anchors must be rows of {source.shape[1]} features, like those of "
                    f"{source.name}, got shape {given.shape}."
                )
            anchors = given.gather(np.arange(len(given)))
        if issparse(anchors) and pairwise.of_histograms:
            anchors = anchors.toarray()
        # Anchors set the type of the values: float32 where they are no wider, else float64.
        wide = np.float32 if anchors.dtype in (np.float16, np.float32) else np.float64
        self._set_model(pairwise, plain_batch(anchors, np.dtype(wide)))

    def _resolve_kernel(self) -> PairwiseKernel:
        """Return the kernel that the parameters stand for."""
        return kernel_for(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    def _check_count(self, n_rows: int) -> int:
        """Return how many anchors to draw from `n_rows` rows."""
        try:
            count = whole_number(self.anchors, "anchors", low=1)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{error} Pass how many rows to draw, or the anchors themselves."
            ) from None
        if count > n_rows:
            warn_caller(
                f"anchors={count} is more than the {n_rows} rows fitted: all of them are anchors. "
                "Fit more rows, or ask for fewer anchors."
            )
        return min(count, n_rows)

    def _set_model(self, pairwise: PairwiseKernel, anchors: Batch) -> None:
        """Set kernel and anchors, and try them on one row, so that what does not fit together
        fails now.
        """
        self._pairwise = pairwise
        self._random_state = None if self.random_state is None else int(self.random_state)
        self.anchors_ = anchors
        self._drawn = _is_count(self.anchors)
        pairwise.require_acceptable(anchors, "anchors")
        self._values_into(
            row_slice(anchors, 0, 1), 0, np.empty((1, anchors.shape[0]), dtype=anchors.dtype)
        )

    def _values_into(self, batch: Batch, first: int, out: npt.NDArray[Any]) -> None:
        """Write the kernel values of a batch, whose first row is row `first` of all, to `out`."""
        # A block holds the values of its rows, and for histograms a dense copy of the rows.
        width = batch.shape[1] if self._pairwise.of_histograms else 1
        step = max(1, _BLOCK_NUMBERS // max(width, out.shape[1]))

        def block(start: int) -> None:
            stop = min(start + step, batch.shape[0])
            rows = row_slice(batch, start, stop)
            if rows.dtype not in (np.float32, np.float64):
                rows = rows.astype(self.anchors_.dtype)
            values = self._pairwise.values(rows, self.anchors_)
            # a float64 value may be beyond the float32 that anchors ask for; it is found below
            with np.errstate(over="ignore"):
                out[start:stop] = values
            finite = np.isfinite(out[start:stop])
            if not finite.all():
                row, anchor = np.argwhere(~finite)[0].tolist()
                raise InvalidInputError(
                    f"X must have smaller numbers: the kernel of row {first + start + row} and "
                    f"anchor {anchor} is {values[row, anchor]}. Scale the data, or change the "
                    "kernel's parameters."
                )

        starts = range(0, batch.shape[0], step)
        if self._pairwise.may_run_in_threads:
            with threads.blas_in_one_thread():  # whatever the number of threads, the same sums
                threads.run(block, starts)
        else:
            for start in starts:
                block(start)

    def _fingerprint(self) -> str:
        pairwise = self._pairwise
        settings = {
            "kernel": pairwise.kernel,
            "settings": pairwise.settings,
            "shape": list(self.anchors_.shape),
        }
        return fingerprint("KernelMap", settings, _anchor_tensors(self.anchors_))

    @property
    def _n_features_out(self) -> int:
        return int(self.anchors_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = (
            isinstance(self.kernel, str) and self.kernel in HISTOGRAM_KERNELS
        )
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _count_acceptable(
    pairwise: PairwiseKernel, name: str, n_rows: int, first: int, batch: Batch
) -> int:
    """Count rows, and raise where the kernel does not take one."""
    pairwise.require_acceptable(batch, name, first)
    return n_rows + int(batch.shape[0])


def _is_count(anchors: Any) -> bool:
    return isinstance(anchors, (str, bytes)) or not hasattr(anchors, "__len__")


def _anchor_tensors(anchors: Batch) -> dict[str, npt.NDArray[Any]]:
    """Return what a file keeps of the anchors, beside their type and shape."""
    if not issparse(anchors):
        return {"anchors": anchors}
    indices, indptr = (
        anchors.indices.astype(np.int32, copy=False),
        anchors.indptr.astype(np.int64, copy=False),
    )
    return {"data": anchors.data, "indices": indices, "indptr": indptr}


def _read_anchors(stored: StoredFile) -> Batch:
    """Return the anchors that a file holds, in memory of our own."""
    try:
        dtype = np.dtype(one_of(stored.parameter("dtype"), "dtype", ("float32", "float64")))
        shape = stored.parameter("shape")
        if not isinstance(shape, list) or len(shape) != 2:
            raise InvalidInputError(f"shape must be two numbers, got {shape!r}.")
        n, d = (whole_number(side, "shape", low=1, high=MAX_COLUMNS) for side in shape)
        if stored.parameter("sparse") is not True:
            anchors = stored.tensor("anchors", dtype, (n, d)).copy()
        else:
            data = stored.tensor("data", dtype, (None,)).copy()
            indices = stored.tensor("indices", np.int32, (len(data),)).copy()
            indptr = stored.tensor("indptr", np.int64, (n + 1,)).copy()
            anchors = plain_batch(
                as_rows(csr_array((data, indices, indptr), shape=(n, d)), "anchors"), dtype
            )
        if first_not_finite(anchors) is not None:
            raise InvalidInputError("anchors must be finite.")
    except CorruptFileError:
        raise
    except ValueError as error:
        raise damaged(stored.name, f"has impossible anchors: {error}") from None
    return anchors
