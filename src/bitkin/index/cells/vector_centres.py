"""Centres of cells that are vectors: k-means on a sample of the vectors that codes were made of.

Where vectors are known, cells around them lose less than cells around codes: of the ten nearest of
100,000 GloVe vectors, the rows that 16 of 979 cells hold have 0.84, and 0.63 by codes of 100 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bitkin import interrupts, threads
from bitkin.arrays import FloatRows, Floats, Ids
from bitkin.index.cells.centres import Cells
from bitkin.kernels.blocks import read_only
from bitkin.kernels.search.vector_cells import LANES, add_rows_into, nearest_vector_cells_into
from bitkin.randomness import Draws

_ITERATIONS = 8
_HALVINGS = 4
_FEWEST_GROUPS = 12  # of centres that are looked into, where there are as many
_ROWS_PER_PIECE = 1 << 11
_FAR = 2.0**50  # beyond that a centred number says no more: squares and their sums stay finite


class VectorTiles(NamedTuple):
    """Centres as kernels take them, near ones in a tile together; see `kernels.search`."""

    tiles: FloatRows
    halves: FloatRows
    numbers: Cells
    groups: FloatRows
    group_halves: FloatRows


class Frame(NamedTuple):
    """Where rows lie: a mean, and how far the farthest number is from it.

    Centres are compared in float32 within it: of rows far from 0, of large and of tiny ones nothing
    is lost to rounding, and nothing overflows.
    """

    mean: Floats
    spread: float

    @classmethod
    def around(cls, rows: FloatRows) -> Frame:
        """Return the frame of some rows."""
        mean = rows.mean(axis=0, dtype=np.float64)
        pieces = range(0, len(rows), _ROWS_PER_PIECE)
        farthest = max(
            float(np.abs(rows[first : first + _ROWS_PER_PIECE] - mean).max()) for first in pieces
        )
        return cls(mean, farthest if farthest > 0 else 1.0)

    def place(self, rows: FloatRows) -> FloatRows:
        """Return rows within the frame, as float32."""
        inside = (rows - self.mean) / self.spread
        return np.clip(inside, -_FAR, _FAR).astype(np.float32)

    def direct(self, queries: FloatRows) -> FloatRows:
        """Return queries of which the product with centres counts: all centres are off by the same
        product with the mean, and lengths of queries do not matter.
        """
        sizes = np.abs(queries).max(axis=1, keepdims=True).astype(np.float64)
        return (queries / np.where(sizes > 0, sizes, 1.0)).astype(np.float32)


@dataclass(frozen=True, eq=False)
class VectorCentres:
    """Centres, and how many rows there were when they were found."""

    vectors: FloatRows
    """float32 (n_cells, n_features) within the frame, read-only."""
    n_rows: int
    frame: Frame
    by_product: bool = False
    """Whether cells are chosen by the product of query and centre, as under ip; rows go to the cell
    of the nearest centre all the same.
    """

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self.vectors, self.frame.mean, *self.grouped)
        return sum(array.nbytes for array in arrays)

    @cached_property
    def grouped(self) -> VectorTiles:
        """The same as kernels take them."""
        order = _by_nearness(self.vectors)
        n_tiles = -(-len(order) // LANES)
        means = np.stack(
            [
                self.vectors[order[LANES * t : LANES * t + LANES]].mean(axis=0)
                for t in range(n_tiles)
            ]
        )
        numbers = np.zeros(LANES * n_tiles, dtype=np.uint32)
        numbers[: len(order)] = order
        tiles, halves = _in_tiles(self.vectors[order])
        return VectorTiles(tiles, halves, read_only(numbers), *_in_tiles(means))

    def choose(self, queries: FloatRows, probes: int) -> Ids:
        """Return the nearest cells of every query: int64 (q, min(probes, n_cells))."""
        return self._nearest(queries, min(probes, len(self)), by_product=self.by_product)

    def assign(self, rows: FloatRows) -> Cells:
        """Return the cell of every row."""
        return self._nearest(rows, 1, by_product=False)[:, 0].astype(np.uint32)

    def _nearest(self, queries: FloatRows, n_chosen: int, *, by_product: bool) -> Ids:
        tiles, halves, numbers, groups, group_halves = self.grouped
        if by_product:
            halves, group_halves = (
                read_only(np.zeros_like(some)) for some in (halves, group_halves)
            )
        # twice as many centres in whole groups as are chosen, at least
        n_looked = min(len(tiles), _FEWEST_GROUPS + len(tiles) // 16 + n_chosen // 8)
        if len(tiles) - n_looked < 4:  # groups are not worth asking for
            n_looked = len(tiles)
        within = self.frame.direct if by_product else self.frame.place
        cells = np.empty((len(queries), n_chosen), dtype=np.int64)

        def choose(first: int) -> None:
            some = slice(first, first + _ROWS_PER_PIECE)
            nearest_vector_cells_into(
                tiles, halves, numbers, groups, group_halves, len(self),
                read_only(within(queries[some])),
                np.empty(LANES, dtype=np.float32), np.empty(n_looked, dtype=np.int64),
                np.empty(n_looked, dtype=np.float32), np.empty(n_chosen, dtype=np.float32),
                cells[some],
            )  # fmt: skip

        if len(queries) <= _ROWS_PER_PIECE // 64:
            if len(queries):
                choose(0)
        else:
            threads.run(choose, range(0, len(queries), _ROWS_PER_PIECE))
        return cells


def find_vector_centres(
    sample: FloatRows, n_cells: int, n_rows: int, seed: int, *, by_product: bool = False
) -> VectorCentres:
    """Find up to `n_cells` centres of a sample, float32 (n, n_features), of `n_rows` rows; fewer
    where so many rows are equal. The same seed finds the same.
    """
    draws = Draws(seed, "centres of cells")
    frame = Frame.around(sample)
    sample = np.concatenate(
        [
            frame.place(sample[first : first + _ROWS_PER_PIECE])
            for first in range(0, len(sample), _ROWS_PER_PIECE)
        ]
    )
    whole = Frame(np.zeros(sample.shape[1]), 1.0)  # in which they are by now
    drawn = sample[draws.permutation(len(sample))[: 2 * n_cells]]
    first_seen = np.unique(drawn, axis=0, return_index=True)[1]
    centres = drawn[np.sort(first_seen)[:n_cells]]
    for _ in range(_ITERATIONS):
        interrupts.check()
        cells = VectorCentres(read_only(centres), n_rows, whole).assign(sample)
        sums = np.zeros(centres.shape)
        counts = np.zeros(len(centres), dtype=np.int64)
        add_rows_into(read_only(sample), read_only(cells), sums, counts)
        centres = (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)
        # a centre that lost all rows begins again at one of the sample
        lost = np.flatnonzero(counts == 0)
        if len(lost):
            centres[lost] = sample[draws.below(len(sample), len(lost))]
    return VectorCentres(read_only(centres), n_rows, frame, by_product)


def _in_tiles(vectors: FloatRows) -> tuple[FloatRows, FloatRows]:
    """Return centres in tiles, and half their squared lengths."""
    n_tiles = -(-len(vectors) // LANES)
    padded = np.zeros((n_tiles * LANES, vectors.shape[1]), dtype=np.float32)
    padded[: len(vectors)] = vectors
    halves = (0.5 * np.einsum("ij,ij->i", padded, padded)).astype(np.float32)
    tiles = np.moveaxis(padded.reshape(n_tiles, LANES, -1), 1, 2)
    return read_only(tiles), read_only(halves)


def _by_nearness(vectors: FloatRows) -> Ids:
    """Return an order of centres in which each tile of 64 has near ones: halves of whole tiles
    again and again, each time across the line between the means of the last halves.
    """
    order = np.arange(len(vectors))
    waiting = [(0, len(vectors))]
    while waiting:
        first, last = waiting.pop()
        n_tiles = -(-(last - first) // LANES)
        if n_tiles < 2:
            continue
        middle = n_tiles // 2 * LANES
        some = order[first:last]
        here = vectors[some]
        start = np.square(here - here[0]).sum(axis=1).argmax()
        across = here[np.square(here - here[start]).sum(axis=1).argmax()] - here[start]
        for _ in range(_HALVINGS):
            with threads.blas_in_one_thread():
                half = np.argsort(here @ across, kind="stable")
            across = here[half[middle:]].mean(axis=0) - here[half[:middle]].mean(axis=0)
        order[first:last] = some[half]
        waiting += [(first, first + middle), (first + middle, last)]
    return order
