"""Files of .fvecs, .bvecs and .ivecs whose sizes or dimensions do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.vectors import open_vectors


def rows_of(*dimensions: int, itemsize: int = 4) -> bytes:
    return b"".join(np.int32(d).tobytes() + bytes(d * itemsize) for d in dimensions)


@pytest.mark.parametrize(
    ("suffix", "dtype", "itemsize"),
    [(".fvecs", np.float32, 4), (".bvecs", np.uint8, 1), (".ivecs", np.int32, 4)],
)
def test_the_suffix_tells_the_type(suffix: str, dtype: type, itemsize: int, tmp_path: Path) -> None:
    path = tmp_path / f"X{suffix.upper()}"
    path.write_bytes(rows_of(3, 3, itemsize=itemsize))
    source = open_vectors(path)
    assert source.dtype == dtype
    assert source.shape == (2, 3)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (rows_of(3, 3)[:-1], "must have 16 bytes, rows of 16 for dimension 3, got 31"),
        (rows_of(3, 3) + b"abc", "must have 32 bytes.* got 35"),
        (np.int32(2**31 - 1).tobytes() + bytes(40), "must have 8589934592 bytes.* got 44"),
        (np.int32(0).tobytes() * 4, "must start with a dimension of 1 or more"),
        (np.int32(-5).tobytes() * 4, "must start with a dimension of 1 or more"),
        (b"ab", "must start with a dimension of 1 or more"),
    ],
)
def test_a_size_that_does_not_fit_names_both(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.fvecs").write_bytes(content)
    with pytest.raises(CorruptFileError, match=rf"x\.fvecs {words}"):
        open_vectors(tmp_path / "x.fvecs")


def test_an_empty_file_has_no_dimension(tmp_path: Path) -> None:
    (tmp_path / "x.fvecs").touch()
    with pytest.raises(InvalidInputError, match="is empty: without a row"):
        open_vectors(tmp_path / "x.fvecs")


def test_a_row_of_another_dimension_is_found_when_it_is_read(tmp_path: Path) -> None:
    rows = bytearray(rows_of(3, 3, 3, 3))
    rows[32:36] = np.int32(4).tobytes()
    (tmp_path / "x.fvecs").write_bytes(rows)
    source = open_vectors(tmp_path / "x.fvecs")
    with pytest.raises(CorruptFileError, match="dimension 3 in every row, got 4 in row 2"):
        list(source.batches(rows=2))
    with pytest.raises(CorruptFileError, match="got 4 in row 2"):
        source.gather([2])


def test_a_value_that_is_not_finite_names_file_row_and_column(tmp_path: Path) -> None:
    rows = bytearray(rows_of(3, 3))
    rows[24:28] = np.float32("nan").tobytes()
    (tmp_path / "x.fvecs").write_bytes(rows)
    with pytest.raises(InvalidInputError, match=r"x\.fvecs: NaN at row 1, column 1, batch 1"):
        list(open_vectors(tmp_path / "x.fvecs").batches(rows=1))
