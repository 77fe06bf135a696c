"""WTAHash: codes that say which of a few components is the largest."""

from __future__ import annotations

import operator
import os
from dataclasses import asdict, replace
from functools import partial
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
from bitkin.hashers.wta.first_pass import FirstPass, count_windows, look_at_rows, no_windows
from bitkin.hashers.wta.losses import Losses, find_losses
from bitkin.hashers.wta.parameters import (
    FILLERS,
    MAX_ALPHABET,
    json_parameters,
    require_parameters,
)
from bitkin.hashers.wta.row_survey import RowSurvey
from bitkin.hashers.wta.standardizer import Standardizer
from bitkin.hashers.wta.window_size import DEFAULT_WINDOW
from bitkin.hashers.wta.windows import WindowPlan, Windows
from bitkin.hashers.wta.winners import cut_rows, find_winners, is_sparse_work
from bitkin.io.layout import damaged
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.rows import MAX_COLUMNS, lone_as_row
from bitkin.io.writer import write_file
from bitkin.kernels.hashing.wta import count_empty_into, pack_winners_into
from bitkin.notices import warn_caller
from bitkin.randomness import resolve_seed

if TYPE_CHECKING:
    from bitkin.io.reader import StoredFile

_AUTOMATIC_FILLER = "optimal"
_LARGEST_CHOSEN_ALPHABET = 256
_NOT_IN_OLD_FILES = {"center": False, "scale": False}


class WTAHash(Hasher):
    """Winner-take-all codes: a symbol is the position of the largest among `window` components
    picked at random.

    Dense rows are centred first: the component wins that is largest compared with its mean. Codes
    depend on the order of such components only. With `center=False`, without empty windows and at
    degree 1, any change that keeps the order of a row keeps its code, such as scaling the row or
    adding a constant to it. Two rows, centred or not, share a symbol with a probability that
    `bitkin.theory` knows: `wta_similarity` without ties, `wta_collision` with them, `good_kernel`
    where empty windows are filled.

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
        two empty windows match. "auto" fills every empty window by "optimal", in rows that were
        fitted and in those that come later. In centred rows zeros are numbers like others, except
        in a row with fewer nonzeros than 99 % of the fitted ones, or than a quarter of their mean:
        there a window that looks at zeros only is empty and filled.
    alphabet_size : int or None, default None
        Symbols are reduced modulo this number (the paper's R). None: `window` where no fitted row
        has an empty window, else the power of two from `window` on, up to 256, which costs no more
        bits. With `output="onehot"` or `densify="rotation"` it is then 256: both need borrowed
        symbols that differ.
    layout : {"partition", "independent"}, default "partition"
        Cut windows out of as few permutations as possible, or draw every one on its own.
    center : bool or "auto", default "auto"
        Subtract the mean of every feature first. From degree 2 on the smallest number that is left
        is subtracted too, so that products are of numbers that are not negative. "auto" decides by
        the values, so that a matrix and its sparse copy get one model: on where at most a quarter
        of the numbers is zero; up to nine tenths where features differ in their means (over 5 % of
        all variance is between them), which images do and bags of words do not, or where an even
        degree would lose signs; off with fewer than 10 rows or more than 65,536 features. It does
        not know your metric: centred codes depend on the lengths of rows, so for cosine scale rows
        of different lengths to length 1 first, or give False. Where lengths differ a lot (a
        standard deviation of over 45 % of their mean), it warns. Centred sparse rows take the time
        of dense ones.
    scale : bool or "auto", default "auto"
        Divide every feature by its standard deviation. "auto" does so with centred features whose
        units cannot be compared: a twentieth of them spreads over ten times as far as the median.
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
    window_, alphabet_size_, center_, scale_ : int, int, bool, bool
        What "auto" and None became.
    densify_ : str or None
        What "auto" became for the fitted rows: None where no window of theirs is empty, those of
        the few centred rows apart that have far fewer nonzeros than the others.
    empty_share_ : float
        Share of empty windows among the fitted rows, those of zeros apart; where they are centred,
        the share of windows whose features never vary.
    seed_ : int

    Notes
    -----
    A row of zeros, and any other without a filled window, is an empty code, which matches nothing.
    Codes are the same on every machine. 64-bit integers are compared as float64, exact up to 2⁵³.

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
    >>> hasher.center_, hasher.scale_
    (True, False)
    >>> order = bitkin.WTAHash(n_hashes=64, center=False).fit(X)
    >>> bool((order.transform(X) == order.transform(3 * X + 1)).all())
    True
    """

    may_be_empty: ClassVar[bool] = True

    @classmethod
    def variants(
        cls, n_bits: int, *, sparse: bool, metric: str = "l2", random_state: Any = 0
    ) -> dict[str, Hasher]:
        """Return windows of 4, two bits per symbol, and for CSR those that suit the rows, whose
        alphabet has 4 values as well.
        """
        n_hashes = max(1, n_bits // 2)
        forms: dict[str, Hasher] = {
            "wta": cls(n_hashes, alphabet_size=4, random_state=random_state)
        }
        if sparse:
            forms["wta, window auto"] = cls(
                n_hashes, window="auto", alphabet_size=4, random_state=random_state
            )
        return forms

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
        center: bool | str = "auto",
        scale: bool | str = "auto",
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
        self.center = center
        self.scale = scale
        self.output = output
        self.random_state = random_state

    def transform(self, X: Any) -> Any:
        """Return the symbols of every row, (n, n_hashes), or with `output="onehot"` CSR (n,
        n_hashes · alphabet).
        """
        check_is_fitted(self)
        codes = self._encode_rows(X)  # a lone vector is no matrix
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

    def losses(self, X: Any) -> Losses:
        """Return what every symbol would lose against the row's own: float32 (n, n_hashes,
        alphabet_size_), from 0 to 1.

        A row's code says which component of a window won. For a vector whose components are known,
        a query, the largest component minus the one that won elsewhere says more than whether the
        two winners differ: Σ losses[j, symbol j of a row] ranks rows better than the distance of
        codes. Numbers are divided by the largest loss of the row. Several components may share a
        symbol: the smallest loss counts. Windows that are empty have the losses of their donor,
        times 1/8; all are 0 for a row with nothing to hash.

        `Collection.search` ranks by them; there are n_hashes · alphabet_size_ numbers per row.

        Examples
        --------
        >>> import numpy as np, bitkin
        >>> X = np.random.default_rng(0).standard_normal((1000, 20))
        >>> hasher = bitkin.WTAHash(n_hashes=64).fit(X)
        >>> losses = hasher.losses(X[:1])[0]
        >>> losses.shape, losses[np.arange(64), hasher.transform(X[:1])[0]].max().item()
        ((64, 4), 0.0)
        """
        check_is_fitted(self)
        parts = [self.batch_losses(batch) for _, batch in self._batches(lone_as_row(X))]
        shape = (0, self.spec_.n_symbols, self.alphabet_size_)
        return np.concatenate([np.empty(shape, dtype=np.float32), *parts])

    def batch_losses(self, batch: Any) -> Losses:
        """Return the `losses` of a checked batch."""
        return find_losses(batch, self._windows, self._standardizer, self._donors)

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
            "filler": self._donors.densify,
            "alphabet_size": self.alphabet_size_,
            "empty_share": self.empty_share_,
            "fewest_nonzeros": self._standardizer.fewest_nonzeros,
        }
        tensors = {**self._standardizer.arrays(), **names_tensor(self)}
        write_file(path, "WTAHash", {"given": self._given, **fitted}, self.fingerprint_, tensors)

    @classmethod
    def from_stored(cls, stored: StoredFile) -> WTAHash:
        """Return the fitted hasher that a file holds."""
        given = stored.parameter("given")
        if isinstance(given, dict) and not given.keys() & _NOT_IN_OLD_FILES.keys():
            given = {**given, **_NOT_IN_OLD_FILES}
        if not isinstance(given, dict) or set(given) != set(cls().get_params()):
            raise damaged(stored.name, "has parameters that are not WTAHash's")
        hasher = cls(**given)
        try:
            hasher.n_features_in_ = whole_number(
                stored.parameter("n_features"), "n_features", low=2, high=MAX_COLUMNS
            )
            require_parameters(given, hasher.n_features_in_)
            hasher.seed_ = whole_number(stored.parameter("seed"), "seed", low=0, high=2**64 - 1)
            if hasher.random_state is not None and hasher.random_state != hasher.seed_:
                raise InvalidInputError(f"seed must be random_state, got {hasher.seed_}.")
            window = whole_number(
                stored.parameter("window"), "window", low=2, high=hasher.n_features_in_
            )
            densify = stored.parameter("densify")
            alphabet_size = whole_number(
                stored.parameter("alphabet_size"), "alphabet_size", low=2, high=MAX_ALPHABET
            )
            cut = given["window"] != "auto" and given["window"] > window == hasher.n_features_in_
            standardizer = _read_standardizer(stored, hasher.n_features_in_)
            for name, fitted in (
                ("window", given["window"] if cut else window),
                ("densify", densify),
                ("alphabet_size", alphabet_size),
                ("center", standardizer.centre is not None),
                ("scale", standardizer.factors is not None),
            ):
                if given[name] not in ("auto", fitted) and not (
                    name == "alphabet_size" and given[name] is None
                ):
                    raise InvalidInputError(
                        f"{name} must be {given[name]!r} as given, got {fitted!r}."
                    )
            hasher.empty_share_ = _check_share(stored.parameter("empty_share"))
            if densify is not None:
                one_of(densify, "densify", FILLERS)
            filler = densify
            if densify is None and given["densify"] == "auto":
                # files of older versions name none: there such windows stay 0
                filler = stored.optional_parameter("filler")
                if filler not in (None, _AUTOMATIC_FILLER):
                    raise InvalidInputError(f"filler must be what 'auto' takes, got {filler!r}.")
            hasher._set_model(window, densify, filler, alphabet_size, standardizer)
        except ValueError as error:
            raise damaged(stored.name, f"has impossible parameters: {error}") from None
        restore_names(hasher, stored)
        stored.require_no_more_tensors()
        if hasher.fingerprint_ != stored.fingerprint:
            raise damaged(stored.name, "holds a model that does not fit its fingerprint")
        return hasher

    def _learn(self, source: VectorSource) -> None:
        require_parameters(self.get_params(deep=False), source.shape[1])
        self.seed_ = resolve_seed(self.random_state)
        survey, standardizer, counts = self._survey(source)
        n_empty, n_filled, n_without = counts.tolist()
        n_rows = survey.sparsity.n_rows
        if standardizer.keeps_zeros:
            # Rows of zeros are not counted: no window could be filled. Of the others, those
            # without a filled window have n_hashes empty ones.
            self.empty_share_ = (n_empty + (n_rows - n_filled) * self.n_hashes) / max(
                1, n_rows * self.n_hashes
            )
        else:
            windows = self._windows.features[0].reshape(self.n_hashes, -1)
            self.empty_share_ = survey.constant_share(windows)
            if self.densify is not None:
                standardizer = replace(standardizer, fewest_nonzeros=survey.sparsity.fewest_usual())
        densify = filler = self.densify
        if densify == "auto":
            # rows to come may have empty windows, whether fitted ones have or not
            filler = _AUTOMATIC_FILLER
            densify = filler if self.empty_share_ > 0 or n_without else None
        alphabet_size = self.alphabet_size or self._choose_alphabet(self.window_, densify)
        self._set_model(self.window_, densify, filler, int(alphabet_size), standardizer)
        if not standardizer.keeps_zeros:
            return
        if n_rows == 0:
            warn_caller("All fitted rows are zeros: there is nothing to hash, every code is empty.")
        if self.window != "auto":
            survey.sparsity.warn(
                self.window_, self.empty_share_, n_rows - n_filled, self.n_hashes, self.degree
            )

    def _survey(
        self, source: VectorSource
    ) -> tuple[RowSurvey, Standardizer, npt.NDArray[np.int64]]:
        """Read the rows, once unless windows are to be chosen or the first rows were to be centred
        and all together are not, and set a model of the right windows.

        Return what was seen, what to do with rows before they are hashed, and the empty windows of
        rows as they are (as `count_empty`), which mean nothing if they are to be centred.
        """
        begin = partial(RowSurvey, source.shape[1], self.center, self.scale, self.degree)
        window, standardizer = self.window, None
        if window == "auto":
            if source.shape[0] is None:
                raise InvalidInputError(
                    f"window='auto' reads rows twice, and {source.name} is an iterator. Give a "
                    "number, a file or rows."
                )
            survey = source.fold(begin, look_at_rows, RowSurvey.merge)
            standardizer = survey.standardizer()
            window = (
                survey.sparsity.best_window(self.n_hashes, self.degree)
                if standardizer.keeps_zeros
                else min(DEFAULT_WINDOW, source.shape[1])  # hardly a window will be empty
            )
        elif int(window) > source.shape[1]:
            window = source.shape[1]
            warn_caller(
                f"window={self.window} is more than the {window} features of {source.name}: "
                "windows have all of them."
            )
        # densify and alphabet_size do not change winners
        self._set_model(int(window), None, None, int(window), Standardizer())
        counts: npt.NDArray[np.int64] | None = None
        if standardizer is None:
            may_skip = source.shape[0] is not None or self.center != "auto"
            look = partial(FirstPass.look, may_skip, self.count_empty)
            seen = source.fold(partial(FirstPass.begin, begin), look, FirstPass.merge)
            survey, counts = seen.survey, seen.counts
            if survey.n_rows == 0:
                raise InvalidInputError(f"{source.name} has no rows. Give at least one row to fit.")
            standardizer = survey.standardizer()
        if counts is None and standardizer.keeps_zeros:
            counts = source.fold(no_windows, partial(count_windows, self.count_empty), operator.add)
        return survey, standardizer, no_windows() if counts is None else counts

    def _choose_alphabet(self, window: int, densify: str | None) -> int:
        """Return R: a winner is a position below K. Borrowed symbols are reduced: at equal bytes
        the power of two from K on is best, up to a byte. Linear models want them told apart, and
        so does rotation, where whole runs of windows borrow from one and would agree together.
        """
        if densify is None:
            return window
        if self.output == "onehot" or densify == "rotation":
            return _LARGEST_CHOSEN_ALPHABET
        return min(_LARGEST_CHOSEN_ALPHABET, 1 << (window - 1).bit_length())

    @property
    def mean_(self) -> npt.NDArray[np.float64] | None:
        """What is subtracted from rows before their features are compared; None if nothing is."""
        check_is_fitted(self)
        return self._standardizer.centre

    def _set_model(
        self,
        window: int,
        densify: str | None,
        filler: str | None,
        alphabet_size: int,
        standardizer: Standardizer,
    ) -> None:
        self._given = json_parameters(self.get_params(deep=False))
        self._output = self._given["output"]
        self.window_ = window
        self.densify_ = densify
        self.alphabet_size_ = alphabet_size
        self.center_ = standardizer.centre is not None
        self.scale_ = standardizer.factors is not None
        self._standardizer = standardizer
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
            "densify": filler,
            "alphabet_size": alphabet_size,
            "coefficients": weighted,
            **asdict(plan),
        }
        if standardizer.fewest_nonzeros:  # models of older versions know no such number
            settings["fewest_nonzeros"] = standardizer.fewest_nonzeros
        self.fingerprint_ = fingerprint("WTAHash", settings, standardizer.arrays())
        self._donors = Donors(filler, self.spec_.n_symbols, window, alphabet_size, self.seed_)

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
        self._windows.prepare(sparse=is_sparse_work(batch, self._standardizer))

        def pack(piece: slice) -> None:
            room = np.empty((5, self.spec_.n_symbols), dtype=np.int32)
            symbols = np.empty(self.spec_.n_symbols, dtype=np.uint32)
            low_bytes = np.empty(8 * self.spec_.plane_bytes, dtype=np.uint8)
            for rows, winners in find_winners(batch, piece, self._windows, self._standardizer):
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

    def count_empty(self, batch: Any) -> npt.NDArray[np.int64]:
        """Count the empty windows of rows with a filled one, those rows, and the others."""
        self._windows.prepare(sparse=issparse(batch))

        def count(piece: slice) -> npt.NDArray[np.int64]:
            counts = np.zeros(3, dtype=np.int64)
            for _, winners in find_winners(batch, piece, self._windows, self._standardizer):
                count_empty_into(winners, counts)
            return counts

        return sum(threads.run(count, cut_rows(batch.shape[0])), start=np.zeros(3, dtype=np.int64))

    @property
    def _n_features_out(self) -> int:
        return self.spec_.n_symbols * (self.alphabet_size_ if self._output == "onehot" else 1)


def _check_share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidInputError(f"empty_share must be between 0 and 1, got {value!r}.")
    return float(value)


def _read_standardizer(stored: StoredFile, n_features: int) -> Standardizer:
    """Return what a file says about centring and scaling; files of old versions say nothing."""
    centre = stored.optional_tensor("centre", np.float64, (n_features,))
    factors = stored.optional_tensor("factors", np.float64, (n_features,))
    if centre is not None and not np.isfinite(centre).all():
        raise InvalidInputError("centre must be finite.")
    if factors is not None and not (np.isfinite(factors).all() and (factors > 0).all()):
        raise InvalidInputError("factors must be finite and above 0.")
    fewest = stored.optional_parameter("fewest_nonzeros")  # older files have none
    most = 0 if centre is None else n_features
    fewest = whole_number(fewest or 0, "fewest_nonzeros", low=0, high=most)
    return Standardizer(centre, factors, fewest)
