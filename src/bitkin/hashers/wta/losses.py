"""Losses: what a query knows about the symbols of other rows.

A code keeps which component of a window won, and not by how much. A query has all components of its
own: where a row's winner is s, the query loses max(v) − v[s] against its own winner. Their sum over
all windows is the product of the query with the features that won in the row, up to a constant: it
ranks rows much better than the number of windows whose winners differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from bitkin import threads
from bitkin.hashers.wta.donors import Donors
from bitkin.hashers.wta.standardizer import Standardizer
from bitkin.hashers.wta.windows import Windows
from bitkin.hashers.wta.winners import cut_rows, find_winners, is_sparse_work
from bitkin.io.vectors.batch import row_slice
from bitkin.kernels.blocks import read_only
from bitkin.kernels.hashing.wta import symbol_losses_into

Losses = npt.NDArray[np.float32]

# What an empty window borrows says less than what a filled one sees itself: of two rows that are
# alike, one may have it filled. Measured on bags of words: 1/4 to 1/10 are best, 1 is far worse.
_BORROWED = 1 / 8
_NUMBERS_PER_BLOCK = 1 << 16  # 512 KB of rows at a time


def find_losses(batch: Any, windows: Windows, standardizer: Standardizer, donors: Donors) -> Losses:
    """Return what every symbol loses, float32 (n, n_hashes, alphabet_size): 0 for the winner of a
    window, 1 for the largest loss of the row.
    """
    n = batch.shape[0]
    losses = np.empty((n, donors.n_hashes, donors.alphabet_size), dtype=np.float32)
    donors.prepare()
    windows.prepare(sparse=is_sparse_work(batch, standardizer))
    columns, features = windows.columns, windows.features_of_columns
    narrowed = standardizer.of_columns(columns)
    step = max(1, _NUMBERS_PER_BLOCK // len(columns))

    def compare(piece: slice) -> None:
        room = (
            np.empty(features.shape[1]),
            np.empty((5, donors.n_hashes), dtype=np.int32),
            np.empty(losses.shape[1:]),
        )
        numbers = np.empty((min(step, piece.stop - piece.start), len(columns)))
        for rows, winners in find_winners(batch, piece, windows, standardizer):
            for first in range(rows.start, rows.stop, step):
                stop = min(first + step, rows.stop)
                compared = _take_columns(row_slice(batch, first, stop), columns, numbers)
                narrowed.apply_into(compared, compared)
                symbol_losses_into(
                    read_only(compared),
                    features,
                    windows.coefficients,
                    winners[first - rows.start : stop - rows.start],
                    donors.offsets,
                    donors.scheme,
                    donors.probes,
                    _BORROWED,
                    *room,
                    losses[first:stop],
                )

    threads.run(compare, cut_rows(n))
    return losses


def _take_columns(
    rows: Any, columns: npt.NDArray[np.int64], room: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Write some columns of rows, dense or CSR, to the first rows of `room`; return those."""
    out = room[: rows.shape[0]]
    if not issparse(rows):
        out[:] = rows[:, columns]
        return out
    out[:] = 0.0
    places = np.searchsorted(columns, rows.indices)
    places[places == len(columns)] = 0  # above all columns, which the comparison below finds out
    here = columns[places] == rows.indices
    row_numbers = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    out[row_numbers[here], places[here]] = rows.data[here]
    return out
