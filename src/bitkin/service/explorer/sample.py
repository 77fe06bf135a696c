"""Which rows of a collection the explorer draws: a sample that stays the same, and is small enough
to be read while somebody waits.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bitkin.errors import UnknownIdError

if TYPE_CHECKING:
    from bitkin.collection.collection import Collection
    from bitkin.collection.results import Records

_STRETCHES = 4  # of rows that match a filter, each of which the filter is asked for
_TRIES = 5  # rows may be removed between the choice and the reading
_ROWS_PROBED = 10  # to know how much metadata a row has
_MOST_TEXT = 1 << 26  # characters of metadata
_MOST_NUMBERS = 1 << 24  # of vectors, which take 8 bytes each while they are laid out
_FEWEST = 50  # rows, however large they are


def sample_rows(collection: Collection, n: int, where: Any = None) -> Records:
    """Return at most `n` rows: the same ones whenever the collection holds the same ids, and nearly
    the same ones after some have come or gone. Fewer where rows are so large that reading them
    would take long.

    Rows are those whose ids have the smallest hashes. Under a filter, of which a collection tells
    pages alone, they are stretches of rows, evenly apart.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32)
    >>> items = bitkin.Collection.create(None, bitkin.ProjectionHash(n_bits=4).fit(X))
    >>> _ = items.add(X)
    >>> some = sample_rows(items, 3)
    >>> len(some.ids), (some.ids == sample_rows(items, 3).ids).all()
    (3, np.True_)
    """
    tries_left = _TRIES
    while True:
        ids = _choose_ids(collection, n, where)
        tries_left -= 1
        try:
            return collection.get(_keep_readable(collection, ids))
        except UnknownIdError:  # removed by another thread
            if not tries_left:
                raise


def _choose_ids(collection: Collection, n: int, where: Any) -> npt.NDArray[Any]:
    if where is None:
        return _smallest_hashes(collection.ids, n)
    total = collection.count(where)
    if total <= n:
        return collection.get(where=where, limit=n).ids
    each, more = divmod(n, _STRETCHES)
    stretches = [
        collection.get(where=where, limit=each + (i < more), offset=i * total // _STRETCHES).ids
        for i in range(_STRETCHES)
    ]
    return np.concatenate(stretches)


def _smallest_hashes(ids: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    """Return the `n` ids whose hashes are smallest, in the order in which ids come."""
    if len(ids) <= n:
        return ids
    if ids.dtype == object:
        keys = np.fromiter(
            (zlib.crc32(name.encode("utf-8", "surrogatepass")) for name in ids),
            dtype=np.uint64,
            count=len(ids),
        )
    else:
        keys = ids.astype(np.uint64)
    # the finalizer of SplitMix64: neighbouring numbers get unrelated hashes
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    keys ^= keys >> np.uint64(31)
    return ids[np.sort(np.argpartition(keys, n)[:n])]


def _keep_readable(collection: Collection, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return as many of the ids, evenly chosen, as have vectors and metadata of bearable size."""
    if len(ids) <= _FEWEST:
        return ids
    some = collection.get(ids[:: len(ids) // _ROWS_PROBED][:_ROWS_PROBED])
    most = len(ids)
    if isinstance(some.vectors, np.ndarray):
        most = min(most, _MOST_NUMBERS // max(1, some.vectors.shape[1]))
    if some.metadata is not None:
        text = max(1, len(repr(some.metadata)))
        most = min(most, _MOST_TEXT * len(some.ids) // text)
    most = max(most, _FEWEST)
    return ids if most >= len(ids) else ids[np.arange(most) * len(ids) // most]
