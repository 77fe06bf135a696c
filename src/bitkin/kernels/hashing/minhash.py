"""MinHash of ragged sets: minima under keyed bijections of the 64-bit numbers, cut to b bits and
packed.

One permutation: a bijection spreads the members over n bins, by the high part of hash · n, which
rises with the hash, and a bin's value is the least hash in it. An empty bin i takes the *largest*
hash of its donor, the first filled bin in an order of its own: bin (shift[i] + t · factor[i]) mod N
for t = 0, 1, …, N the power of two from n on. The largest is as fair a draw as the least, and
mostly another member, so that a copy says something new. Factors are odd, so an order comes by
every bin once and always ends. It can be read backwards too: where few bins are filled, asking each
for its t costs less than walking, and finds the same donor.

By rounds (fast similarity sketching): in round r the member with the mixed number g has place (g +
steps[r] · factor(g)) mod N, which is in bin ⌊place · n / N⌋, and the first round in which any
member is in a bin decides it. Low bits of the steps are a permutation and factors are odd, so a
member comes by every place once, in an order of its own, and N rounds are always enough. Sets much
larger than n need one round, others about n · ln n throws in all. Every member fills about as many
bins as any other, where independent hashes leave that to chance: hence the smaller error.

Independent: hash j is g · factor[j] + shift[j] of the mixed member g, a bijection because factors
are odd.

A symbol is the top b bits of the value mixed once more with a salt of its place: least values are
small numbers, so their own bits are not evenly spread, and two copies of one value must not collide
by chance together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.kernels._kernel import inlined_kernel, kernel

CHUNK = 1024  # members mixed at once, in a loop that LLVM vectorizes

# filled bins are many from √(12 n) on: walking to one is then cheaper than asking all, as measured
_MANY = 12
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_U0, _U1, _U29, _U32 = np.uint64(0), np.uint64(1), np.uint64(29), np.uint64(32)
_NONE = np.uint64(2**64 - 1)  # the value of an empty bin
_LOW_32 = np.uint64(2**32 - 1)
# a value of the rounds: 20 bits of the round, then 44 of the hash without the lowest, which are
# those of the bin
_U20, _U44 = np.uint64(20), np.uint64(44)
# hashes; the two members beyond get the next number
_SMALLEST, _LARGEST = np.uint64(1), np.uint64(2**64 - 2)


class MinHashTables(NamedTuple):
    """All that a hasher of n hashes drew."""

    keys: npt.NDArray[np.uint64]
    """[2]: of the bijection that mixes."""
    orders: npt.NDArray[np.uint64]
    """[n, 3]: shift, factor, and 1 / factor mod 2**64."""
    salts: npt.NDArray[np.uint64]
    """[n]: one per place."""
    bit_places: npt.NDArray[np.uint64]
    """[64]: where in a word the bit of symbol j stands; not drawn, but a table as well."""


class RoundTables(NamedTuple):
    """All that a hasher by rounds drew, for n hashes; N is the power of two from n on."""

    keys: npt.NDArray[np.uint64]
    """[2]: of the bijection that mixes."""
    steps: npt.NDArray[np.uint64]
    """[N]: how far a round is from the first, which is 0; a permutation of 0 … N − 1 mod N."""
    salts: npt.NDArray[np.uint64]
    """[n]: one per place."""
    bit_places: npt.NDArray[np.uint64]
    """[64]: as in `MinHashTables`."""


class MinHashWork(NamedTuple):
    """Room for one set at a time, for one thread."""

    mixed: npt.NDArray[np.uint64]
    """[CHUNK]: mixed members."""
    factors: npt.NDArray[np.uint64]
    """[CHUNK]: how each goes from bin to bin, round by round."""
    values: npt.NDArray[np.uint64]
    """[n]: least hashes."""
    largest: npt.NDArray[np.uint64]
    """[n]: largest hashes."""
    bins: npt.NDArray[np.uint64]
    """[2, n + 1]: empty bins and filled ones."""
    symbols: npt.NDArray[np.uint64]
    """[64 · W]: one set's symbols, and zeros behind them."""


def power_of_two_from(n: int) -> int:
    """Return the least power of two that is not below `n`."""
    return 1 << (n - 1).bit_length()


def minhash_work_for(n: int) -> MinHashWork:
    """Return room for sets under `n` hashes."""
    return MinHashWork(
        mixed=np.empty(CHUNK, dtype=np.uint64),
        factors=np.empty(CHUNK, dtype=np.uint64),
        values=np.empty(n, dtype=np.uint64),
        largest=np.empty(n, dtype=np.uint64),
        bins=np.empty((2, n + 1), dtype=np.uint64),
        symbols=np.zeros(64 * -(-n // 64), dtype=np.uint64),
    )


@inlined_kernel
def _mixed(number, before, between):
    """uint64 -> uint64, one to one for each pair of keys; every bit of the result hangs on every
    bit of the number.
    """
    x = number ^ before
    x = (x ^ (x >> _U32)) * _MIX_1
    x = (x ^ (x >> _U29) ^ between) * _MIX_2
    return x ^ (x >> _U32)


@inlined_kernel
def _mix_into(members, keys, mixed):
    """uint64[up to CHUNK], uint64[2] -> mixed."""
    before, between = keys[0], keys[1]
    for i in range(members.size):
        mixed[i] = _mixed(members[i], before, between)


@kernel
def _fill_bins_into(members, keys, mixed, values, largest):
    """uint64[M] -> uint64[n] twice: the least and largest hash in every bin; the least is _NONE
    where no member is.
    """
    n = np.uint64(values.size)
    for i in range(values.size):
        values[i] = _NONE
        largest[i] = _U0
    for start in range(0, members.size, CHUNK):
        chunk = members[start : start + CHUNK]
        _mix_into(chunk, keys, mixed)
        for i in range(chunk.size):
            # 0 and 2⁶⁴ − 1 mean "no hash" in the two arrays; no member may have them
            hashed = max(min(mixed[i], _LARGEST), _SMALLEST)
            # ⌊hash/2⁶⁴ · n⌋ by the high 32 bits: it rises with the hash, and needs no division
            place = ((hashed >> _U32) * n) >> _U32
            values[place] = min(values[place], hashed)
            largest[place] = max(largest[place], hashed)


@inlined_kernel
def _donor_met(largest, shift, factor, mask):
    """Walk an order to its first filled bin; there must be one."""
    n = np.uint64(largest.size)
    place = shift & mask
    while place >= n or largest[place] == _U0:
        place = (place + factor) & mask
    return place


@inlined_kernel
def _donor_asked(filled, shift, inverse, mask):
    """Return the filled bin (uint64[F], F > 0) that comes first in an order: t = (bin − shift) /
    factor mod N.

    The bin's number rides in the low half of t: a plain minimum is what LLVM vectorizes.
    """
    soonest = _NONE
    for f in range(filled.size):
        turn = ((filled[f] - shift) * inverse) & mask
        soonest = min(soonest, (turn << _U32) | filled[f])
    return soonest & _LOW_32


@kernel
def _fill_empty_bins(values, largest, orders, bins):
    """Give every empty bin of `values` what `largest` has for its donor. Some bin must be
    filled.
    """
    n = values.size
    empty, filled = bins[0], bins[1]
    n_empty = 0
    for i in range(n):
        # Written always, counted where it is so: which bins are empty is a toss that a processor
        # cannot guess.
        empty[n_empty] = np.uint64(i)
        n_empty += values[i] == _NONE
    n_filled = n - n_empty
    mask = _U0
    # N − 1 for N the power of two from n on
    while mask < np.uint64(n - 1):
        mask = mask + mask + _U1
    # A walk takes about n/filled steps, asking takes
    # `filled`: equal at filled² ≈ n, up to a factor.
    if n_filled * n_filled >= _MANY * n:
        for e in range(n_empty):
            i = empty[e]
            values[i] = largest[_donor_met(largest, orders[i, 0], orders[i, 1], mask)]
        return
    count = 0
    for i in range(n):
        filled[count] = np.uint64(i)
        count += values[i] != _NONE
    for e in range(n_empty):
        i = empty[e]
        values[i] = largest[_donor_asked(filled[:n_filled], orders[i, 0], orders[i, 2], mask)]


@kernel
def _own_orders_into(members, keys, orders, mixed, values):
    """uint64[M] -> uint64[n]: the least g · factor + shift of every hash over all members."""
    for j in range(values.size):
        values[j] = _NONE
    for start in range(0, members.size, CHUNK):
        chunk = members[start : start + CHUNK]
        _mix_into(chunk, keys, mixed)
        for j in range(values.size):
            shift, factor, least = orders[j, 0], orders[j, 1], values[j]
            for i in range(chunk.size):
                # modulo 2⁶⁴, where an odd factor makes it one to one
                least = min(least, mixed[i] * factor + shift)
            values[j] = least


@inlined_kernel
def _bin_of(hashed, mask, n, shift):
    """Return ⌊place · n / N⌋ for the place hashed mod N; mask is N − 1, and shift log2 N."""
    return ((hashed & mask) * n) >> shift


@inlined_kernel
def _log2(power):
    """Return log2 of a power of two."""
    shift = _U0
    while (_U1 << shift) < np.uint64(power):
        shift += _U1
    return shift


@kernel
def _first_round_into(members, tables, work):
    """uint64[M] -> `work.values`: the least hash in every bin of the first round, _NONE where there
    is none; `work.mixed` holds the last chunk.
    """
    values, mixed = work.values, work.mixed
    mask, shift = np.uint64(tables.steps.size - 1), _log2(tables.steps.size)
    n = np.uint64(values.size)
    for i in range(values.size):
        values[i] = _NONE
    for start in range(0, members.size, CHUNK):
        chunk = members[start : start + CHUNK]
        _mix_into(chunk, tables.keys, mixed)
        for i in range(chunk.size):
            place = _bin_of(mixed[i], mask, n, shift)
            values[place] = min(values[place], mixed[i] >> _U20)


@inlined_kernel
def _factors_into(mixed, factors):
    """uint64[m] -> uint64[m]: odd numbers from the high halves; places of the first round come from
    the low ones.
    """
    for i in range(mixed.size):
        factors[i] = (((mixed[i] >> _U32) * _MIX_1) >> _U32) | _U1


@inlined_kernel
def _one_round_into(mixed, factors, r, steps, shift, values):
    """Members uint64[m] of round r >= 1 -> the bins of `values` that are still empty; returns how
    many that filled. `shift` is log2 of the number of steps: a small set has some hundred rounds of
    a few members, so that the caller finds it once.
    """
    mask, n = np.uint64(steps.size - 1), np.uint64(values.size)
    step = steps[r]
    later_is_larger = np.uint64(r) << _U44
    n_filled = 0
    for i in range(mixed.size):
        hashed = mixed[i] + step * factors[i]
        place = _bin_of(hashed, mask, n, shift)
        before = values[place]
        # No branch: whether a bin is empty is a toss that a processor cannot guess.
        n_filled += before == _NONE
        values[place] = min(before, later_is_larger | (hashed >> _U20))
    return n_filled


@kernel
def _further_rounds_into(members, tables, work):
    """Fill the bins of `work.values` that the first round left empty."""
    steps, values = tables.steps, work.values
    shift = _log2(steps.size)
    n_empty = 0
    for i in range(values.size):
        n_empty += values[i] == _NONE
    r = 1
    if members.size <= CHUNK:  # mixed by the first round
        mixed, factors = work.mixed[: members.size], work.factors[: members.size]
        _factors_into(mixed, factors)
        while n_empty > 0:
            n_empty -= _one_round_into(mixed, factors, r, steps, shift, values)
            r += 1
        return
    while n_empty > 0:
        for start in range(0, members.size, CHUNK):
            chunk = members[start : start + CHUNK]
            mixed, factors = work.mixed[: chunk.size], work.factors[: chunk.size]
            _mix_into(chunk, tables.keys, mixed)
            _factors_into(mixed, factors)
            n_empty -= _one_round_into(mixed, factors, r, steps, shift, values)
        r += 1


@kernel
def _pack_into(values, salts, bit_places, symbols, words):
    """Minima uint64[n], uint64[n], uint64[64] -> the planes of one row, uint64[b, W].

    `symbols` is work, uint64[64 · W], and holds zeros behind the first n. Going over all symbols
    for every plane beat turning 8 × 8 bits at a time: it is what LLVM vectorizes.
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
    """uint64[M], int64[N + 1], `MinHashTables`, `MinHashWork` -> uint64[N, b, W]; an empty set
    has a row of zeros.
    """
    for s in range(words.shape[0]):
        if offsets[s] == offsets[s + 1]:
            words[s] = _U0
            continue
        of_set = members[offsets[s] : offsets[s + 1]]
        _fill_bins_into(of_set, tables.keys, work.mixed, work.values, work.largest)
        _fill_empty_bins(work.values, work.largest, tables.orders, work.bins)
        _pack_into(work.values, tables.salts, tables.bit_places, work.symbols, words[s])


@kernel
def independent_into(members, offsets, tables, work, words):
    """Like `one_permutation_into`, with a bijection of its own for every hash."""
    for s in range(words.shape[0]):
        if offsets[s] == offsets[s + 1]:
            words[s] = _U0
            continue
        of_set = members[offsets[s] : offsets[s + 1]]
        _own_orders_into(of_set, tables.keys, tables.orders, work.mixed, work.values)
        _pack_into(work.values, tables.salts, tables.bit_places, work.symbols, words[s])


@kernel
def rounds_into(members, offsets, tables, work, words):
    """Like `one_permutation_into`, with `RoundTables` and bins filled by rounds."""
    for s in range(words.shape[0]):
        if offsets[s] == offsets[s + 1]:
            words[s] = _U0
            continue
        of_set = members[offsets[s] : offsets[s + 1]]
        _first_round_into(of_set, tables, work)
        _further_rounds_into(of_set, tables, work)
        _pack_into(work.values, tables.salts, tables.bit_places, work.symbols, words[s])
