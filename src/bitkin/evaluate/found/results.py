"""Results of a search in files: which rows were found for every query, and how far they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bitkin.arrays import Ids
from bitkin.checks import are_offsets
from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.evaluate.ranking import check_distances, rank_groups
from bitkin.evaluate.recall_of_ids import check_ids
from bitkin.evaluate.tables import DISTANCES, IDS, read_table, to_matrix
from bitkin.io.vectors.files.hdf5 import list_matrices
from bitkin.io.vectors.files.zip_arrays import ZipArrays
from bitkin.memory import require_memory


@dataclass(frozen=True, eq=False)
class FoundRows:
    """What was found for q queries, at most m rows for each.

    Attributes
    ----------
    ids : int64 (q, m)
        −1 where there is none, behind those that there are.
    distances : whole numbers or floats (q, m), or None
        None where the file has none: then the rows are ranked as they come.
    within_radius : bool
        Whether these are all rows within a radius, rather than the nearest ones.
    """

    ids: Ids
    distances: npt.NDArray[Any] | None
    within_radius: bool = False

    @property
    def n_queries(self) -> int:
        """How many queries were asked."""
        return int(self.ids.shape[0])

    @property
    def most(self) -> int:
        """The most rows found for a query, padding counted."""
        return int(self.ids.shape[1])

    @property
    def ranks(self) -> npt.NDArray[np.int32]:
        """int32 (q, m): smaller comes first, equal numbers tie; padding comes last."""
        if self.distances is None:
            groups = np.tile(np.arange(self.most, dtype=np.int32), (self.n_queries, 1))
        else:
            groups = rank_groups(self.distances)
        behind = int(groups.max(initial=-1)) + 1
        return np.where(self.ids >= 0, groups, np.int32(behind)).astype(np.int32, copy=False)


def read_found(path: Path) -> FoundRows:
    """Return what a search found: an .npz file of `bitkin search --out`, also with --radius; or ids
    alone, in .npy, .npz, .ivecs or HDF5.
    """
    names = _array_names(path)
    if "offsets" in names:
        return _read_ragged(path)
    ids = read_id_table(path)
    distances = None
    if "distances" in names and len(names) > 1:
        distances = check_distances(path, f"{path}, distances")
        if distances.shape != ids.shape:
            raise InvalidInputError(
                f"{path} must have a distance for every id, got shapes {distances.shape} and "
                f"{ids.shape}."
            )
    _require_behind(ids, path)
    return FoundRows(ids, distances)


def read_id_table(path: Path) -> Ids:
    """Return the ids in a file, (q, m), of which no query has one twice; −1 is none."""
    ids = check_ids(to_matrix(read_table(path, IDS), str(path)), str(path))
    _require_once(ids, path)
    return ids


def _require_once(ids: Ids, path: Path) -> None:
    ordered = np.sort(ids, axis=1)
    is_twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if is_twice.any():
        query, place = np.argwhere(is_twice)[0].tolist()
        raise InvalidInputError(
            f"{path} must have an id once for a query, got {ordered[query, place]} twice in row "
            f"{query}."
        )


def _array_names(path: Path) -> list[str]:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        with ZipArrays(path) as archive:
            return list(archive.keys)
    return list_matrices(path) if suffix in (".h5", ".hdf5") else []


def _require_behind(ids: Ids, path: Path) -> None:
    """Raise where a row was found behind what stands for none."""
    is_row = ids >= 0
    wrong = np.flatnonzero((is_row[:, 1:] & ~is_row[:, :-1]).any(axis=1))
    if len(wrong):
        raise InvalidInputError(
            f"{path} must have -1 behind the ids of a query alone, got one before them in row "
            f"{wrong[0]}."
        )


def _read_ragged(path: Path) -> FoundRows:
    """Return what `bitkin search --radius` found, padded to the most of a query."""
    with ZipArrays(path) as archive:
        parts = {name: archive.array(name) for name in ("offsets", "ids", "distances")
                 if name in archive.keys}  # fmt: skip
    offsets, ids, distances = (parts.get(name) for name in ("offsets", "ids", "distances"))
    if (
        offsets is None
        or ids is None
        or distances is None
        or any(part.ndim != 1 for part in parts.values())
        or offsets.dtype.kind not in "iu"
        or not are_offsets(offsets, len(ids))
        or len(distances) != len(ids)
    ):
        raise CorruptFileError(f"{path} is not what bitkin search --radius writes. Search again.")
    ids = check_ids(ids[None], str(path))[0]
    distances = check_distances(distances[None], f"{path}, {DISTANCES[0]}")[0]
    counts = np.diff(offsets.astype(np.int64))
    shape = (len(counts), int(counts.max(initial=0)))
    require_memory(
        (8 + distances.itemsize) * shape[0] * shape[1],
        f"{path} with as much room for every query as for the one that found most",
        "Search by a smaller radius, or with -k.",
    )
    is_row = np.arange(shape[1]) < counts[:, None]
    table = np.full(shape, -1, dtype=np.int64)
    far = np.zeros(shape, dtype=distances.dtype)
    table[is_row], far[is_row] = ids, distances
    _require_once(table, path)
    return FoundRows(table, far, within_radius=True)
