"""Winner-take-all codes, a row at a time: the winner of every window, empty windows filled, symbols
packed.

Window w looks at the places w·K … w·K + K − 1. `features[l, place]` is the feature that factor l
takes there; the component at a place is the product of its factors times its coefficient. The
winner is the position of the largest component, the first of equals; −1 stands for an empty window,
one whose components are all zero.

An empty window i looks for a donor along a sequence of windows that is the same for every row: by
rotation i + 1, i + 2, … around the ring, or a few windows chosen at random and the ring from the
last of them on. The first window that was filled to begin with gives its winner plus C per step,
modulo the alphabet.
"""

from __future__ import annotations

import numpy as np

from bitkin.kernels._kernel import inlined_kernel, kernel

NONE, ROTATION, OPTIMAL = 0, 1, 2

NO_PLACE = np.uint32(0xFFFFFFFF)
_EIGHT = np.uint64(8)
_BYTE = np.uint64(0xFF)
_SWAP_1, _SHIFT_1 = np.uint64(0x00AA00AA00AA00AA), np.uint64(7)
_SWAP_2, _SHIFT_2 = np.uint64(0x0000CCCC0000CCCC), np.uint64(14)
_SWAP_4, _SHIFT_4 = np.uint64(0x00000000F0F0F0F0), np.uint64(28)


@inlined_kernel
def _row_winners_into(row, features, slots, best, winners):
    """Winners of one row, the components of window w being row[features[w]].

    `slots` is (0,) · K, whose length unrolls the loop, or (0,) where K is large.
    """
    n_slots = len(slots) if len(slots) > 1 else features.shape[1]
    for w in range(features.shape[0]):
        top = row[features[w, 0]]
        winner = np.int32(0)
        for k in range(1, n_slots):
            value = row[features[w, k]]
            # strict >, so the first of equals wins; selects, as the winner cannot be predicted
            winner = np.int32(k) if value > top else winner
            top = value if value > top else top
        best[w] = top
        winners[w] = winner
    # Only a window whose largest component is 0 can be empty: a second pass over those few.
    for w in range(features.shape[0]):
        if best[w] == 0:  # all zeros, or zeros and negative numbers
            filled = False
            for k in range(n_slots):
                # zeros and negative numbers: not empty, and its first zero has won
                filled |= row[features[w, k]] != 0
            if not filled:
                winners[w] = -1


@inlined_kernel
def _components_into(row, features, coefficients, components):
    """Products of factors in their order, then the coefficient: float64[M · K], written to
    `components`.

    A factor of zero makes zero, also of a product that has overflowed to infinity.
    """
    for place in range(features.shape[1]):
        product = row[features[0, place]]
        for factor in range(1, features.shape[0]):
            value = row[features[factor, place]]
            product = product * value if value != 0 and product != 0 else row.dtype.type(0)
        components[place] = product * coefficients[place] if len(coefficients) else product


@inlined_kernel
def _single_hits_into(numbers, columns, places, n_places, hit_places, hits):
    """Like `_hits_into`, where features have one place each: all are looked up first, and memory is
    asked at once.
    """
    for i in range(len(columns)):
        # no load depends on another, so cache misses overlap
        hit_places[i] = places[np.uint32(columns[i])]
    n_hits = 0
    for i in range(len(columns)):
        place, number = hit_places[i], numbers[i]
        hit_places[n_hits] = place
        hits[n_hits] = number
        n_hits += (place < n_places) & (number != 0)
    return n_hits


@inlined_kernel
def _hits_into(
    numbers, columns, places, starts, stride, features, coefficients, values, hit_places, hits
):
    """Collect the places of one sparse row whose component is not zero, and the components; return
    how many.
    """
    n_factors, n_places = features.shape
    if n_factors == 1 and stride == 1:
        return _single_hits_into(numbers, columns, places, n_places, hit_places, hits)
    zero = numbers.dtype.type(0)
    if n_factors > 1:
        for i in range(len(columns)):
            # the row as a dense array, for the other factors of a product; zeroed again at the end
            values[columns[i]] = numbers[i]
    n_hits = 0
    for i in range(len(columns)):
        column = columns[i]
        begin, end = column * stride, column * stride + stride
        if stride == 0:
            begin, end = np.int64(starts[column]), np.int64(starts[column + 1])
        for entry in range(begin, end):
            place = places[entry]
            if place >= n_places:
                continue
            # this feature is factor 0 of the place, so a
            # product is met once and not once per factor
            component = numbers[i]
            for factor in range(1, n_factors):
                value = values[features[factor, place]]
                component = component * value if value != 0 and component != 0 else zero
            if len(coefficients):
                component *= coefficients[place]
            if component != 0:
                hit_places[n_hits] = place
                hits[n_hits] = component
                n_hits += 1
    if n_factors > 1:
        for i in range(len(columns)):
            values[columns[i]] = 0
    return n_hits


@inlined_kernel
def _sparse_winners_into(hit_places, hits, n_hits, n_slots, best, counts, taken, winners):
    """Winners of one row from its components that are not zero; all other components are."""
    winners[:] = -1
    negative = False
    for h in range(n_hits):
        w = hit_places[h] // n_slots
        slot = np.int32(hit_places[h] - w * n_slots)
        winner = winners[w]
        # ties go to the lowest slot, whatever order the row stores its entries in
        if winner < 0 or hits[h] > best[w] or (hits[h] == best[w] and slot < winner):
            winners[w] = slot
            best[w] = hits[h]
        negative |= hits[h] < 0
    if negative:
        _first_zeros_into(hit_places, n_hits, n_slots, best, counts, taken, winners)


@kernel
def _first_zeros_into(hit_places, n_hits, n_slots, best, counts, taken, winners):
    """Let the first zero win where all components that are not zero are negative.

    A window with c such components has its first zero among its first c + 1 slots: `taken`
    (bool[hits + M]) has so much room for each, one window after another. `counts` (int64[M]) is
    room too.
    """
    counts[:] = 0
    for h in range(n_hits):
        counts[hit_places[h] // n_slots] += 1
    begin = 0
    for w in range(len(counts)):
        # counts become the first place of each window in `taken`
        begin, counts[w] = begin + counts[w] + 1, begin
    taken[:begin] = False
    for h in range(n_hits):
        w = hit_places[h] // n_slots
        place = counts[w] + np.int64(hit_places[h] - w * n_slots)
        end = counts[w + 1] if w + 1 < len(counts) else begin
        # slots beyond the first c + 1 cannot decide which zero comes first
        if place < end:
            taken[place] = True
    for w in range(len(winners)):
        if winners[w] >= 0 and best[w] < 0:
            slot = 0
            while taken[counts[w] + slot]:
                slot += 1
            # c = K: no zero in the window, and the largest negative component wins
            if slot < n_slots:
                winners[w] = slot


@inlined_kernel
def _ring_donors_into(winners, donors, steps):
    """Give every window the next filled one at or to the right of it, around the ring; there is
    one.
    """
    n = len(winners)
    first = 0
    while winners[first] < 0:
        first += 1
    # from the last window around the ring to the first filled one is first + 1 steps
    distance = first
    for i in range(n - 1, -1, -1):
        distance = 0 if winners[i] >= 0 else distance + 1
        donor = i + distance
        # around the ring
        donors[i] = donor - n if donor >= n else donor
        steps[i] = distance


@inlined_kernel
def _hashed_donors_into(winners, probes, waiting, donors, steps):
    """Give every window itself where it is filled, else the first filled one on its way through
    `probes`, int32[T, M].

    Windows that wait ask a round at a time, without a branch on what they find; return how many
    found none, the first of `waiting`, whose donor is the last they asked.
    """
    n_waiting = 0
    for i in range(len(winners)):
        donors[i] = i
        steps[i] = 0
        waiting[n_waiting] = i
        n_waiting += winners[i] < 0
    for t in range(len(probes)):
        if n_waiting == 0:
            break
        still = 0
        for q in range(n_waiting):
            i = waiting[q]
            donor = probes[t, i]
            donors[i] = donor
            steps[i] = t + 1
            waiting[still] = i
            still += winners[donor] < 0
        n_waiting = still
    return n_waiting


@inlined_kernel
def _donors_into(winners, fill, probes, room):
    """Write the donor of every window and how many steps away it is to the first two rows of
    int32[5, M]; nothing where `fill` is NONE.
    """
    donors, steps, ring_donors, ring_steps, waiting = room[0], room[1], room[2], room[3], room[4]
    if fill == ROTATION:
        _ring_donors_into(winners, donors, steps)
    elif fill == OPTIMAL:
        n_waiting = _hashed_donors_into(winners, probes, waiting, donors, steps)
        if n_waiting:
            _ring_donors_into(winners, ring_donors, ring_steps)
            for q in range(n_waiting):
                i = waiting[q]
                # from the last window asked the way continues around the ring
                steps[i] += ring_steps[donors[i]]
                donors[i] = ring_donors[donors[i]]


@inlined_kernel
def _symbols_into(winners, donors, steps, alphabet, offsets, symbols):
    """Symbols below `alphabet`: the donor's winner, and C for every step to it."""
    for i in range(len(winners)):
        # winner + C·steps mod R: offsets hold C·steps mod R, and both parts are below R, so that
        # one subtraction reduces the sum.
        symbol = np.int64(max(winners[donors[i]], 0)) + np.int64(offsets[steps[i]])
        symbols[i] = symbol - alphabet if symbol >= alphabet else symbol


@inlined_kernel
def _pack_into(symbols, low_bytes, planes):
    """Symbols uint32[M] -> uint8[P, ⌈M / 8⌉ or more], symbol j in byte j // 8, bit 7 − j % 8 of its
    planes.

    Eight bytes, one per symbol, are an 8 × 8 matrix of bits in one word; its transpose holds one
    byte per plane. `low_bytes` is room for uint8[8 · ⌈M / 8⌉].
    """
    n_planes = planes.shape[0]
    low_bytes[len(symbols) :] = 0
    for low in range(0, n_planes, 8):
        for j in range(len(symbols)):
            low_bytes[j] = np.uint8((symbols[j] >> np.uint32(low)) & np.uint32(0xFF))
        for group in range(len(low_bytes) // 8):
            bits = np.uint64(0)
            for j in range(8):
                bits = (bits << _EIGHT) | np.uint64(low_bytes[8 * group + j])
            # Transpose by swapping off-diagonal bits of 2 × 2 blocks, then 2 × 2 blocks of 4 × 4,
            # then 4 × 4 of 8 × 8 (Hacker's Delight, 7-3).
            swap = (bits ^ (bits >> _SHIFT_1)) & _SWAP_1
            bits ^= swap ^ (swap << _SHIFT_1)
            swap = (bits ^ (bits >> _SHIFT_2)) & _SWAP_2
            bits ^= swap ^ (swap << _SHIFT_2)
            swap = (bits ^ (bits >> _SHIFT_4)) & _SWAP_4
            bits ^= swap ^ (swap << _SHIFT_4)
            for p in range(low, min(low + 8, n_planes)):
                planes[p, group] = np.uint8(bits & _BYTE)
                bits >>= _EIGHT


@kernel
def dense_winners_into(rows, features, coefficients, slots, components, best, winners):
    """Rows float[N, D], features uint32[p, M · K] -> int32[N, M], written to `winners`.

    `components` and `best` are room for a row: float64[M · K] where there are several factors, and
    float[M].
    """
    n_windows = winners.shape[1]
    windows = features[0].reshape(n_windows, -1)
    for r in range(len(rows)):
        if features.shape[0] == 1:
            _row_winners_into(rows[r], windows, slots, best, winners[r])
        else:
            _components_into(rows[r], features, coefficients, components)
            _component_winners_into(components.reshape(windows.shape), winners[r])


@inlined_kernel
def _component_winners_into(components, winners):
    for w in range(components.shape[0]):
        winner, filled = 0, components[w, 0] != 0
        for k in range(1, components.shape[1]):
            filled |= components[w, k] != 0
            winner = k if components[w, k] > components[w, winner] else winner
        winners[w] = winner if filled else -1


@kernel
def sparse_winners_into(
    numbers,
    columns,
    indptr,
    places,
    starts,
    stride,
    features,
    coefficients,
    values,
    hit_places,
    hits,
    best,
    counts,
    taken,
    winners,
):
    """Rows of a CSR matrix -> int32[N, M], written to `winners`.

    The places of feature f are places[f · stride : (f + 1) · stride], or places[starts[f] :
    starts[f + 1]] where `stride` is 0. The rest is room for a row.
    """
    n_slots = np.uint32(features.shape[1] // winners.shape[1])
    for r in range(len(indptr) - 1):
        row = slice(indptr[r], indptr[r + 1])
        n_hits = _hits_into(
            numbers[row],
            columns[row],
            places,
            starts,
            stride,
            features,
            coefficients,
            values,
            hit_places,
            hits,
        )
        _sparse_winners_into(hit_places, hits, n_hits, n_slots, best, counts, taken, winners[r])


@inlined_kernel
def _reduce_into(alphabet, winners):
    """Take winners modulo `alphabet`; −1 stays."""
    if alphabet & (alphabet - 1) == 0:
        # a power of two: modulo is a mask
        mask = np.int32(alphabet - 1)
        for w in range(len(winners)):
            winners[w] = winners[w] if winners[w] < 0 else winners[w] & mask
    else:
        for w in range(len(winners)):
            if winners[w] >= alphabet:
                winners[w] %= alphabet


@kernel
def pack_winners_into(
    winners, alphabet, reduce, offsets, densify, probes, room, symbols, low_bytes, planes, empty
):
    """Winners int32[N, M] -> uint8[N, P, B] and bool[N], written to `planes` and `empty`.

    Winners that may be too large are reduced in place. `room` (int32[5, M]), `symbols` (uint32[M])
    and `low_bytes` (uint8[8 · ⌈M / 8⌉]) are room for a row.
    """
    donors, steps = room[0], room[1]
    for r in range(len(winners)):
        n_empty = 0
        for w in range(winners.shape[1]):
            n_empty += winners[r, w] < 0
        empty[r] = n_empty == winners.shape[1]
        if empty[r]:
            continue
        if reduce:
            _reduce_into(alphabet, winners[r])
        fill = densify if n_empty else NONE
        _donors_into(winners[r], fill, probes, room)
        if fill == NONE:
            for w in range(winners.shape[1]):
                symbols[w] = max(winners[r, w], 0)
        else:
            _symbols_into(winners[r], donors, steps, alphabet, offsets, symbols)
        _pack_into(symbols, low_bytes, planes[r])


@kernel
def count_empty_into(winners, counts):
    """Add to `counts` the empty windows of rows with a filled one, the number of those rows, and of
    the others.
    """
    for r in range(len(winners)):
        n_empty = 0
        for w in range(winners.shape[1]):
            n_empty += winners[r, w] < 0
        if n_empty == winners.shape[1]:
            counts[2] += 1
        else:
            counts[0] += n_empty
            counts[1] += 1


@inlined_kernel
def _window_losses_into(components, losses):
    """float64[K] -> float64[R]: the largest component minus the one that a symbol stands for; of
    several the smallest loss, and their mean for a symbol that only borrowing makes.
    """
    n_symbols = len(losses)
    top = components[0]
    for k in range(1, len(components)):
        top = max(top, components[k])
    for s in range(n_symbols):
        losses[s] = np.inf
    total, n_finite = 0.0, 0
    for k in range(len(components)):
        # by comparison first, since infinity minus infinity is no number
        loss = top - components[k] if components[k] != top else 0.0
        if loss < np.inf:
            total += loss
            n_finite += 1
        losses[k % n_symbols] = min(losses[k % n_symbols], loss)
    # the largest component alone makes n_finite at least 1
    for s in range(len(components), n_symbols):
        losses[s] = total / n_finite


@kernel
def symbol_losses_into(
    rows,
    features,
    coefficients,
    winners,
    offsets,
    densify,
    probes,
    borrowed,
    components,
    room,
    table,
    losses,
):
    """Rows float64[N, D] and their winners int32[N, M] -> float32[N, M, R]: what every symbol
    loses against the winner of its window, divided by the largest loss of the row that is finite.

    An empty window has the losses of its donor, moved as its symbol is, times `borrowed`; without a
    donor they are 0. `components` (float64[M · K]), `room` (int32[5, M]) and `table` (float64[M,
    R]) are room for a row.
    """
    _, n_windows, n_symbols = losses.shape
    windows = components.reshape(n_windows, -1)
    for r in range(len(rows)):
        _components_into(rows[r], features, coefficients, components)
        largest, n_empty = 0.0, 0
        for w in range(n_windows):
            if winners[r, w] < 0:
                n_empty += 1
                continue
            _window_losses_into(windows[w], table[w])
            for s in range(n_symbols):
                if table[w, s] < np.inf:
                    largest = max(largest, table[w, s])
        fill = densify if 0 < n_empty < n_windows else NONE
        _donors_into(winners[r], fill, probes, room)
        for w in range(n_windows):
            donor, offset, weight = w, 0, 1.0
            if winners[r, w] < 0:
                if fill == NONE:
                    for s in range(n_symbols):
                        losses[r, w, s] = 0.0
                    continue
                donor, offset, weight = room[0, w], np.int64(offsets[room[1, w]]), borrowed
            for s in range(n_symbols):
                # at most 1, where losses that are not finite end as well
                share = min(table[donor, s] / largest, 1.0) if largest > 0.0 else 0.0
                if largest == 0.0 and table[donor, s] == np.inf:
                    share = 1.0
                place = s + offset
                losses[r, w, place if place < n_symbols else place - n_symbols] = weight * share
