"""A stable 64-bit hash of bytes, over strings one after another and over the shingles of texts.

Bytes are zero-padded to blocks of 16, at least one. Each half of a block is a little-endian number,
scrambled one to one; the two are added into the state, which is then multiplied, and the length and
a last mix end it. Whole blocks cost no branch on the length, which for short strings is a guess
that a processor gets wrong half the time.

Anybody can make strings that collide under it. The keyed hash is for where that matters: bytes as
the coefficients of a polynomial modulo 2**61 − 1, seven each after the length, at a secret point.
Two strings of up to 7k bytes collide for at most k points of 2**61 − 1, whoever chose them.

Text comes as bytes in uint64 words (`data`), so that eight bytes are read at once from any place; a
position is a uint64 number of a byte, and at least three words stand behind the last byte in use.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import inlined_kernel, kernel

_START = np.uint64(0x2545F4914F6CDD1D)
_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)
_STATE = np.uint64(0xC6A4A7935BD1E995)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_U0, _U1, _U2, _U3, _U7, _U8 = (np.uint64(n) for n in (0, 1, 2, 3, 7, 8))
_U16, _U29, _U32, _U63 = (np.uint64(n) for n in (16, 29, 32, 63))
_U61, _BITS_29, _BITS_32 = np.uint64(61), np.uint64(2**29 - 1), np.uint64(2**32 - 1)
_PRIME = np.uint64(2**61 - 1)
_U56, _LOW_BYTE, _NONE_ZERO = np.uint64(56), np.uint64(0xFF), np.uint64(2**64 - 1)
_EACH_1, _EACH_128 = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_SPACE = np.uint8(0x20)
# the top bits of a byte; those of a further byte of a code point
_KIND, _FURTHER = np.uint8(0xC0), np.uint8(0x80)


@inlined_kernel
def _eight_bytes(data, at):
    """Return bytes `at` … `at + 7` as a little-endian number."""
    word, bit = at >> _U3, (at & _U7) << _U3
    # Shifted twice, because a shift by 64 means nothing.
    return (data[word] >> bit) | ((data[word + _U1] << _U1) << (_U63 - bit))


@inlined_kernel
def _first_bytes(n):
    """Return a mask of the first `n` (0 … 8) bytes of a little-endian number."""
    half = n << _U2
    return ((_U1 << half) << half) - _U1


@inlined_kernel
def _scrambled(number, factor):
    """uint64 -> uint64, one to one."""
    x = number * factor
    return (x ^ (x >> _U32)) * factor


@inlined_kernel
def _block_added(state, first, second):
    """Return the state after one more block of 16 bytes."""
    return (state ^ _scrambled(first, _FIRST) ^ _scrambled(second, _SECOND)) * _STATE


@inlined_kernel
def _ended(state, length):
    """Return the hash of `length` bytes, all of whose blocks are in the state."""
    x = state ^ length
    x = (x ^ (x >> _U32)) * _MIX_1
    x = (x ^ (x >> _U29)) * _MIX_2
    return x ^ (x >> _U32)


@inlined_kernel
def _hash(data, start, stop):
    """Return the hash of bytes `start` … `stop − 1`."""
    state = _START
    at = start
    while stop - at > _U16:
        state = _block_added(state, _eight_bytes(data, at), _eight_bytes(data, at + _U8))
        at += _U16
    left = stop - at
    in_first = min(left, _U8)
    first = _eight_bytes(data, at) & _first_bytes(in_first)
    second = _eight_bytes(data, at + _U8) & _first_bytes(left - in_first)
    return _ended(_block_added(state, first, second), stop - start)


@inlined_kernel
def _times(a, b):
    """Numbers up to 2**61 + 7 -> their product modulo 2**61 − 1, or that and 2**61 − 1 more, up to
    2**61 + 7 again.
    """
    a_high, a_low, b_high, b_low = a >> _U32, a & _BITS_32, b >> _U32, b & _BITS_32
    middle = a_high * b_low + a_low * b_high
    low = a_low * b_low
    # 2**61 is 1, so 2**64 is 8, and what is above bit 29 of the middle, which counts 2**32 times,
    # is itself.
    total = ((a_high * b_high) << _U3) + (middle >> _U29) + ((middle & _BITS_29) << _U32)
    total += (low >> _U61) + (low & _PRIME)
    return (total >> _U61) + (total & _PRIME)


@inlined_kernel
def _keyed_hash(data, start, stop, point):
    """Return the polynomial of bytes `start` … `stop − 1` at `point`, below 2**61 − 1."""
    state = stop - start
    at = start
    while at < stop:
        state = _times(state, point) + (_eight_bytes(data, at) & _first_bytes(min(stop - at, _U7)))
        state = (state >> _U61) + (state & _PRIME)
        at += _U7
    return state % _PRIME


@inlined_kernel
def _bytes_before_zero(number):
    """Return a mask of the bytes before the first zero byte of a little-endian number: of all eight
    where none is zero.
    """
    # Bit 7 of the first zero byte, and of none before it: a borrow comes from zero bytes alone.
    zeros = (number - _EACH_1) & ~number & _EACH_128
    return ((zeros & (_U0 - zeros)) >> _U7) - _U1


@inlined_kernel
def _count_bytes(mask):
    """Return how many bytes a mask of the first 0 … 8 bytes has."""
    return ((mask & _EACH_1) * _EACH_1) >> _U56


@kernel
def hash_joined_into(data, n_bytes, out):
    """Strings that each end with a zero byte, in the first `n_bytes` of `data` -> uint64[n], what
    `_hash` gives; returns how many there are, or n + 1 where there are more.

    One pass: a block of 16 bytes is read, its zero byte found and what is behind it masked.
    """
    end = np.uint64(n_bytes)
    start = _U0
    count = 0
    while start < end:
        if count == out.size:
            return count + 1
        state, at = _START, start
        while True:
            first, second = _eight_bytes(data, at), _eight_bytes(data, at + _U8)
            in_first, in_second = _bytes_before_zero(first), _bytes_before_zero(second)
            # nothing counts behind a zero byte in the first half
            in_second &= _U0 - np.uint64(in_first == _NONE_ZERO)
            if in_second != _NONE_ZERO or (_eight_bytes(data, at + _U16) & _LOW_BYTE) == _U0:
                break  # the last block, of up to 16 bytes
            state = _block_added(state, first, second)
            at += _U16
        stop = at + _count_bytes(in_first) + _count_bytes(in_second)
        out[count] = _ended(_block_added(state, first & in_first, second & in_second), stop - start)
        count += 1
        start = stop + _U1
    return count


@kernel
def hash_strings_into(data, ends, out):
    """Strings that end at int64[n], one byte apart -> uint64[n]."""
    start = _U0
    for i in range(out.size):
        stop = np.uint64(ends[i])
        out[i] = _hash(data, start, stop)
        start = stop + _U1


@kernel
def count_characters_into(text, offsets, counts):
    """UTF-8 texts, uint8[B] cut at int64[N + 1] -> int64[N]: code points in each."""
    for t in range(counts.size):
        count = 0
        for i in range(offsets[t], offsets[t + 1]):
            count += (text[i] & _KIND) != _FURTHER
        counts[t] = count


@kernel
def _wide_space(text, i):
    """Return how many bytes the white space at byte `i` has, where it is a lead byte of several; 0
    for no space.
    """
    lead, second, third = text[i], text[i + 1], text[i + 2]
    if lead == 0xC2:  # U+0085, U+00A0
        return 2 if second == 0x85 or second == 0xA0 else 0
    if lead == 0xE1:  # U+1680
        return 3 if second == 0x9A and third == 0x80 else 0
    if lead == 0xE2 and second == 0x80:  # U+2000 … U+200A, U+2028, U+2029, U+202F
        return 3 if third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF else 0
    if lead == 0xE2 and second == 0x81:  # U+205F
        return 3 if third == 0x9F else 0
    if lead == 0xE3:  # U+3000
        return 3 if second == 0x80 and third == 0x80 else 0
    return 0


@inlined_kernel
def _mark_spaces_into(text, first, stop, spaces):
    """Bytes `first` … `stop − 1` -> spaces[1:] 1 for every byte of a white space and 0 for others;
    spaces[0] is 1.
    """
    n = stop - first
    of_text, marks = text[first:stop], spaces[1 : n + 1]
    spaces[0] = 1
    some_wide = False
    for i in range(n):
        byte = of_text[i]
        marks[i] = (
            (byte == 0x20) | ((byte >= 0x09) & (byte <= 0x0D)) | ((byte >= 0x1C) & (byte <= 0x1F))
        )
        some_wide |= byte >= 0xC2
    if some_wide:
        for i in range(n):
            if of_text[i] >= 0xC2:
                for k in range(_wide_space(text, first + i)):
                    marks[i + k] = 1


@kernel
def join_words_into(text, offsets, spaces, out, out_offsets, counts):
    """UTF-8 texts, uint8[B] cut at int64[N + 1] -> the same with one space between words and none
    around them.

    `out` has room for as many bytes; `counts` (int64[N]) gets the words of each text. White space
    is what `str.isspace` says. `text` has two bytes more than are in use; `spaces` is work,
    uint8[longest text + 1]. Marking first leaves no branch here: where words end is what a
    processor cannot guess.
    """
    place = 0
    for t in range(counts.size):
        out_offsets[t] = place
        first = offsets[t]
        n = offsets[t + 1] - first
        _mark_spaces_into(text, first, first + n, spaces)
        count = 0
        for i in range(n):
            byte, before, here = text[first + i], spaces[i], spaces[i + 1]
            out[place] = byte ^ ((byte ^ _SPACE) * here)
            count += np.int64(before & (here ^ 1))
            place += 1 - np.int64(before & here)
        if count > 0:
            place -= np.int64(spaces[n])
        counts[t] = count
    out_offsets[counts.size] = place


@kernel
def shingles_into(text, data, offsets, by_words, size, starts, point, out, keyed, out_offsets):
    """UTF-8 texts cut at int64[N + 1] -> the hashes of each one's shingles, uint64[S] cut at
    int64[N + 1].

    `keyed` gets the hashes with the key `point` (uint64 below 2**61 − 1), or is empty where no one
    needs them.

    `text` and `data` are the same bytes. A unit is a word between single spaces, or a code point; a
    shingle is `size` units in a row, or the whole text where it has fewer. `starts` is work,
    int64[longest text + 2].
    """
    gap = 1 if by_words else 0
    for t in range(offsets.size - 1):
        first, stop = offsets[t], offsets[t + 1]
        if first == stop:
            continue
        n_units = 0
        if by_words:
            starts[0] = first
            n_units = 1
            for i in range(first, stop):
                starts[n_units] = i + 1
                n_units += text[i] == _SPACE
        else:
            for i in range(first, stop):
                starts[n_units] = i
                n_units += (text[i] & _KIND) != _FURTHER
        starts[n_units] = stop + gap
        place = out_offsets[t]
        units = min(size, n_units)  # of a shingle; a text of fewer is one shingle
        for i in range(n_units - units + 1):
            begin, end = np.uint64(starts[i]), np.uint64(starts[i + units] - gap)
            out[place + i] = _hash(data, begin, end)
            if keyed.size:
                keyed[place + i] = _keyed_hash(data, begin, end, point)
