"""One matrix of small whole numbers in every format the command line reads: exact in each of
them.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse

Matrix = npt.NDArray[np.float32]


def matrix(n: int, d: int = 17, seed: int = 0) -> Matrix:
    """A third of the numbers are zero; the last column of the first row is not, so that svmlight
    sees the width.
    """
    rng = np.random.default_rng(seed)
    numbers = rng.integers(1, 90, (n, d)) * (rng.random((n, d)) < 0.66)
    numbers[0, [0, -1]] = 1
    return numbers.astype(np.float32)


def _npy(path: Path, rows: Matrix) -> None:
    np.save(path, rows)


def _dense_npz(path: Path, rows: Matrix) -> None:
    np.savez_compressed(path, vectors=rows, labels=np.arange(len(rows)))


def _sparse_npz(path: Path, rows: Matrix) -> None:
    scipy.sparse.save_npz(path, scipy.sparse.csr_array(rows))


def _vecs(path: Path, rows: Matrix) -> None:
    dtype = {".fvecs": "<f4", ".bvecs": "u1", ".ivecs": "<i4"}[path.suffix]
    head = np.full((len(rows), 1), rows.shape[1], dtype="<i4").view(np.uint8)
    body = np.ascontiguousarray(rows.astype(dtype)).view(np.uint8)
    np.hstack([head, body]).tofile(path)


def _parquet(path: Path, rows: Matrix) -> None:
    table = pa.table(
        {"id": np.arange(len(rows)), "vector": pa.array(rows.tolist(), pa.list_(pa.float32()))}
    )
    pa.parquet.write_table(table, path, row_group_size=64)


def _hdf5(path: Path, rows: Matrix) -> None:
    with h5py.File(path, "w") as file:
        file["vectors"] = rows


def svmlight_text(rows: Matrix) -> str:
    """Columns count from 0."""
    lines = (" ".join(["1", *(f"{j}:{row[j]:g}" for j in np.flatnonzero(row))]) for row in rows)
    return "\n".join(lines) + "\n"


def _svmlight(path: Path, rows: Matrix) -> None:
    text = svmlight_text(rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


WRITERS: dict[str, Callable[[Path, Any], None]] = {
    "dense.npy": _npy,
    "dense.npz": _dense_npz,
    "sparse.npz": _sparse_npz,
    "dense.fvecs": _vecs,
    "dense.bvecs": _vecs,
    "dense.ivecs": _vecs,
    "dense.parquet": _parquet,
    "dense.h5": _hdf5,
    "dense.hdf5": _hdf5,
    "sparse.svm": _svmlight,
    "sparse.svmlight": _svmlight,
    "sparse.libsvm.gz": _svmlight,
}
