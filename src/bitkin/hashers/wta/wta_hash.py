"""WTAHash: codes that say which of a few components is the largest."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_is_fitted

from bitkin import threads
from bitkin.checks import one_of, whole_number
from bitkin.code_spec import WORD, CodeSpec
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.estimators.feature_names import names_tensor, restore_names
from bitkin.estimators.fingerprint import fingerprint
from bitkin.hashers.base import Hasher
from bitkin.hashers.wta.donors import Donors
from bitkin.hashers.wta.window_size import Sparsity
from bitkin.hashers.wta.windows import LAYOUTS, WindowPlan, Windows
from bitkin.hashers.wta.winners import cut_rows, find_winners
from bitkin.io.layout import damaged
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.rows import MAX_COLUMNS
from bitkin.io.writer import write_file
from bitkin.kernels.hashing.wta import count_empty_into, pack_winners_into
from bitkin.notices import warn_caller
from bitkin.randomness import resolve_seed

if TYPE_CHECKING:
    from bitkin.io.reader import StoredFile

_DENSIFIED_ALPHABET = 256
_MAX_HASHES = 2**24


class WTAHash(Hasher):
    """Winner-take-all codes: a symbol is the position of the largest among `window` components
    picked at random.

    Codes depend on the order of a row's components only: without empty windows and at degree 1, any
    change that keeps the order keeps the code, such as scaling a row or adding a constant to it.
    Two rows share a symbol with a probability that `bitkin.theory` knows: `wta_similarity` without
    ties, `wta_collision` with them, `good_kernel` where empty windows are filled.

    Parameters
    ----------
    n_hashes : int, default 256
        Symbols a code (the papers' m), at most 2**24.
    window : int or "auto", default 4
        Components a symbol looks at (the papers' K), from 2 on; no more than there are features,
        with a warning. "auto" takes the smallest from 4 on that leaves no more than a quarter of
        the windows empty, as far as one permutation of the features goes.
    degree : int, default 1
        A component is the product of so many features (the papers' p), multiplied in float64. One
        that is too small for that is zero, one too large infinite.
    coefficients : bool, default False
        Weigh a product by √(p! / ∏ aᵢ!), aᵢ counting the repeats of a feature in it. Tuples of
        features are drawn in order, so that multiplicities are in the sampling already; this is for
        the kernel's unordered form.
    densify : {"auto", "rotation", "optimal", None}, default "auto"
        How windows without any nonzero component get a symbol: from the next filled window to the
        right, or from one chosen by hashing, which has lower variance. None leaves them 0, where
        two empty windows match. "auto" is "optimal" when some fitted row has an empty window, else
        None.
    alphabet_size : int or None, default None
        Symbols are reduced modulo this number (the paper's R). None: `window` without
        densification, else 256.
    layout : {"partition", "independent"}, default "partition"
        Cut windows out of as few permutations as possible, or draw every one on its own.
    output : {"symbols", "onehot"}, default "symbols"
        What `transform` returns: symbols, or a CSR matrix with a column for every symbol and value,
        for linear models.
    random_state : int or None, default 0
        The seed of all draws; None takes a fresh one, kept as `seed_` and in files.

    Attributes
    ----------
    spec_ : CodeSpec
    fingerprint_ : str
        Equal fingerprints, equal codes.
    window_, densify_, alphabet_size_ : int, str or None, int
        What "auto" and None became.
    empty_share_ : float
        Share of empty windows among the fitted rows, those of zeros apart.
    seed_ : int

    Notes
    -----
    A row without any filled window, such as a row of zeros, is an empty code, which matches
    nothing. Codes are the same on every machine. 64-bit integers are compared as float64, exact up
    to 2⁵³.

    References
    ----------
    Yagnik et al., The power of comparative reasoning, 2011. Chen and Shrivastava, Revisiting winner
    take all hashing for sparse datasets, 2016.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((1000, 20))
    >>> hasher = bitkin.WTAHash(n_hashes=64).fit(X)
    >>> hasher.encode(X)
    Codes(1,000 rows, 64 × 2-bit, from ...)
    >>> bool((hasher.transform(X) == hasher.transform(3 * X + 1)).all())
    True
    """

    may_be_empty: ClassVar[bool] = True

    def __init__(
        self,
        n_hashes: int = 256,
        window: int | str = 4,
        *,
        degree: int = 1,
        coefficients: bool = False,
        densify: str | None = "auto",
        alphabet_size: int | None = None,
        layout: str = "partition",
        output: str = "symbols",
        random_state: int | None = 0,
    ) -> None:
        self.n_hashes = n_hashes
        self.window = window
        self.degree = degree
        self.coefficients = coefficients
        self.densify = densify
        self.alphabet_size = alphabet_size
        self.layout = layout
        self.output = output
        self.random_state = random_state

    def transform(self, X: Any) -> Any:
        """Return the symbols of every row, (n, n_hashes), or with `output="onehot"` CSR (n,
        n_hashes · alphabet).
        """
        check_is_fitted(self)
        codes = self.encode(X)
        symbols = codes.symbols()
        if self._output == "symbols":
            return symbols
        # Hash h with symbol s is column h · alphabet_size + s; an empty row has no entry.
        filled = ~codes.empty_rows()
        # window w has the columns w · R … w · R + R − 1, and its symbol chooses one of them
        columns = symbols[filled] + np.arange(
            0, self._n_features_out, self.alphabet_size_, dtype=np.int64
        )
        indptr = np.concatenate([[0], np.cumsum(filled * self.spec_.n_symbols)])
        # SciPy uses one type for both index arrays
        index_type = np.int32 if max(self._n_features_out, indptr[-1]) < 2**31 else np.int64
        parts = (
            np.ones(columns.size, dtype=np.float32),
            columns.astype(index_type).reshape(-1),
            indptr.astype(index_type),
        )
        return csr_array(parts, shape=(len(symbols), self._n_features_out))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted hasher to `path`: aside first, then in place at once. Windows are drawn
        again on loading.
        """
        check_is_fitted(self)
        fitted = {
            "seed": self.seed_,
            "n_features": self.n_features_in_,
            "window": self.window_,
            "densify": self.densify_,
            "alphabet_size": self.alphabet_size_,
            "empty_share": self.empty_share_,
        }
        write_file(
            path, "WTAHash", {"given": self._given, **fitted}, self.fingerprint_, names_tensor(self)
        )

    @classmethod
    def from_stored(cls, stored: StoredFile) -> WTAHash:
        """Return the fitted hasher that a file holds."""
        given = stored.parameter("given")
        if not isinstance(given, dict) or set(given) != set(cls().get_params()):
            raise damaged(stored.name, "has parameters that are not WTAHash's")
        hasher = cls(**given)
        try:
            hasher.n_features_in_ = whole_number(
                stored.parameter("n_features"), "n_features", low=2, high=MAX_COLUMNS
            )
            hasher._require_parameters(hasher.n_features_in_)
            hasher.seed_ = whole_number(stored.parameter("seed"), "seed", low=0, high=2**64 - 1)
            if hasher.random_state is not None and hasher.random_state != hasher.seed_:
                raise InvalidInputError(f"seed must be random_state, got {hasher.seed_}.")
            window = whole_number(
                stored.parameter("window"), "window", low=2, high=hasher.n_features_in_
            )
            densify = stored.parameter("densify")
            alphabet_size = whole_number(
                stored.parameter("alphabet_size"), "alphabet_size", low=2, high=2**32
            )
            cut = given["window"] != "auto" and given["window"] > window == hasher.n_features_in_
            for name, fitted in (
                ("window", given["window"] if cut else window),
                ("densify", densify),
                ("alphabet_size", alphabet_size),
            ):
                if given[name] not in ("auto", fitted) and not (
                    name == "alphabet_size" and given[name] is None
                ):
                    raise InvalidInputError(
                        f"{name} must be {given[name]!r} as given, got {fitted!r}."
                    )
            hasher.empty_share_ = _check_share(stored.parameter("empty_share"))
            if densify is not None:
                one_of(densify, "densify", ("rotation", "optimal"))
            hasher._set_model(window, densify, alphabet_size)
        except ValueError as error:
            raise damaged(stored.name, f"has impossible parameters: {error}") from None
        restore_names(hasher, stored)
        stored.require_no_more_tensors()
        if hasher.fingerprint_ != stored.fingerprint:
            raise damaged(stored.name, "holds a model that does not fit its fingerprint")
        return hasher

    def _learn(self, source: VectorSource) -> None:
        n_features = source.shape[1]
        self._require_parameters(n_features)
        self.seed_ = resolve_seed(self.random_state)
        sparsity = Sparsity(n_features)
        window = self.window
        if window == "auto":
            if source.shape[0] is None:
                raise InvalidInputError(
                    f"window='auto' reads rows twice, and {source.name} is an iterator. Give a "
                    "number, a file or rows."
                )
            for _, batch in source.batches():
                sparsity.count(_count_nonzeros(batch))
            window = sparsity.best_window(self.n_hashes, self.degree)
        elif int(window) > n_features:
            window = n_features
            warn_caller(
                f"window={self.window} is more than the {n_features} features of {source.name}: "
                "windows have all of them."
            )
        # A model to count empty windows with: densify and alphabet_size do not change winners.
        self._set_model(int(window), None, int(window))
        counts = np.zeros(3, dtype=np.int64)
        for _, batch in source.batches():
            counts += self._count_empty(batch)
            if self.window != "auto":
                sparsity.count(_count_nonzeros(batch))
        n_empty, n_filled, n_without = counts.tolist()
        if n_filled + n_without == 0:
            raise InvalidInputError(f"{source.name} has no rows. Give at least one row to fit.")
        # Rows of zeros are not counted: no window could be filled. Of the others, those without a
        # filled window have n_hashes empty ones.
        n_rows = sparsity.n_rows
        self.empty_share_ = (n_empty + (n_rows - n_filled) * self.n_hashes) / max(
            1, n_rows * self.n_hashes
        )
        densify = self.densify
        if densify == "auto":
            densify = "optimal" if n_empty + n_without else None
        # without densification a winner is a position in the window, below K; with it, R is chosen
        alphabet_size = self.alphabet_size or (_DENSIFIED_ALPHABET if densify else self.window_)
        self._set_model(self.window_, densify, int(alphabet_size))
        if n_rows == 0:
            warn_caller("All fitted rows are zeros: there is nothing to hash, every code is empty.")
        if self.window != "auto":
            sparsity.warn(
                self.window_, self.empty_share_, n_rows - n_filled, self.n_hashes, self.degree
            )

    def _set_model(self, window: int, densify: str | None, alphabet_size: int) -> None:
        self._given = {
            name: _to_json_value(value) for name, value in self.get_params(deep=False).items()
        }
        self._output = self._given["output"]
        self.window_ = window
        self.densify_ = densify
        self.alphabet_size_ = alphabet_size
        self.spec_ = CodeSpec(self._given["n_hashes"], max(1, (alphabet_size - 1).bit_length()))
        degree = self._given["degree"]
        plan = WindowPlan(
            self.n_features_in_,
            self.spec_.n_symbols,
            window,
            degree,
            self._given["layout"],
            self.seed_,
        )
        weighted = self._given["coefficients"] and degree > 1
        held = getattr(self, "_windows", None)
        if held is None or (held.plan, held.weighted) != (plan, weighted):
            held = Windows(plan, weighted)
        self._windows: Windows = held
        settings = {
            "densify": densify,
            "alphabet_size": alphabet_size,
            "coefficients": weighted,
            **asdict(plan),
        }
        self.fingerprint_ = fingerprint("WTAHash", settings, {})
        self._donors = Donors(densify, self.spec_.n_symbols, window, alphabet_size, self.seed_)

    def _codes(self, batch: Any) -> Codes:
        n = batch.shape[0]
        # Winners become symbols, densified where windows are empty, and symbols become bit planes,
        # block by block while they are in the cache.
        words = np.zeros((n, self.spec_.bits_per_symbol, self.spec_.plane_words), dtype=WORD)
        planes = words.view(np.uint8)
        empty = np.zeros(n, dtype=bool)
        alphabet = np.int64(self.alphabet_size_)
        donors = self._donors
        donors.prepare()
        self._windows.prepare(sparse=issparse(batch))

        def pack(piece: slice) -> None:
            room = np.empty((5, self.spec_.n_symbols), dtype=np.int32)
            symbols = np.empty(self.spec_.n_symbols, dtype=np.uint32)
            low_bytes = np.empty(8 * self.spec_.plane_bytes, dtype=np.uint8)
            for rows, winners in find_winners(batch, piece, self._windows):
                pack_winners_into(
                    winners,
                    alphabet,
                    self.window_ > self.alphabet_size_,
                    donors.offsets,
                    donors.scheme,
                    donors.probes,
                    room,
                    symbols,
                    low_bytes,
                    planes[rows],
                    empty[rows],
                )

        threads.run(pack, cut_rows(n))
        return Codes.from_parts(words, self.spec_, empty)

    def _symbols(self, batch: Any) -> npt.NDArray[Any]:
        return self._codes(batch).symbols()

    def _count_empty(self, batch: Any) -> npt.NDArray[np.int64]:
        """Count the empty windows of rows with a filled one, those rows, and the others."""
        self._windows.prepare(sparse=issparse(batch))

        def count(piece: slice) -> npt.NDArray[np.int64]:
            counts = np.zeros(3, dtype=np.int64)
            for _, winners in find_winners(batch, piece, self._windows):
                count_empty_into(winners, counts)
            return counts

        return sum(threads.run(count, cut_rows(batch.shape[0])), start=np.zeros(3, dtype=np.int64))

    def _require_parameters(self, n_features: int) -> None:
        whole_number(self.n_hashes, "n_hashes", low=1, high=_MAX_HASHES)
        whole_number(self.degree, "degree", low=1, high=64)
        if not isinstance(self.coefficients, (bool, np.bool_)):
            raise InvalidInputError(
                f"coefficients must be True or False, got {self.coefficients!r}."
            )
        if self.densify is not None and self.densify not in ("auto", "rotation", "optimal"):
            raise InvalidInputError(
                f"densify must be 'auto', 'rotation', 'optimal' or None, got {self.densify!r}."
            )
        if self.alphabet_size is not None:
            whole_number(self.alphabet_size, "alphabet_size", low=2, high=2**32)
        one_of(self.layout, "layout", LAYOUTS)
        one_of(self.output, "output", ("symbols", "onehot"))
        resolve_seed(self.random_state)
        if n_features < 2:
            raise InvalidInputError(
                f"X must have at least 2 features to compare, got {n_features} feature(s)."
            )
        if self.window != "auto":
            if isinstance(self.window, str):
                raise InvalidInputError(
                    f"window must be a whole number or 'auto', got {self.window!r}."
                )
            whole_number(self.window, "window", low=2)

    @property
    def _n_features_out(self) -> int:
        return self.spec_.n_symbols * (self.alphabet_size_ if self._output == "onehot" else 1)


def _count_nonzeros(batch: Any) -> npt.NDArray[np.int64]:
    """Count the components of every row that are not zero."""
    counts: npt.NDArray[np.int64]
    if issparse(batch):
        # Nonzeros before every stored entry: CSR may store zeros, too.
        stored = np.concatenate([[0], np.cumsum(batch.data != 0)])
        counts = np.diff(stored[batch.indptr])
        return counts
    counts = np.count_nonzero(batch, axis=1).astype(np.int64, copy=False)
    return counts


def _check_share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidInputError(f"empty_share must be between 0 and 1, got {value!r}.")
    return float(value)


def _to_json_value(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else value
