"""Codes of a cluster: made when asked for, as bytes, files and Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from sklearn.exceptions import NotFittedError

import bitkin
from bitkin.distributed import read_codes_parquet
from bitkin.errors import CorruptFileError, InvalidInputError
from tests.distributed.test_fit import as_dask, made_rows, sparse_rows


@pytest.mark.parametrize(
    "hasher",
    [bitkin.ProjectionHash(13), bitkin.WTAHash(16), bitkin.MinHash(7, bits_per_symbol=3)],
    ids=repr,
)
def test_bytes_are_those_of_all_codes_in_known_chunks(hasher: Any) -> None:
    rows = np.abs(made_rows(n=203))
    codes = bitkin.distributed.encode(hasher.fit(rows), as_dask(rows, 50))
    packed = codes.to_dask_array()
    assert packed.chunks == ((50, 50, 50, 50, 3), (hasher.spec_.n_bytes,))
    assert packed.dtype == np.uint8
    assert type(packed._meta) is np.ndarray
    np.testing.assert_array_equal(packed.compute(), hasher.encode(rows).to_bytes())
    assert len(codes) == 203


def test_nothing_is_made_before_it_is_asked_for() -> None:
    made: list[int] = []

    def count(block: Any) -> Any:
        made.append(len(block))
        return block

    rows = made_rows(n=100)
    X = as_dask(rows, 50).map_blocks(count, dtype=np.float32, meta=rows[:0])
    hasher = bitkin.ProjectionHash(8).fit(rows)
    codes = bitkin.distributed.encode(hasher, X)
    # but for the kind of the first block
    assert repr(codes) == "ShardedCodes(2 partitions, 100 rows, 8 × 1-bit, not made yet)"
    assert made == []
    with dask.config.set(scheduler="synchronous"):  # whatever client Dask knows
        assert codes.compute() == hasher.encode(rows)
    assert sorted(made) == [50, 50]
    assert repr(codes.persist()) == "ShardedCodes(2 partitions, 100 rows, 8 × 1-bit, persisted)"


def test_rows_with_nothing_to_hash_stay_empty(tmp_path: Path) -> None:
    rows = sparse_rows(n=60)
    rows = rows.multiply((np.arange(60) % 7 != 0)[:, None]).tocsr()
    hasher = bitkin.MinHash(8).fit(rows)
    codes = bitkin.distributed.encode(hasher, as_dask(rows, 25))
    assert codes.compute() == hasher.encode(rows)
    assert codes.compute().empty_rows().sum() == 9
    paths = codes.to_parquet(tmp_path / "codes")
    parts = [read_codes_parquet(path) for path in paths]
    assert bitkin.Codes.concatenate(parts) == hasher.encode(rows)
    assert parts[0].fingerprint == hasher.fingerprint_


def test_every_partition_gets_a_file_of_codes(tmp_path: Path, two_workers: Client) -> None:
    rows = made_rows(n=203)
    hasher = bitkin.ProjectionHash(70, projection="random").fit(rows)
    codes = bitkin.distributed.encode(hasher, as_dask(rows, 50)).persist()
    paths = codes.save(tmp_path / "codes")
    assert [Path(path).name for path in paths] == [f"part-{i}.bitkin" for i in range(5)]
    assert bitkin.Codes.concatenate([bitkin.load(path) for path in paths]) == hasher.encode(rows)
    with pytest.raises(InvalidInputError, match=r"folder must be new or empty.*part-"):
        codes.to_parquet(tmp_path / "codes")


def test_relative_paths_begin_where_the_client_is(
    tmp_path: Path, two_workers: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = made_rows(n=50)
    np.save(tmp_path / "rows.npy", rows)
    monkeypatch.chdir(tmp_path)
    hasher = bitkin.distributed.fit(bitkin.WTAHash(8), "rows.npy")
    codes = bitkin.distributed.encode(hasher, ["rows.npy"])
    assert codes.save("codes") == [str(tmp_path / "codes" / "part-0.bitkin")]
    assert codes.to_parquet("table") == [str(tmp_path / "table" / "part-0.parquet")]
    assert bitkin.load(tmp_path / "codes" / "part-0.bitkin") == hasher.encode(rows)


def test_a_parquet_file_of_something_else_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"code": [b"ab"]}), tmp_path / "other.parquet")
    with pytest.raises(CorruptFileError, match="no file of codes that ShardedCodes"):
        read_codes_parquet(tmp_path / "other.parquet")
    rows = made_rows(n=20)
    codes = bitkin.distributed.encode(bitkin.ProjectionHash(8).fit(rows), [dask.delayed(rows)])
    written = pyarrow.parquet.read_table(codes.to_parquet(tmp_path / "codes")[0])
    for kind, value in ((pa.binary(1), None), (pa.binary(2), b"ab"), (pa.binary(), b"a")):
        other = pa.table({"code": pa.array([value], type=kind)}, metadata=written.schema.metadata)
        pyarrow.parquet.write_table(other, tmp_path / "other.parquet")
        with pytest.raises(CorruptFileError, match="codes must be 1 bytes each"):
            read_codes_parquet(tmp_path / "other.parquet")
    # several chunks, as another program may write them
    pyarrow.parquet.write_table(written, tmp_path / "cut.parquet", row_group_size=7)
    assert read_codes_parquet(tmp_path / "cut.parquet") == codes.compute()
    (tmp_path / "text.parquet").write_text("no parquet at all")
    with pytest.raises(CorruptFileError, match="is no Parquet file"):
        read_codes_parquet(tmp_path / "text.parquet")


def test_codes_of_a_stream_are_those_of_the_model_that_was_given() -> None:
    rows = made_rows(n=400)
    hasher = bitkin.ProjectionHash(4, projection="opast", epochs=None).fit(rows)
    codes, before = bitkin.distributed.encode(hasher, as_dask(rows, 100)), hasher.encode(rows)
    hasher.partial_fit(made_rows(1, n=400))
    assert codes.compute() == before != hasher.encode(rows)


def test_rows_of_another_width_are_refused_at_once() -> None:
    hasher = bitkin.ProjectionHash(8).fit(made_rows(n=100))
    with pytest.raises(InvalidInputError, match=r"X must have 24 columns.*got 5"):
        bitkin.distributed.encode(hasher, as_dask(made_rows(n=100, d=5)))
    with pytest.raises(NotFittedError):
        bitkin.distributed.encode(bitkin.ProjectionHash(8), as_dask(made_rows(n=100)))
    with pytest.raises(InvalidInputError, match=r"hasher must be .*got a str"):
        bitkin.distributed.encode("model.bitkin", as_dask(made_rows(n=100)))


def test_a_partition_of_another_width_is_named(here: Client) -> None:
    rows = made_rows(n=100)
    hasher = bitkin.ProjectionHash(8).fit(rows)
    blocks = [dask.delayed(rows), dask.delayed(rows[:, :5])]
    codes = bitkin.distributed.encode(hasher, blocks)
    with pytest.raises(InvalidInputError, match="X, partition 1 has 5 features"):
        codes.compute()


def test_no_rows_have_no_codes() -> None:
    hasher = bitkin.ProjectionHash(8).fit(made_rows(n=100))
    codes = bitkin.distributed.encode(hasher, da.zeros((0, 24), chunks=(1, -1), dtype=np.float32))
    assert len(codes.compute()) == len(codes) == 0


def test_blocks_with_other_rows_than_their_chunks_say_are_refused(here: Client) -> None:
    rows = made_rows(n=100)
    some = as_dask(rows, 50).map_blocks(lambda block: block[::2], dtype=np.float32)
    hasher = bitkin.ProjectionHash(8).fit(rows)
    wrong = r"X, partition \d must have the 50 rows that its chunks say, got 25"
    with pytest.raises(InvalidInputError, match=wrong):
        bitkin.distributed.encode(hasher, some).compute()
    with pytest.raises(InvalidInputError, match=wrong):
        bitkin.distributed.fit(bitkin.ProjectionHash(8), some)


def test_a_file_that_lost_rows_since_is_refused(here: Client, tmp_path: Path) -> None:
    rows = made_rows(n=100)
    np.save(tmp_path / "rows.npy", rows)
    hasher = bitkin.ProjectionHash(8).fit(rows)
    codes = bitkin.distributed.encode(hasher, tmp_path)
    np.save(tmp_path / "rows.npy", rows[:60])
    with pytest.raises(InvalidInputError, match=r"rows.npy must have at least the 100 .*got 60"):
        codes.compute()


def test_an_empty_partition_of_whatever_width_has_no_codes(here: Client) -> None:
    rows = np.abs(made_rows(n=90))
    with dask.config.set({"dataframe.convert-string": False}):
        column = dd.from_pandas(pd.Series(list(rows), name="vector").to_frame(), npartitions=3)
    column["number"] = 1
    column["number"] = column["number"].cumsum()
    some = column[column["number"] > 40][["vector"]]  # no row of the first partition
    hasher = bitkin.distributed.fit(bitkin.WTAHash(16), some)
    assert hasher.fingerprint_ == bitkin.WTAHash(16).fit(rows[40:]).fingerprint_
    assert bitkin.distributed.encode(hasher, some).compute() == hasher.encode(rows[40:])
    of_sets = bitkin.MinHash(8).fit()  # which knows no columns
    blocks = [dask.delayed(rows), dask.delayed(rows[:0])]
    assert bitkin.distributed.encode(of_sets, blocks).compute() == of_sets.encode(rows)


def test_vectors_that_dask_made_text_of_are_refused() -> None:
    frame = pd.DataFrame({"vector": list(made_rows(n=10))})
    with dask.config.set({"dataframe.convert-string": True}):
        text = dd.from_pandas(frame, npartitions=2)
    hasher = bitkin.ProjectionHash(8).fit(made_rows(n=100))
    for given in (text, text["vector"]):
        with pytest.raises(InvalidInputError, match=r"must hold vectors, got text.*convert-string"):
            bitkin.distributed.encode(hasher, given)
