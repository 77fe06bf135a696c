"""A stream of vectors, one after another: subspace tracking (OPAST) and the rotation that follows
it (UnifDiag).

Directions lie in blocks of V features, at most 256: blocks[b, j, l] is feature V·b + l of direction
j. What is beyond the last feature or, up to a multiple of four, beyond the last direction, is zero
and stays zero. Nothing on matrices may be contracted or reordered: they stay symmetric to the last
bit because products commute.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin.kernels._kernel import kernel, summing_kernel

WIDEST = 256  # features of a block: one of 32 directions then stays in a core's own cache
LANES = 16  # numbers a vector instruction takes at once
GROUP = 4  # directions taken at once

# What is kept of a stream besides matrices: places in float64[N_NUMBERS] and int64[N_COUNTS].
SCALE, REFERENCE, WEIGHT, TOTAL, RECENT_WEIGHT, RECENT_TOTAL, SPREAD_WEIGHT, N_NUMBERS = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
)
SEEN, CLIPPED, N_COUNTS = 0, 1, 2

RECENT = 1.0 - 1.0 / 1024.0  # forgetting factor of the recent past
FARTHEST = 10.0  # a vector counts as no longer than so many times the root mean square
LARGEST = 2.0**60  # and than so many reference lengths, or float32 would overflow
MOST_WOUND_UP = 1e4  # forgetting lets Z grow to this and no further, in units of the mean square
# share of a squared length below which a difference of squares is not exact enough
CANCELLED = 2.0**-10
NOTHING = 2.0**-36  # share of a squared length below which what lies outside is but rounding
CHECK_EVERY = 1024  # vectors between two looks at whether directions are still orthonormal
RISKY = 16.0  # squared length of a turn after which to look at once: rounding grows with it
WORST = 1e-5  # deviation of an inner product that is left alone

ONE = np.uint64(1)


class Model(NamedTuple):
    """All that is known of a stream; see `follow_into`. In units of about the reference length."""

    blocks: npt.NDArray[np.float32]
    """Directions W: float32[B, C4, V]."""
    inverse: npt.NDArray[np.float64]
    """Z: float64[C, C]."""
    moment: npt.NDArray[np.float64]
    """Σ times the weight: float64[C, C]."""
    recent: npt.NDArray[np.float64]
    """The same of the recent past."""
    mean: npt.NDArray[np.float64]
    """float64[D], in the units of the stream."""
    numbers: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]


class Room(NamedTuple):
    """Arrays to work in. What they hold does not matter; `deviation` and `vector` are zero beyond
    the features.
    """

    deviation: npt.NDArray[np.float64]
    vector: npt.NDArray[np.float32]
    moved: npt.NDArray[np.float32]
    columns: npt.NDArray[np.float64]
    """float64[5, C4]: y, q, y after the turn, the rotated y, and one more."""
    small: npt.NDArray[np.float32]
    """float32[2, C4]: q (or y), and where directions turn to."""
    squares: npt.NDArray[np.float64]
    """float64[2, C, C]."""
    queues: npt.NDArray[np.int64]
    """int64[2, 2·C]."""


def room_for(n_features: int, n_bits: int) -> Room:
    """Return arrays to work in."""
    n_blocks, n_directions, width = _shape_of_blocks(n_features, n_bits)
    return Room(
        np.zeros(n_blocks * width),
        np.zeros((n_blocks, width), dtype=np.float32),
        np.empty(width, dtype=np.float32),
        np.zeros((5, n_directions)),
        np.zeros((2, n_directions), dtype=np.float32),
        np.empty((2, n_bits, n_bits)),
        np.empty((2, 2 * n_bits), dtype=np.int64),
    )


def in_blocks(directions: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return (n_features, n_bits) as blocks: float32[B, C4, V]."""
    n_features, n_bits = directions.shape
    blocks = np.zeros(_shape_of_blocks(n_features, n_bits), dtype=np.float32)
    n_blocks, _, width = blocks.shape
    padded = np.zeros((n_blocks * width, n_bits), dtype=np.float32)
    padded[:n_features] = directions
    blocks[:, :n_bits] = padded.reshape(-1, width, n_bits).transpose(0, 2, 1)
    return blocks


def from_blocks(
    blocks: npt.NDArray[np.float32], n_features: int, n_bits: int
) -> npt.NDArray[np.float32]:
    """Return blocks as float32 (n_features, n_bits), C-contiguous."""
    return blocks[:, :n_bits].transpose(0, 2, 1).reshape(-1, n_bits)[:n_features].copy()


def _shape_of_blocks(n_features: int, n_bits: int) -> tuple[int, int, int]:
    """Return blocks, directions and width: as few features as possible are filled up with."""
    n_blocks = -(-n_features // WIDEST)
    width = -(-n_features // (n_blocks * LANES)) * LANES
    return n_blocks, -(-n_bits // GROUP) * GROUP, width


@kernel
def equalize_diagonal_into(matrix, columns, excess, below, above):
    """Turn float64[C, C] until its diagonal is equal; return the number of rotations, at most C −
    1.

    The streaming paper's UnifDiag, algorithm 1. Row k of `columns`, float64[C, C], becomes column k
    of the rotation. `excess`, float64[C], `below` and `above`, int64[2·C], are room. All are
    overwritten.

    An index whose entry has reached the mean is never looked at again, so its row and column are
    not kept up to date.
    """
    n = len(excess)
    mean = 0.0
    for k in range(n):
        mean += matrix[k, k]
    mean /= n
    # τ is the mean of the diagonal; below n·ε·τ an entry is equal to it but for rounding.
    tolerance = n * 2.0**-52 * mean
    n_below, n_above = 0, 0
    for k in range(n):
        columns[k, :] = 0.0
        columns[k, k] = 1.0
        excess[k] = matrix[k, k] - mean
        if excess[k] < -tolerance:
            below[n_below] = k
            n_below += 1
        elif excess[k] > tolerance:
            above[n_above] = k
            n_above += 1
    first_below, first_above, done = 0, 0, 0
    while first_below < n_below and first_above < n_above and done < n - 1:
        j, i = below[first_below], above[first_above]
        first_below += 1
        first_above += 1
        done += 1
        # The smaller root of a' = mean, written so that nothing cancels; the square root is of a
        # positive number.
        # With t = tan θ, a' = τ reads (a − τ) − 2bt + (d − τ)t² = 0, where a = Σⱼⱼ < τ < d = Σᵢᵢ.
        b = matrix[i, j]
        root = math.sqrt(b * b - excess[j] * excess[i])
        tangent = excess[j] / (b + root if b >= 0.0 else b - root)
        cosine = 1.0 / math.sqrt(1.0 + tangent * tangent)
        sine = tangent * cosine
        # Row j is finished and never read again: only row i is rotated, then copied to its column.
        for k in range(n):
            matrix[i, k] = sine * matrix[j, k] + cosine * matrix[i, k]
        for k in range(n):
            matrix[k, i] = matrix[i, k]
        for k in range(n):
            finished = cosine * columns[j, k] - sine * columns[i, k]
            columns[i, k] = sine * columns[j, k] + cosine * columns[i, k]
            columns[j, k] = finished
        # a rotation keeps a + d, so what j gives up i takes: d' − τ = (d − τ) + (a − τ)
        excess[i] += excess[j]
        excess[j] = 0.0
        if excess[i] < -tolerance:
            below[n_below] = i
            n_below += 1
        elif excess[i] > tolerance:
            above[n_above] = i
            n_above += 1
    return done


@kernel
def _equalizing_rotation_into(covariance, rotation, matrix, columns, excess, below, above):
    """Rotation of float64[C, C] -> float64[C, C]; the covariance is divided by a power of two
    first.
    """
    n = len(covariance)
    largest = 0.0
    for i in range(n):
        largest = max(largest, covariance[i, i])
    factor = 1.0
    if largest > 0.0:
        # a power of two changes no digit, and R does not depend on the scale of Σ
        factor = math.ldexp(1.0, -math.frexp(largest)[1])
    for i in range(n):
        for j in range(n):
            matrix[i, j] = factor * covariance[i, j]
    equalize_diagonal_into(matrix, columns, excess, below, above)
    for i in range(n):
        for j in range(n):
            rotation[i, j] = columns[j, i]


@summing_kernel
def _inner_products_into(blocks, vector, out):
    """float32[B, C, V] · float32[B, V] -> float64[C]: a block is added up in float32, blocks in
    float64.
    """
    n_blocks, n_directions, width = blocks.shape
    for j in range(n_directions):
        out[j] = 0.0
    for b in range(n_blocks):
        for j in range(0, n_directions, GROUP):
            # Four directions share each load of x. A sum has at most 256 terms in float32, then it
            # is added in float64.
            s0 = s1 = s2 = s3 = np.float32(0.0)
            for k in range(width):
                x = vector[b, k]
                s0 += blocks[b, j, k] * x
                s1 += blocks[b, j + 1, k] * x
                s2 += blocks[b, j + 2, k] * x
                s3 += blocks[b, j + 3, k] * x
            out[j] += s0
            out[j + 1] += s1
            out[j + 2] += s2
            out[j + 3] += s3


@kernel
def _pack_into(numbers, offset, words):
    """Bits numbers[j] ≥ offset[j] -> uint64[W]; bit j sits in byte j // 8, bit 7 − j % 8."""
    words[:] = np.uint64(0)
    for j in range(len(offset)):
        if numbers[j] >= offset[j]:
            words[j // 64] |= ONE << np.uint64((j % 64) // 8 * 8 + 7 - j % 8)


@kernel
def signs_into(rows, blocks, offset, vector, sums, words):
    """Signs of float32[N, D] · blocks − float64[C] -> uint64[N, W], each row as if it came alone.

    `vector`, float32[B, V] and zero beyond the features, and `sums`, float64[C4], are room.
    """
    for r in range(len(rows)):
        _sign_into(rows[r], blocks, offset, vector, sums, words[r])


@kernel
def _sign_into(row, blocks, offset, vector, sums, words):
    n_bits, width = len(offset), vector.shape[1]
    flat = vector.reshape(-1)
    for i in range(len(row)):
        flat[i] = row[i]
    _inner_products_into(blocks, vector, sums)
    # An infinity or a NaN in a float32 sum is found once
    # per row, and the row is then summed again.
    finite = True
    for j in range(n_bits):
        finite = finite and math.isfinite(sums[j])
    if not finite:  # beyond float32, not beyond float64
        for j in range(n_bits):
            total = 0.0
            for i in range(len(row)):
                total += np.float64(row[i]) * np.float64(blocks[i // width, j, i % width])
            sums[j] = total
    _pack_into(sums, offset, words)


@summing_kernel
def _square_of(deviation):
    """Squared length of float64[B · V]."""
    square = 0.0
    for i in range(len(deviation)):
        square += deviation[i] * deviation[i]
    return square


@kernel
def _mean_square(numbers):
    """Mean squared distance so far, the reference counted as one vector more: it is never zero.

    Equal vectors that came before any other weigh nothing here: they tell where a stream is, not
    how far it spreads.
    """
    return (numbers[TOTAL] + numbers[REFERENCE]) / (numbers[SPREAD_WEIGHT] + 1.0)


@kernel
def _centre_into(row, mean, numbers, counts, forgetting, center, deviation, vector):
    """Centre, clip and scale float32[D] -> float32[B, V], and move the mean; return the squared
    length of it.
    """
    n = len(row)
    for i in range(n):
        deviation[i] = np.float64(row[i]) - mean[i]
    square = _square_of(deviation)
    scale = numbers[SCALE]
    # In units of the reference length, and no farther than FARTHEST times the root mean square.
    length = math.sqrt(square) * scale
    limit = min(LARGEST, FARTHEST * math.sqrt(_mean_square(numbers)))
    shrink = 1.0
    if length > limit:
        # along the same direction, so that only the weight of a wild vector changes
        shrink = limit / length
        length = limit
        counts[CLIPPED] += 1
    # w_t = β·w_{t−1} + 1. The mean moves by (x − m)/w, and x − m_{t−1} times √(1 − 1/w) has the
    # outer product that x adds to the scatter about the moving mean: exact at β = 1, where w = t.
    weight = forgetting * numbers[WEIGHT] + 1.0
    part = 1.0
    if center:
        share = shrink / weight
        part = math.sqrt(1.0 - 1.0 / weight)
        for i in range(n):
            mean[i] += share * deviation[i]
    factor = part * shrink * scale
    flat = vector.reshape(-1)
    for i in range(n):
        flat[i] = np.float32(factor * deviation[i])
    square = part * length * part * length
    numbers[WEIGHT] = weight
    numbers[SPREAD_WEIGHT] = forgetting * numbers[SPREAD_WEIGHT] + 1.0
    numbers[TOTAL] = forgetting * numbers[TOTAL] + square
    numbers[RECENT_WEIGHT] = RECENT * numbers[RECENT_WEIGHT] + 1.0
    numbers[RECENT_TOTAL] = RECENT * numbers[RECENT_TOTAL] + square
    return square


@kernel
def _turn_into(blocks, vector, towards, q, own, moved):
    """Add q · pᵀ to the directions, p = own · vector + directions · towards, block by block."""
    n_blocks, n_directions, width = blocks.shape
    for b in range(n_blocks):
        for k in range(width):
            moved[k] = own * vector[b, k]
        # p' = own · x + Wᵀ · towards, four directions at a time
        for j in range(0, n_directions, GROUP):
            t0, t1, t2, t3 = towards[j], towards[j + 1], towards[j + 2], towards[j + 3]
            for k in range(width):
                moved[k] += (t0 * blocks[b, j, k] + t1 * blocks[b, j + 1, k]) + (
                    t2 * blocks[b, j + 2, k] + t3 * blocks[b, j + 3, k]
                )
        for j in range(n_directions):
            qj = q[j]
            for k in range(width):
                # W ← W + q p'ᵀ, while the block and p' are still in cache
                blocks[b, j, k] += qj * moved[k]


@kernel
def _carry_into(moment, forgetting, tau, q, y, s):
    """M <- forgetting · T M T + y yᵀ, T = I + tau · q qᵀ, exactly symmetric."""
    n = len(moment)
    inner = 0.0
    for i in range(n):
        s[i] = 0.0
    for i in range(n):
        for j in range(n):
            # s = M q
            s[j] += q[i] * moment[i, j]
    for i in range(n):
        inner += q[i] * s[i]
    for i in range(n):
        # T M T = M + τ(q sᵀ + s qᵀ) + τ²(qᵀMq) q qᵀ. With s' = τ s + ½τ²(qᵀMq) q that is M + q s'ᵀ
        # + s' qᵀ: one pass over M, and symmetric because products commute.
        s[i] = tau * s[i] + 0.5 * tau * tau * inner * q[i]
    for i in range(n):
        for j in range(n):
            moment[i, j] = forgetting * (moment[i, j] + (q[i] * s[j] + s[i] * q[j])) + y[i] * y[j]


@kernel
def _mend_into(blocks, n, vector, sums):
    """Make the first `n` directions orthonormal, in order, where an inner product is off by more
    than 1e−5.

    By Gram and Schmidt, twice where they were far off. So small a turn leaves Z and the moments as
    good as they were.
    """
    for _ in range(3):
        if _deviation(blocks, n, vector, sums) <= WORST:
            return
        for i in range(n):
            _take_into(blocks, i, vector)
            _inner_products_into(blocks, vector, sums)
            if sums[i] > 0.0:
                for b in range(len(blocks)):
                    # modified Gram–Schmidt: direction i is final,
                    # and is taken out of all that follow
                    for j in range(i + 1, n):
                        # w_j −= (w_i·w_j / w_i·w_i) w_i for all later j
                        share = np.float32(sums[j] / sums[i])
                        for k in range(blocks.shape[2]):
                            blocks[b, j, k] -= share * vector[b, k]
                    factor = np.float32(1.0 / math.sqrt(sums[i]))
                    for k in range(blocks.shape[2]):
                        blocks[b, i, k] = factor * vector[b, k]


@kernel
def _deviation(blocks, n, vector, sums):
    """Largest difference between the inner products of the first `n` directions and those of
    orthonormal ones.
    """
    worst = 0.0
    for i in range(n):
        _take_into(blocks, i, vector)
        _inner_products_into(blocks, vector, sums)
        for j in range(n):
            worst = max(worst, abs(sums[j] - (1.0 if i == j else 0.0)))
    return worst


@kernel
def _take_into(blocks, i, vector):
    """Direction `i` -> float32[B, V]."""
    for b in range(len(blocks)):
        for k in range(blocks.shape[2]):
            vector[b, k] = blocks[b, i, k]


@kernel
def _outside(blocks, vector, y, moved):
    """Squared length of what of float32[B, V] lies outside the directions, whose inner products are
    float32[C4].
    """
    n_blocks, n_directions, width = blocks.shape
    total = 0.0
    for b in range(n_blocks):
        for k in range(width):
            moved[k] = vector[b, k]
        for j in range(n_directions):
            for k in range(width):
                moved[k] -= y[j] * blocks[b, j, k]
        for k in range(width):
            total += np.float64(moved[k]) * np.float64(moved[k])
    return total


@kernel
def _track_into(model, room, square, forgetting):
    """Learn from the centred vector in `room.vector`, whose inner products with the directions are
    in columns[0].
    """
    n = len(model.inverse)
    y, q, after, work = room.columns[0], room.columns[1], room.columns[2], room.columns[4]
    largest = 0.0
    for i in range(n):
        # Z is semidefinite, so its largest entry is on the diagonal
        largest = max(largest, model.inverse[i, i])
        q[i] = 0.0
    # Where nothing excites a direction Z would grow without end.
    # q = Z y/β, but 1/β only as far as Z stays bounded
    growth = 1.0 / forgetting
    wound_up = largest * _mean_square(model.numbers)
    if wound_up > 0.0:
        growth = max(1.0, min(growth, MOST_WOUND_UP / wound_up))
    for i in range(n):
        for j in range(n):
            q[j] += y[i] * model.inverse[i, j]
    inside, y_q, q_q = 0.0, 0.0, 0.0
    for i in range(n):
        q[i] *= growth
        inside += y[i] * y[i]
        y_q += y[i] * q[i]
        q_q += q[i] * q[i]
    # γ = 1/(1 + yᵀq), and Z ← Z/β − γ q qᵀ: the matrix inversion lemma for Z⁻¹ ← βZ⁻¹ + y yᵀ
    gain = 1.0 / (1.0 + max(0.0, y_q))
    for i in range(n):
        for j in range(n):
            # q[i] * q[j] first: the product commutes, and Z stays symmetric to the last bit
            model.inverse[i, j] = growth * model.inverse[i, j] - gain * (q[i] * q[j])
    # ‖x − Wᵀy‖² = ‖x‖² − ‖y‖² for orthonormal W; computed directly where the difference cancels
    outside = square - inside
    if outside < CANCELLED * square:
        for i in range(n):
            room.small[0, i] = np.float32(y[i])
        outside = _outside(model.blocks, room.vector, room.small[0], room.moved)
    tau, along = 0.0, 0.0
    if outside > NOTHING * square:
        # p = γ(x − Wᵀy), so ‖p‖² = γ² · outside
        p_p = gain * gain * outside
        root = math.sqrt(1.0 + p_p * q_q)
        # (1 / root − 1) / q_q, without cancelling and for q = 0 too
        tau = -p_p / (root * (1.0 + root))
        # p' = τ Wᵀq + (1 + τ‖q‖²) p = own · x + Wᵀ(τ q − own · y)
        own = gain * (1.0 + tau * q_q)
        # how far the vector lies along what directions are turned by
        along = tau * y_q + own * outside
        for i in range(n):
            room.small[0, i] = np.float32(q[i])
            room.small[1, i] = np.float32(tau * q[i] - own * y[i])
        _turn_into(
            model.blocks, room.vector, room.small[1], room.small[0], np.float32(own), room.moved
        )
        # ‖q‖²·‖p‖² ≤ γ²‖q‖²‖x‖²: after so large a turn
        # float32 directions may have lost orthogonality
        if gain * gain * q_q * square > RISKY:
            _mend_into(model.blocks, n, room.vector, work)
    for i in range(n):
        # W' = W + q p'ᵀ, so W'x = y + q (p'ᵀx), and moments move by T = W'Wᵀ = I + τ q qᵀ.
        after[i] = y[i] + q[i] * along
    _carry_into(model.moment, forgetting, tau, q, after, work)
    _carry_into(model.recent, RECENT, tau, q, after, work)


@kernel
def rotate_into(model, rotation, room):
    """Replace float64[C, C] by the rotation after which all directions have the same variance."""
    # columns have room for more, up to a multiple of four
    excess = room.columns[4, : len(rotation)]
    _equalizing_rotation_into(
        model.moment,
        rotation,
        room.squares[0],
        room.squares[1],
        excess,
        room.queues[0],
        room.queues[1],
    )


@kernel
def follow_into(rows, model, room, forgetting, center, frozen, offset, rotation, refresh, words):
    """Take in float32[N, D] one after another, and write the code of each before it is learned
    from.

    Codes, uint64[N, W] (W = 0: none), are the signs of row · `frozen` − `offset` or, where `frozen`
    has no blocks, of the centred row · directions · `rotation`, float64[C, C] or of no size. Every
    `refresh` vectors (0: never) the rotation is found again.
    """
    n_bits = len(model.inverse)
    y, turned = room.columns[0], room.columns[3]
    for r in range(len(rows)):
        # The code leaves before the model sees the vector.
        if words.shape[1] and len(frozen):
            _sign_into(rows[r], frozen, offset, room.vector, y, words[r])
        square = _centre_into(
            rows[r],
            model.mean,
            model.numbers,
            model.counts,
            forgetting,
            center,
            room.deviation,
            room.vector,
        )
        _inner_products_into(model.blocks, room.vector, y)
        if words.shape[1] and not len(frozen):
            if len(rotation):
                for j in range(n_bits):
                    turned[j] = 0.0
                for i in range(n_bits):
                    for j in range(n_bits):
                        turned[j] += y[i] * rotation[i, j]
                _pack_into(turned, offset, words[r])
            else:
                _pack_into(y, offset, words[r])
        _track_into(model, room, square, forgetting)
        model.counts[SEEN] += 1
        if model.counts[SEEN] % CHECK_EVERY == 0:
            _mend_into(model.blocks, n_bits, room.vector, room.columns[4])
        if refresh and model.counts[SEEN] % refresh == 0:
            rotate_into(model, rotation, room)
