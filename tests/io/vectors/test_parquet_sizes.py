"""What a .parquet file announces, against what pyarrow says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitkin.errors import CorruptFileError
from bitkin.io.stable import StableFile
from bitkin.io.vectors import limits, open_vectors
from bitkin.io.vectors.files.parquet_sizes import announced_by

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("use_dictionary", [False, True])
def test_numbers_of_all_pages_are_counted(
    compression: str, version: str, use_dictionary: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "id": range(3000),
            "v": list(rng.integers(0, 9, (3000, 7)).astype(np.float32)),
            "v.w": ["text"] * 3000,
            "other": list(np.zeros((3000, 2))),
        }
    )
    options: dict[str, Any] = {"data_page_version": version, "use_dictionary": use_dictionary}
    options |= {
        "row_group_size": 1100,
        "data_page_size": 500,
        "write_page_checksum": True,
        "write_page_index": True,
    }
    pq.write_table(table, tmp_path / "x.parquet", compression=compression, **options)
    meta = pq.ParquetFile(tmp_path / "x.parquet").metadata
    names = [meta.row_group(0).column(j).path_in_schema for j in range(meta.num_columns)]
    with StableFile(tmp_path / "x.parquet") as file:
        for column, width in (("v", 7), ("other", 2), ("id", 1), ("v.w", 1)):
            found = announced_by(file, column)
            assert found.n_values == 3000 * width, column
            place = next(
                j for j, name in enumerate(names) if name in (column, f"{column}.list.element")
            )
            whole = sum(
                meta.row_group(i).column(place).total_uncompressed_size
                for i in range(meta.num_row_groups)
            )
            assert 0 < found.largest_page <= max(whole, 4 * 3000)
        assert announced_by(file, "missing") == (0, 0)


def test_what_is_no_parquet_file_announces_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for size in (0, 3, 8, 12, 500):
        (tmp_path / "x").write_bytes(rng.bytes(size))
        with StableFile(tmp_path / "x") as file:
            assert announced_by(file, "v") == (0, 0)


@pytest.mark.parametrize("fixed", [False, True])
def test_a_million_zeros_in_one_list_are_refused_before_pyarrow_makes_room(
    fixed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 2**20
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(n, dtype=np.float32)), n)
    pq.write_table(
        pa.table({"v": zeros if fixed else zeros.cast(pa.list_(pa.float32()))}),
        tmp_path / "x.parquet",
    )
    assert (tmp_path / "x.parquet").stat().st_size < 3000
    monkeypatch.setattr(limits, "_FEW_BYTES", 1 << 16)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(
        CorruptFileError, match=r"x\.parquet, column 'v' announces 4,194,304 bytes of numbers"
    ):
        open_vectors(tmp_path / "x.parquet")
    assert pa.default_memory_pool().max_memory() == before


def test_chunks_that_overlap_are_refused(tmp_path: Path) -> None:
    rows = list(np.random.default_rng(0).standard_normal((100, 400)))
    pq.write_table(
        pa.table({"v": rows}), tmp_path / "x.parquet", row_group_size=1, compression="none"
    )
    data = (tmp_path / "x.parquet").read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    # 100 chunks where one is
    (tmp_path / "x.parquet").write_bytes(data[:4000] + data[-8 - length :])
    with (
        StableFile(tmp_path / "x.parquet") as file,
        pytest.raises(CorruptFileError, match="has pages of"),
    ):
        announced_by(file, "v")
