from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from bitkin.errors import FileAccessError, InvalidInputError
from bitkin.evaluate import mean_average_precision, same_label


def check(truth: Any, want: Any) -> None:
    assert isinstance(truth, scipy.sparse.csr_matrix)
    assert truth.dtype == np.bool_
    assert truth.has_canonical_format
    assert truth.data.all()
    assert (truth.toarray() == want).all()
    assert truth.shape == np.shape(want)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(-1, 3), max_size=9),
    st.lists(st.integers(-1, 3), max_size=5),
)
def test_rows_of_the_same_label_are_marked(rows: list[int], queries: list[int]) -> None:
    want = np.array([[r == q for r in rows] for q in queries]).reshape(len(queries), len(rows))
    check(same_label(rows, queries), want)
    check(same_label(np.array(rows, dtype=np.int8), np.array(queries, dtype=np.int64)), want)
    names = [["a", "b", "c", "d", "e"][label] for label in rows]
    asked = [["a", "b", "c", "d", "e"][label] for label in queries]
    check(same_label(names, asked), want)
    check(same_label(np.array(names, dtype="U1"), np.array(asked, dtype=object)), want)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sets(st.integers(0, 4)), max_size=7),
    st.lists(st.sets(st.integers(0, 4)), min_size=1, max_size=5),
)
def test_rows_that_share_one_of_several_labels_are_marked(
    rows: list[set[int]], queries: list[set[int]]
) -> None:
    want = np.array([[bool(r & q) for r in rows] for q in queries]).reshape(len(queries), len(rows))
    check(same_label(rows, queries), want)
    check(same_label([sorted(r) * 2 for r in rows], [tuple(q) for q in queries]), want)
    tables = [np.array([[j in one for j in range(5)] for one in many]) for many in (rows, queries)]
    flags = [scipy.sparse.csr_matrix(table.reshape(-1, 5) * -2.5) for table in tables]
    check(same_label(flags[0], scipy.sparse.coo_array(flags[1])), want)


def test_missing_labels_match_nothing() -> None:
    check(same_label(["a", None], [None, "a"]), [[False, False], [True, False]])
    check(same_label([{1}, None], [None, {1}]), [[False, False], [True, False]])
    stored_zero = scipy.sparse.csr_matrix(([0.0, 1.0, 1.0], [0, 1, 1], [0, 3]), shape=(1, 2))
    check(same_label(stored_zero, scipy.sparse.csr_matrix([[1, 0], [0, 1]])), [[False], [True]])
    assert stored_zero.nnz == 3


def test_the_truth_is_taken_by_metrics() -> None:
    rng = np.random.default_rng(0)
    labels, asked = rng.integers(0, 5, 65), rng.integers(0, 6, 9)
    distances = rng.integers(0, 20, (9, 65))
    dense = asked[:, None] == labels
    found = mean_average_precision(distances, same_label(labels, asked), details=True)
    assert found.mean == mean_average_precision(distances, dense)
    assert found.n_left_out == (asked == 5).sum()


def test_labels_in_files(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.array([3, 1, 3]))
    np.save(tmp_path / "names.npy", np.array(["new york", "x"]))
    (tmp_path / "asked.txt").write_text("new york\r\nx\n", encoding="utf-8")
    scipy.sparse.save_npz(tmp_path / "many.npz", scipy.sparse.csr_matrix([[1, 0], [1, 1]]))
    check(same_label(tmp_path / "rows.npy", [3]), [[True, False, True]])
    check(
        same_label(str(tmp_path / "names.npy"), tmp_path / "asked.txt"),
        [[True, False], [False, True]],
    )
    check(same_label(tmp_path / "many.npz", scipy.sparse.csr_matrix([[0, 1]])), [[False, True]])
    np.savez(tmp_path / "both.npz", x=np.ones((2, 2)), y=np.array([4, 5]))
    check(same_label(tmp_path / "both.npz", [5]), [[False, True]])
    np.save(tmp_path / "loud.npy", np.array([1, 2]))
    (tmp_path / "loud.npy").rename(tmp_path / "LOUD.NPY")
    check(same_label(tmp_path / "LOUD.NPY", [2]), [[False, True]])
    with pytest.raises(FileAccessError, match=r"none\.txt cannot be read: No such file"):
        same_label(tmp_path / "none.txt", [1])
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x80")
    with pytest.raises(InvalidInputError, match="or text with one per line"):
        same_label(tmp_path / "binary", [1])


def test_bad_labels_are_refused_by_name() -> None:
    with pytest.raises(InvalidInputError, match=r"labels must be whole numbers .*got 0\.5"):
        same_label([0.5], [1])
    with pytest.raises(InvalidInputError, match=r"query_labels must be whole .*got float64"):
        same_label([1], np.array([1.0]))
    with pytest.raises(InvalidInputError, match=r"labels must be whole .*of shape \(1, 2\)"):
        same_label(np.array([[1, 2]]), [1])
    with pytest.raises(InvalidInputError, match=r"must be of one kind, .* got 'a' and 1\..*keep"):
        same_label(["a"], [1])
    with pytest.raises(InvalidInputError, match=r"must be of one kind, .* got 'a' and 1"):
        same_label([{"a"}], [{1}])
    with pytest.raises(InvalidInputError, match=r"labels must be one label per row .*got 3"):
        same_label([3, {4}], [{3}])
    bad: list[Any] = [{1, 2}, {"a": 1}, 7, None]
    for labels in bad:
        with pytest.raises(InvalidInputError, match="labels must be a list or an array"):
            same_label(labels, [1])
    flags = scipy.sparse.csr_matrix([[1, 0]])
    with pytest.raises(InvalidInputError, match="of one kind, got one sparse matrix and query_la"):
        same_label(flags, [1])
    with pytest.raises(InvalidInputError, match="the same columns, one per label, got 2 and 3"):
        same_label(flags, scipy.sparse.csr_matrix([[1, 0, 1]]))
