"""Centres of cells that are vectors: k-means on a sample of the vectors that codes were made of.

Where vectors are known, cells around them lose less than cells around codes: of the ten nearest of
100,000 GloVe vectors, the rows that 16 of 979 cells hold have 0.84, and 0.63 by codes of 100 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bitkin import interrupts, threads
from bitkin.arrays import FloatRows, Floats, Ids
from bitkin.index.cells.centres import Cells
from bitkin.kernels._shared import SPARE_CANDIDATES
from bitkin.kernels.blocks import read_only
from bitkin.kernels.vector_cells.centres import (
    LANES,
    add_rows_into,
    nearest_vector_cells_into,
    place_rows_into,
)
from bitkin.randomness import Draws

_ITERATIONS = 8
_HALVINGS = 4
_FEWEST_GROUPS = 12  # of centres that are looked into, where there are as many
_ROWS_PER_PIECE = 1 << 11
_NUMBERS_AT_ONCE = 1 << 19  # of rows, and of their distances from centres: they stay in cache
_ASKED, _ASKED_AT_ONCE, _NEAREST, _HELD = 512, 16, 10, 0.99  # where probes are measured


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
        placed = np.empty(rows.shape, dtype=np.float32)
        place_rows_into(
            read_only(np.asarray(rows, dtype=np.float32)),
            read_only(self.mean),
            float(self.spread),
            placed,
        )
        return placed

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
    probes: int | None = None
    """Cells that hold nearly all of the nearest rows, where that was measured."""
    residual = False
    """Whether rows are coded by what is left of them once their centre is taken away."""

    def __len__(self) -> int:
        return len(self.vectors)

    def __getstate__(self) -> dict[str, Any]:
        """Return what centres are; what was made of them is made again."""
        return {some.name: getattr(self, some.name) for some in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # arrays come back as such that can be written, for which kernels would be compiled again
        mean, spread = state["frame"]
        state = {
            **state, "vectors": read_only(state["vectors"]), "frame": Frame(read_only(mean), spread)
        }  # fmt: skip
        self.__dict__.update(state)

    @property
    def nbytes(self) -> int:
        """Bytes held, of what was made of the centres so far."""
        made = (self.frame.mean, *vars(self).values())
        tuples = (some for some in made if isinstance(some, VectorTiles))
        arrays = [some for some in made if isinstance(some, np.ndarray)]
        for some in tuples:
            arrays += some
        return sum({id(array): array.nbytes for array in arrays}.values())

    @cached_property
    def halves(self) -> FloatRows:
        """Half the squared length of every centre, 0 where products are what counts."""
        if self.by_product:
            return read_only(np.zeros(len(self), dtype=np.float32))
        return read_only(_halves(self.vectors))

    @cached_property
    def grouped(self) -> VectorTiles:
        """The same as kernels take them."""
        return group_centres(self.vectors)

    def choose(self, queries: FloatRows, probes: int) -> Ids:
        """Return the nearest cells of every query, in no order: int64 (q, min(probes, n_cells))."""
        n_chosen = min(probes, len(self))
        within = self.frame.direct if self.by_product else self.frame.place
        cells = np.empty((len(queries), n_chosen), dtype=np.int64)

        def choose(first: int) -> None:
            some = slice(first, first + _ROWS_PER_PIECE)
            arguments: Any = (
                *self.to_choose, len(self), read_only(within(queries[some])),
                *self.choice_room(n_chosen), cells[some],
                np.empty((len(cells[some]), n_chosen), dtype=np.float32),
            )  # fmt: skip
            nearest_vector_cells_into(*arguments)

        if len(queries) <= _ROWS_PER_PIECE // 64:
            if len(queries):
                choose(0)
        else:
            threads.run(choose, range(0, len(queries), _ROWS_PER_PIECE))
        return cells

    def assign(self, rows: FloatRows) -> Cells:
        """Return the cell of every row."""
        cells = np.empty(len(rows), dtype=np.uint32)
        halves, across = _halves(self.vectors), self.vectors.T
        step = max(1, _NUMBERS_AT_ONCE // max(len(self), rows.shape[1]))

        def assign(first: int) -> None:
            some = slice(first, first + step)
            # by BLAS: all rows ask all centres, and that is what it is best at
            apart = np.matmul(self.frame.place(rows[some]), across)
            cells[some] = np.subtract(halves, apart, out=apart).argmin(axis=1)

        with threads.blas_in_one_thread():
            threads.run(assign, range(0, len(rows), step))
        return cells

    @cached_property
    def to_choose(self) -> VectorTiles:
        """The same as `grouped`, for choosing cells of queries."""
        grouped = self.grouped
        if not self.by_product:
            return grouped
        nothing, no_group = (
            read_only(np.zeros_like(some)) for some in (grouped.halves, grouped.group_halves)
        )
        return grouped._replace(halves=nothing, group_halves=no_group)

    def choice_room(self, n_chosen: int) -> tuple[npt.NDArray[Any], ...]:
        """Return what `nearest_vector_cells_into` works in where so many cells are chosen."""
        n_tiles = -(-len(self) // LANES)
        # twice as many centres in whole groups as are chosen, at least
        n_looked = min(n_tiles, _FEWEST_GROUPS + n_tiles // 16 + n_chosen // 8)
        if n_tiles - n_looked < 4:  # groups are not worth asking for
            n_looked = n_tiles
        n_kept = 2 * (max(n_looked, n_chosen) + SPARE_CANDIDATES)
        return (
            np.empty(LANES, dtype=np.float32),
            self._places,
            np.empty(n_looked, dtype=np.int64),
            np.empty(n_kept, dtype=np.float32),
            np.empty(n_kept, dtype=np.int64),
        )

    @cached_property
    def _places(self) -> Ids:
        """The numbers from 0 on, of all places in tiles."""
        return read_only(np.arange(LANES * max(1, -(-len(self) // LANES))))


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


def measure_probes(centres: VectorCentres, sample: FloatRows, seed: int) -> int:
    """Return how many cells hold 0.99 of the nearest rows of some rows of a sample, given as
    centres were found from it.

    Of the ten nearest of all rows about as many are in the sample as its share of them says: so far
    a nearest row is, and so near must its cell be.
    """
    draws = Draws(seed, "rows that measure probes")
    asked = draws.permutation(len(sample))[:_ASKED]
    k = max(1, round(_NEAREST * len(sample) / max(centres.n_rows, len(sample))))
    k = min(k, len(sample) - 1)
    if k < 1 or len(centres) == 1:
        return 1
    rows = np.concatenate(
        [
            centres.frame.place(sample[first : first + _ROWS_PER_PIECE])
            for first in range(0, len(sample), _ROWS_PER_PIECE)
        ]
    )
    row_halves, cell_halves = _halves(rows), _halves(centres.vectors)
    if centres.by_product:
        queries = centres.frame.direct(sample[asked])
        row_halves, cell_halves = np.zeros_like(row_halves), np.zeros_like(cell_halves)
    else:
        queries = rows[asked]
    ranks = np.empty((len(asked), k), dtype=np.int64)

    def rank(first: int) -> None:
        some = slice(first, first + _ASKED_AT_ONCE)
        with threads.blas_in_one_thread():
            apart = row_halves - queries[some] @ rows.T
            from_cells = cell_halves - queries[some] @ centres.vectors.T
        apart[np.arange(len(apart)), asked[some]] = np.inf
        nearest = np.argpartition(apart, k - 1, axis=1)[:, :k]
        own = centres.assign(sample[nearest.ravel()]).astype(np.int64).reshape(nearest.shape)
        reached = np.take_along_axis(from_cells, own, axis=1)
        ranks[some] = (from_cells[:, None] < reached[:, :, None]).sum(axis=2)

    threads.run(rank, range(0, len(asked), _ASKED_AT_ONCE))
    return min(len(centres), 1 + int(np.quantile(ranks, _HELD, method="higher")))


def group_centres(vectors: FloatRows) -> VectorTiles:
    """Return centres in tiles of near ones, and the means of the tiles."""
    order = _by_nearness(vectors)
    n_tiles = -(-len(order) // LANES)
    means = np.stack(
        [vectors[order[LANES * t : LANES * t + LANES]].mean(axis=0) for t in range(n_tiles)]
    )
    numbers = np.zeros(LANES * n_tiles, dtype=np.uint32)
    numbers[: len(order)] = order
    return VectorTiles(
        _in_tiles(vectors[order]), _padded(_halves(vectors[order])), read_only(numbers),
        _in_tiles(means), _padded(_halves(means)),
    )  # fmt: skip


def _in_tiles(vectors: FloatRows) -> FloatRows:
    """Return centres in tiles."""
    n_tiles = -(-len(vectors) // LANES)
    padded = np.zeros((n_tiles * LANES, vectors.shape[1]), dtype=np.float32)
    padded[: len(vectors)] = vectors
    return read_only(np.moveaxis(padded.reshape(n_tiles, LANES, -1), 1, 2))


def _halves(vectors: FloatRows) -> FloatRows:
    """Return half the squared lengths."""
    halves: FloatRows = (0.5 * np.einsum("ij,ij->i", vectors, vectors)).astype(np.float32)
    return halves


def _padded(halves: FloatRows) -> FloatRows:
    """Return one number per place of whole tiles."""
    padded = np.zeros(-(-len(halves) // LANES) * LANES, dtype=np.float32)
    padded[: len(halves)] = halves
    return read_only(padded)


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
