"""What every source promises, run over every input and every file format."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.io.vectors.files.svmlight import STRIDE

Truth = npt.NDArray[Any]
Maker = Callable[[Path, Truth], VectorSource]


def make_truth(n: int, d: int = 5, seed: int = 0) -> Truth:
    """Small whole numbers, a third of them zero: exact in every format, sparse enough for CSR."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 90, (n, d)) * (rng.random((n, d)) < 0.66)).astype(np.float32)


def dense(batch: Any) -> Truth:
    return np.asarray(batch.toarray() if scipy.sparse.issparse(batch) else batch)


def array(folder: Path, truth: Truth) -> VectorSource:
    return open_vectors(truth)


def strided_array(folder: Path, truth: Truth) -> VectorSource:
    return open_vectors(np.repeat(np.asfortranarray(truth), 2, axis=1)[:, ::2])


def nested_list(folder: Path, truth: Truth) -> VectorSource:
    return open_vectors(truth.tolist() if len(truth) else truth)


def data_frame(folder: Path, truth: Truth) -> VectorSource:
    return open_vectors(pytest.importorskip("pandas").DataFrame(truth))


def csc(folder: Path, truth: Truth) -> VectorSource:
    return open_vectors(scipy.sparse.csc_matrix(truth))


def csr_with_repeats(folder: Path, truth: Truth) -> VectorSource:
    """Every number stored as two halves, columns in falling order."""
    n, d = truth.shape
    columns = np.tile(np.repeat(np.arange(d)[::-1], 2), n)
    halves = np.repeat(truth[:, ::-1], 2, axis=1).reshape(-1) / 2
    return open_vectors(
        scipy.sparse.csr_array((halves, columns, np.arange(0, 2 * d * n + 1, 2 * d)), shape=(n, d))
    )


def npy(folder: Path, truth: Truth) -> VectorSource:
    np.save(folder / "x.npy", truth)
    return open_vectors(folder / "x.npy")


def npy_fortran(folder: Path, truth: Truth) -> VectorSource:
    np.save(folder / "x.npy", np.asfortranarray(truth))
    return open_vectors(str(folder / "x.npy"))


def npy_big_endian(folder: Path, truth: Truth) -> VectorSource:
    np.save(folder / "x.npy", truth.astype(">f8"))
    return open_vectors(folder / "x.npy")


def npz_stored(folder: Path, truth: Truth) -> VectorSource:
    np.savez(folder / "x.npz", vectors=truth, labels=np.arange(len(truth)))
    return open_vectors(folder / "x.npz")


def npz_packed(folder: Path, truth: Truth) -> VectorSource:
    np.savez_compressed(folder / "x.npz", a=truth, b=truth + 1)
    return open_vectors(folder / "x.npz", dataset="a")


def npz_fortran(folder: Path, truth: Truth) -> VectorSource:
    np.savez_compressed(folder / "x.npz", np.asfortranarray(truth))
    return open_vectors(folder / "x.npz")


def npz_sparse(kind: str, *, new: bool = False) -> Maker:
    def make(folder: Path, truth: Truth) -> VectorSource:
        matrix = scipy.sparse.coo_array(truth) if new else scipy.sparse.coo_matrix(truth)
        scipy.sparse.save_npz(folder / "x.npz", matrix.asformat(kind))
        return open_vectors(folder / "x.npz")

    make.__name__ = f"npz_{kind}{'_array' if new else ''}"
    return make


def vecs(suffix: str, dtype: str) -> Maker:
    def make(folder: Path, truth: Truth) -> VectorSource:
        if len(truth) == 0:
            pytest.skip("a file without rows has no dimension")
        n, d = truth.shape
        heads = np.full((n, 1), d, dtype="<i4").view(np.uint8)
        np.hstack([heads, np.ascontiguousarray(truth.astype(dtype)).view(np.uint8)]).tofile(
            folder / f"x{suffix}"
        )
        return open_vectors(folder / f"x{suffix}")

    make.__name__ = suffix[1:]
    return make


def parquet(folder: Path, truth: Truth) -> VectorSource:
    arrow = pytest.importorskip("pyarrow")
    lists = arrow.FixedSizeListArray.from_arrays(truth.reshape(-1), truth.shape[1])
    table = arrow.table({"id": np.arange(len(truth)), "vector": lists})
    pytest.importorskip("pyarrow.parquet").write_table(
        table, folder / "x.parquet", row_group_size=10
    )
    return open_vectors(folder / "x.parquet")


def parquet_lists(folder: Path, truth: Truth) -> VectorSource:
    arrow = pytest.importorskip("pyarrow")
    if len(truth) == 0:
        pytest.skip("lists of any length: without a row the length is not known")
    kind = arrow.list_(arrow.float64())
    table = arrow.table(
        {"a": arrow.array(list(truth), kind), "b": arrow.array(list(truth + 1), kind)}
    )
    pytest.importorskip("pyarrow.parquet").write_table(
        table, folder / "x.parquet", row_group_size=64
    )
    return open_vectors(folder / "x.parquet", column="a")


def hdf5(folder: Path, truth: Truth) -> VectorSource:
    with pytest.importorskip("h5py").File(folder / "x.h5", "w") as file:
        file["labels"] = np.arange(3)
        file["deep/vectors"] = truth
    return open_vectors(folder / "x.h5")


def hdf5_packed(folder: Path, truth: Truth) -> VectorSource:
    with pytest.importorskip("h5py").File(folder / "x.hdf5", "w") as file:
        chunks = (10, truth.shape[1]) if len(truth) >= 10 else None
        file.create_dataset(
            "a", data=truth.astype(">f4"), chunks=chunks, compression="gzip" if chunks else None
        )
        file["b"] = truth + 1
    return open_vectors(folder / "x.hdf5", dataset="a")


def svmlight_text(truth: Truth, base: int = 1) -> str:
    """One line a row, with everything the format allows around the pairs."""
    lines = ["# made by a test", ""]
    for i, row in enumerate(truth):
        pairs = " ".join(f"{j + base}:{float(row[j])!r}" for j in np.flatnonzero(row))
        lines += [f"{(-1) ** i} qid:{i} {pairs} # row {i}", ""][: 1 + (i % 3 == 0)]
    return "\n".join(lines)


def svmlight(folder: Path, truth: Truth) -> VectorSource:
    (folder / "x.svm").write_text(svmlight_text(truth))
    return open_vectors(folder / "x.svm", n_features=truth.shape[1], zero_based=False)


def svmlight_packed(folder: Path, truth: Truth) -> VectorSource:
    with gzip.open(folder / "x.libsvm.gz", "wt") as file:
        file.write(svmlight_text(truth, base=0))
    return open_vectors(folder / "x.libsvm.gz", n_features=truth.shape[1], zero_based=True)


def several(folder: Path, truth: Truth) -> VectorSource:
    third = len(truth) // 3
    np.save(folder / "a.npy", truth[:third])
    np.save(folder / "b.npy", truth[:0])
    np.save(folder / "c.npy", np.asfortranarray(truth[third:], dtype=np.float64))
    return open_vectors([folder / "a.npy", str(folder / "b.npy"), folder / "c.npy"])


def several_sparse(folder: Path, truth: Truth) -> VectorSource:
    half = len(truth) // 2
    scipy.sparse.save_npz(folder / "a.npz", scipy.sparse.csr_matrix(truth[:half]))
    (folder / "b.svm").write_text(svmlight_text(truth[half:]))
    scipy.sparse.save_npz(folder / "c.npz", scipy.sparse.csr_matrix(truth[:0]))
    paths = [folder / "a.npz", folder / "b.svm", folder / "c.npz"]
    return open_vectors(paths, n_features=truth.shape[1], zero_based=False)


MAKERS: list[Maker] = [
    array,
    strided_array,
    nested_list,
    data_frame,
    csc,
    csr_with_repeats,
    npy,
    npy_fortran,
    npy_big_endian,
    npz_stored,
    npz_packed,
    npz_fortran,
    *(npz_sparse(kind) for kind in ("csr", "csc", "coo", "bsr", "dia")),
    npz_sparse("coo", new=True),
    npz_sparse("csr", new=True),
    vecs(".fvecs", "<f4"),
    vecs(".bvecs", "u1"),
    vecs(".ivecs", "<i4"),
    parquet,
    parquet_lists,
    hdf5,
    hdf5_packed,
    svmlight,
    svmlight_packed,
    several,
    several_sparse,
]

every_format = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)


@every_format
@pytest.mark.parametrize("n", [0, 1, 7, 63, 64, 65])
def test_every_row_comes_back_whatever_the_number_of_rows(
    make: Maker, n: int, tmp_path: Path
) -> None:
    truth = make_truth(n)
    with make(tmp_path, truth) as source:
        assert source.shape == truth.shape
        assert len(source) == n
        got = [dense(batch) for _, batch in source.batches()]
        np.testing.assert_array_equal(np.concatenate([truth[:0], *got]), truth)
        again = [first for first, _ in source.batches(rows=10)]
        assert again == list(range(0, n, 10))


@every_format
def test_a_batch_is_contiguous_native_and_of_the_promised_kind(make: Maker, tmp_path: Path) -> None:
    with make(tmp_path, make_truth(65)) as source:
        assert source.dtype.isnative
        for batch in [
            *(batch for _, batch in source.batches(rows=9)),
            source.gather([3, 1]),
            source.gather([]),
        ]:
            assert batch.ndim == 2
            assert batch.dtype == source.dtype
            assert scipy.sparse.issparse(batch) == source.sparse
            if source.sparse:
                assert batch.format == "csr"
                assert batch.has_canonical_format
                assert batch.indices.dtype == np.int32
            else:
                assert batch.flags.c_contiguous


@every_format
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_batches_from_any_start_and_rows_in_any_order_are_those_of_the_truth(
    make: Maker, tmp_path: Path, data: st.DataObject
) -> None:
    n = data.draw(st.sampled_from([1, 7, 63, 64, 65]), "n")
    truth = make_truth(n)
    source = make(tmp_path, truth)
    rows = data.draw(st.integers(1, n + 3), "rows")
    start = data.draw(st.integers(0, n), "start")
    at = start
    for first, batch in source.batches(rows=rows, start=start):
        assert first == at
        assert batch.shape[0] == min(rows, n - at)
        np.testing.assert_array_equal(dense(batch), truth[at : at + rows])
        at += batch.shape[0]
    assert at == n
    wanted = data.draw(st.lists(st.integers(0, n - 1), max_size=20), "wanted")
    np.testing.assert_array_equal(dense(source.gather(wanted)), truth[wanted])


@every_format
def test_two_passes_side_by_side_do_not_disturb_each_other(make: Maker, tmp_path: Path) -> None:
    truth = make_truth(65)
    source = make(tmp_path, truth)
    for (_, a), (_, b) in zip(
        source.batches(rows=8), source.batches(rows=8, start=1), strict=False
    ):
        np.testing.assert_array_equal(dense(a)[1:], dense(b)[: a.shape[0] - 1])
        source.gather([64, 0])


@every_format
def test_wrong_rows_starts_and_row_numbers_are_refused_by_name(make: Maker, tmp_path: Path) -> None:
    source = make(tmp_path, make_truth(7))
    with pytest.raises(InvalidInputError, match="rows must be at least 1"):
        source.batches(rows=0)
    with pytest.raises(InvalidInputError, match="start must be between 0 and 7, got 8"):
        source.batches(start=8)
    with pytest.raises(InvalidInputError, match=r"row_numbers must be below 7.* got 9"):
        source.gather([1, 9])
    with pytest.raises(InvalidInputError, match="row_numbers must be 0 or more"):
        source.gather([-1])
    with pytest.raises(InvalidInputError, match="row_numbers must be whole numbers"):
        source.gather([True, False])


@every_format
def test_a_closed_source_says_so(make: Maker, tmp_path: Path) -> None:
    with make(tmp_path, make_truth(7)) as source:
        pass
    source.close()
    with pytest.raises(InvalidInputError, match="is closed"):
        source.batches()
    with pytest.raises(InvalidInputError, match="is closed"):
        source.gather([0])


def test_svmlight_rows_far_from_each_other_are_found_by_the_marks(tmp_path: Path) -> None:
    truth = make_truth(3 * STRIDE + 5)
    source = svmlight(tmp_path, truth)
    wanted = [3 * STRIDE + 4, 0, STRIDE, STRIDE - 1, 2 * STRIDE + 1, 3 * STRIDE, STRIDE]
    np.testing.assert_array_equal(dense(source.gather(wanted)), truth[wanted])
    first, batch = next(iter(source.batches(rows=3, start=2 * STRIDE - 1)))
    assert first == 2 * STRIDE - 1
    np.testing.assert_array_equal(dense(batch), truth[first : first + 3])


@pytest.mark.parametrize(
    "make", [npy, npy_fortran, vecs(".fvecs", "<f4"), svmlight, npz_packed, parquet, hdf5, several]
)
@pytest.mark.parametrize("change", [-1, 3])
def test_a_file_that_shrinks_or_grows_while_it_is_read_is_corrupt(
    make: Maker, change: int, tmp_path: Path
) -> None:
    source = make(tmp_path, make_truth(65))
    batches = source.batches(rows=8)
    next(batches)
    path = max(tmp_path.iterdir(), key=lambda file: file.stat().st_size)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size + change)
    with pytest.raises(CorruptFileError, match=f"had {size} bytes, now {size + change}"):
        list(batches)
    with pytest.raises(CorruptFileError, match=f"had {size} bytes, now {size + change}"):
        source.gather([60])


@pytest.mark.parametrize("make", [npy, svmlight, npz_packed, parquet, hdf5])
def test_a_file_written_over_is_corrupt_even_at_the_same_size(make: Maker, tmp_path: Path) -> None:
    source = make(tmp_path, make_truth(65))
    (path,) = tmp_path.iterdir()
    status = path.stat()
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))
    with pytest.raises(CorruptFileError, match="was written to"):
        list(source.batches())
