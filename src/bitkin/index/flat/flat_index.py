"""FlatIndex: exact search over all codes, at the speed of memory."""

from __future__ import annotations

from bitkin.arrays import Ids
from bitkin.codes import Codes
from bitkin.index.base import RowIndex
from bitkin.index.flat import scan
from bitkin.index.results import Neighbors, RaggedNeighbors
from bitkin.index.rows.snapshot import Snapshot


class FlatIndex(RowIndex):
    """Exact nearest neighbours among codes by the number of symbols that differ.

    Any number of threads may search while others add and remove: a search works on the snapshot it
    took, and writers take turns. An index adopts the fingerprint of the first codes that have one;
    codes of another hasher are refused.

    Parameters
    ----------
    spec : CodeSpec
        The shape of the codes.

    Examples
    --------
    >>> import bitkin
    >>> codes = bitkin.Codes.from_symbols([[0, 0, 1], [0, 1, 1], [1, 1, 0]], bits_per_symbol=1)
    >>> index = bitkin.FlatIndex(codes.spec)
    >>> index.add(codes).tolist()
    [0, 1, 2]
    >>> ids, distances = index.search(codes[:1], k=2)
    >>> ids.tolist(), distances.tolist()
    ([[0, 1]], [[0, 1]])
    >>> index.remove([0])
    >>> index.search(codes[:1], k=2).ids.tolist()
    [[1, 2]]
    """

    def nearest_in(
        self, snapshot: Snapshot, queries: Codes, k: int, allow: Ids | None, least: int
    ) -> Neighbors:
        """Return the k nearest rows of every query, by a scan of all."""
        return scan.k_nearest(snapshot, queries, k, allow)

    def within_radius_in(
        self, snapshot: Snapshot, queries: Codes, radius: int, allow: Ids | None
    ) -> RaggedNeighbors:
        """Return all rows within `radius` of every query, by a scan of all."""
        return scan.within_radius(snapshot, queries, radius, allow)
