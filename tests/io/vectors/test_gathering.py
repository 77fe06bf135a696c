"""Rows of a file by their numbers: whatever the gaps between them and the groups they are read in,
they are those of the array.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bitkin.errors import CorruptFileError
from bitkin.io import open_vectors
from bitkin.io.vectors.files import fixed_rows

N, D = 300, 5
X = np.random.default_rng(0).integers(0, 200, (N, D)).astype(np.float32)


def write_vecs(path: Path, rows: Any, dtype: str) -> None:
    head = np.full((len(rows), 1), D, dtype="<i4").view(np.uint8)
    path.write_bytes(np.hstack([head, rows.astype(dtype).view(np.uint8)]).tobytes())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("rows")
    for kind in ("f4", "f2", "i2", "<f8", ">f4"):
        np.save(folder / f"{kind.strip('<>')}{kind[0] == '>'}.npy", X.astype(kind))
    np.save(folder / "fortran.npy", np.asfortranarray(X))
    np.savez(folder / "packed.npz", X)
    write_vecs(folder / "x.fvecs", X, "<f4")
    write_vecs(folder / "x.bvecs", X, "u1")
    return {path.name: path for path in sorted(folder.iterdir())}


@given(data=st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_are_those_of_the_array(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    path = files[data.draw(st.sampled_from(sorted(files)))]
    # rows that are read at a time, and read over
    monkeypatch.setattr(fixed_rows, "_PICKED_BYTES", data.draw(st.sampled_from([1, 100, 1 << 19])))
    monkeypatch.setattr(fixed_rows, "SEEK_BYTES", data.draw(st.sampled_from([1, 60, 16_384])))
    source = open_vectors(path, batch_rows=data.draw(st.sampled_from([1, 7, 1000])))
    rows = data.draw(st.lists(st.integers(0, N - 1), max_size=60))
    if data.draw(st.booleans()):
        rows += range(17, 17 + data.draw(st.integers(0, 200)))
    found = source.gather(rows)
    assert found.dtype == source.dtype
    assert found.flags.c_contiguous
    assert np.array_equal(found, X[np.array(rows, dtype=int)])


def test_a_file_that_is_written_to_or_cut_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)
    source = open_vectors(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(CorruptFileError, match="changed while it was read"):
        source.gather([1, 200])
    np.save(path, X)
    source = open_vectors(path)
    os.truncate(path, 1000)
    with pytest.raises(CorruptFileError, match="changed while it was read: it had"):
        source.gather([1, 200])


def test_a_damaged_row_is_named_by_its_number_in_the_file(files: dict[str, Path]) -> None:
    raw = bytearray(files["x.fvecs"].read_bytes())
    raw[123 * (4 + 4 * D)] = 99
    path = files["x.fvecs"].with_name("bad.fvecs")
    path.write_bytes(raw)
    source = open_vectors(path)
    for rows in ([123], [3, 5, 123, 290], list(range(100, 130)), [3, *range(120, 140)]):
        with pytest.raises(CorruptFileError, match="in every row, got 99 in row 123"):
            source.gather(rows)
    path.unlink()
