"""SignHash: the signs of the coordinates as they come."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from bitkin.checks import whole_number
from bitkin.codes import Codes
from bitkin.errors import InvalidInputError
from bitkin.estimators.feature_names import names_tensor, restore_names
from bitkin.hashers.base import Hasher
from bitkin.hashers.sign_hash.coordinate_signs import CoordinateSigns
from bitkin.io.layout import damaged
from bitkin.io.vectors import VectorSource
from bitkin.io.writer import write_file
from bitkin.notices import warn_caller

if TYPE_CHECKING:
    from bitkin.io.reader import StoredFile

MOST_FEATURES = 2**20
_FEW_ROWS = 32  # say little about what is constant


class SignHash(Hasher):
    """Bits that are the signs of the coordinates as they come: bit j of x is xⱼ > 0.

    It is what sentence-transformers calls "ubinary", bit for bit and byte for byte: codes that were
    made there enter a `Collection` or an index of this hasher as they are, and queries are encoded
    here. Estimates of distances work as for a `ProjectionHash`.

    Parameters
    ----------
    n_features : int or None, default None
        Length of a vector, which is that of a code, at most 2**20; None takes it from `fit`.

    Attributes
    ----------
    spec_ : CodeSpec
    fingerprint_ : str
        The same for all of one width.
    n_features_in_ : int

    Notes
    -----
    Nothing is learned: `SignHash(384).fit()` will do. Given rows, `fit` looks at each once and
    warns where most coordinates never change their sign, so that their bits tell nothing. Use it
    for codes that exist already, and for embeddings around 0; a `ProjectionHash` makes codes of any
    length and of any vectors. True 10 by cosine in the best 100 by codes, and by the estimate:
    0.98 and 1.00 for MiniLM sentence embeddings (384 bits), 0.85 and 0.96 for GloVe (100), next to
    none for GIST (960), whose numbers are all positive.

    Symbol j is bit 7 − j % 8 of byte j // 8, so `encode(X).to_bytes()` is
    `np.packbits(X > 0, axis=1)`. A zero has no bit. Numbers are taken as float32.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((1000, 24)).astype(np.float32)
    >>> hasher = bitkin.SignHash(24).fit()
    >>> bool((hasher.encode(X).to_bytes() == np.packbits(X > 0, axis=1)).all())
    True

    Codes that sentence-transformers made, found by the vector of a query:

    >>> ubinary = np.packbits(X > 0, axis=1)
    >>> codes = bitkin.interop.from_sentence_transformers(ubinary, n_bits=24)
    >>> collection = bitkin.Collection.create(None, hasher, vectors=None, metric="cosine")
    >>> ids = collection.add_codes(codes)
    >>> collection.search(X[:3], k=1).ids[:, 0].tolist()
    [0, 1, 2]
    """

    model_: CoordinateSigns

    @classmethod
    def variants(
        cls, n_bits: int, *, sparse: bool, metric: str = "l2", random_state: Any = 0
    ) -> dict[str, Hasher]:
        """Return the one form there is: it has a bit per column, whatever is asked for. Rows that
        are CSR have next to no signs.
        """
        return {} if sparse else {"sign": cls()}

    def __init__(self, n_features: int | None = None) -> None:
        self.n_features = n_features

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Take the number of features from `n_features`, or from the rows `X`; `y` is ignored."""
        if X is not None:
            return super().fit(X)
        wanted = self._wanted_features()
        if wanted is None:
            raise InvalidInputError(
                "n_features must be given to fit without X, got None. Write SignHash(384).fit(), "
                "or fit on vectors."
            )
        self.__dict__.pop("feature_names_in_", None)
        self._become_fitted(wanted)
        return self

    @property
    def fingerprint_(self) -> str:  # type: ignore[override]
        """Equal for two fitted hashers exactly when they make the same codes."""
        return self.model_.fingerprint

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted hasher to `path`: aside first, then in place at once."""
        check_is_fitted(self)
        given = {"n_features": None if self.n_features is None else self.n_features_in_}
        parameters = {"n_features": self.n_features_in_, "given": given}
        write_file(path, "SignHash", parameters, self.fingerprint_, names_tensor(self))

    @classmethod
    def from_stored(cls, stored: StoredFile) -> SignHash:
        """Return the fitted hasher that a file holds."""
        n_features = stored.parameter("n_features")
        hasher = cls(n_features)
        try:
            hasher.fit()
        except InvalidInputError as error:
            raise damaged(stored.name, f"holds what makes no hasher: {error}") from None
        # files of older versions do not say whether it was given
        given = stored.optional_parameter("given")
        if given not in (None, {"n_features": None}, {"n_features": n_features}):
            raise damaged(stored.name, f"was given {given!r} and has {n_features} features")
        hasher.n_features = n_features if given is None else given["n_features"]
        if hasher.fingerprint_ != stored.fingerprint:
            raise damaged(stored.name, "has a fingerprint that is not its own")
        restore_names(hasher, stored)
        return hasher

    def _learn(self, source: VectorSource) -> None:
        wanted, n_features = self._wanted_features(), source.shape[1]
        if wanted is not None and wanted != n_features:
            raise InvalidInputError(
                f"{source.name} must have {wanted} features, as n_features says, got {n_features}."
            )
        if n_features > MOST_FEATURES:
            raise InvalidInputError(
                f"{source.name} must have at most {MOST_FEATURES:,} features, got {n_features:,}."
            )
        seen, n_rows = source.fold(partial(_no_signs, n_features), _look_at_signs, _join_signs)
        if n_rows == 0:
            raise InvalidInputError(f"{source.name} has no rows. Give at least one row to fit.")
        self._become_fitted(n_features)
        n_constant = int((~seen.all(axis=0)).sum())
        if n_rows >= _FEW_ROWS and 2 * n_constant > n_features:
            warn_caller(
                f"{n_constant} of {n_features} coordinates have one sign in all {n_rows} rows of "
                f"{source.name}: their bits tell nothing. SignHash is for vectors around 0; "
                "ProjectionHash subtracts the mean."
            )

    def _wanted_features(self) -> int | None:
        if self.n_features is None:
            return None
        return whole_number(self.n_features, "n_features", low=1, high=MOST_FEATURES)

    def _become_fitted(self, n_features: int) -> None:
        self.model_ = CoordinateSigns(n_features)
        self.spec_ = self.model_.spec
        self.n_features_in_ = n_features

    def _symbols(self, batch: Any) -> npt.NDArray[Any]:
        return (self.model_.project(batch) > 0).view(np.uint8)

    def _codes(self, batch: Any) -> Codes:
        words = self.model_.words(batch)
        words.flags.writeable = False
        return Codes(words[:, None, :], self.spec_)


class SignsSeen(NamedTuple):
    """Which columns were positive in some row, and which were not: bool (2, n_features)."""

    seen: npt.NDArray[np.bool_]
    n_rows: int


def _no_signs(n_features: int) -> SignsSeen:
    return SignsSeen(np.zeros((2, n_features), dtype=bool), 0)


def _look_at_signs(signs: SignsSeen, _: int, batch: Any) -> SignsSeen:
    return SignsSeen(signs.seen | _signs_seen(batch), signs.n_rows + batch.shape[0])


def _join_signs(some: SignsSeen, more: SignsSeen) -> SignsSeen:
    return SignsSeen(some.seen | more.seen, some.n_rows + more.n_rows)


def _signs_seen(batch: Any) -> npt.NDArray[np.bool_]:
    """Return which columns hold a positive number, and which one that is not: (2, n_features)."""
    if not issparse(batch):
        positive = batch > 0
        return np.stack([positive.any(axis=0), ~positive.all(axis=0)])
    positive = np.bincount(batch.indices[batch.data > 0], minlength=batch.shape[1])
    return np.stack([positive > 0, positive < batch.shape[0]])
