"""The rows of FAISS's binary indexes: packed codes, and the ids under which they are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.errors import InvalidInputError

Packed = npt.NDArray[np.uint8]


def read_rows(faiss: Any, index: Any) -> tuple[Packed, Ids]:
    """Return copies of the codes of an index, uint8 (n, code size), and their ids, int64 (n,)."""
    if isinstance(index, faiss.IndexBinaryIDMap):  # and IndexBinaryIDMap2, which derives from it
        packed, places = read_rows(faiss, faiss.downcast_IndexBinary(index.index))
        ids: Ids = faiss.vector_to_array(index.id_map).astype(np.int64)
        return packed, ids[places]
    if isinstance(index, faiss.IndexBinaryIVF):
        return _rows_in_lists(faiss, index)
    if isinstance(index, (faiss.IndexBinaryHNSW, faiss.IndexBinaryMultiHash)):
        if index.storage is None:
            return np.empty((0, index.code_size), dtype=np.uint8), np.empty(0, dtype=np.int64)
        return read_rows(faiss, faiss.downcast_IndexBinary(index.storage))
    if type(index) is faiss.IndexBinaryFlat:
        flat: Packed = faiss.vector_to_array(index.xb).reshape(index.ntotal, index.code_size)
        return flat, np.arange(index.ntotal)
    raise InvalidInputError(
        "from_faiss takes codes from IndexBinaryFlat, IndexBinaryIVF, IndexBinaryHNSW, "
        f"IndexBinaryMultiHash or an IDMap of these, got {type(index).__name__}."
    )


def _rows_in_lists(faiss: Any, index: Any) -> tuple[Packed, Ids]:
    """Return the rows of an inverted file, one list after another."""
    lists, size = index.invlists, index.code_size
    packed = [np.empty((0, size), dtype=np.uint8)]
    ids = [np.empty(0, dtype=np.int64)]
    for number in range(index.nlist):
        n = lists.list_size(number)
        if n == 0:  # whose pointers may lead nowhere
            continue
        codes_at, ids_at = lists.get_codes(number), lists.get_ids(number)
        packed.append(faiss.rev_swig_ptr(codes_at, n * size).reshape(n, size).copy())
        ids.append(faiss.rev_swig_ptr(ids_at, n).copy())
        # lists on disk are mapped until they are released
        lists.release_codes(number, codes_at)
        lists.release_ids(number, ids_at)
    return np.concatenate(packed), np.concatenate(ids)
