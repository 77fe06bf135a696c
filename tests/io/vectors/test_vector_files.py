"""Paths: missing, unreadable, unknown, and several files read as one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from bitkin.errors import CorruptFileError, FileAccessError, InvalidInputError
from bitkin.io.stable import StableFile
from bitkin.io.vectors import open_vectors

SUFFIXES = [
    ".npy",
    ".npz",
    ".fvecs",
    ".bvecs",
    ".ivecs",
    ".parquet",
    ".h5",
    ".hdf5",
    ".svm",
    ".svmlight",
    ".libsvm.gz",
]


def save(path: Path, array: Any) -> Path:
    np.save(path, array)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_file_and_a_directory_cannot_be_accessed(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match=rf"x{suffix} cannot be read: No such file"):
        open_vectors(tmp_path / f"x{suffix}")
    (tmp_path / f"x{suffix}").mkdir()
    with pytest.raises(FileAccessError, match=rf"x{suffix} cannot be read: it is a directory"):
        open_vectors(tmp_path / f"x{suffix}")


def test_a_path_that_goes_through_a_file_or_holds_a_null_byte_cannot_be_accessed(
    tmp_path: Path,
) -> None:
    path = save(tmp_path / "x.npy", np.ones((2, 2)))
    with pytest.raises(FileAccessError, match="Not a directory"):
        open_vectors(path / "y.npy")
    with pytest.raises(FileAccessError, match="null"):
        open_vectors("x\0.npy")


def test_a_file_without_permission_cannot_be_accessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path / "x.npy", np.ones((2, 2)))

    def refuse(*args: Any, **options: Any) -> Any:
        # chmod does not stop root, as whom containers run tests
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(FileAccessError, match=r"x\.npy cannot be read: Permission denied"):
        open_vectors(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_pipe_is_refused_instead_of_waited_for(suffix: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"x{suffix}")
    with pytest.raises(FileAccessError, match="not a regular file"):
        open_vectors(tmp_path / f"x{suffix}")


@pytest.mark.parametrize("name", ["x.csv", "x", "x.gz", "x.npy.gz", "x.svm.zip"])
def test_an_unknown_suffix_lists_the_known_ones(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(
        InvalidInputError, match=rf"{name} must end in one of \.npy, \.npz, .*\.svm.*, got"
    ):
        open_vectors(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("x.npy", {"dataset": "a"}),
        ("x.npy", {"column": "a"}),
        ("x.npz", {"n_features": 3}),
        ("x.svm", {"column": "a"}),
        ("x.parquet", {"dataset": "a"}),
        ("x.h5", {"zero_based": False}),
    ],
)
def test_an_option_the_format_does_not_use_is_refused(
    name: str, option: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / name).touch()
    with pytest.raises(
        InvalidInputError, match=rf"{next(iter(option))} means nothing for .*{name}"
    ):
        open_vectors(tmp_path / name, **option)


def test_several_files_are_read_in_the_order_given(tmp_path: Path) -> None:
    truth = np.arange(40, dtype=np.float32).reshape(20, 2)
    paths = [save(tmp_path / f"{i}.npy", truth[i * 5 : i * 5 + 5]) for i in range(4)]
    source = open_vectors([paths[2], paths[0]])
    assert source.name == f"{paths[2]} and 1 more"
    np.testing.assert_array_equal(source.gather([0, 9, 5]), truth[[10, 4, 0]])
    assert [batch.shape[0] for _, batch in source.batches(rows=4)] == [4, 4, 2]


def test_files_of_different_width_are_named_both(tmp_path: Path) -> None:
    paths = [save(tmp_path / "a.npy", np.ones((2, 3))), save(tmp_path / "b.npy", np.ones((2, 4)))]
    with pytest.raises(InvalidInputError, match=r"a\.npy has 3, .*b\.npy has 4"):
        open_vectors(paths)


def test_dense_and_sparse_files_do_not_mix(tmp_path: Path) -> None:
    scipy.sparse.save_npz(tmp_path / "b.npz", scipy.sparse.csr_matrix(np.eye(3)))
    with pytest.raises(InvalidInputError, match=r"all dense or all sparse: .*a\.npy and .*b\.npz"):
        open_vectors([save(tmp_path / "a.npy", np.eye(3)), tmp_path / "b.npz"])


def test_types_of_several_files_widen(tmp_path: Path) -> None:
    paths = [
        save(tmp_path / "a.npy", np.ones((2, 3), "u1")),
        save(tmp_path / "b.npy", np.full((2, 3), 0.5, "f4")),
    ]
    source = open_vectors(paths)
    assert source.dtype == np.float32
    assert source.gather([3, 0]).tolist() == [[0.5] * 3, [1.0] * 3]


def test_a_number_that_no_type_of_all_files_holds_is_refused_with_its_file(tmp_path: Path) -> None:
    whole = save(tmp_path / "whole.npy", np.array([[1, 2], [3, 2**53 + 1]]))
    paths = [save(tmp_path / "real.npy", np.ones((3, 2))), whole]
    words = r"whole\.npy must fit float64, .* got 9007199254740993 at row 1, column 1"
    with pytest.raises(InvalidInputError, match=words):
        list(open_vectors(paths).batches())
    with pytest.raises(InvalidInputError, match=words):
        open_vectors(paths).gather([4])
    save(whole, np.array([[1, 2], [3, 2**53]]))
    assert open_vectors(paths).gather([4]).tolist() == [[3, 2**53]]


def test_a_value_that_is_not_finite_names_its_own_file_and_both_row_numbers(tmp_path: Path) -> None:
    bad = np.ones((5, 3))
    bad[2, 1] = np.nan
    paths = [save(tmp_path / "a.npy", np.ones((5, 3))), save(tmp_path / "b.npy", np.ones((0, 3)))]
    source = open_vectors([*paths, save(tmp_path / "c.npy", bad)])
    words = r"c\.npy: NaN at row 2 \(row 7 of all files\), column 1"
    with pytest.raises(InvalidInputError, match=words + ", batch 1"):
        list(source.batches(rows=4))
    with pytest.raises(InvalidInputError, match=words):
        source.gather([0, 7])


def test_more_files_than_may_be_open_at_once_are_no_problem(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    paths = [save(tmp_path / f"{i}.npy", np.full((1, 2), i)) for i in range(200)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 50, hard))
    try:
        total = sum(int(batch.sum()) for _, batch in open_vectors(paths).batches(rows=3))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert total == 199 * 200


def test_a_read_behind_the_end_is_corrupt_and_no_crash(tmp_path: Path) -> None:
    path = save(tmp_path / "x.npy", np.ones((2, 2)))
    with (
        StableFile(path) as file,
        pytest.raises(CorruptFileError, match="ends at byte 160, expected 200 bytes"),
    ):
        file.read_into(100, np.empty(100, dtype=np.uint8))


def test_a_file_that_vanishes_between_passes_cannot_be_accessed(tmp_path: Path) -> None:
    source = open_vectors(save(tmp_path / "x.npy", np.ones((2, 2))))
    (tmp_path / "x.npy").unlink()
    with pytest.raises(FileAccessError, match="No such file"):
        list(source.batches())


def test_leaving_a_pass_early_closes_the_file(tmp_path: Path) -> None:
    source = open_vectors(save(tmp_path / "x.npy", np.ones((20, 2))))
    batches = source.batches(rows=2)
    next(batches)
    del batches  # an open file would end the test with a ResourceWarning
    assert source.gather([19]).shape == (1, 2)
