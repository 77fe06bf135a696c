"""MinHash: codes of sets, equal in a symbol as often as the sets are alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from bitkin import threads
from bitkin.checks import one_of, whole_number
from bitkin.code_spec import WORD, CodeSpec
from bitkin.codes import Codes, distances, require_codes, require_comparable
from bitkin.errors import InvalidInputError
from bitkin.estimators.feature_names import names_tensor, restore_names
from bitkin.estimators.fingerprint import fingerprint
from bitkin.hashers.base import Hasher
from bitkin.hashers.minhash.jaccard import (
    FACTORS,
    jaccard_from_distances,
    jaccard_standard_error,
    require_sizes,
)
from bitkin.io.layout import damaged
from bitkin.io.vectors import VectorSource
from bitkin.io.vectors.batch import require_finite
from bitkin.io.vectors.rows import MAX_COLUMNS
from bitkin.io.writer import write_file
from bitkin.randomness import Draws, resolve_seed
from bitkin.sets.members import (
    cut_pieces,
    cut_rows,
    is_matrix,
    piece_to_sets,
    require_sets,
    rows_to_sets,
)
from bitkin.sets.sets import Sets, cut_sets
from bitkin.sets.shingles import cut_texts, shingle_parameters, shingle_texts

if TYPE_CHECKING:
    from bitkin.io.reader import StoredFile
    from bitkin.kernels.hashing.minhash import MinHashTables, RoundTables

_METHODS = ("fast-similarity", "one-permutation", "independent")
MAX_HASHES = 2**20
_MEMBERS_PER_PIECE = 1 << 16
_PIECES_PER_THREAD = 8  # read ahead, so that a stream of sets is never held whole
_Piece = TypeVar("_Piece")


class MinHash(Hasher):
    """Codes of sets: a symbol of two codes is equal with the chance that is the sets' Jaccard
    similarity.

    That is the number of members both have over the number either has. A symbol stands for the
    member that comes first in a random order of all members there could be, cut to
    `bits_per_symbol` bits.

    `X` can be

    - a CSR matrix: a row is the set of its columns with a value other than zero, however large the
      value;
    - a 2-D array or data frame: the same, written out;
    - a list, or anything that yields sets: each a list, tuple, set or flat array of whole numbers
      from 0 to 2**64 − 1, or of strings. The number j and column j are the same member; a string is
      a hash of its UTF-8 bytes;
    - `Sets`, such as `shingles` returns;
    - an open `VectorSource`, its rows as in a matrix.

    Mind that `[[5, 3], [8, 3]]` is two sets of numbers and `np.array([[5, 3], [8, 3]])` a matrix of
    two full rows. The order of members does not matter, nor does one that is given twice. An empty
    set has nothing to hash: its code is `empty` and equal to nothing.

    Parameters
    ----------
    n_hashes : int, default 128
        Symbols a code, at most 2**20. The error of an estimate falls with its square root.
    bits_per_symbol : int, default 8
        1 to 32 (the b of b-bit MinHash). Symbols of different members collide with chance 2**−b,
        which `jaccard` corrects for. For a given size of code, fewer bits and more hashes are more
        exact where similarity is high.
    method : {"fast-similarity", "one-permutation", "independent"}, default "fast-similarity"
        "fast-similarity" throws all members into n_hashes bins, round after round, until no bin is
        empty: 0.7 of the error of independent hashes for sets with fewer members than hashes, and
        never more. "one-permutation" is its first round; an empty bin then borrows from a filled
        one (optimal densification): the earlier default, faster for sets of 100 to 500 members,
        about as exact for sets with more members than hashes, and with errors up to 1.7 times as
        large for small sets. "independent" hashes every member n_hashes times: slower except for
        sets of a few members, with the same error for sets of any size.
    random_state : int or None, default 0
        The seed of all draws; None takes a fresh one, kept as `seed_` and in files.

    Attributes
    ----------
    spec_ : CodeSpec
    fingerprint_ : str
        Equal for two fitted hashers exactly when they make the same codes.
    seed_ : int
    n_features_in_ : int
        Only where it was fitted on a matrix; from then on a matrix must have as many columns.

    Notes
    -----
    Nothing is learned from data: `fit()` without any will do, and members of lists are checked when
    they are encoded.

    Codes are the same on every machine and for every number of threads. Members are put in order by
    a keyed one-to-one function of all 64-bit numbers, not by a table, so the universe costs
    nothing.

    A code cannot be merged with another one into that of the union of their sets: symbols are cut
    to a few bits, which no longer say which value was the least.

    References
    ----------
    Dahlgaard, Knudsen and Thorup, "Fast Similarity Sketching" (2017): rounds of throws into bins.
    Here a member comes by every bin once, in an order of its own, as in Ertl, "SuperMinHash: A New
    Minwise Hashing Algorithm for Jaccard Similarity Estimation" (2017): no throw is wasted on a bin
    that this member had, and for a few members the error is smaller still (0.0241 against 0.0333
    for sets of 5 and 128 hashes).

    Shrivastava, "Optimal Densification for Fast and Accurate Minwise Hashing" (2017). Here a donor
    is found along one permutation of the bins for every empty bin, instead of by hashing on and on:
    no bin is asked twice, and the search ends. And a donor gives its largest hash instead of its
    least, mostly another member: with 128 hashes and 200 members a set the variance falls from 0.78
    to 0.64 of that of independent hashes. Li and König, "b-Bit Minwise Hashing" (2010).

    Examples
    --------
    >>> import bitkin
    >>> hasher = bitkin.MinHash(n_hashes=256).fit()  # true similarities below: 3 / 4 and 3 / 5
    >>> a = hasher.encode([["red", "green", "blue"], ["red", "blue", "black", "white"]])
    >>> b = hasher.encode([["red", "blue", "green", "white"], []])
    >>> hasher.jaccard(a, b).round(2)
    array([[0.75, 0.  ],
           [0.6 , 0.  ]])
    >>> hasher.jaccard_error(a, b).round(2)
    array([[0.03, 0.  ],
           [0.03, 0.  ]])

    Texts, by their runs of three words:

    >>> texts = ["to be or not to be, that is the question", "to be or not to be, a question"]
    >>> codes = hasher.encode_texts(texts)
    >>> codes == hasher.encode(bitkin.shingles(texts))
    True
    """

    may_be_empty = True
    notices_not_finite = True  # before hashing, in a pass that costs next to nothing beside it

    @classmethod
    def variants(
        cls, n_bits: int, *, sparse: bool, metric: str = "l2", random_state: Any = 0
    ) -> dict[str, Hasher]:
        """Return hashes of 4 and of 8 bits, for CSR rows taken as sets of their columns."""
        if not sparse:
            return {}
        return {
            f"minhash, {bits}-bit": cls(
                max(1, n_bits // bits), bits_per_symbol=bits, random_state=random_state
            )
            for bits in (4, 8)
        }

    def __init__(
        self,
        n_hashes: int = 128,
        *,
        bits_per_symbol: int = 8,
        method: str = "fast-similarity",
        random_state: int | None = 0,
    ) -> None:
        self.n_hashes = n_hashes
        self.bits_per_symbol = bits_per_symbol
        self.method = method
        self.random_state = random_state

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Draw the hash functions; `X` only fixes the columns, where it is a matrix. `y` is
        ignored.
        """
        if X is not None and not isinstance(X, Sets) and is_matrix(X):
            return super().fit(X)
        if X is not None and not isinstance(X, Sets):
            require_sets(X)
        self._draw()
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        return self

    def encode(self, X: Any) -> Codes:
        """Return the codes of every set, packed, under this hasher's fingerprint.

        A flat array is one row, where this was fitted on a matrix; else it is refused.
        """
        check_is_fitted(self)
        if isinstance(X, Sets):
            return self._encode_sets(X).with_fingerprint(self.fingerprint_)
        if is_matrix(X):
            if getattr(X, "ndim", 2) == 1 and not hasattr(self, "n_features_in_"):
                raise InvalidInputError(
                    "X must have two dimensions, a set a row, got one dimension: that may be a set "
                    "of numbers, or a row of columns. Reshape your data: wrap a set as [X], make a "
                    "row with X.reshape(1, -1)."
                )
            return super().encode(X)
        return self._encode_pieces(cut_pieces(X), piece_to_sets)

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Return the symbols of every set: uint8, uint16 or uint32 (n, n_hashes); those of an empty
        set are 0.
        """
        if not isinstance(X, Sets) and is_matrix(X):
            return super().transform(X)
        return self.encode(X).symbols()

    def encode_texts(
        self, texts: Iterable[str], *, kind: str = "words", size: int | None = None
    ) -> Codes:
        """Return the codes of `shingles(texts, kind=kind, size=size)`, without holding all its sets
        in memory.
        """
        check_is_fitted(self)
        kind, size = shingle_parameters(kind, size)
        return self._encode_pieces(cut_texts(texts), lambda piece: shingle_texts(piece, kind, size))

    def jaccard(self, a: Codes, b: Codes) -> npt.NDArray[np.float64]:
        """Estimate the Jaccard similarity of every set of `a` and every set of `b`: float64
        (len(a), len(b)).

        Symbols that are equal by collision are allowed for, and the result is clipped to 0 … 1;
        before clipping it has no bias. An empty set is 0 alike to everything, itself included.
        """
        return jaccard_from_distances(self._distances(a, b), self.spec_)

    def jaccard_error(self, a: Codes, b: Codes, *, sizes: Any = None) -> npt.NDArray[np.float64]:
        """Return the standard error of `jaccard(a, b)`: float64 (len(a), len(b)).

        It is that of n_hashes coin tosses, the truth for "independent". While nothing is known
        about the sets, it is an upper bound for "fast-similarity": the true error is 0.7 times as
        large for sets with fewer members than hashes, and approaches it for far larger ones. With
        "one-permutation" it is only near the truth: where both sets together have fewer members
        than about 0.37 · n_hashes, empty bins repeat what filled ones say, and the true error is up
        to 1.2 times as large (1.4 times for two or three members); with more members it is smaller,
        down to 0.77 times at 1.6 · n_hashes, since no member is drawn twice. `sizes`, a pair of
        arrays with the number of distinct members of each set of `a` and of `b`, takes that into
        account.

        An estimate that involves an empty set is exact: its error is 0.
        """
        apart = self._distances(a, b)
        factor: npt.NDArray[np.float64] | float = 1.0
        if sizes is not None:
            sizes_a, sizes_b = require_sizes(sizes, len(a), len(b))
            # the spread depends on how many members share the bins, and so on the sizes of the sets
            if self._method in FACTORS:
                estimate = jaccard_from_distances(apart, self.spec_)
                factor = FACTORS[self._method](estimate, sizes_a, sizes_b, self.spec_.n_symbols)
        error = jaccard_standard_error(apart, self.spec_, factor)
        # an empty set is 0 alike to everything, which is known and not estimated
        error[a.empty_rows()] = 0.0
        error[:, b.empty_rows()] = 0.0
        return error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted hasher to `path`: aside first, then in place at once."""
        check_is_fitted(self)
        parameters = {
            "n_hashes": self.spec_.n_symbols,
            "bits_per_symbol": self.spec_.bits_per_symbol,
            "method": self._method,
            "random_state": None if self.random_state is None else int(self.random_state),
            "seed": self.seed_,
            "n_features": getattr(self, "n_features_in_", None),
        }
        write_file(path, "MinHash", parameters, self.fingerprint_, names_tensor(self))

    @classmethod
    def from_stored(cls, stored: StoredFile) -> MinHash:
        """Return the fitted hasher that a file holds."""
        hasher = cls(
            stored.parameter("n_hashes"),
            bits_per_symbol=stored.parameter("bits_per_symbol"),
            method=stored.parameter("method"),
            random_state=stored.parameter("random_state"),
        )
        n_features = stored.parameter("n_features")
        try:
            resolve_seed(hasher.random_state)
            hasher._draw(whole_number(stored.parameter("seed"), "seed", low=0, high=2**64 - 1))
            if n_features is not None:
                hasher.n_features_in_ = whole_number(
                    n_features, "n_features", low=1, high=MAX_COLUMNS
                )
        except InvalidInputError as error:
            raise damaged(
                stored.name, f"has impossible parameters: {str(error).removesuffix('.')}"
            ) from None
        if n_features is not None:
            restore_names(hasher, stored)
        stored.require_no_more_tensors()
        if hasher.fingerprint_ != stored.fingerprint:
            raise damaged(stored.name, "holds a model that does not fit its fingerprint")
        return hasher

    def _learn(self, source: VectorSource) -> None:
        source.read_through()  # raises for numbers that are not finite
        self._draw()

    def _draw(self, seed: int | None = None) -> None:
        """Set everything that decides the codes, by the `seed` of a file, or by `random_state`."""
        n_hashes = whole_number(self.n_hashes, "n_hashes", low=1, high=MAX_HASHES)
        bits = whole_number(self.bits_per_symbol, "bits_per_symbol", low=1, high=32)
        method = one_of(self.method, "method", _METHODS)
        seed = resolve_seed(self.random_state) if seed is None else seed
        self._method = method
        self.seed_ = seed
        self.spec_ = CodeSpec(n_hashes, bits)
        self._tables = _draw_tables(seed, method, n_hashes)
        settings = {"n_hashes": n_hashes, "bits_per_symbol": bits, "method": method, "seed": seed}
        self.fingerprint_ = fingerprint("MinHash", settings, {})

    def _symbols(self, batch: Any) -> npt.NDArray[Any]:
        return self._codes(batch).symbols()

    def _codes(self, batch: Any) -> Codes:
        require_finite(batch, "X")
        words = self._new_words(batch.shape[0])
        empty = np.empty(batch.shape[0], dtype=np.bool_)

        def hash_rows(piece: tuple[int, int]) -> None:
            rows = slice(*piece)
            sets = rows_to_sets(batch, *piece)
            self._hash_into(sets.members, sets.offsets, words[rows])
            empty[rows] = sets.sizes() == 0

        threads.run(hash_rows, cut_rows(batch))
        return Codes.from_parts(words, self.spec_, empty, None)

    def _encode_sets(self, sets: Sets) -> Codes:
        words = self._new_words(len(sets))

        def hash_sets(piece: tuple[int, int]) -> None:
            first, stop = piece
            self._hash_into(sets.members, sets.offsets[first : stop + 1], words[first:stop])

        threads.run(hash_sets, cut_sets(sets.offsets, _MEMBERS_PER_PIECE))
        return Codes.from_parts(words, self.spec_, sets.sizes() == 0, None)

    def _new_words(self, n: int) -> npt.NDArray[np.uint64]:
        return np.empty((n, self.spec_.bits_per_symbol, self.spec_.plane_words), dtype=WORD)

    def _hash_into(
        self,
        members: npt.NDArray[np.uint64],
        offsets: npt.NDArray[np.int64],
        words: npt.NDArray[np.uint64],
    ) -> None:
        from bitkin.kernels.hashing.minhash import (
            independent_into,
            minhash_work_for,
            one_permutation_into,
            rounds_into,
        )

        hash_into: Any = {
            "fast-similarity": rounds_into,
            "one-permutation": one_permutation_into,
            "independent": independent_into,
        }[self._method]
        hash_into(members, offsets, self._tables, minhash_work_for(self.spec_.n_symbols), words)

    def _encode_pieces(
        self, pieces_of_input: Iterable[_Piece], to_sets: Callable[[_Piece], Sets]
    ) -> Codes:
        """Return the codes of the sets of all pieces, a few of them in memory at a time."""
        remaining = iter(pieces_of_input)
        parts: list[Codes] = []
        while some := list(islice(remaining, _PIECES_PER_THREAD * threads.get_threads())):
            parts += threads.run(lambda piece: self._encode_sets(to_sets(piece)), some)
        if not parts:
            parts = [self._encode_sets(Sets.concatenate([]))]
        return Codes.concatenate(parts).with_fingerprint(self.fingerprint_)

    def _distances(self, a: Codes, b: Codes) -> npt.NDArray[np.int32]:
        check_is_fitted(self)
        for codes, name in ((a, "a"), (b, "b")):
            require_comparable(self.spec_, self.fingerprint_, require_codes(codes, name), name)
        return distances(a, b)


def _draw_tables(seed: int, method: str, n_hashes: int) -> MinHashTables | RoundTables:
    """Draw all that decides codes, apart from the number of bits."""
    from bitkin.kernels.blocks import read_only
    from bitkin.kernels.hashing.minhash import MinHashTables, RoundTables, power_of_two_from

    draws = Draws(seed, f"minhash {method}")
    keys = draws.words(2)
    salts = draws.words(n_hashes)
    # Symbol j of a word is bit 7 − j % 8 of byte j // 8, as `np.packbits` lays it out: that is bit
    # 8(j // 8) + 7 − j % 8 = j + 7 − 2(j % 8) of the little-endian word.
    symbol = np.arange(64, dtype=np.uint64)
    bit_places = symbol + np.uint64(7) - np.uint64(2) * (symbol % np.uint64(8))
    if method == "fast-similarity":
        n_rounds = power_of_two_from(n_hashes)
        # Random words whose low bits are a permutation that begins with 0.
        order = np.concatenate(([0], draws.permutation(n_rounds - 1) + 1)).astype(np.uint64)
        steps = draws.words(n_rounds) // np.uint64(n_rounds) * np.uint64(n_rounds) + order
        steps[0] = 0  # the first round needs no factor
        return RoundTables(*map(read_only, (keys, steps, salts, bit_places)))
    shifts = draws.words(n_hashes)
    factors = draws.words(n_hashes) | np.uint64(1)  # odd numbers have an inverse modulo 2⁶⁴
    # Newton's iteration for 1 / f modulo 2⁶⁴: f · f ≡ 1 modulo 8, so f itself is right in the 3
    # lowest bits, and x · (2 − f · x) is right in twice as many as x. Five steps give 96.
    inverses = factors.copy()
    for _ in range(5):
        inverses *= np.uint64(2) - factors * inverses
    return MinHashTables(
        *map(read_only, (keys, np.stack([shifts, factors, inverses], axis=1), salts, bit_places))
    )
