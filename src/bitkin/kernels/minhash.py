"""MinHash of ragged sets: minima under keyed bijections of the 64-bit numbers, cut to b bits and packed.

One permutation: a bijection h spreads the members over n bins (the high part of h · n, which rises with h), and a
bin's value is the least h in it. An empty bin i takes the value of the first filled bin in an order of its own, bin
(shift[i] + t · factor[i]) mod N for t = 0, 1, …, N the power of two from n on. Factors are odd, so an order comes by
every bin once and always ends. It can be read backwards too: where few bins are filled, asking each for its t costs
less than walking, and finds the same bin.

Independent: hash j is g · factor[j] + shift[j] of the well-mixed member g = h(m), a bijection because factors are odd.

A symbol is the top b bits of the value mixed once more with a salt of its place: least values are small numbers, and
without the salt two copies of one value would agree by chance together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.kernels._kernel import inlined_kernel, kernel

CHUNK = 256  # members mixed at once, in a loop that LLVM vectorizes

_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_U0, _U1, _U29, _U32 = np.uint64(0), np.uint64(1), np.uint64(29), np.uint64(32)
_NONE = np.uint64(2**64 - 1)  # the value of an empty bin
_LARGEST = np.uint64(2**64 - 2)  # the one member that would be mixed to _NONE gets this instead


class Tables(NamedTuple):
    """All that a hasher of n hashes drew."""

    keys: npt.NDArray[np.uint64]
    """[2]: of the bijection h."""
    orders: npt.NDArray[np.uint64]
    """[3, n]: shift, factor, and 1 / factor mod 2**64."""
    salts: npt.NDArray[np.uint64]
    """[n]: one a place."""
    bit_places: npt.NDArray[np.uint64]
    """[64]: where in a word the bit of symbol j stands; not drawn, but a table as well."""


class Work(NamedTuple):
    """Room for one set at a time, for one thread."""

    mixed: npt.NDArray[np.uint64]
    """[CHUNK]: mixed members."""
    values: npt.NDArray[np.uint64]
    """[n]: minima."""
    places: npt.NDArray[np.int64]
    """[3, n]: empty bins, their donors, filled bins."""
    symbols: npt.NDArray[np.uint64]
    """[64 · W]: one set's symbols, and zeros behind them."""


def work_for(n: int) -> Work:
    """Return room for sets under `n` hashes."""
    return Work(
        mixed=np.empty(CHUNK, dtype=np.uint64),
        values=np.empty(n, dtype=np.uint64),
        places=np.empty((3, n), dtype=np.int64),
        symbols=np.zeros(64 * -(-n // 64), dtype=np.uint64),
    )


@inlined_kernel
def _mix(number, before, between):
    """uint64 -> uint64, one to one for each pair of keys; every bit of the result hangs on every bit of the number."""
    x = number ^ before
    x = (x ^ (x >> _U32)) * _MIX_1
    x = (x ^ (x >> _U29) ^ between) * _MIX_2
    return x ^ (x >> _U32)


@inlined_kernel
def _mix_chunk_into(members, keys, mixed):
    """uint64[up to CHUNK], uint64[2] -> mixed, none of them _NONE."""
    before, between = keys[0], keys[1]
    for i in range(members.size):
        mixed[i] = min(_mix(members[i], before, between), _LARGEST)


@kernel
def _bin_minima_into(members, keys, mixed, values):
    """uint64[M] -> uint64[n]: the least mixed member of every bin, _NONE where there is none."""
    n = np.uint64(values.size)
    for i in range(values.size):
        values[i] = _NONE
    for start in range(0, members.size, CHUNK):
        chunk = members[start : start + CHUNK]
        _mix_chunk_into(chunk, keys, mixed)
        for i in range(chunk.size):
            place = ((mixed[i] >> _U32) * n) >> _U32
            values[place] = min(values[place], mixed[i])


@kernel
def _donor_met(values, shift, factor, mask):
    """Walk an order to its first filled bin; there must be one."""
    n = np.uint64(values.size)
    place = shift & mask
    while place >= n or values[place] == _NONE:
        place = (place + factor) & mask
    return np.int64(place)


@kernel
def _donor_asked(filled, shift, inverse, mask):
    """Return the filled bin (int64[F], F > 0) that comes first in an order: t = (bin − shift) / factor mod N."""
    donor, soonest = filled[0], _NONE
    for f in range(filled.size):
        turn = ((np.uint64(filled[f]) - shift) * inverse) & mask
        if turn < soonest:
            donor, soonest = filled[f], turn
    return donor


@kernel
def _fill_empty_bins(values, orders, places):
    """Give every empty bin of uint64[n] the value of its donor; `orders` is uint64[3, n]: shift, factor, 1 / factor.

    Only bins that a member filled are donors, and there must be one. `places` is work, int64[3, n].
    """
    n = values.size
    empty, donors, filled = places[0], places[1], places[2]
    n_empty = 0
    for i in range(n):
        # Written always, counted where it fits: which bins are empty is a coin toss that a processor cannot guess.
        empty[n_empty] = i
        n_empty += values[i] == _NONE
    if n_empty == 0:
        return
    n_filled = n - n_empty
    few = n_filled * n_filled < n
    if few:
        f = 0
        for i in range(n):
            if values[i] != _NONE:
                filled[f] = i
                f += 1
    mask = _U0
    while mask < np.uint64(n - 1):
        mask = mask + mask + _U1
    for e in range(n_empty):
        i = empty[e]
        if few:
            donors[e] = _donor_asked(filled[:n_filled], orders[0, i], orders[2, i], mask)
        else:
            donors[e] = _donor_met(values, orders[0, i], orders[1, i], mask)
    for e in range(n_empty):  # only now, or a bin just filled would look like a donor
        values[empty[e]] = values[donors[e]]


@kernel
def _least_of_each_into(members, keys, orders, mixed, values):
    """uint64[M] -> uint64[n]: the least g · factor + shift of every hash over all members."""
    for j in range(values.size):
        values[j] = _NONE
    for start in range(0, members.size, CHUNK):
        chunk = members[start : start + CHUNK]
        _mix_chunk_into(chunk, keys, mixed)
        for j in range(values.size):
            shift, factor, least = orders[0, j], orders[1, j], values[j]
            for i in range(chunk.size):
                least = min(least, mixed[i] * factor + shift)
            values[j] = least


@kernel
def _pack_into(values, salts, bit_places, symbols, words):
    """Minima uint64[n], uint64[n], uint64[64] -> the planes of one row, uint64[b, W].

    `symbols` is work, uint64[64 · W], and holds zeros behind the first n. Going over all symbols for every plane beat
    turning 8 × 8 bits at a time: it is what LLVM vectorizes.
    """
    n_bits, n_words = words.shape
    shift = np.uint64(64 - n_bits)
    for j in range(values.size):
        x = (values[j] ^ salts[j]) * _MIX_1
        x = (x ^ (x >> _U32)) * _MIX_2
        symbols[j] = x >> shift
    for w in range(n_words):
        of_word = symbols[64 * w : 64 * w + 64]
        for p in range(n_bits):
            plane = np.uint64(p)
            word = _U0
            for j in range(64):
                word |= ((of_word[j] >> plane) & _U1) << bit_places[j]
            words[p, w] = word


@kernel
def one_permutation_into(members, offsets, tables, work, words):
    """uint64[M], int64[N + 1], `Tables`, `Work` -> uint64[N, b, W]; a row of zeros for an empty set."""
    for s in range(words.shape[0]):
        if offsets[s] == offsets[s + 1]:
            words[s] = _U0
            continue
        _bin_minima_into(members[offsets[s] : offsets[s + 1]], tables.keys, work.mixed, work.values)
        _fill_empty_bins(work.values, tables.orders, work.places)
        _pack_into(work.values, tables.salts, tables.bit_places, work.symbols, words[s])


@kernel
def independent_into(members, offsets, tables, work, words):
    """Like `one_permutation_into`, with a bijection of its own for every hash."""
    for s in range(words.shape[0]):
        if offsets[s] == offsets[s + 1]:
            words[s] = _U0
            continue
        _least_of_each_into(members[offsets[s] : offsets[s + 1]], tables.keys, tables.orders, work.mixed, work.values)
        _pack_into(work.values, tables.salts, tables.bit_places, work.symbols, words[s])
