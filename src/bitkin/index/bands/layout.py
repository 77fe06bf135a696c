"""How codes are cut into bands, and which keys of a band a query looks up: its own, then those with
symbols changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice

import numpy as np
import numpy.typing as npt

from bitkin.checks import whole_number
from bitkin.code_spec import CodeSpec
from bitkin.errors import InvalidInputError
from bitkin.kernels.blocks import read_only

MOST_BITS = 64  # of a band: a key is one word
MOST_PROBES = 1 << 16
_MOST_KEYS = 1 << 20  # that a query looks up in all bands together: each takes room to plan in


@dataclass(frozen=True, eq=False, slots=True)
class BandLayout:
    """Bands of `r` whole symbols from the first symbol on; symbols that are left over are in no
    band.
    """

    spec: CodeSpec
    band_bits: int
    probes: int = 0
    r: int = field(init=False)
    """Symbols a band."""
    bands: int = field(init=False)
    masks: npt.NDArray[np.uint64] = field(init=False, repr=False)
    """What is changed in a key: nothing first, then one symbol, two and so on."""
    sorted_masks: npt.NDArray[np.uint64] = field(init=False, repr=False)
    levels: npt.NDArray[np.int64] = field(init=False, repr=False)
    """Masks that change m symbols are `masks[levels[m]:levels[m + 1]]`."""

    def __post_init__(self) -> None:
        spec, width = self.spec, self.spec.bits_per_symbol
        high = min(MOST_BITS, spec.n_bits)
        r = max(1, whole_number(self.band_bits, "band_bits", low=1, high=high) // width)
        most = min(MOST_PROBES, (1 << r * width) - 1)
        probes = whole_number(self.probes, "probes", low=0)
        if probes > most:
            raise InvalidInputError(
                f"probes must be at most {most:,}, the other keys of a band of {r * width} bits, "
                f"got {probes:,}."
                if most < MOST_PROBES
                else f"probes must be at most {most:,}, got {probes:,}. Narrower bands find more "
                "than more probes."
            )
        if spec.n_symbols // r * (probes + 1) > _MOST_KEYS:
            raise InvalidInputError(
                f"probes must be fewer: {probes:,} in {spec.n_symbols // r:,} bands are over "
                f"{_MOST_KEYS:,} keys a query. Take wider bands or FlatIndex."
            )
        masks = np.fromiter(
            islice(_changes(r, width), probes + 1), dtype=np.uint64, count=probes + 1
        )
        sizes = probes_by_level(r, spec.alphabet_size, probes)
        for name, value in {
            "r": r,
            "bands": spec.n_symbols // r,
            "masks": read_only(masks),
            "sorted_masks": read_only(np.sort(masks)),
            "levels": read_only(np.cumsum([0, 1, *sizes])),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def key_bits(self) -> int:
        """Bits of a key."""
        return self.r * self.spec.bits_per_symbol


def probes_by_level(r: int, alphabet_size: int, probes: int) -> list[int]:
    """Return how many of `probes` keys differ from a band's own in one symbol, in two and so on."""
    sizes = []
    for changed in range(1, r + 1):
        # C(r, m) places of m symbols, and a − 1 other values for each
        sizes.append(min(probes, math.comb(r, changed) * (alphabet_size - 1) ** changed))
        probes -= sizes[-1]
        if probes == 0:
            break
    return sizes


def _changes(r: int, width: int) -> Iterator[int]:
    """Yield what is changed in a key of `r` symbols of `width` bits: nothing, one symbol, two and
    so on.

    Every symbol is changed in one way before any is changed in a second. The last come first: where
    symbols are in order of what they tell, as with principal components, they are the likeliest to
    differ.
    """
    for changed in range(r + 1):
        for values in _values(width, changed):
            for places in combinations(range(r), changed):
                mask = 0
                for place, value in zip(places, values, strict=True):
                    for plane in range(width):
                        # a key holds the planes one after another, the first in the highest r bits
                        mask |= (value >> plane & 1) << (r * (width - 1 - plane) + place)
                yield mask


def _values(width: int, changed: int) -> Iterator[tuple[int, ...]]:
    """Yield what `product(range(1, 1 << width), repeat=changed)` does, without its list of all
    values of a symbol.

    Of 28 bits there are 2**28 values, and hardly any of them is asked for.
    """
    most = (1 << width) - 1
    for number in range(most**changed):
        digits = []
        for _ in range(changed):
            number, digit = divmod(number, most)
            digits.append(1 + digit)
        yield tuple(reversed(digits))
