"""Centres of cells: codes that are each the most frequent symbols of the rows nearest to them.

They are found as k-means finds its centres, with the number of symbols that differ as the distance
and the mode of every symbol (of bits: the majority) as the mean, on a sample of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Ids, Words
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.cells import (
    TILE,
    choose_cells_into,
    modes_into,
    symbols_apart_into,
)
from bitkin.kernels.search.scan import block_widths
from bitkin.randomness import Draws

ROWS_PER_CELL = 32  # of the sample that centres are found from
_FEWEST_GROUPS = 8  # of centres that are looked into, where there are as many
_ITERATIONS = 6
_HALVINGS = 3  # of centres, each between better pivots
_ROWS_PER_PIECE = 1 << 13
_CELLS_PER_PIECE = 1 << 7
_COUNTED_BITS = 12  # of a symbol whose mode is looked for; see the kernel

Cells = npt.NDArray[np.uint32]
Distances = npt.NDArray[np.int32]


class CentreTiles(NamedTuple):
    """Centres as kernels take them, near ones in a tile together."""

    tiles: Words
    """uint64 (tiles, planes, words, 64); the last centre is repeated to the end of its tile."""
    numbers: Cells
    """uint32 (64 · tiles,): which cell is where."""
    groups: Words
    """uint64 (…, planes, words, 64): in tiles too, what is most frequent in each of `tiles`."""


@dataclass(frozen=True, eq=False)
class CellCentres:
    """Centres, and how many rows there were when they were found."""

    words: Words
    """uint64 (n_cells, planes, words per plane), read-only."""
    n_rows: int

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def grouped(self) -> CentreTiles:
        """The same as kernels take them, read-only."""
        order = _by_nearness(self.words)
        n_tiles = -(-len(order) // TILE)
        modes = _modes(
            read_only(self.words[order]),
            np.repeat(np.arange(n_tiles, dtype=np.uint32), TILE)[: len(order)],
            np.zeros((n_tiles, *self.words.shape[1:]), dtype=np.uint64),
        )
        numbers = order[np.minimum(np.arange(TILE * n_tiles), len(order) - 1)]
        return CentreTiles(
            _in_tiles(self.words[order]), read_only(numbers.astype(np.uint32)), _in_tiles(modes)
        )

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.words.nbytes + sum(array.nbytes for array in self.grouped)

    def groups_for(self, n_chosen: int) -> int:
        """Return how many groups of centres are looked into to choose so many: all, while there are
        few groups or many are chosen.
        """
        n_groups = -(-len(self) // TILE)
        return min(n_groups, _FEWEST_GROUPS + n_groups // 32 + n_chosen)


def _in_tiles(words: Words) -> Words:
    """Return codes in tiles, read-only; the last one is repeated to the end of its tile."""
    which = np.minimum(np.arange(-(-len(words) // TILE) * TILE), len(words) - 1)
    padded = words[which].reshape(-1, TILE, *words.shape[1:])
    return read_only(np.moveaxis(padded, 1, 3))


def _by_nearness(words: Words) -> Ids:
    """Return an order of codes in which each tile of 64 has near ones.

    Halves of whole tiles again and again, each time between two codes that are far apart, then
    between what is most frequent in either half.
    """
    order = np.arange(len(words))
    waiting = [(0, len(words))]
    while waiting:
        first, last = waiting.pop()
        n_tiles = -(-(last - first) // TILE)
        if n_tiles < 2:
            continue
        middle = n_tiles // 2 * TILE
        some = order[first:last]
        here = read_only(words[some])
        start = _apart(here, here[0]).argmax()
        pivots = here[[start, _apart(here, here[start]).argmax()]]
        for _ in range(_HALVINGS):
            nearer = _apart(here, pivots[0]) - _apart(here, pivots[1])
            half = np.argsort(nearer, kind="stable")
            side = np.ones(len(some), dtype=np.uint32)
            side[half[:middle]] = 0
            pivots = _modes(here, side, pivots)
        order[first:last] = some[half]
        waiting += [(first, first + middle), (first + middle, last)]
    return order


def _apart(words: Words, other: Words) -> Distances:
    distances = np.empty(len(words), dtype=np.int32)
    symbols_apart_into(words, read_only(other), distances)
    return distances


def nearest_centres(words: Words, centres: CellCentres) -> Cells:
    """Return the cell of every row: that of its nearest centre, as far as the groups tell."""
    words = read_only(words)
    cells = np.empty((len(words), 1), dtype=np.int64)
    widths = block_widths(*words.shape[1:])

    def assign(first: int) -> None:
        some = slice(first, first + _ROWS_PER_PIECE)
        room = choice_room(centres, 1)
        choose_cells_into(*centres.grouped, len(centres), words[some], *widths, *room, cells[some])

    threads.run(assign, range(0, len(words), _ROWS_PER_PIECE))
    return cells[:, 0].astype(np.uint32)


def choice_room(centres: CellCentres, n_chosen: int) -> tuple[Distances, Ids]:
    """Return what choosing cells takes: room for distances, and for groups that are looked into."""
    n_looked = centres.groups_for(n_chosen)
    n_tiles = max(n_looked, len(centres.grouped.groups))
    return np.empty(TILE * n_tiles, dtype=np.int32), np.empty(n_looked, dtype=np.int64)


def find_centres(sample: Words, n_cells: int, n_rows: int, seed: int) -> CellCentres:
    """Find up to `n_cells` centres of a sample, uint64 (n, planes, words), of `n_rows` rows; fewer
    where so many rows are equal. The same seed finds the same.
    """
    draws = Draws(seed, "centres of cells")
    distinct = _distinct(sample[draws.permutation(len(sample))[: 2 * n_cells]])
    centres = CellCentres(read_only(distinct[:n_cells]), n_rows)
    for _ in range(_ITERATIONS):
        cells = nearest_centres(sample, centres)
        moved = _modes(sample, cells, centres.words)
        # a centre that lost all rows begins again at one of the sample
        lost = np.flatnonzero(np.bincount(cells, minlength=len(centres)) == 0)
        if len(lost):
            moved[lost] = sample[draws.below(len(sample), len(lost))]
        moved = _distinct(moved)
        if np.array_equal(moved, centres.words):
            break
        centres = CellCentres(read_only(moved), n_rows)
    return centres


def _modes(sample: Words, cells: Cells, before: Words) -> Words:
    """Return the most frequent symbols of every cell; one without rows keeps its centre."""
    order = np.argsort(cells, kind="stable")
    starts = np.zeros(len(before) + 1, dtype=np.int64)
    np.cumsum(np.bincount(cells, minlength=len(before)), out=starts[1:])
    centres = before.copy()
    n_planes, n_words = before.shape[1:]
    sample, order, starts = read_only(sample), read_only(order), read_only(starts)

    def move(first: int) -> None:
        counts = np.zeros(1 << min(_COUNTED_BITS, n_planes), dtype=np.int32)
        last = min(first + _CELLS_PER_PIECE, len(before))
        modes_into(sample, order, starts, first, last, 64 * n_words, counts, centres)

    threads.run(move, range(0, len(before), _CELLS_PER_PIECE))
    return centres


def _distinct(words: Words) -> Words:
    """Return the rows without repetitions, in the order in which they first come."""
    flat = np.ascontiguousarray(words).reshape(len(words), -1)
    keys = flat.view(np.dtype((np.void, flat.shape[1] * 8)))[:, 0]
    first_seen = np.unique(keys, return_index=True)[1]
    return words[np.sort(first_seen)]


def sample_rows(n: int, most: int, seed: int) -> Ids:
    """Return up to `most` of `n` row numbers, ascending."""
    if n <= most:
        return np.arange(n)
    return np.sort(Draws(seed, "sample for cells").choice(n, most))
