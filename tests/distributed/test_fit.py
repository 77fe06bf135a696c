"""A fit where the rows are gives what a fit to all of them gives."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import scipy.sparse
from dask.delayed import delayed
from distributed import Client, LocalCluster
from scipy.linalg import subspace_angles
from sklearn.base import clone

import bitkin
from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError
from tests.distributed.clusters import ANY_PORT

N, D = 2003, 24


def made_rows(seed: int = 0, n: int = N, d: int = D) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) * np.linspace(1.0, 0.2, d) + rng.uniform(-2, 2, d)
    return rows.astype(np.float32)


def sparse_rows(seed: int = 0, n: int = 600, d: int = 300) -> Any:
    rng = np.random.default_rng(seed)
    rows = scipy.sparse.random_array((n, d), density=0.05, rng=rng, dtype=np.float32)
    return scipy.sparse.csr_array(rows)


def as_dask(rows: Any, chunk: int = 301) -> Any:
    return da.from_array(rows, chunks=(chunk, -1), asarray=False)


LEARNED = [
    bitkin.ProjectionHash(8),
    bitkin.ProjectionHash(8, normalize=True, rotation="itq"),
    bitkin.ProjectionHash(8, center=False, rotation="unifdiag"),
    bitkin.ProjectionHash(40, rotation="isohash"),
    bitkin.ProjectionHash(8, projection="nystrom", rotation=None),
    bitkin.ProjectionHash(8, projection=bitkin.projections.Nystrom(0.5, sampling="norms")),
    bitkin.ProjectionHash(8, projection=bitkin.projections.PCA("randomized")),
    bitkin.ProjectionHash(8, projection="random"),
]
COUNTED = [
    bitkin.WTAHash(16),
    bitkin.WTAHash(16, window="auto"),
    bitkin.WTAHash(16, center=True, scale=True),
    bitkin.WTAHash(16, center=False, degree=2),
    bitkin.MinHash(16),
    bitkin.SignHash(),
]


@pytest.mark.filterwarnings("ignore:n_bits=:UserWarning", "ignore:degree=2:UserWarning")
@pytest.mark.parametrize("hasher", LEARNED, ids=repr)
def test_directions_are_those_of_all_rows(hasher: Any, here: Client) -> None:
    rows = made_rows()
    ours = bitkin.distributed.fit(clone(hasher), as_dask(rows))
    alone = clone(hasher).fit(rows)
    if ours.components_.shape[1] <= D:
        assert subspace_angles(ours.components_, alone.components_).max() < 1e-5
    same = ours.encode(rows).symbols() == alone.encode(rows).symbols()
    assert same.mean() > 0.999


@pytest.mark.filterwarnings("ignore:.*coordinates have one sign:UserWarning")
@pytest.mark.filterwarnings("ignore:degree=2:UserWarning")
@pytest.mark.parametrize("hasher", COUNTED, ids=repr)
def test_counted_codes_are_the_very_same(hasher: Any, here: Client) -> None:
    rows = np.abs(made_rows()) if isinstance(hasher, bitkin.MinHash) else made_rows()
    ours = bitkin.distributed.fit(clone(hasher), as_dask(rows))
    alone = clone(hasher).fit(rows)
    assert ours.fingerprint_ == alone.fingerprint_
    assert ours.encode(rows) == alone.encode(rows)


@pytest.mark.parametrize(
    "hasher",
    [
        bitkin.ProjectionHash(8, normalize=True),
        bitkin.WTAHash(16, window="auto"),
        bitkin.WTAHash(16, window=8),
        bitkin.MinHash(16),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:window=8 leaves:UserWarning")
def test_csr_blocks_are_taken(hasher: Any, here: Client) -> None:
    rows = sparse_rows()
    ours = bitkin.distributed.fit(clone(hasher), as_dask(rows, 101))
    assert ours.encode(rows) == clone(hasher).fit(rows).encode(rows)
    assert bitkin.distributed.encode(ours, as_dask(rows, 101)).compute() == ours.encode(rows)


def test_sketches_of_frequent_directions_are_merged(here: Client) -> None:
    rows = made_rows()
    hasher = bitkin.ProjectionHash(4, projection="frequent-directions")
    ours, alone = bitkin.distributed.fit(clone(hasher), as_dask(rows)), clone(hasher).fit(rows)
    assert ours.n_seen_ == N
    centred = rows - rows.mean(axis=0)
    captured = [
        float(np.square(centred @ np.linalg.qr(one.components_)[0]).sum()) for one in (ours, alone)
    ]
    assert captured[0] > 0.99 * captured[1]
    ours.partial_fit(rows[:50])  # the stream goes on
    assert ours.n_seen_ == N + 50
    assert pickle.loads(pickle.dumps(ours)).fingerprint_ == ours.fingerprint_


def test_a_projection_that_follows_rows_in_order_gets_them_here_and_says_so(here: Client) -> None:
    rows = made_rows()
    hasher = bitkin.ProjectionHash(4, projection="opast")
    with pytest.warns(UserWarning, match="follows rows one after another"):
        ours = bitkin.distributed.fit(clone(hasher), as_dask(rows))
    assert ours.fingerprint_ == clone(hasher).fit(rows).fingerprint_


def test_kernel_maps_choose_the_same_anchors(here: Client) -> None:
    rows = made_rows()
    ours = bitkin.distributed.fit(bitkin.KernelMap(anchors=7), as_dask(rows))
    np.testing.assert_array_equal(ours.anchors_, bitkin.KernelMap(anchors=7).fit(rows).anchors_)


@pytest.mark.parametrize("suffix", ["npy", "fvecs", "parquet", "npz"])
def test_workers_read_a_folder_of_shards(suffix: str, tmp_path: Path, here: Client) -> None:
    rows = made_rows()
    # ten shards, so that part-10 would stand before part-2 by letters
    for i, part in enumerate(np.array_split(rows, 11)):
        write_shard(tmp_path / f"part-{i}.{suffix}", part)
    (tmp_path / "notes.txt").write_text("no vectors")
    hasher = bitkin.WTAHash(16)
    ours = bitkin.distributed.fit(clone(hasher), tmp_path)
    assert ours.fingerprint_ == clone(hasher).fit(rows).fingerprint_
    assert bitkin.distributed.encode(ours, tmp_path).compute() == ours.encode(rows)


def write_shard(path: Path, rows: npt.NDArray[np.float32]) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    if path.suffix == ".npy":
        np.save(path, rows)
    elif path.suffix == ".npz":
        np.savez(path, rows)
    elif path.suffix == ".fvecs":
        heads = np.full((len(rows), 1), rows.shape[1], dtype=np.int32).view(np.float32)
        path.write_bytes(np.hstack([heads, rows]).tobytes())
    else:
        pyarrow.parquet.write_table(pa.table({"vector": list(rows)}), path)


def test_large_files_are_read_in_parts(
    tmp_path: Path, here: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bitkin.distributed import partitions

    rows = made_rows()
    np.save(tmp_path / "rows.npy", rows)
    monkeypatch.setattr(partitions, "_PIECE_BYTES", 100 * rows[0].nbytes)
    hasher = bitkin.distributed.fit(bitkin.WTAHash(16), tmp_path / "rows.npy")
    assert hasher.fingerprint_ == bitkin.WTAHash(16).fit(rows).fingerprint_
    codes = bitkin.distributed.encode(hasher, tmp_path / "rows.npy")
    assert codes.n_partitions == 21
    assert codes.counts == (100,) * 20 + (3,)
    assert codes.compute() == hasher.encode(rows)


def test_files_are_found_from_here_by_the_numbers_in_their_names(
    tmp_path: Path, two_workers: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = made_rows(n=330)
    (tmp_path / "rows").mkdir()
    for i, part in enumerate(np.array_split(rows, 11)):
        np.save(tmp_path / "rows" / f"{i}.npy", part)
    np.save(tmp_path / "rows" / ".half-written.npy", rows)
    hasher = bitkin.ProjectionHash(8).fit(rows)
    monkeypatch.chdir(tmp_path)  # where no worker is
    codes = bitkin.distributed.encode(hasher, "rows")
    assert codes.compute() == hasher.encode(rows)
    assert codes.save("codes") == [str(tmp_path / f"codes/part-{i}.bitkin") for i in range(11)]
    with bitkin.distributed.ShardedIndex.from_codes("codes", two_workers) as index:
        assert index.search(hasher.encode(rows), 1).distances.max() == 0


def test_svmlight_text_is_read_where_its_columns_are_said(tmp_path: Path, here: Client) -> None:
    for i in range(2):
        (tmp_path / f"{i}.svm").write_text(f"1 0:{i + 1} 3:2\n0 1:1 2:{i + 3}\n")
    with pytest.raises(InvalidInputError, match="n_features must be given for svmlight"):
        bitkin.distributed.fit(bitkin.MinHash(8), tmp_path)
    with pytest.raises(InvalidInputError, match="zero_based must be given for svmlight"):
        bitkin.distributed.fit(bitkin.MinHash(8), tmp_path, n_features=4)
    hasher = bitkin.distributed.fit(bitkin.MinHash(8), tmp_path, n_features=4, zero_based=True)
    assert hasher.n_features_in_ == 4


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of what Dask asks of pandas
def test_data_frames_with_a_column_of_vectors_are_taken(tmp_path: Path, here: Client) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    rows = made_rows()
    for i, part in enumerate(np.array_split(rows, 3)):
        table = pa.table({"id": np.arange(len(part)), "vector": list(part)})
        pyarrow.parquet.write_table(table, tmp_path / f"{i}.parquet")
    frame = dd.read_parquet(tmp_path)
    alone = bitkin.WTAHash(16).fit(rows)
    for given, column in ((frame, "vector"), (frame, None), (frame["vector"], None)):
        ours = bitkin.distributed.fit(bitkin.WTAHash(16), given, column=column)
        assert ours.fingerprint_ == alone.fingerprint_
    codes = bitkin.distributed.encode(ours, frame)
    assert codes.counts is None
    assert codes.compute() == alone.encode(rows)
    with pytest.raises(InvalidInputError, match=r"column must be a column of X, id, vector, got"):
        bitkin.distributed.fit(bitkin.WTAHash(16), frame, column="vectors")


def test_data_frames_of_numbers_are_taken_with_their_names(here: Client) -> None:
    frame = pd.DataFrame(made_rows(), columns=[f"c{i}" for i in range(D)])
    ours = bitkin.distributed.fit(bitkin.WTAHash(16), dd.from_pandas(frame, npartitions=3))
    assert ours.fingerprint_ == bitkin.WTAHash(16).fit(frame).fingerprint_
    assert list(ours.feature_names_in_) == list(frame.columns)


def test_delayed_blocks_and_empty_partitions_are_taken(here: Client) -> None:
    rows = made_rows()
    blocks = [delayed(part) for part in (rows[:0], rows[:700], rows[700:700], rows[700:])]
    hasher = bitkin.distributed.fit(bitkin.WTAHash(16), blocks)
    assert hasher.fingerprint_ == bitkin.WTAHash(16).fit(rows).fingerprint_
    assert bitkin.distributed.encode(hasher, blocks).compute() == hasher.encode(rows)
    chunks = da.concatenate([as_dask(rows[:0]), as_dask(rows)])
    assert bitkin.distributed.encode(hasher, chunks).compute() == hasher.encode(rows)


def test_labels_are_refused_by_what_learns_without(here: Client) -> None:
    with pytest.raises(InvalidInputError, match=r"y is for classifiers, a WTAHash learns without"):
        bitkin.distributed.fit(bitkin.WTAHash(8), as_dask(made_rows()), np.zeros(N))


@pytest.mark.parametrize(
    "option", [{"dataset": "a"}, {"n_features": 3}, {"zero_based": True}], ids=repr
)
def test_options_of_files_are_refused_for_what_is_in_none(
    here: Client, option: dict[str, Any]
) -> None:
    words = f"{next(iter(option))} means nothing where X is not in files: leave it out, got"
    hasher = bitkin.WTAHash(8).fit(made_rows())
    for given in (as_dask(made_rows()), [delayed(made_rows())]):
        with pytest.raises(InvalidInputError, match=words):
            bitkin.distributed.fit(bitkin.WTAHash(8), given, **option)
        with pytest.raises(InvalidInputError, match=words):
            bitkin.distributed.encode(hasher, given, **option)
    with pytest.raises(
        InvalidInputError, match=r"column must be left out for X, partition 0, a nda"
    ):
        bitkin.distributed.fit(bitkin.WTAHash(8), [delayed(made_rows())], column="vector")


def test_progress_counts_the_pieces_of_every_pass(here: Client) -> None:
    seen: list[tuple[int, int]] = []
    bitkin.distributed.fit(
        bitkin.SignHash(),
        as_dask(made_rows() - 1, 501),
        progress=lambda done, of: seen.append((done, of)),
    )
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


WRONG = [
    (
        lambda x: da.from_array(x, chunks=(100, 8)),
        r"along its columns.*X.rechunk\({1: -1}",
    ),
    (lambda x: as_dask(x)[da.from_array(x)[:, 0] > 0], r"X.compute_chunk_sizes\(\) first"),
    (lambda x: da.from_array(x[0], chunks=5), "must have two dimensions"),
    (lambda x: da.from_array(x.astype(str), chunks=(500, -1)), "must hold numbers"),
    (lambda x: x, "got 'ndarray'. What is in memory here needs no cluster"),
    (lambda x: [delayed(x), delayed(x.astype(np.float64))], "X, partition 1 has dense float64"),
    (lambda x: [delayed(x), delayed(x[:, :5])], "X, partition 1 has dense float32 with 5 columns"),
    (lambda x: [delayed(x[:0])], "has no rows"),
    (lambda x: "/no/such/folder", "/no/such/folder cannot be read"),
]


@pytest.mark.parametrize("make, words", WRONG, ids=[words[:24] for _, words in WRONG])
def test_what_cannot_be_learned_from_is_refused(make: Any, words: str, here: Client) -> None:
    with pytest.raises((InvalidInputError, FileAccessError), match=words):
        bitkin.distributed.fit(bitkin.WTAHash(8), make(made_rows()))


def test_a_block_that_is_not_what_the_array_said_is_named(here: Client) -> None:
    rows = as_dask(made_rows(), 501)
    lies = rows.map_blocks(
        lambda block, block_info=None: (
            block.astype(np.float64) if block_info[0]["chunk-location"][0] == 2 else block
        ),
        dtype=np.float32,
    )
    with pytest.raises(InvalidInputError, match=r"X, partition 2 must have rows like the others"):
        bitkin.distributed.fit(bitkin.WTAHash(8), lies)


def test_a_number_that_is_not_finite_is_found_with_its_place(here: Client) -> None:
    rows = made_rows()
    rows[1203, 5] = np.nan
    with pytest.raises(InvalidInputError, match=r"X, partition 2: NaN at row 201, column 5"):
        bitkin.distributed.fit(bitkin.WTAHash(8), as_dask(rows, 501))


def test_an_empty_folder_and_a_damaged_file_are_named(tmp_path: Path, here: Client) -> None:
    with pytest.raises(FileAccessError, match=r"must hold files of vectors.* none on worker "):
        bitkin.distributed.fit(bitkin.WTAHash(8), tmp_path)
    with pytest.raises(FileAccessError, match=r"gone\.npy cannot be read.* That was on worker "):
        bitkin.distributed.fit(bitkin.WTAHash(8), tmp_path / "gone.npy")
    (tmp_path / "rows.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(CorruptFileError, match=r"rows\.npy"):
        bitkin.distributed.fit(bitkin.WTAHash(8), tmp_path)


def test_what_is_no_hasher_is_refused(here: Client) -> None:
    with pytest.raises(InvalidInputError, match=r"hasher must be a ProjectionHash.*got a dict"):
        bitkin.distributed.fit({}, as_dask(made_rows()))


def test_a_fit_that_fails_leaves_the_hasher_as_it_was(here: Client) -> None:
    rows = made_rows()
    hasher = bitkin.WTAHash(8).fit(rows)
    before = hasher.fingerprint_
    rows[3, 3] = np.inf
    with pytest.raises(InvalidInputError, match="infinity"):
        bitkin.distributed.fit(hasher, as_dask(rows))
    assert hasher.fingerprint_ == before


def _slowly(block: Any) -> Any:
    time.sleep(0.05)
    return block


def test_a_worker_that_dies_during_fit_and_encode_changes_nothing(tmp_path: Path) -> None:
    rows = made_rows()
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=ANY_PORT, silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        slow = as_dask(rows, 201).map_blocks(_slowly, dtype=np.float32)
        for hasher in (bitkin.ProjectionHash(8), bitkin.WTAHash(16)):
            alone = clone(hasher).fit(rows)
            ours = bitkin.distributed.fit(clone(hasher), slow, progress=killing_once(client))
            assert ours.fingerprint_ == alone.fingerprint_
        codes = bitkin.distributed.encode(ours, slow)
        codes.save_joined(tmp_path / "codes.bitkin", progress=killing_once(client))
    assert bitkin.load(tmp_path / "codes.bitkin") == alone.encode(rows)


def killing_once(client: Client) -> Callable[[int, int], None]:
    """Kill a worker when a third of the work is done."""
    left = [client]

    def report(done: int, of: int) -> None:
        if left and 3 * done >= of:
            kill_one_worker(left.pop())

    return report


def kill_one_worker(client: Client) -> None:
    process = next(iter(client.run(os.getpid).values()))
    os.kill(process, signal.SIGKILL)
