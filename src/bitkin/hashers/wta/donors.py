"""Donors: which window an empty one borrows its symbol from, and what the distance adds to it.

A window without any nonzero component takes the winner of a filled one, its donor. C · steps is
added to it, modulo R, so that rows that took another number of steps to the same winner differ.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bitkin.kernels.blocks import read_only
from bitkin.kernels.hashing.wta import NONE, OPTIMAL, ROTATION
from bitkin.randomness import Draws

_SCHEMES = {None: NONE, "rotation": ROTATION, "optimal": OPTIMAL}
_PROBES = 64
_PROBE_TABLE = 1 << 22  # entries at most: with very many windows there are fewer probes


@dataclass(frozen=True)
class Donors:
    """The path every empty window takes to its donor, the same for every row."""

    densify: str | None
    n_hashes: int
    window: int
    alphabet_size: int
    seed: int

    @functools.cached_property
    def scheme(self) -> int:
        """The number by which kernels know `densify`."""
        return _SCHEMES[self.densify]

    @functools.cached_property
    def probes(self) -> npt.NDArray[np.int32]:
        """The windows that an empty one tries in this order before it goes around the ring: int32
        (probes, n_hashes).
        """
        n_probes = (
            max(1, min(_PROBES, _PROBE_TABLE // self.n_hashes)) if self.densify == "optimal" else 0
        )
        drawn = Draws(self.seed, "donors").below(self.n_hashes, n_probes * self.n_hashes)
        return read_only(drawn.astype(np.int32).reshape(n_probes, self.n_hashes))

    @functools.cached_property
    def offsets(self) -> npt.NDArray[np.uint32]:
        """What a donor so many steps away adds: C · steps modulo R, with C > K coprime to R, so
        that the first R steps add R different numbers.
        """
        constant = next(
            c for c in itertools.count(self.window + 1) if math.gcd(c, self.alphabet_size) == 1
        )
        steps = np.arange(
            1 if self.densify is None else 1 + len(self.probes) + self.n_hashes, dtype=np.uint64
        )
        added = steps * np.uint64(constant % self.alphabet_size) % np.uint64(self.alphabet_size)
        return read_only(added.astype(np.uint32))

    def prepare(self) -> None:
        """Draw what packing needs, before threads use it."""
        _ = self.probes, self.offsets

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}
