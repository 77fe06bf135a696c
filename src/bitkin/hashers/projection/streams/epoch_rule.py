"""When the epochs of a stream begin: what counts of vectors say, and what is left to the drift."""

from __future__ import annotations

from typing import NamedTuple

from bitkin.hashers.projection.learning import Epochs

WARM_UP_PER_BIT = 32
"""Vectors for each bit, after which directions are learned well enough to be kept."""

RECENT = 1024
"""Vectors after which most of what is known of the recent stream is of the current epoch."""

NO_EVENT = 1 << 62
"""Vectors: never."""

_AUTO_SHARE = 0.03
# With "auto" the first epochs begin after these shares of the warm-up: what random directions code
# crowds out better rows in every search, and few vectors are enough to do better.
_EARLY = (1 / 64, 1 / 16, 1 / 4, 1)
_FIRST = 8  # vectors before which no direction is known
_SHORTEST = 512  # vectors of an epoch that the drift ends
_CHECK_EVERY = 256  # vectors, at least, between two looks at the drift


class EpochRule(NamedTuple):
    """The rule `epochs=` of a hasher, for codes of `n_bits` and a rotation that is found again
    every `refresh` vectors.

    Everything goes by counts of vectors, so that no cut of a stream changes when an epoch begins.
    """

    epochs: Epochs
    n_bits: int
    refresh: int

    @property
    def share(self) -> float | None:
        """The share of the variance that may be lost; None where drift does not matter."""
        if isinstance(self.epochs, float):
            return self.epochs
        return _AUTO_SHARE if self.epochs == "auto" else None

    @property
    def warm_up(self) -> int:
        """Vectors after which the first directions are worth an epoch that lasts."""
        return WARM_UP_PER_BIT * self.n_bits

    def vectors_to_next_event(self, n_seen: int, start: int, *, warming_up: bool) -> int:
        """Return after how many vectors to look up: an epoch may be due.

        `start` is the `n_seen` at which the current epoch began; it is `warming_up` while its
        directions are random.
        """
        if self.epochs == "auto":
            return min(self._next_early(n_seen) - n_seen, self._to_next_check(n_seen))
        if warming_up:
            return self.warm_up - n_seen
        if isinstance(self.epochs, int):
            return start + self.epochs - n_seen
        return NO_EVENT if self.share is None else self._to_next_check(n_seen)

    def is_due(self, n_seen: int, start: int, *, warming_up: bool) -> bool | None:
        """Whether an epoch is due once directions are learned; None where the drift decides."""
        if self.epochs == "auto":
            if n_seen >= self._next_early(start):
                return True
            # an epoch for every few vectors would only make searches slow
            if n_seen < self.warm_up or n_seen - start < _SHORTEST:
                return False
        elif warming_up:
            return n_seen >= self.warm_up
        elif isinstance(self.epochs, int):
            return n_seen - start >= self.epochs
        if self.share is None or n_seen % self._check_every:
            return False
        return None

    @property
    def _check_every(self) -> int:
        return max(_CHECK_EVERY, self.refresh)

    def _to_next_check(self, n_seen: int) -> int:
        return self._check_every - n_seen % self._check_every

    def _next_early(self, n_seen: int) -> int:
        """Return after how many vectors of the stream the next of the early epochs begins."""
        for share in _EARLY:
            step = int(share * self.warm_up)
            if step >= _FIRST and step > n_seen:
                return step
        return NO_EVENT
