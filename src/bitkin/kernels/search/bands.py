"""Bands of codes: keys of rows, pairs of rows that share a key, and the components that links make
of rows.

A band is a run of neighbouring symbols. Components are a forest in one array: `parents[i]` is a row
of the same component that is not above i, and a root, the lowest row of its component, is its own
parent.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import kernel
from bitkin.kernels._shared import popcount, reverse_bytes

_WORD_BITS = 64
_ONE = np.uint64(1)
_29 = np.uint64(29)
_SPREAD = np.uint64(0xBEA225F9EB34556D)  # odd, its bits well mixed


@kernel
def band_keys_into(words, first_symbol, n_symbols, keys):
    """uint64[N, P, W] -> uint64[N]: rows with equal symbols `first_symbol` … `first_symbol +
    n_symbols` get one key.

    Up to 64 bits a band the key is the symbols themselves, so that other rows get other keys;
    above, a hash.
    """
    n, n_planes, _ = words.shape
    exact = n_planes * n_symbols <= _WORD_BITS
    for i in range(n):
        keys[i] = 0
    done = 0
    while done < n_symbols:
        w, skipped = (first_symbol + done) // _WORD_BITS, (first_symbol + done) % _WORD_BITS
        count = min(_WORD_BITS - skipped, n_symbols - done)  # symbols of the band in this word
        left, right = np.uint64(skipped), np.uint64(_WORD_BITS - count)
        # A shift by 64 is undefined; a whole word of symbols is only ever gathered where nothing
        # was before.
        gathered = np.uint64(count % _WORD_BITS)
        for i in range(n):
            key = keys[i]
            for p in range(n_planes):
                bits = (reverse_bytes(words[i, p, w]) << left) >> right
                if exact:
                    key = (key << gathered) | bits
                else:
                    # + 1, so that a word of zeros changes the hash too
                    key = ((key ^ bits) + _ONE) * _SPREAD
                    key ^= key >> _29
            keys[i] = key
        done += count


@kernel
def _meet_first_here(words, a, b, band, rows):
    """Whether rows `a` and `b` of uint64[N, P, W] agree in all symbols of `band` and in no whole
    band before it.
    """
    _, n_planes, n_words = words.shape
    first_symbol, stop = 0, (band + 1) * rows
    # symbols of the current band that were found equal, without a break since its start
    equal_run = 0
    for w in range(n_words):
        differing = np.uint64(0)
        for p in range(n_planes):
            differing |= words[a, p, w] ^ words[b, p, w]
        # symbol j of the word is bit 63 − j now, so a run of symbols is a run of bits
        differing = reverse_bytes(differing)
        at = w * _WORD_BITS
        while first_symbol < stop:
            # of this band, as far as this word goes
            last = min(first_symbol + rows, at + _WORD_BITS)
            begin = max(first_symbol, at)
            count = last - begin
            if count < 1:
                break
            bits = (differing << np.uint64(begin - at)) >> np.uint64(_WORD_BITS - count)
            if bits == 0:
                equal_run += count
            if last < first_symbol + rows:
                break  # the band continues in the next word
            if equal_run == rows:
                return last == stop
            first_symbol += rows
            equal_run = 0
        if first_symbol >= stop:
            break
    return False


@kernel
def _equal_symbols(words, n_symbols, a, b):
    """Count the symbols in which rows `a` and `b` of uint64[N, P, W] agree."""
    _, n_planes, n_words = words.shape
    differing = np.uint64(0)
    for w in range(n_words):
        differs = np.uint64(0)
        for p in range(n_planes):
            differs |= words[a, p, w] ^ words[b, p, w]
        differing += popcount(differs)
    return n_symbols - np.int64(differing)


@kernel
def equal_symbols_into(words, n_symbols, first, second, equal):
    """uint64[N, P, W] of codes of `n_symbols`; int64[L] twice -> int64[L]: symbols in which both
    rows agree.
    """
    for i in range(len(first)):
        equal[i] = _equal_symbols(words, n_symbols, first[i], second[i])


@kernel
def _root(parents, row):
    """Return the lowest row of the component of `row`, and shorten the way to it."""
    while parents[row] != row:
        # path halving: every second step skips a row, so ways stay short
        parents[row] = parents[parents[row]]
        row = parents[row]
    return row


@kernel
def _leading_root(members, first, stop, parents):
    """Return the root of the component that holds most of the members `first` … `stop`; where none
    holds more than half, any of them.

    The vote of Boyer and Moore: a component with more than half of the members cannot be voted out.
    """
    leader, lead = -1, 0
    for i in range(first, stop):
        root = _root(parents, members[i])
        if lead == 0:
            leader = root
        lead += 1 if root == leader else -1
    return leader


@kernel
def bucket_pairs_into(
    words,
    band,
    rows,
    sizes,
    ratio,
    parents,
    members,
    ranks,
    starts,
    counts,
    taken,
    bucket,
    below,
    others,
    first,
    second,
):
    """Write pairs of rows that share a bucket of `band` and are worth a look to `first` and
    `second`.

    uint64[N, P, W] codes; int64[N] sizes and parents; int64[M] members of all buckets and their
    ranks, of which bucket b has `counts[b]` (int64[B]) from `starts[b]` (int64[B]) on, both
    ascending. The first `taken[b]` (int64[B]) are done with. Those that follow with ranks `below` a
    bound are taken one after another, of every bucket from `bucket` on, and paired with every later
    member that is of another component, that shares no earlier band, and that is not smaller than
    `ratio` times the other. A bucket whose members left are all of one component is done with.
    `others` is room for the members of the largest bucket.

    Ends where the next one taken could overflow `first`. Returns the number of pairs and the bucket
    to continue with.
    """
    found = 0
    for b in range(bucket, len(starts)):
        at, stop = starts[b] + taken[b], starts[b] + counts[b]
        # Most of a bucket may be one component: its members are then paired with the few others,
        # and never looked at among themselves.
        leader = _leading_root(members, at, stop, parents)
        n_others = 0
        for i in range(at, stop):
            if _root(parents, members[i]) != leader:
                others[n_others] = members[i]
                n_others += 1
        if n_others == 0:
            taken[b] = counts[b]
            continue
        begin = 0
        while at < stop and ranks[at] < below:
            pivot = members[at]
            root = _root(parents, pivot)
            while begin < n_others and others[begin] <= pivot:
                begin += 1
            if root == leader:
                left, here, end = others, begin, n_others
            else:
                left, here, end = members, at + 1, stop
            if found + end - here > len(first):
                taken[b] = at - starts[b]
                return found, b
            for i in range(here, end):
                other = left[i]
                low, high = min(sizes[pivot], sizes[other]), max(sizes[pivot], sizes[other])
                if low / high < ratio or _root(parents, other) == root:
                    continue
                if _meet_first_here(words, pivot, other, band, rows):
                    first[found] = pivot
                    second[found] = other
                    found += 1
            at += 1
        taken[b] = at - starts[b]
    return found, len(starts)


@kernel
def comparable_members_into(
    words,
    n_symbols,
    band,
    rows,
    sizes,
    ratio,
    parents,
    members,
    starts,
    counts,
    class_sizes,
    least,
    comparable,
):
    """int64[M] members of the buckets of `bucket_pairs_into` -> bool[M]: which are in any pair that
    it writes whose codes agree in enough symbols; `parents` are roots.

    Enough are `least[c]` (int64[C + 1]), where c counts the `class_sizes` (int64[C]) that both
    sizes together reach.
    """
    for b in range(len(starts)):
        begin, stop = starts[b], starts[b] + counts[b]
        for i in range(begin, stop):
            if comparable[i]:
                continue
            one = members[i]
            for j in range(begin, stop):
                other = members[j]
                low, high = min(sizes[one], sizes[other]), max(sizes[one], sizes[other])
                if low / high < ratio or parents[one] == parents[other]:
                    continue
                if not _meet_first_here(words, one, other, band, rows):
                    continue
                size_class = 0
                while size_class < len(class_sizes) and class_sizes[size_class] <= low + high:
                    size_class += 1
                if _equal_symbols(words, n_symbols, one, other) >= least[size_class]:
                    comparable[i] = comparable[j] = True
                    break


@kernel
def unite_into(parents, first, second, joined):
    """Join the components of rows `first[i]` and `second[i]` (int64[L]); `joined` (bool[L]):
    whether they were two.
    """
    for i in range(len(first)):
        a, b = _root(parents, first[i]), _root(parents, second[i])
        joined[i] = a != b
        if a != b:
            # the lowest row is the root, whatever the order of links
            parents[max(a, b)] = min(a, b)


@kernel
def roots_into(parents, roots):
    """int64[N] -> int64[N]: the lowest row of every row's component."""
    for row in range(len(parents)):
        roots[row] = _root(parents, row)
