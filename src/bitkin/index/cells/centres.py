"""Centres of cells: codes that are each the most frequent symbols of the rows nearest to them.

They are found as k-means finds its centres, with the number of symbols that differ as the distance
and the mode of every symbol (of bits: the majority) as the mean, on a sample of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bitkin import threads
from bitkin.arrays import Ids, Words
from bitkin.code_spec import CodeSpec
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.cells import TILE, modes_into, nearest_centres_into
from bitkin.kernels.search.scan import block_widths
from bitkin.randomness import Draws

ROWS_PER_CELL = 32  # of the sample that centres are found from
_ITERATIONS = 6
_ROWS_PER_PIECE = 1 << 13
_CELLS_PER_PIECE = 1 << 7
_COUNTED_BITS = 12  # of a symbol whose mode is looked for; see the kernel

Cells = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class CellCentres:
    """Centres, and how many rows there were when they were found."""

    words: Words
    """uint64 (n_cells, planes, words per plane), read-only."""
    n_rows: int

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def tiles(self) -> Words:
        """The same in tiles as kernels take them, read-only; the last one is repeated to the end of
        its tile.
        """
        which = np.minimum(np.arange(-(-len(self) // TILE) * TILE), len(self) - 1)
        padded = self.words[which].reshape(-1, TILE, *self.words.shape[1:])
        return read_only(np.moveaxis(padded, 1, 3))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.words.nbytes + self.tiles.nbytes


def nearest_centres(words: Words, centres: CellCentres) -> Cells:
    """Return the cell of every row: that of its nearest centre, of equals the first."""
    words = read_only(words)
    cells = np.empty(len(words), dtype=np.uint32)
    widths = block_widths(*words.shape[1:])

    def assign(first: int) -> None:
        some = slice(first, first + _ROWS_PER_PIECE)
        lanes = np.empty(TILE, dtype=np.int32)
        nearest_centres_into(centres.tiles, words[some], *widths, lanes, cells[some])

    threads.run(assign, range(0, len(words), _ROWS_PER_PIECE))
    return cells


def find_centres(
    sample: Words, n_cells: int, n_rows: int, spec: CodeSpec, seed: int
) -> CellCentres:
    """Find up to `n_cells` centres of a sample, uint64 (n, planes, words), of `n_rows` rows; fewer
    where so many rows are equal. The same seed finds the same.
    """
    draws = Draws(seed, "centres of cells")
    distinct = _distinct(sample[draws.permutation(len(sample))[: 2 * n_cells]])
    centres = CellCentres(read_only(distinct[:n_cells]), n_rows)
    for _ in range(_ITERATIONS):
        cells = nearest_centres(sample, centres)
        moved = _modes(sample, cells, centres.words, spec)
        # a centre that lost all rows begins again at one of the sample
        lost = np.flatnonzero(np.bincount(cells, minlength=len(centres)) == 0)
        if len(lost):
            moved[lost] = sample[draws.below(len(sample), len(lost))]
        moved = _distinct(moved)
        if np.array_equal(moved, centres.words):
            break
        centres = CellCentres(read_only(moved), n_rows)
    return centres


def _modes(sample: Words, cells: Cells, before: Words, spec: CodeSpec) -> Words:
    """Return the most frequent symbols of every cell; one without rows keeps its centre."""
    order = np.argsort(cells, kind="stable")
    starts = np.zeros(len(before) + 1, dtype=np.int64)
    np.cumsum(np.bincount(cells, minlength=len(before)), out=starts[1:])
    centres = before.copy()
    sample, order, starts = read_only(sample), read_only(order), read_only(starts)

    def move(first: int) -> None:
        counts = np.zeros(1 << min(_COUNTED_BITS, spec.bits_per_symbol), dtype=np.int32)
        last = min(first + _CELLS_PER_PIECE, len(before))
        modes_into(sample, order, starts, first, last, spec.n_symbols, counts, centres)

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
