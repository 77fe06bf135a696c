"""Loops over ragged sets: set i is `members[offsets[i]:offsets[i + 1]]`, uint64.

Sorting is a merge sort of our own: its worst case is its usual case, which a quicksort over members
that an outsider chose cannot say, and sets that come sorted cost one look.
"""

from __future__ import annotations

from bitkin.kernels._kernel import kernel

_RUN = 24  # members sorted by insertion before merging starts


@kernel
def _sorted_already(members, first, stop):
    """Whether `members[first:stop]` ascend, equal neighbours allowed."""
    i = first + 1
    while i < stop and members[i - 1] <= members[i]:
        i += 1
    return i >= stop


@kernel
def _insertion_sort(members, first, stop):
    """Sort `members[first:stop]` in place."""
    for i in range(first + 1, stop):
        value = members[i]
        j = i
        while j > first and members[j - 1] > value:
            members[j] = members[j - 1]
            j -= 1
        members[j] = value


@kernel
def _merge_into(source, first, middle, stop, target):
    """Merge the sorted `source[first:middle]` and `source[middle:stop]` to `target[first:stop]`."""
    a, b = first, middle
    place = first
    while a < middle and b < stop:
        # No branch on the comparison: which side is smaller is a coin toss that a processor cannot
        # guess.
        left, right = source[a], source[b]
        take_right = right < left
        target[place] = right if take_right else left
        b += take_right
        a += not take_right
        place += 1
    while a < middle:
        target[place] = source[a]
        a += 1
        place += 1
    while b < stop:
        target[place] = source[b]
        b += 1
        place += 1


@kernel
def _sort(members, first, stop, work):
    """Sort `members[first:stop]` in place; `work` is as long as `members`."""
    if _sorted_already(members, first, stop):
        return
    for start in range(first, stop, _RUN):
        _insertion_sort(members, start, min(start + _RUN, stop))
    width = _RUN
    in_members = True
    while width < stop - first:
        for start in range(first, stop, 2 * width):
            middle, end = min(start + width, stop), min(start + 2 * width, stop)
            if in_members:
                _merge_into(members, start, middle, end, work)
            else:
                _merge_into(work, start, middle, end, members)
        # each pass reads one array and writes the other
        in_members = not in_members
        width *= 2
    if not in_members:
        for i in range(first, stop):
            members[i] = work[i]


@kernel
def sort_distinct_into(members, offsets, first_set, stop_set, work, counts):
    """uint64[M], int64[N + 1] -> sets `first_set` … `stop_set` sorted, their distinct members in
    front, in place.

    `counts` (int64[N]) gets how many those are; what is behind them in a set is left over. `work`
    is uint64[M].
    """
    for s in range(first_set, stop_set):
        first, stop = offsets[s], offsets[s + 1]
        _sort(members, first, stop, work)
        place = first
        for i in range(first, stop):
            if i == first or members[i] != members[place - 1]:
                members[place] = members[i]
                place += 1
        counts[s] = place - first


@kernel
def gather_sets_into(members, starts, out, offsets):
    """uint64[M], int64[N] -> out[offsets[i]:offsets[i + 1]] = the members from `starts[i]` on, for
    every i.
    """
    for s in range(len(starts)):
        shift = starts[s] - offsets[s]
        for i in range(offsets[s], offsets[s + 1]):
            out[i] = members[i + shift]


@kernel
def pair_jaccard_into(members, offsets, first_rows, second_rows, out):
    """Sorted, distinct sets as uint64[M], int64[N + 1]; int64[P] twice -> float64[P]: |A ∩ B| / |A
    ∪ B|, 0 for 0/0.
    """
    for pair in range(len(out)):
        a, end_a = offsets[first_rows[pair]], offsets[first_rows[pair] + 1]
        b, end_b = offsets[second_rows[pair]], offsets[second_rows[pair] + 1]
        both = (end_a - a) + (end_b - b)
        shared = 0
        while a < end_a and b < end_b:
            left, right = members[a], members[b]
            shared += left == right
            a += left <= right
            b += right <= left
        out[pair] = shared / (both - shared) if both > 0 else 0.0
