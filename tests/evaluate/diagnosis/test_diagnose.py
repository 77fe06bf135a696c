from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import bitkin
from bitkin.errors import InvalidInputError
from bitkin.io import open_vectors
from tests.evaluate.diagnosis.planted import (
    PLANTED,
    bags,
    clustered,
    with_copies,
    with_one_long_row,
    with_uneven_lengths,
    with_zeros,
)

# what a planted problem brings with it, beside what it was planted for
ALSO = {
    "with_zeros": {
        *("empty windows", "zero rows", "duplicates", "near duplicates"),
        *("ties", "lengths", "hubs"),
    },
    "with_a_large_column": {"dimension", "lengths"},
    "in_two_directions": {"lengths"},
    "far_from_zero": {"near duplicates"},
    "with_copies": {"hubs", "ties"},
    "with_zero_rows": {"duplicates"},
    "as_bits": {"ties"},
    "as_sets": {"ties", "hubs", "sparsity", "empty windows"},
}


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize(("n", "d"), [(2000, 20), (777, 65), (3000, 130)])
def test_normal_rows_are_fine(n: int, d: int, metric: str) -> None:
    X = np.random.default_rng(n).standard_normal((n, d)).astype(np.float32)
    found = bitkin.diagnose(X, metric=metric)
    if metric == "ip" and d == 130:  # the longest rows are everybody's neighbours by inner product
        assert [one.name for one in found.notices] in ([], ["hubs"])
    else:
        assert not found.notices
    assert not found.warnings
    assert all(one.setting is None for one in found.findings if one.level == "fine")


def test_clustered_rows_are_fine() -> None:
    found = bitkin.diagnose(clustered())
    assert {one.level for one in found.findings} == {"fine"}


@pytest.mark.parametrize(
    ("plant", "name", "level"), PLANTED, ids=[plant.__name__ for plant, *_ in PLANTED]
)
def test_a_planted_problem_is_found_and_nothing_else(
    plant: Callable[[Any], Any], name: str, level: str
) -> None:
    diagnosis = bitkin.diagnose(plant(clustered()))
    assert diagnosis.finding(name).level == level
    assert diagnosis.finding(name).setting
    others = {one.name for one in (*diagnosis.warnings, *diagnosis.notices)} - {name}
    assert others <= ALSO.get(plant.__name__, set())


def test_figures_are_those_of_numpy() -> None:
    X = clustered(n=1501, d=17).astype(np.float64) + 0.3
    X[7] = 0
    diagnosis = bitkin.diagnose(X)
    values = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    assert diagnosis.spectrum == pytest.approx(values / values.sum())
    dimension = diagnosis.finding("dimension").values
    shares = np.cumsum(values / values.sum())
    assert dimension["directions_for_90_percent"] == int((shares < 0.9).sum()) + 1
    assert dimension["effective_dimension"] == pytest.approx(
        values.sum() ** 2 / (values @ values), rel=0.02
    )
    offset = np.linalg.norm(X.mean(axis=0)) / np.sqrt(X.var(axis=0).sum())
    assert diagnosis.finding("mean").values["offset"] == pytest.approx(offset)
    assert diagnosis.finding("zero rows").values["rows"] == 1
    lengths = np.linalg.norm(np.delete(X, 7, axis=0), axis=1)
    assert diagnosis.finding("lengths").values["spread"] == pytest.approx(
        lengths.std() / lengths.mean()
    )


def test_the_long_row_is_named() -> None:
    found = bitkin.diagnose(with_one_long_row(clustered())).finding("outlying rows")
    assert found.values["first"] == 1234
    assert "row 1234" in found.sentence


def test_copies_are_counted_exactly() -> None:
    X = with_copies(clustered())
    found = bitkin.diagnose(X).finding("duplicates")
    assert found.values["share"] == pytest.approx(1 - len(np.unique(X, axis=0)) / len(X))
    assert found.values["exact"] == 1


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_copies_of_another_length_are_near_duplicates_by_cosine(form: Callable[..., Any]) -> None:
    X = clustered(n=1000)
    doubled = X[:300] * 2  # at distance 0 exactly, and not equal
    rows = form(np.random.default_rng(0).permutation(np.concatenate([X, doubled])))
    found = bitkin.diagnose(rows, metric="cosine")
    assert found.finding("near duplicates").level == "warning"
    assert found.finding("near duplicates").values["share"] == pytest.approx(600 / 1300, abs=0.07)
    assert found.finding("duplicates").level == "fine"
    assert bitkin.diagnose(rows).finding("near duplicates").level == "fine"
    equal = form(np.concatenate([X, X[:300]]))
    assert bitkin.diagnose(equal, metric="cosine").finding("near duplicates").values["share"] == 0


def test_bags_of_words_ask_for_larger_windows() -> None:
    diagnosis = bitkin.diagnose(bags())
    windows = diagnosis.finding("empty windows")
    assert windows.level == "warning"
    assert windows.setting == 'WTAHash(window="auto")'
    fitted = bitkin.WTAHash(window="auto").fit(bags())
    assert windows.values["best_window"] == fitted.window_
    assert diagnosis.finding("sparsity").level == "notice"


@pytest.mark.parametrize("d", [64, 384])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_a_file_sorted_by_one_of_many_columns_is_told(d: int, form: Callable[..., Any]) -> None:
    X = np.random.default_rng(d).standard_normal((3000, d)).astype(np.float32)
    assert bitkin.diagnose(form(X)).finding("order").level == "fine"
    found = bitkin.diagnose(form(X[np.argsort(-X[:, 7])])).finding("order")
    assert found.level == "notice"
    assert found.values["sorted_column"] == 7
    assert "% of that of column 7, is between parts of the file" in found.measured


def test_settings_depend_on_the_metric() -> None:
    X = with_uneven_lengths(clustered())
    by_cosine = bitkin.diagnose(X, metric="cosine").finding("lengths")
    by_l2 = bitkin.diagnose(X, metric="l2").finding("lengths")
    assert by_cosine.setting == "normalize=True"
    assert by_l2.setting is not None
    assert by_l2.setting.startswith('stage="estimate"')


def test_all_kinds_of_sources_tell_the_same(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    X = with_uneven_lengths(clustered(n=1203, d=11))
    np.save(tmp_path / "all.npy", X)
    np.save(tmp_path / "a.npy", X[:500])
    np.save(tmp_path / "b.npy", X[500:])
    expected = bitkin.diagnose(X).to_dict()
    assert bitkin.diagnose(X).to_dict() == expected
    for source in (
        tmp_path / "all.npy",
        [tmp_path / "a.npy", tmp_path / "b.npy"],
        open_vectors(X, batch_rows=701),
        pandas.DataFrame(X),
        np.array_split(X, 5).__iter__(),
    ):
        assert bitkin.diagnose(source).to_dict() == expected


def test_a_sparse_matrix_has_the_figures_of_its_dense_copy() -> None:
    X = with_zeros(clustered(n=900, d=50))
    dense, sparse = bitkin.diagnose(X), bitkin.diagnose(scipy.sparse.csr_matrix(X))
    for name in (
        "dimension",
        "mean",
        "lengths",
        "duplicates",
        "ties",
        "zero rows",
        "empty windows",
    ):
        a, b = dense.finding(name), sparse.finding(name)
        assert a.level == b.level
        assert dict(a.values) == pytest.approx(dict(b.values)), name


def test_a_small_sample_tells_much_the_same() -> None:
    X = with_uneven_lengths(clustered(n=4000))
    small = bitkin.diagnose(X, sample_rows=500, random_state=3)
    assert small.n_sampled == 500
    assert [one.name for one in small.warnings] == ["lengths"]


@pytest.mark.parametrize("n", [2, 3, 12, 50])
def test_few_rows_are_a_finding_and_no_failure(n: int) -> None:
    X = np.random.default_rng(n).standard_normal((n, 7))
    diagnosis = bitkin.diagnose(X)
    assert diagnosis.finding("rows").level == "warning"
    assert diagnosis.finding("rows").setting == 'projection="random"'
    assert str(diagnosis)


def test_rows_that_are_all_the_same_are_told() -> None:
    diagnosis = bitkin.diagnose(np.ones((400, 3)))
    assert diagnosis.finding("dimension").level == "warning"
    assert "All rows are the same" in diagnosis.finding("dimension").sentence
    assert bitkin.diagnose(np.zeros((400, 3))).finding("zero rows").values["rows"] == 400
    assert bitkin.diagnose(scipy.sparse.csr_array((400, 3))).finding("zero rows").level == "warning"


@pytest.mark.parametrize(
    ("X", "options", "words"),
    [
        (np.full((5, 2), np.nan), {}, "NaN at row 0, column 0"),
        (np.ones((1, 2)), {}, "at least 2 rows, got 1"),
        (np.ones((0, 2)), {}, "at least 2 rows, got 0"),
        (np.full((5, 2), 1e200) * np.arange(2), {}, "beyond the range of float64"),
        (np.full((5, 2), 1e-200) * np.arange(2), {}, "squares are 0 in float64"),
        (scipy.sparse.csr_array(np.eye(5) * 1e-200), {}, "squares are 0 in float64"),
        (np.ones(4), {}, "shape"),
        (np.ones((5, 2)), {"metric": "euclidean"}, "Did you mean 'l2'"),
        (np.ones((5, 2)), {"sample_rows": 5}, "sample_rows must be at least 100"),
        (np.ones((5, 2)), {"random_state": -1}, "random_state"),
        (7, {}, "must be an array"),
    ],
)
def test_bad_input_is_refused_in_words(X: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words.replace("(", r"\(")):
        bitkin.diagnose(X, **options)


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize("exponent", [-400, -100, 100, 400])
def test_the_unit_of_numbers_changes_no_level(exponent: int, metric: str) -> None:
    X = with_uneven_lengths(clustered(n=600)).astype(np.float64)
    as_it_is, scaled = (bitkin.diagnose(rows, metric=metric) for rows in (X, np.ldexp(X, exponent)))
    for one, other in zip(as_it_is.findings, scaled.findings, strict=True):
        assert one.level == other.level, one.name
    assert scaled.spectrum == pytest.approx(as_it_is.spectrum)
    assert scaled.finding("dimension").measured == as_it_is.finding("dimension").measured


def test_a_diagnosis_can_be_read_and_kept(tmp_path: Path) -> None:
    diagnosis = bitkin.diagnose(with_uneven_lengths(clustered()))
    assert repr(diagnosis) == "<Diagnosis of 3,000 × 32: 1 warning, 0 notice, 15 fine>"
    lines = str(diagnosis).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[1].startswith("warning  lengths")
    assert max(map(len, diagnosis.lines(80))) <= 80
    told = json.loads(json.dumps(diagnosis.to_dict()))
    assert told["findings"][5]["name"] == "lengths"
    assert len(told["spectrum"]) == 32
    again = pickle.loads(pickle.dumps(diagnosis))
    assert again.to_dict() == diagnosis.to_dict()
    assert not diagnosis.spectrum.flags.writeable
    with pytest.raises(TypeError):
        diagnosis.findings[0].values["rows"] = 3  # type: ignore[index]
    with pytest.raises(InvalidInputError, match="Did you mean 'lengths'"):
        diagnosis.finding("length")


def test_a_diagnosis_is_written_as_a_page(tmp_path: Path) -> None:
    diagnosis = bitkin.diagnose(with_uneven_lengths(clustered()))
    page = diagnosis.to_html(tmp_path / "page.html", command="bitkin diagnose x.npy").read_text()
    assert diagnosis.finding("lengths").measured in page
    assert "bitkin diagnose x.npy" in page
    assert page.startswith("<!doctype html>")
    (written, *_) = diagnosis.to_markdown(tmp_path / "page.md")
    assert "outlying rows" in written.read_text()
