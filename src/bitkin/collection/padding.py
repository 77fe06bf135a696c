"""Results of k columns, however few rows there are: whether they fit in memory, and what stands for
nobody.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bitkin.code_spec import CodeSpec
from bitkin.collection.stages import Step
from bitkin.index.rows.limits import require_fitting

Found: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[Any]]  # ids and distances
NOBODY = np.full(1, -1, dtype=np.int64)
_TYPES: dict[str, np.dtype[Any]] = {
    "codes": np.dtype(np.int32),
    "estimate": np.dtype(np.float32),
    "exact": np.dtype(np.float64),
}
_ID_BYTES = 8


def require_result_fits(n_queries: int, last: Step) -> None:
    """Raise where the result of the last stage alone would not fit this machine's memory."""
    require_fitting(n_queries, last.keep, _ID_BYTES + _TYPES[last.stage].itemsize)


def padded(
    parts: list[Found], last: Step, spec: CodeSpec, nobody: npt.NDArray[Any] = NOBODY
) -> Found:
    """Join the results of blocks of queries, and fill what is missing of k columns with `nobody`,
    farther than all.
    """
    far: Any = spec.n_symbols + 1 if last.stage == "codes" else np.inf
    n_queries = sum(len(ids) for ids, _ in parts)
    require_result_fits(n_queries, last)
    all_ids: npt.NDArray[Any] = np.full((n_queries, last.keep), nobody[0], dtype=nobody.dtype)
    all_distances: npt.NDArray[Any] = np.full((n_queries, last.keep), far, dtype=_TYPES[last.stage])
    first = 0
    for ids, distances in parts:
        some = np.s_[first : first + len(ids), : ids.shape[1]]
        all_ids[some], all_distances[some] = ids, distances
        first += len(ids)
    return all_ids, all_distances
