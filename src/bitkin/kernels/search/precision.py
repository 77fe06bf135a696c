"""Loops behind `bitkin.evaluate`: which pairs to look at, and the precision of a ranking."""

from __future__ import annotations

from bitkin.kernels._kernel import kernel


@kernel
def count_at_most_into(table, limits, out):
    """float[Q, N], float[Q] of one type -> int64[Q]: how many entries of each row are at most its
    limit.
    """
    for row in range(table.shape[0]):
        limit = limits[row]
        count = 0
        for j in range(table.shape[1]):
            count += table[row, j] <= limit
        out[row] = count


@kernel
def find_at_most_into(table, limits, counts, rows, columns, values):
    """float[Q, N], float[Q], int64[Q] as counted -> int64[M], int64[M], float64[M]: row, column and
    value of each.
    """
    place = 0
    for row in range(table.shape[0]):
        limit = limits[row]
        end = place + counts[row]
        j = 0
        # counted before, so the search stops at the last one and not at the end of the row
        while place < end:
            if table[row, j] <= limit:
                rows[place] = row
                columns[place] = j
                values[place] = table[row, j]
                place += 1
            j += 1


@kernel
def average_precision_into(groups, offsets, relevant, counts, hits, out):
    """int32[Q, N] below G, CSR of relevant columns, work int64[G] twice -> float64[Q], NaN where
    nothing is relevant.

    Lower groups rank first; within one the result is the mean over all orders. Of n items with r
    relevant, behind N₀ items with R₀ relevant, the i-th is relevant with chance r / n, and then (i
    − 1)(r − 1)/(n − 1) relevant ones of its own group are expected before it.
    """
    for row in range(groups.shape[0]):
        n_relevant = offsets[row + 1] - offsets[row]
        for group in range(counts.shape[0]):
            counts[group] = 0
            hits[group] = 0
        for j in range(groups.shape[1]):
            counts[groups[row, j]] += 1
        for j in range(offsets[row], offsets[row + 1]):
            hits[groups[row, relevant[j]]] += 1
        before = 0
        relevant_before = 0
        total = 0.0
        for group in range(counts.shape[0]):
            n, r = counts[group], hits[group]
            if r > 0:
                # Σᵢ (r/n) · (R₀ + 1 + (i − 1)(r − 1)/(n − 1)) / (N₀ + i), i from 1; the loop
                # below counts from 0
                step = (r - 1) / (n - 1) if n > 1 else 0.0
                precision = 0.0
                for i in range(n):
                    precision += (relevant_before + 1 + i * step) / (before + i + 1)
                total += precision * r / n
            before += n
            relevant_before += r
            # what ranks behind the last relevant item adds nothing
            if relevant_before == n_relevant:
                break
        out[row] = total / n_relevant if n_relevant > 0 else float("nan")
