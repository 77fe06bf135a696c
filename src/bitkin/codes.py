"""Packed codes: the array layout shared by hashers, indexes and files.

Words are little-endian uint64, one bit plane per symbol bit (plane p holds bit p of every symbol);
unused bits are zero, and so are all bits of an empty row. Symbol j sits in byte j // 8, bit 7 − j %
8 of its plane, so the words viewed as bytes are what `np.packbits` makes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from bitkin.checks import require_unmasked, shown, whole_number
from bitkin.code_spec import WORD, CodeSpec, require_spec, unused_bits
from bitkin.errors import CodeMismatchError, CorruptFileError, InvalidInputError

if TYPE_CHECKING:
    from bitkin.io.reader import StoredFile

_ROWS_PER_PASS = 16384  # packing works on slices that stay in cache


class Codes:
    """Immutable rows of symbols, packed.

    Parameters
    ----------
    words : uint64 (n, bits_per_symbol, ceil(n_symbols / 64))
        The packed rows; copied where they could still be changed.
    spec : CodeSpec
    empty : bool (n,), optional
        Rows with nothing to hash. They are `n_symbols` away from everything, and their words are
        zero.
    fingerprint : str, optional
        Of the fitted hasher. None is an unknown origin, which compares with anything.

    Examples
    --------
    >>> import bitkin
    >>> codes = bitkin.Codes.from_symbols([[0, 1, 1], [1, 1, 1]], bits_per_symbol=1)
    >>> codes
    Codes(2 rows, 3 × 1-bit)
    >>> codes.to_bytes().tolist()
    [[96], [224]]
    >>> codes[1].symbols().tolist()
    [[1, 1, 1]]
    """

    __slots__ = ("_source", "empty", "fingerprint", "spec", "words")

    spec: CodeSpec
    words: npt.NDArray[np.uint64]
    empty: npt.NDArray[np.bool_] | None
    fingerprint: str | None
    _source: StoredFile | None

    def __init__(
        self,
        words: npt.NDArray[np.uint64],
        spec: CodeSpec,
        *,
        empty: npt.ArrayLike | None = None,
        fingerprint: str | None = None,
    ) -> None:
        spec = require_spec(spec)
        words = _unchanging(_require_words(words, spec))
        if _has_unused_bits(words, spec):
            raise InvalidInputError(
                f"words must have zeros beyond the {spec.n_symbols} symbols of a row."
            )
        if fingerprint is not None and not isinstance(fingerprint, str):
            raise InvalidInputError(
                f"fingerprint must be a string or None, got {shown(fingerprint)}."
            )
        flags = None if empty is None else _require_empty(empty, len(words))
        if flags is not None and words[flags].any():
            words = words.copy()
            words[flags] = 0
        _set_parts(self, words, spec, flags, fingerprint)

    @classmethod
    def from_parts(
        cls,
        words: npt.NDArray[np.uint64],
        spec: CodeSpec,
        empty: npt.NDArray[np.bool_] | None = None,
        fingerprint: str | None = None,
        source: StoredFile | None = None,
    ) -> Codes:
        """Wrap parts that already keep the promises of this class, without a check or a copy: for
        what bitkin made itself, or read from the file `source`.
        """
        codes = cls.__new__(cls)
        _set_parts(codes, words, spec, empty, fingerprint, source)
        return codes

    @classmethod
    def from_symbols(
        cls,
        symbols: npt.ArrayLike,
        bits_per_symbol: int,
        *,
        empty: npt.ArrayLike | None = None,
        fingerprint: str | None = None,
    ) -> Codes:
        """Pack an (n, n_symbols) array of whole numbers below `2 ** bits_per_symbol`, or of
        bools.
        """
        require_unmasked(symbols, "symbols")
        array = np.asarray(symbols)
        if array.ndim != 2 or array.shape[1] == 0:
            raise InvalidInputError(f"symbols must have shape (n, n_symbols), got {array.shape}.")
        if array.dtype.kind not in "biu":
            raise InvalidInputError(f"symbols must be whole numbers or bools, got {array.dtype}.")
        spec = CodeSpec(array.shape[1], bits_per_symbol)
        if array.dtype.kind == "b":
            array = array.view(np.uint8)
        if array.size and (array.min() < 0 or array.max() >= spec.alphabet_size):
            worst = array.min() if array.min() < 0 else array.max()
            raise InvalidInputError(
                f"symbols must be between 0 and {spec.alphabet_size - 1} for "
                f"bits_per_symbol={spec.bits_per_symbol}, got {worst}."
            )
        words = np.zeros((len(array), spec.bits_per_symbol, spec.plane_words), dtype=WORD)
        planes = words.view(np.uint8)
        for start in range(0, len(array), _ROWS_PER_PASS):
            rows = slice(start, start + _ROWS_PER_PASS)
            for p in range(spec.bits_per_symbol):
                # plane p holds bit p of every symbol
                bits = (array[rows] >> p) & 1 if spec.bits_per_symbol > 1 else array[rows]
                planes[rows, p, : spec.plane_bytes] = np.packbits(
                    bits.astype(bool, copy=False), axis=1
                )
        words.flags.writeable = False
        return cls(words, spec, empty=empty, fingerprint=fingerprint)

    @classmethod
    def from_bytes(
        cls,
        data: npt.ArrayLike,
        spec: CodeSpec | int,
        *,
        empty: npt.ArrayLike | None = None,
        fingerprint: str | None = None,
    ) -> Codes:
        """Take uint8 rows as `to_bytes`, `np.packbits` or FAISS lay them out; an int spec is a
        number of bits.
        """
        spec = spec if isinstance(spec, CodeSpec) else CodeSpec(whole_number(spec, "spec", low=1))
        require_unmasked(data, "data")
        array = np.asarray(data)
        if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != spec.n_bytes:
            raise InvalidInputError(
                f"data must be uint8 of shape (n, {spec.n_bytes}) for {spec} codes, got "
                f"{array.dtype} {array.shape}."
            )
        words = np.zeros((len(array), spec.bits_per_symbol, spec.plane_words), dtype=WORD)
        planes = array.reshape(len(array), spec.bits_per_symbol, spec.plane_bytes)
        words.view(np.uint8)[:, :, : spec.plane_bytes] = planes
        words.flags.writeable = False
        return cls(words, spec, empty=empty, fingerprint=fingerprint)

    @classmethod
    def concatenate(cls, parts: Sequence[Codes]) -> Codes:
        """Put rows of several codes after one another; they must have one spec and no two known
        fingerprints.
        """
        parts = list(parts)
        if not parts:
            raise InvalidInputError("parts must hold at least one Codes, got none.")
        for part in parts:
            require_comparable(
                require_codes(parts[0], "parts").spec, None, require_codes(part, "parts"), "parts"
            )
        known = {part.fingerprint for part in parts} - {None}
        if len(known) > 1:
            raise CodeMismatchError(
                "parts must come from one hasher, got fingerprints "
                f"{', '.join(sorted(map(str, known)))}."
            )
        words = np.concatenate([part.words for part in parts]) if len(parts) > 1 else parts[0].words
        empty = None
        if any(part.empty is not None for part in parts):
            empty = np.concatenate([part.empty_rows() for part in parts])
        return cls.from_parts(words, parts[0].spec, empty, known.pop() if known else None)

    def symbols(self) -> npt.NDArray[Any]:
        """Unpack to (n, n_symbols), in the smallest of uint8, uint16, uint32 that holds a
        symbol.
        """
        out = np.empty((len(self), self.spec.n_symbols), dtype=self.spec.symbol_dtype)
        planes = self.words.view(np.uint8)
        for start in range(0, len(self), _ROWS_PER_PASS):
            rows = slice(start, start + _ROWS_PER_PASS)
            out[rows] = np.unpackbits(planes[rows, 0], axis=1, count=self.spec.n_symbols)
            for p in range(1, self.spec.bits_per_symbol):
                bits = np.unpackbits(planes[rows, p], axis=1, count=self.spec.n_symbols).astype(
                    out.dtype, copy=False
                )
                out[rows] |= bits << out.dtype.type(p)
        return out

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """Return `symbols`, so that NumPy takes codes where it takes arrays; it is always a new
        array.
        """
        if copy is False:
            raise ValueError(
                "Codes cannot become an array without a copy: symbols are packed. Leave out "
                "copy=False."
            )
        return self.symbols() if dtype is None else self.symbols().astype(dtype, copy=False)

    def to_bytes(self) -> npt.NDArray[np.uint8]:
        """Return uint8 (n, n_bytes), plane after plane, each as `np.packbits` makes it and FAISS
        takes it.
        """
        # words are padded to 8 bytes per plane; bytes are not
        planes = self.words.view(np.uint8)[:, :, : self.spec.plane_bytes]
        return planes.reshape(len(self), self.spec.n_bytes)

    def empty_rows(self) -> npt.NDArray[np.bool_]:
        """Return `empty` as an array, also where it is None."""
        return np.zeros(len(self), dtype=bool) if self.empty is None else self.empty

    def with_fingerprint(self, fingerprint: str | None) -> Codes:
        """Return the same rows under another origin."""
        if fingerprint is not None and not isinstance(fingerprint, str):
            raise InvalidInputError(
                f"fingerprint must be a string or None, got {shown(fingerprint)}."
            )
        return Codes.from_parts(self.words, self.spec, self.empty, fingerprint)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.words.nbytes + (0 if self.empty is None else self.empty.nbytes)

    def __sizeof__(self) -> int:
        # what holds codes of others counts by this, such as a worker of a cluster
        return object.__sizeof__(self) + self.nbytes

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to `path`: aside first, then in place at once, so a reader never meets half a
        file.
        """
        from bitkin.io.writer import write_file

        tensors: dict[str, npt.NDArray[Any]] = {"words": self.words}
        if self.empty is not None:
            tensors["empty"] = self.empty
        parameters = {
            "n_symbols": self.spec.n_symbols,
            "bits_per_symbol": self.spec.bits_per_symbol,
        }
        write_file(path, "Codes", parameters, self.fingerprint, tensors)

    @classmethod
    def from_stored(cls, stored: StoredFile) -> Codes:
        """Return the codes that a file holds."""
        spec = spec_from_file(stored)
        shape = (None, spec.bits_per_symbol, spec.plane_words)
        words = stored.tensor("words", np.uint64, shape)
        empty = stored.optional_tensor("empty", np.bool_, (len(words),))
        stored.require_no_more_tensors()
        codes = cls.from_parts(words, spec, empty, stored.fingerprint, stored)
        if not stored.mapped:
            _require_clean(codes, stored.name)
        return codes

    def verify(self) -> None:
        """Check codes from a mapped file against its checksums; raise CorruptFileError on the first
        flaw.
        """
        if self._source is not None:
            self._source.verify()
        _require_clean(self, "the codes in memory" if self._source is None else self._source.name)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, rows: Any) -> Codes:
        """Return the chosen rows: an int gives one row, slices, arrays of row numbers and masks as
        in NumPy.
        """
        if isinstance(rows, tuple):
            raise InvalidInputError(f"codes take one index, for rows; got {len(rows)}.")
        if isinstance(rows, (int, np.integer)) and not isinstance(rows, bool):
            row = int(rows)
            if not -len(self) <= row < len(self):
                raise IndexError(f"row {row} is out of range for {len(self)} codes")
            # row −1 would end at 0, which is the beginning
            rows = slice(row, row + 1 or None)
        elif not isinstance(rows, slice) and np.ndim(rows) != 1:
            raise InvalidInputError(
                f"codes take a row, a slice, or a flat list or mask of rows, got {shown(rows)}."
            )
        empty = None if self.empty is None else self.empty[rows]
        return Codes.from_parts(
            np.ascontiguousarray(self.words[rows]), self.spec, empty, self.fingerprint
        )

    def __iter__(self) -> Iterator[Codes]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Codes):
            return NotImplemented
        return (
            self.spec == other.spec
            and self.fingerprint == other.fingerprint
            and np.array_equal(self.words, other.words)
            and np.array_equal(self.empty_rows(), other.empty_rows())
        )

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"codes are immutable: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"codes are immutable: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (np.asarray(self.words), self.spec, self.empty, self.fingerprint)

    def __repr__(self) -> str:
        rows = "1 row" if len(self) == 1 else f"{len(self):,} rows"
        origin = "" if self.fingerprint is None else f", from {self.fingerprint[:12]}"
        return f"Codes({rows}, {self.spec}{origin})"


def distances(a: Codes, b: Codes) -> npt.NDArray[np.int32]:
    """Count the symbols that differ between every row of `a` and every row of `b`: int32 (len(a),
    len(b)).

    An empty row is `n_symbols` away from everything, itself included.

    Examples
    --------
    >>> import bitkin
    >>> codes = bitkin.Codes.from_symbols([[0, 1, 2], [0, 3, 2]], bits_per_symbol=2)
    >>> bitkin.distances(codes, codes).tolist()
    [[0, 1], [1, 0]]
    """
    require_codes(a, "a")
    require_comparable(a.spec, a.fingerprint, require_codes(b, "b"), "b")
    from bitkin import threads
    from bitkin.kernels.blocks import BLOCK, pack_tiles_into, read_only, zero_tiles
    from bitkin.kernels.search.scan import block_widths, symbol_distances_into, tile_room

    out = np.empty((len(a), len(b)), dtype=np.int32)
    planes, words = block_widths(a.spec.bits_per_symbol, a.spec.plane_words)
    # whole blocks, about as many pieces as threads, and none above 32,768 rows
    rows_per_piece = BLOCK * max(1, min(64, -(-len(b) // (BLOCK * threads.get_threads()))))

    def fill(start: int) -> None:
        rows = b.words[start : start + rows_per_piece]
        tiles = zero_tiles(-(-len(rows) // BLOCK), *b.words.shape[1:])
        pack_tiles_into(read_only(rows), tiles, 0)
        symbol_distances_into(
            read_only(tiles),
            read_only(a.words),
            planes,
            words,
            out,
            start,
            len(rows),
            *tile_room(*b.words.shape[1:]),
        )

    threads.run(fill, range(0, len(b), rows_per_piece))
    if a.empty is not None:
        # words of empty rows are zeros, which would be near other rows: their distances are set
        out[a.empty] = a.spec.n_symbols
    if b.empty is not None:
        out[:, b.empty] = a.spec.n_symbols
    return out


def require_codes(codes: Any, name: str) -> Codes:
    """Return `codes` when they are Codes."""
    if not isinstance(codes, Codes):
        raise InvalidInputError(
            f"{name} must be Codes, got {type(codes).__name__}. Use a hasher's encode, or "
            "Codes.from_symbols for one number a symbol, Codes.from_bytes for packed bytes."
        )
    return codes


class CodeOrigin(Protocol):
    """Whatever says which codes it holds: `Codes`, an index, a snapshot of its rows."""

    @property
    def spec(self) -> CodeSpec:
        """The shape of the codes."""

    @property
    def fingerprint(self) -> str | None:
        """The hasher that made the codes; None where it is not known."""


def require_comparable(
    spec: CodeSpec, fingerprint: str | None, codes: CodeOrigin, name: str
) -> None:
    """Raise unless `codes` have this spec and no other known fingerprint."""
    if codes.spec != spec:
        raise CodeMismatchError(
            f"{name} must be {spec} codes, got {codes.spec}. Encode both sides with the same "
            "fitted hasher."
        )
    if None not in (fingerprint, codes.fingerprint) and fingerprint != codes.fingerprint:
        raise CodeMismatchError(
            f"{name} must come from the hasher with fingerprint {fingerprint}, got "
            f"{codes.fingerprint}. Encode both sides with the same fitted hasher."
        )


def spec_from_file(stored: StoredFile) -> CodeSpec:
    """Read the spec from a file's parameters."""
    try:
        return CodeSpec(stored.parameter("n_symbols"), stored.parameter("bits_per_symbol"))
    except InvalidInputError as error:
        raise CorruptFileError(f"{stored.name} has an impossible code spec: {error}") from None


def _set_parts(
    codes: Codes,
    words: npt.NDArray[np.uint64],
    spec: CodeSpec,
    empty: npt.NDArray[np.bool_] | None,
    fingerprint: str | None,
    source: StoredFile | None = None,
) -> None:
    """Give codes, which refuse to be changed, their parts; no flags are kept where no row is
    empty.
    """
    words = words.view()
    words.flags.writeable = False
    if empty is not None:
        empty = empty.view() if empty.any() else None
    if empty is not None:
        empty.flags.writeable = False
    parts = {
        "words": words,
        "spec": spec,
        "empty": empty,
        "fingerprint": fingerprint,
        "_source": source,
    }
    for name, value in parts.items():
        object.__setattr__(codes, name, value)


def _require_clean(codes: Codes, name: str) -> None:
    """Raise where codes from a file have bits that no symbol, or no row that is not empty, has."""
    if _has_unused_bits(codes.words, codes.spec) or (
        codes.empty is not None and codes.words[codes.empty].any()
    ):
        raise CorruptFileError(
            f"{name} holds codes with bits set where none may be. It was not written by bitkin."
        )


def _unpickle(
    words: npt.NDArray[np.uint64],
    spec: CodeSpec,
    empty: npt.NDArray[np.bool_] | None,
    fingerprint: str | None,
) -> Codes:
    return Codes(words, spec, empty=empty, fingerprint=fingerprint)


def _require_words(words: Any, spec: CodeSpec) -> npt.NDArray[np.uint64]:
    want = (spec.bits_per_symbol, spec.plane_words)
    if (
        not isinstance(words, np.ndarray)
        or words.dtype != WORD
        or words.ndim != 3
        or words.shape[1:] != want
    ):
        got = (
            f"{words.dtype} {words.shape}"
            if isinstance(words, np.ndarray)
            else type(words).__name__
        )
        raise InvalidInputError(
            f"words must be uint64 of shape (n, {want[0]}, {want[1]}) for {spec} codes, got {got}."
        )
    return words


def _unchanging(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return words in order that no one can change: the array itself where none below it can be
    written, or a copy.
    """
    if not words.flags.c_contiguous:
        return words.copy()
    below: Any = words
    deeper: Any
    # A read-only view may lie over an array that can be written: every base has to be read-only.
    while below is not None:  # past which an array has memory of its own
        if isinstance(below, np.ndarray):
            fixed, deeper = not below.flags.writeable, below.base
        else:
            try:
                view = memoryview(below)
            except TypeError:  # whatever it is, it does not say
                return words.copy()
            fixed, deeper = view.readonly, below.obj if isinstance(below, memoryview) else None
        if not fixed:
            return words.copy()
        below = deeper
    return words


def _require_empty(empty: npt.ArrayLike, n: int) -> npt.NDArray[np.bool_]:
    flags = np.array(empty)
    if flags.dtype != np.bool_ or flags.shape != (n,):
        raise InvalidInputError(
            f"empty must be bool of shape ({n},), got {flags.dtype} {flags.shape}."
        )
    return flags


def _has_unused_bits(words: npt.NDArray[np.uint64], spec: CodeSpec) -> bool:
    beyond = unused_bits(spec)
    return bool(beyond) and bool((words[:, :, -1] & beyond).any())
