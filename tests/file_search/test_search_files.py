"""`bitkin.search_files` and `bitkin.load_corrections` from Python: what the command finds, and what
is refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin.errors import (
    ArgumentError,
    BitkinError,
    CodeMismatchError,
    DuplicateIdError,
    FileAccessError,
    InvalidInputError,
)
from bitkin.file_search import FileSearch, SearchRequest
from tests.cli.conftest import Run
from tests.cli.conftest import run as run  # a fixture
from tests.cli.search_folder import folder, made  # noqa: F401  # fixtures
from tests.collection.test_row_lengths import rows_of

pytestmark = pytest.mark.usefixtures("folder")

EXACT: dict[str, Any] = {"vectors": "vectors.npy"}
ESTIMATE: dict[str, Any] = {"corrections": "corrections"}


def search(**options: Any) -> Any:
    arguments: dict[str, Any] = {"model": "model"} | options
    return bitkin.search_files("index", "queries.npy", **arguments)


def as_options(arguments: dict[str, Any]) -> list[str]:
    return [
        word
        for name, value in arguments.items()
        for word in ("-k" if name == "k" else f"--{name}", str(value))
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        {"k": 3},
        {"stage": "codes"},
        {"radius": 25},
        EXACT,
        {**ESTIMATE, "oversample": 1},
        {**ESTIMATE, **EXACT, "k": 7, "oversample": 2},
        {**EXACT, "metric": "ip"},
        {**EXACT, "k": 500},
        {**EXACT, **ESTIMATE, "k": 3, "oversample": 1, "first": "estimate"},
    ],
    ids=str,
)
def test_python_finds_what_the_command_finds(run: Run, arguments: dict[str, Any]) -> None:
    options = as_options(arguments)
    assert run("search", "index", "queries.npy", "-m", "model", *options, "-o", "f.npz").code == 0
    found = search(**arguments)
    with np.load("f.npz") as written:
        assert set(written) == set(found._fields)
        for name in found._fields:
            mine = getattr(found, name)
            assert mine.dtype == written[name].dtype
            assert np.array_equal(mine, written[name])


def test_results_have_their_shapes_and_types() -> None:
    for arguments, dtype in (({}, np.int32), (ESTIMATE, np.float32), (EXACT, np.float64)):
        found = search(**arguments)
        assert isinstance(found, bitkin.Neighbors)
        assert found.ids.shape == (9, 10)
        assert found.distances.dtype == dtype
    np.save("none.npy", np.empty((0, 17), dtype=np.float32))
    assert bitkin.search_files("index", "none.npy", model="model", k=3).ids.shape == (0, 3)
    within = bitkin.search_files("index", "none.npy", model="model", radius=9)
    assert isinstance(within, bitkin.RaggedNeighbors)
    assert within.offsets.tolist() == [0]


def test_queries_may_be_codes() -> None:
    hasher = bitkin.load("model")
    hasher.encode(np.load("queries.npy")).save("asked")
    found = bitkin.search_files("index", "asked", k=4)
    assert np.array_equal(found.ids, search(k=4).ids)


def test_ids_and_filters_are_files() -> None:
    ids = np.random.default_rng(1).permutation(500)[:203]
    index = bitkin.FlatIndex(bitkin.load("codes").spec)
    index.add(bitkin.load("codes"), ids)
    index.save("named")
    np.save("ids.npy", ids)
    np.save("allow.npy", ids[:50])
    Path("allow.txt").write_text("\n".join(map(str, ids[:50].tolist())))
    truth = bitkin.evaluate.nearest(np.load("vectors.npy")[:50], np.load("queries.npy"), k=5)
    for allow in ("allow.npy", "allow.txt"):
        found = bitkin.search_files(
            "named", "queries.npy", model="model", **EXACT, ids="ids.npy", allow=allow, k=5
        )
        assert np.array_equal(found.ids, ids[truth.ids])


def test_vectors_may_be_several_files_with_options_of_their_own() -> None:
    X = np.load("vectors.npy")
    np.savez("a.npz", wanted=X[:100], other=X[:7])
    np.savez("b.npz", wanted=X[100:])
    np.savez("queries.npz", wanted=np.load("queries.npy"), other=X[:7])
    found = bitkin.search_files(
        "index", "queries.npz", model="model", vectors=["a.npz", Path("b.npz")], dataset="wanted"
    )
    assert np.array_equal(found.ids, search(**EXACT).ids)


def test_results_come_a_batch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitkin.file_search.search._QUERIES_AT_ONCE", 4)
    request = SearchRequest(
        Path("index"), Path("queries.npy"), model=Path("model"), vectors=(Path("vectors.npy"),)
    )
    searching = FileSearch(request)
    parts: list[Any] = list(searching.batches())
    assert [len(part.ids) for part in parts] == [4, 4, 1]
    assert searching.n_queries == 9
    assert list(searching.timings.stages) == ["encode", "codes", "exact"]
    assert searching.seconds > 0
    assert np.array_equal(searching.join(parts).ids, search(**EXACT).ids)


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"stage": "exact"}, r"^stage: exact needs vectors, the rows that were encoded\.$"),
        (
            {"stage": "estimate"},
            r"^stage: estimate needs corrections, which bitkin\.save_corrections writes\.$",
        ),
        ({"stage": "codes", **EXACT}, "^vectors: means nothing for stage='codes'"),
        ({"metric": "ip"}, "^metric: means nothing for stage='codes'"),
        ({"ids": "ids.npy"}, "^ids: means nothing for stage='codes'"),
        ({"radius": 3, "k": 5}, "^radius: give k or radius, not both"),
        ({"radius": 3, **EXACT}, "^vectors: means nothing with radius, which counts symbols"),
        ({**EXACT, "model": None}, "^model: must be given for stage='exact': queries must be vec"),
        ({"model": None, "column": "c"}, "^column: means nothing without model"),
    ],
)
def test_arguments_that_contradict_each_other_are_named(
    arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(ArgumentError, match=says):
        search(**arguments)


@pytest.mark.parametrize(
    "arguments, kind, says",
    [
        ({"model": None}, InvalidInputError, r"queries.npy holds no codes. .* with model\."),
        ({"model": 3}, InvalidInputError, "model must be a path, got int"),
        ({"vectors": [3]}, InvalidInputError, "vectors must be a path, got int"),
        ({"vectors": np.zeros((3, 17))}, InvalidInputError, "vectors must be a path, got ndarray"),
        ({"k": 0}, InvalidInputError, "k must be between 1 and"),
        ({"k": 2.5}, InvalidInputError, "k must be a whole number, got 2.5"),
        ({**EXACT, "oversample": 0}, InvalidInputError, "oversample must be between 1 and"),
        ({"radius": -1}, InvalidInputError, "radius must be at least 0"),
        ({"stage": "best"}, InvalidInputError, "stage must be one of 'codes', 'estimate', 'exact'"),
        ({**EXACT, "metric": "l1"}, InvalidInputError, "metric must be one of 'l2', 'cosine', 'ip"),
        ({"model": "index"}, InvalidInputError, "index holds FlatIndex, not a model"),
        ({"model": "missing"}, FileAccessError, "missing cannot be read"),
        ({"allow": "missing.npy"}, FileAccessError, "missing.npy cannot be read"),
        (
            {**ESTIMATE, "metric": "ip"},
            InvalidInputError,
            "corrections must hold corrections for ip, got those for l2. Search with metric='l2', "
            r"or make others with bitkin.save_corrections\(..., metric='ip'\)",
        ),
        ({"vectors": "queries.npy"}, InvalidInputError, "queries.npy has 9 rows, none of them for"),
        ({**EXACT, "ids": "few.npy"}, InvalidInputError, "^ids must be one per row of vectors.npy"),
        ({**EXACT, "ids": "same.npy"}, DuplicateIdError, "^ids must give every row of vectors.npy"),
        ({"corrections": "nan.npy"}, InvalidInputError, "again with bitkin.save_corrections"),
        (
            {"corrections": "nan.npy", "first": "estimate"},
            InvalidInputError,
            "finite corrections, got nan and nan in row 0. Make them again with",
        ),
        (
            {"corrections": "negative.npy", "first": "estimate"},
            InvalidInputError,
            "corrections must be those of l2, squares first",
        ),
        ({**ESTIMATE, "first": "exact"}, InvalidInputError, "first must be one of 'codes', 'est"),
    ],
)
def test_values_and_files_that_cannot_be_used_are_named(
    arguments: dict[str, Any], kind: type[BitkinError], says: str
) -> None:
    np.save("few.npy", np.arange(3))
    np.save("same.npy", np.zeros(203, dtype=np.int64))
    np.save("nan.npy", np.full((203, 2), np.nan, dtype=np.float32))
    np.save("negative.npy", np.full((203, 2), -3, dtype=np.float32))
    with pytest.raises(kind, match=says):
        search(**arguments)


def test_only_an_index_that_goes_over_all_rows_can_begin_with_the_estimate() -> None:
    flat = bitkin.FlatIndex.load("index")
    multi = bitkin.MultiIndex(flat.spec)
    multi.add(flat.codes(flat.ids), flat.ids)
    multi.save("multi")
    arguments: dict[str, Any] = {"model": "model", **ESTIMATE}
    with pytest.raises(ArgumentError, match=r"^first: must not be estimate for a MultiIndex"):
        bitkin.search_files("multi", "queries.npy", first="estimate", **arguments)
    found = bitkin.search_files("multi", "queries.npy", **arguments)
    assert np.array_equal(found.ids, search(**ESTIMATE, first="codes").ids)


def test_an_index_must_be_one() -> None:
    with pytest.raises(InvalidInputError, match="codes holds Codes, not an index"):
        bitkin.search_files("codes", "queries.npy", model="model")
    with pytest.raises(InvalidInputError, match="index must be a path, got FlatIndex"):
        bitkin.search_files(bitkin.load("index"), "queries.npy")


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_python_and_the_command_write_the_same_corrections(run: Run, metric: str) -> None:
    hasher, X = bitkin.load("model"), np.load("vectors.npy")
    options = ("-o", "c", "--corrections", "command", "--metric", metric)
    assert run("encode", "model", "vectors.npy", *options).code == 0
    done: list[int] = []
    bitkin.save_corrections("python", hasher, "vectors.npy", metric, progress=done.append)
    assert done[-1] == 203
    assert Path("python").read_bytes() == Path("command").read_bytes()
    bitkin.save_corrections("array", hasher, X, metric)
    assert Path("array").read_bytes() == Path("command").read_bytes()
    kept = bitkin.load_corrections("command", hasher, metric)
    assert np.array_equal(kept, bitkin.corrections(hasher, X, metric))
    np.save("plain.npy", kept)
    assert np.array_equal(bitkin.load_corrections("plain.npy", hasher, metric), kept)


def test_corrections_of_another_model_or_metric_are_refused() -> None:
    hasher, X = bitkin.load("model"), np.load("vectors.npy")
    other = bitkin.ProjectionHash(9).fit(X)
    with pytest.raises(CodeMismatchError, match="corrections of the model given by hasher, got"):
        bitkin.load_corrections("corrections", other)
    with pytest.raises(InvalidInputError, match="must hold corrections for ip, got those for l2"):
        bitkin.load_corrections("corrections", hasher, "ip")
    with pytest.raises(InvalidInputError, match="metric must be one of"):
        bitkin.load_corrections("corrections", hasher, "l1")
    with pytest.raises(InvalidInputError, match="hasher must be the fitted one"):
        bitkin.load_corrections("corrections", "model")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="codes holds Codes, not corrections"):
        bitkin.load_corrections("codes", hasher)
    with pytest.raises(InvalidInputError, match=r"corrections, which .* bitkin.load_corrections"):
        bitkin.load("corrections")


def test_corrections_that_cannot_be_made_leave_no_file() -> None:
    hasher, X = bitkin.load("model"), np.load("vectors.npy")
    with pytest.raises(InvalidInputError, match="vectors must have 17 features"):
        bitkin.save_corrections("new", hasher, X[:, :16])
    with pytest.raises(
        InvalidInputError, match="hasher must be a fitted ProjectionHash or SignHash, got M"
    ):
        bitkin.save_corrections("new", bitkin.MinHash(), X)
    X[100, 3] = np.nan
    with pytest.raises(InvalidInputError, match="NaN at row 100"):
        bitkin.save_corrections("new", hasher, X)
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("metric", "normalize", "fix"),
    [
        ("cosine", False, "--metric cosine does not depend on lengths.*Fit it with --normalize"),
        (None, True, "--metric l2 depends on lengths.*Fit it with --no-normalize"),
    ],
)
@pytest.mark.parametrize("shown_by", ["vectors", "queries"])
def test_lengths_that_spoil_codes_are_refused(
    run: Run, metric: str | None, normalize: bool, fix: str, shown_by: str
) -> None:
    X = rows_of(0.6)
    np.save("vectors.npy", X)
    np.save("queries.npy", X[:40])
    hasher = bitkin.ProjectionHash(16, normalize=normalize).fit(X)
    hasher.save("model")
    index = bitkin.FlatIndex(hasher.spec_)
    index.add(hasher.encode(X))
    index.save("index")
    name = "vectors.npy"
    options: dict[str, Any] = EXACT
    if shown_by == "queries":
        bitkin.save_corrections("corrections", hasher, X, metric or "l2")
        options, name = ESTIMATE, "queries.npy"
    asked = options if metric is None else {**options, "metric": metric}
    with pytest.raises(InvalidInputError, match=rf"{name} must have rows of like length"):
        search(**asked)
    result = run("search", "index", "queries.npy", "--model", "model", *as_options(asked))
    assert result.code == 1
    assert re.search(fix, result.err)
    assert len(search().ids) == 40  # codes alone have no metric


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
@pytest.mark.parametrize("asked", ["float32", "float64"])
def test_exact_distances_of_every_type_are_those_of_numpy(dtype: str, asked: str) -> None:
    scale = 20.0 if dtype == "int8" else 1.0
    X = (np.load("vectors.npy") * scale).astype(dtype)
    queries = (np.load("queries.npy") * scale).astype(asked)
    np.save("typed.npy", X)
    np.save("queries.npy", queries)
    apart = X[None].astype(np.float64) - queries[:, None].astype(np.float64)
    truth = np.sqrt((apart**2).sum(axis=2))
    for k, oversample in ((5, 100), (203, 1), (300, 1)):  # the last with fewer rows than asked for
        found = search(vectors="typed.npy", k=k, oversample=oversample)
        for row, distances, far in zip(found.ids, found.distances, truth, strict=True):
            assert row[:203].tolist() == np.argsort(far, kind="stable")[:k].tolist()
            np.testing.assert_allclose(distances[:203], np.sort(far)[:k], rtol=1e-12)
