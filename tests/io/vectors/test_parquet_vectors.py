"""List columns of .parquet files: which one, and what is wrong with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitkin.errors import CorruptFileError, InvalidInputError, MissingExtraError
from bitkin.io.vectors import limits, open_vectors

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(path: Path, row_group_size: int = 10, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path / "x.parquet", row_group_size=row_group_size)
    return path / "x.parquet"


def lists(rows: list[Any], kind: Any = None) -> Any:
    return pa.array(rows, pa.list_(kind or pa.float32()))


@pytest.mark.parametrize(
    "kind", ["float16", "float32", "float64", "int8", "uint8", "int64", "bool_"]
)
@pytest.mark.parametrize("large", [False, True])
def test_every_number_type_and_list_size_is_read(kind: str, large: bool, tmp_path: Path) -> None:
    value = getattr(pa, kind)()
    rows = [list(np.array([1, 0], dtype=kind))] * 3
    column = pa.array(rows, pa.large_list(value) if large else pa.list_(value))
    source = open_vectors(write(tmp_path, v=column))
    assert source.dtype == np.dtype("uint8" if kind == "bool_" else kind)
    assert source.gather([2, 1]).tolist() == [[1, 0], [1, 0]]


def test_a_ragged_list_names_file_and_row(tmp_path: Path) -> None:
    path = write(tmp_path, v=lists([[1, 2]] * 25 + [[1, 2, 3]] + [[1, 2]] * 5))
    source = open_vectors(path)
    with pytest.raises(
        InvalidInputError, match=r"x\.parquet, column 'v' must have lists of 2.* got 3 in row 25"
    ):
        list(source.batches(rows=8))
    assert source.gather([24]).tolist() == [[1, 2]]
    with pytest.raises(InvalidInputError, match="got 3 in row 25"):
        source.gather([25])


def test_a_null_list_and_a_null_number_name_their_row(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="list in every row, got null in row 12"):
        list(open_vectors(write(tmp_path, v=lists([[1, 2]] * 12 + [None]))).batches(rows=5))
    with pytest.raises(InvalidInputError, match="numbers only, got null in row 12, column 1"):
        list(open_vectors(write(tmp_path, v=lists([[1, 2]] * 12 + [[1, None]]))).batches(rows=5))
    with pytest.raises(InvalidInputError, match="got null in row 0"):
        open_vectors(write(tmp_path, v=lists([None, [1, 2]])))
    fixed = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2))
    with pytest.raises(InvalidInputError, match="list in every row, got null in row 1"):
        list(open_vectors(write(tmp_path, v=fixed)).batches())


def test_a_value_that_is_not_finite_names_file_row_and_column(tmp_path: Path) -> None:
    path = write(tmp_path, v=lists([[1, 2]] * 12 + [[1, float("inf")]]))
    with pytest.raises(
        InvalidInputError, match=r"x\.parquet: infinity at row 12, column 1, batch 2"
    ):
        list(open_vectors(path).batches(rows=5))


def test_the_column_must_be_named_when_there_are_several(tmp_path: Path) -> None:
    path = write(tmp_path, a=lists([[1]]), b=lists([[2]]), id=[1])
    with pytest.raises(
        InvalidInputError,
        match=r"one list column, got 2\. Name one with column=; it has \['a', 'b', 'id'\]",
    ):
        open_vectors(path)
    with pytest.raises(InvalidInputError, match=r"got 'c': no such column\. It has \['a', 'b'\]"):
        open_vectors(path, column="c")
    with pytest.raises(InvalidInputError, match="got 'id': a column of int64"):
        open_vectors(path, column="id")
    assert open_vectors(path, column="b").gather([0]).tolist() == [[2]]


def test_no_list_column_lists_the_columns(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"got 0\..*it has \['id'\]"):
        open_vectors(write(tmp_path, id=[1]))


def test_lists_of_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="integers or floats"):
        open_vectors(write(tmp_path, v=lists([["a"]], pa.string())))


def test_lists_without_rows_or_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="has no rows"):
        open_vectors(write(tmp_path, v=lists([])))
    with pytest.raises(InvalidInputError, match="columns"):
        open_vectors(write(tmp_path, v=lists([[], []])))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"hello" * 50])
def test_what_is_no_parquet_is_corrupt(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"x\.parquet is damaged"):
        open_vectors(tmp_path / "x.parquet")


def test_a_damaged_page_is_corrupt(tmp_path: Path) -> None:
    path = write(tmp_path, v=lists(np.random.default_rng(0).normal(size=(500, 4)).tolist()))
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"x\.parquet is damaged"):
        list(open_vectors(path).batches())


def test_without_pyarrow_the_install_line_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, v=lists([[1]]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"needs pyarrow.*pip install 'bitkin\[io\]'"):
        open_vectors(path)


def test_opening_arrays_imports_no_reader_of_files() -> None:
    script = (
        "import sys, bitkin.io.vectors; assert not {'pyarrow', 'h5py', 'pandas', 'sklearn'} & "
        "set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_numbers_out_of_proportion_to_the_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = pa.ListArray.from_arrays([0, 2**20], pa.array(np.zeros(2**20, dtype=np.float32)))
    path = write(tmp_path, v=zeros)
    assert open_vectors(path).shape == (1, 2**20)  # few bytes are read whatever they are
    monkeypatch.setattr(limits, "_FEW_BYTES", 1 << 16)
    with pytest.raises(
        CorruptFileError, match=r"x\.parquet, column 'v' announces 4,194,304 bytes of numbers"
    ):
        open_vectors(path)
    assert open_vectors(write(tmp_path, v=lists([[1.0, 2.0]] * 30))).shape == (30, 2)
