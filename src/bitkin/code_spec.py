"""CodeSpec: the shape of a code, and what follows from it for the layout of its words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError

WORD = np.dtype("<u8")
MAX_SYMBOLS = 2**31 - 65  # distances, padding included, fit an int32


@dataclass(frozen=True, slots=True)
class CodeSpec:
    """The shape of a code: how many symbols, and how many bits each.

    Examples
    --------
    >>> spec = CodeSpec(100, bits_per_symbol=3)
    >>> spec.n_bits, spec.n_bytes, spec.alphabet_size
    (300, 39, 8)
    """

    n_symbols: int
    bits_per_symbol: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "n_symbols", whole_number(self.n_symbols, "n_symbols", low=1, high=MAX_SYMBOLS)
        )
        bits = whole_number(self.bits_per_symbol, "bits_per_symbol", low=1, high=32)
        object.__setattr__(self, "bits_per_symbol", bits)

    @property
    def n_bits(self) -> int:
        """Bits of information a row."""
        return self.n_symbols * self.bits_per_symbol

    @property
    def n_bytes(self) -> int:
        """Bytes a row as `Codes.to_bytes` writes it."""
        return self.bits_per_symbol * self.plane_bytes

    @property
    def alphabet_size(self) -> int:
        """Number of values a symbol can take."""
        return 1 << self.bits_per_symbol

    @property
    def plane_bytes(self) -> int:
        """Bytes of one bit plane of one row."""
        return -(-self.n_symbols // 8)

    @property
    def plane_words(self) -> int:
        """uint64 words of one bit plane of one row."""
        return -(-self.n_symbols // 64)

    @property
    def symbol_dtype(self) -> np.dtype[Any]:
        """The smallest of uint8, uint16, uint32 that holds a symbol."""
        return np.dtype(
            np.uint8
            if self.bits_per_symbol <= 8
            else np.uint16
            if self.bits_per_symbol <= 16
            else np.uint32
        )

    def __str__(self) -> str:
        return f"{self.n_symbols} × {self.bits_per_symbol}-bit"


def require_spec(spec: Any) -> CodeSpec:
    """Return `spec` when it is a CodeSpec."""
    if not isinstance(spec, CodeSpec):
        raise InvalidInputError(f"spec must be a CodeSpec, got {spec!r}. {_how_to_get_spec(spec)}")
    return spec


def _how_to_get_spec(given: Any) -> str:
    """Say what to write where something else was given in the place of a spec."""
    if isinstance(getattr(given, "spec_", None), CodeSpec):
        return "Write hasher.spec_ for codes of this hasher."
    if isinstance(getattr(given, "spec", None), CodeSpec):
        return "Write its spec: codes.spec, or index.spec."
    if hasattr(given, "fit"):
        return "Fit the hasher, and write hasher.spec_."
    return "Write CodeSpec(n_symbols, bits_per_symbol)."


def unused_bits(spec: CodeSpec) -> np.uint64:
    """Return the bits of a plane's last word that no symbol uses."""
    used = np.packbits(
        np.arange(64 * spec.plane_words - 64, 64 * spec.plane_words) < spec.n_symbols
    )
    return ~used.view(WORD)[0]  # type: ignore[no-any-return]
