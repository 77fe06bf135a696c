"""Draws that never change: one seed gives one sequence, on every machine and with every version of
NumPy.

Only raw Philox words come from NumPy, whose bit generators are frozen; its `Generator` methods and
`SeedSequence` may change and are not used. A `Draws` reads its words strictly one after another and
every method says how many it takes, so two calls of half the size give what one call gives
(permutations and `choice` apart: they are one draw each).
"""

from __future__ import annotations

import hashlib
import math
import secrets
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.checks import whole_number
from bitkin.errors import InvalidInputError

# Normals lie on this grid: log and cos differ in the last bit between machines, which rounding
# hides.
_NORMAL_STEP = 2.0**-16
_HEAD_WORDS = 1 << 20  # looked at together where only the head of a permutation is wanted


def resolve_seed(random_state: Any) -> int:
    """Return the seed `random_state` stands for: itself, or a fresh one for None, which the caller
    stores.

    Examples
    --------
    >>> resolve_seed(7)
    7
    """
    if random_state is None:
        return secrets.randbits(63)  # fits a signed 64-bit field of a file
    try:
        return whole_number(random_state, "random_state", low=0, high=2**64 - 1)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{error} Pass a seed such as 0, or None for a fresh one."
        ) from None


class Draws:
    """A stream of random numbers, named so that each purpose has its own.

    Streams of different names or seeds are independent: the Philox key is the first 16 bytes,
    little-endian, of the SHA-256 of `"bitkin:<seed>:<stream>"`. One object belongs to one thread at
    a time.

    Parameters
    ----------
    seed : int
        From 0 to 2**64 − 1; see `resolve_seed`.
    stream : str
        The purpose, such as `"rotation"`.

    Examples
    --------
    >>> draws = Draws(0, "example")
    >>> draws.below(6, 5)
    array([2, 0, 4, 0, 4])
    >>> sorted(draws.permutation(4).tolist())
    [0, 1, 2, 3]
    """

    def __init__(self, seed: int, stream: str = "") -> None:
        number = whole_number(seed, "seed", low=0, high=2**64 - 1)
        if not isinstance(stream, str):
            raise InvalidInputError(
                f"stream must be a string, got {stream!r}. Name the purpose of the draws."
            )
        digest = hashlib.sha256(f"bitkin:{number}:{stream}".encode()).digest()
        self._philox = np.random.Philox(key=int.from_bytes(digest[:16], "little"))

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        """Return the next `n` words, uniform over all 64-bit values."""
        raw: npt.NDArray[np.uint64] = self._philox.random_raw(whole_number(n, "n", low=0))
        return raw

    def below(self, bound: int, n: int) -> npt.NDArray[np.int64]:
        """Return `n` numbers from 0 to `bound` − 1, all equally likely: the next `n` usable words
        modulo `bound`.

        A word at or above the largest multiple of `bound` is passed over, else small numbers would
        come more often.
        """
        bound = whole_number(bound, "bound", low=1, high=2**63)
        n = whole_number(n, "n", low=0)
        highest = np.uint64(2**64 - 2**64 % bound - 1)
        out = np.empty(n, dtype=np.int64)
        filled = 0
        while filled < n:
            # Never more words than are missing: the stream stops right behind the last one used.
            words = self.words(n - filled)
            usable = words[words <= highest]
            out[filled : filled + usable.size] = usable % np.uint64(bound)
            filled += usable.size
        return out

    def permutation(self, n: int) -> npt.NDArray[np.int64]:
        """Return the numbers 0 … `n` − 1 in random order, from `n` words.

        It is the stable argsort of the words: fast without a compiled loop, and a stable order has
        one right answer whatever the sorting method. Equal words (chance n² / 2**65) stay in order,
        a bias nobody can measure.
        """
        return np.argsort(self.words(n), kind="stable").astype(np.int64, copy=False)

    def permutation_head(self, n: int, size: int) -> npt.NDArray[np.int64]:
        """Return the first `size` numbers of `permutation(n)`, from as many words, with room for a
        few times `size` numbers only.
        """
        n = whole_number(n, "n", low=0)
        size = whole_number(size, "size", low=0, high=n)
        step = max(_HEAD_WORDS, size)
        if n <= step:
            return self.permutation(n)[:size]
        least = np.empty(0, dtype=np.uint64)
        places = np.empty(0, dtype=np.int64)
        for first in range(0, n, step):
            words = np.concatenate([least, self.words(min(step, n - first))])
            numbers = np.concatenate([places, np.arange(first, min(first + step, n))])
            # stable, and the numbers of equal words ascend: as in one argsort of all words
            kept = np.argsort(words, kind="stable")[:size]
            least, places = words[kept], numbers[kept]
        return places

    def permutations(self, n: int, count: int) -> npt.NDArray[np.int64]:
        """Return what `count` calls of `permutation(n)` give, as rows."""
        words = self.words(
            whole_number(n, "n", low=0) * whole_number(count, "count", low=0)
        ).reshape(count, n)
        return np.argsort(words, axis=1, kind="stable").astype(np.int64, copy=False)

    def choice(self, n: int, size: int) -> npt.NDArray[np.int64]:
        """Return `size` different numbers from 0 to `n` − 1, in random order.

        Up to half of them: the first `size` different values of `below(n, …)`, at a cost that
        depends on `size` alone; above that: the head of `permutation(n)`.
        """
        n = whole_number(n, "n", low=0, high=2**63)
        size = whole_number(size, "size", low=0)
        if size > n:
            raise InvalidInputError(
                f"size must be at most n = {n} (nothing is drawn twice), got {size}."
            )
        if 2 * size > n:
            return self.permutation(n)[:size]
        chosen = np.empty(0, dtype=np.int64)
        while chosen.size < size:
            drawn = np.concatenate([chosen, self.below(n, size - chosen.size)])
            first_seen = np.unique(drawn, return_index=True)[1]
            chosen = drawn[np.sort(first_seen)]
        return chosen

    def normals(self, n: int | tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return `n` standard normals, or an array of shape `n`, all multiples of 2**−16.

        Each is the cosine half of Box–Muller on two words of its own; none is beyond ±8.6.
        """
        shape = tuple(
            whole_number(side, "n", low=0) for side in (n if isinstance(n, tuple) else (n,))
        )
        words = self.words(2 * math.prod(shape))
        uniform = (words >> np.uint64(11)).astype(np.float64)
        # In (0, 1], so that the logarithm is finite.
        radius = np.sqrt(-2.0 * np.log((uniform[0::2] + 1.0) * 2.0**-53))
        normal = radius * np.cos(uniform[1::2] * (2.0 * math.pi * 2.0**-53))
        # Adding zero turns −0.0 into 0.0: one number, one bit pattern.
        rounded: npt.NDArray[np.float64] = np.rint(normal / _NORMAL_STEP) * _NORMAL_STEP + 0.0
        return rounded.reshape(shape)

    def signs(self, n: int) -> npt.NDArray[np.int8]:
        """Return `n` signs, −1 or +1: the top bit of one word each, set for +1."""
        top = (self.words(n) >> np.uint64(63)).astype(np.int8)
        return np.int8(2) * top - np.int8(1)
