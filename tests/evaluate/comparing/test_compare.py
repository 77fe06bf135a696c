"""compare: what a report says is what a collection made that way finds, holds and costs."""

from __future__ import annotations

import builtins
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import bitkin
from bitkin.errors import InvalidInputError, MissingExtraError
from bitkin.evaluate.comparing.baselines import BASELINES
from bitkin.evaluate.comparing.report import Report
from bitkin.evaluate.trials import methods
from bitkin.evaluate.trials.measurement import OVERSAMPLES, Measurement
from bitkin.hashers.base import Hasher

has_faiss = importlib.util.find_spec("faiss") is not None
needs_faiss = pytest.mark.skipif(not has_faiss, reason="there is no faiss: pip install faiss-cpu")


def clustered(n: int, d: int = 20, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n // 20, d))
    rows = centres[rng.integers(len(centres), size=n)] + 0.6 * rng.standard_normal((n, d))
    return rows.astype(np.float32)


def bags(n: int = 403, d: int = 150, seed: int = 0) -> scipy.sparse.csr_array:
    rng = np.random.default_rng(seed)
    return scipy.sparse.random_array((n, d), density=0.08, rng=rng, format="csr", dtype=np.float32)


X = clustered(607)
QUICK: dict[str, Any] = {"methods": ["pca × itq", "wta", "sign"], "bits": (16, 32), "k": 5}


@pytest.fixture(scope="module")
def report() -> Report:
    return bitkin.compare(X, **QUICK, baselines=False)


def without_times(measured: Measurement) -> dict[str, Any]:
    told = measured.to_dict()
    return {name: told[name] for name in told if not name.endswith(("_us", "_seconds"))}


def test_there_is_a_row_per_method_size_and_stage_with_every_figure(
    report: Report,
) -> None:
    found = {(m.method, m.n_bits, m.stage, m.vectors) for m in report.measurements}
    ways: list[tuple[str, str | None]] = [("codes", None), ("estimate", None)]
    ways += [("exact", kind) for kind in ("float32", "float16", "int8")]
    codes = [("pca × itq", 16), ("pca × itq", 32), ("wta", 16), ("wta", 32), ("sign", 20)]
    assert found == {(*code, *way) for code in codes for way in ways}
    assert report.failures == []
    for m in report.measurements:
        assert 0 < m.recall <= 1
        assert m.interval[0] <= m.recall <= m.interval[1]
        assert m.bytes_per_vector > 0
        assert min(m.fit_seconds, m.encode_us, m.search_us) >= 0
        assert len(m.curve) == len(OVERSAMPLES)
    assert report.facts["rows"] == 607
    assert report.facts["queries"] == 121


@pytest.mark.filterwarnings("ignore:n_bits=32 is more")
def test_recall_and_bytes_are_those_of_a_collection_made_that_way(
    report: Report,
) -> None:
    from bitkin.evaluate.trials.methods import choose_methods
    from bitkin.evaluate.trials.trial import draw_trial

    trial = draw_trial(X, k=5)  # of the same seed: the same queries
    rows = np.asarray(trial.rows)
    assert len(rows) == 607 - 121  # all there are, so that nothing is left to be expected
    order = np.argsort(trial.row_numbers)
    true = bitkin.evaluate.nearest(rows[order], trial.queries, 5).ids
    for m in report.measurements:
        (method,) = choose_methods([m.method], m.n_bits, trial)
        made = bitkin.Collection.create(None, method.fit(trial.rows), vectors=m.vectors)
        made.add(rows[order])
        made.compact()
        assert made.nbytes / len(made) == pytest.approx(m.bytes_per_vector, rel=0.02), m.name
        for oversample in (1, 10) if m.stage == "exact" else (1,):
            found = made.search(trial.queries, 5, stage=m.stage, oversample=oversample)
            real = bitkin.evaluate.recall(found.ids, true)
            # a scan by the estimate rounds queries, and equal distances fall as they may
            assert m.recall_at(oversample) == pytest.approx(real, abs=0.01), (m.name, oversample)


def test_the_frontier_and_the_best_are_what_a_look_at_every_row_says(
    report: Report,
) -> None:
    def is_beaten(m: Measurement) -> bool:
        return any(
            o.bytes_per_vector <= m.bytes_per_vector
            and o.recall >= m.recall
            and (o.bytes_per_vector, o.recall) != (m.bytes_per_vector, m.recall)
            for o in report.measurements
        )

    expected = {(m.bytes_per_vector, m.recall) for m in report.measurements if not is_beaten(m)}
    assert {(m.bytes_per_vector, m.recall) for m in report.frontier} == expected
    reaching = [
        m.bytes_per_vector
        for m in report.measurements
        if max(m.recall_at(o) for o in m.oversamples) >= 0.9
    ]
    best = report.best(recall=0.9)
    assert best is not None
    assert best.bytes_per_vector == min(reaching)
    assert best.recall >= 0.9
    smaller = [o for o in best.oversamples if o < best.oversample]
    assert all(best.recall_at(o) < 0.9 for o in smaller)
    with pytest.raises(InvalidInputError, match="recall must be above 0 and up to 1, got 95"):
        report.best(recall=95)


def test_a_seed_gives_the_same_report_on_one_thread_and_on_two(
    report: Report,
) -> None:
    told = [without_times(m) for m in report.measurements]
    for n_threads in (1, 2):
        again = bitkin.compare(X, **QUICK, baselines=False, threads=n_threads)
        assert [without_times(m) for m in again.measurements] == told
        assert [q.query.row for q in again.hard_queries] == [
            q.query.row for q in report.hard_queries
        ]
    other = bitkin.compare(X, **QUICK, baselines=False, random_state=5)
    assert [without_times(m) for m in other.measurements] != told


@pytest.fixture
def own_class() -> Iterator[Callable[[type[bitkin.SignHash]], type[bitkin.SignHash]]]:
    """Make hashers of somebody else's that are forgotten after the test."""
    made: list[type] = []

    def remember(kind: type[bitkin.SignHash]) -> type[bitkin.SignHash]:
        made.append(kind)
        return kind

    yield remember
    for kind in made:
        # a class lives on in what refers to it; one without variants takes no part
        del kind.variants  # type: ignore[attr-defined]


def test_a_new_hasher_appears_by_itself(own_class: Any) -> None:
    class OtherSigns(bitkin.SignHash):
        @classmethod
        def variants(
            cls, n_bits: int, *, sparse: bool, metric: str = "l2", random_state: Any = 0
        ) -> dict[str, Hasher]:
            return {"other signs": cls()}

    own_class(OtherSigns)
    made = bitkin.compare(X[:200], bits=8, stages="codes", baselines=False, n_queries=10)
    methods = [m.method for m in made.measurements]
    assert "other signs" in methods
    assert methods.count("sign") == 1
    both = {m.method: m.recall for m in made.measurements if "sign" in m.method}
    assert both["other signs"] == both["sign"]


def test_a_method_that_fails_is_a_row_with_its_reason(own_class: Any) -> None:
    class Failing(bitkin.SignHash):
        @classmethod
        def variants(
            cls, n_bits: int, *, sparse: bool, metric: str = "l2", random_state: Any = 0
        ) -> dict[str, Hasher]:
            return {"failing": cls()}

        def fit(self, X: Any = None, y: Any = None) -> Any:
            raise MemoryError("no room\nfor this")

    own_class(Failing)
    made = bitkin.compare(
        X[:200], methods=["failing", "sign"], bits=8, baselines=False, n_queries=10
    )
    (failure,) = made.failures
    assert (failure.method, failure.error) == ("failing", "no room")
    assert [m.method for m in made.measurements if m.error is None] == ["sign"] * 5
    assert "1 could not be measured, such as failing at 8 bits: no room" in str(made)
    row = next(row for row in made.to_dict()["measurements"] if row["error"])
    assert row["recall"] is row["bytes_per_vector"] is None


def test_what_was_measured_before_a_stage_failed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from bitkin.evaluate.trials.measuring import FittedMethod

    measure = FittedMethod.measure

    def fail_for_float16(self: FittedMethod, stage: str, kept: Any = None) -> Measurement:
        if kept is not None and kept.name == "float16":
            raise ValueError("halves are out")
        return measure(self, stage, kept)

    monkeypatch.setattr(FittedMethod, "measure", fail_for_float16)
    made = bitkin.compare(X[:200], methods="sign", baselines=False, n_queries=10)
    told = [(m.stage, m.vectors, m.error) for m in made.measurements]
    assert told == [
        ("codes", None, None),
        ("estimate", None, None),
        ("exact", "float32", None),
        ("exact", "float16", "halves are out"),
    ]


def test_after_the_time_limit_nothing_is_begun_and_the_report_says_so() -> None:
    baselines = ["faiss SQ8", "faiss HNSW32"] if has_faiss else False
    made = bitkin.compare(X[:200], **QUICK, baselines=baselines, time_limit=1e-9)
    assert all("time limit of 1e-09 seconds" in str(m.error) for m in made.measurements)
    assert {m.method for m in made.measurements if m.ours} == set(QUICK["methods"])
    if has_faiss:
        stages = {m.method: m.stage for m in made.measurements if not m.ours}
        assert stages == {"faiss SQ8": "estimate", "faiss HNSW32": "exact"}
    assert "nothing could be measured" in str(made)
    assert made.best() is None
    assert made.code is None


def test_progress_counts_every_method_and_what_it_raises_ends_the_call() -> None:
    seen: list[tuple[int, int]] = []
    bitkin.compare(
        X[:200],
        **QUICK,
        stages="codes",
        baselines=False,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(i, 5) for i in range(1, 6)]

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bitkin.compare(X[:200], **QUICK, stages="codes", baselines=False, progress=stop)


def test_sparse_rows_are_compared_by_methods_of_their_own() -> None:
    rows = bags()
    made = bitkin.compare(rows, bits=64, metric="cosine", k=3)
    assert made.failures == []
    by_method = {m.method: m for m in made.measurements if m.vectors == "csr"}
    assert {"wta", "wta, window auto", "minhash, 4-bit", "pca × itq"} <= by_method.keys()
    assert "sign" not in by_method
    assert not [m for m in made.measurements if not m.ours]  # FAISS takes no CSR
    m = by_method["pca × itq"]
    hasher = bitkin.ProjectionHash(64, rotation="itq", normalize=True).fit(rows)
    kept = bitkin.Collection.create(None, hasher, vectors="csr", metric="cosine")
    kept.add(rows)
    kept.compact()
    # the sample is of 323 rows and blocks are of 512: what fills them up is counted apart
    only_codes = next(c for c in made.measurements if c.method == m.method and c.stage == "codes")
    vectors = 8 * rows.nnz / rows.shape[0] + 8
    assert m.bytes_per_vector - only_codes.bytes_per_vector == pytest.approx(vectors, rel=0.03)
    bare = bitkin.Collection.create(None, hasher, vectors=None, metric="cosine")
    bare.add(rows)
    bare.compact()
    assert (kept.nbytes - bare.nbytes) / len(kept) == pytest.approx(vectors, rel=0.01)


def test_what_follows_every_row_of_very_many_columns_is_tried_only_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(methods, "_MOST_STREAMED_COLUMNS", 100)
    wide = bags(d=101)
    report = bitkin.compare(wide, bits=16, n_queries=20, stages="estimate")
    left_out = {one.method: one.error for one in report.measurements if one.error is not None}
    assert set(left_out) == {"opast", "frequent-directions"}
    assert "minutes for 101 columns; name it in methods" in left_out["opast"]
    named = bitkin.compare(wide, bits=16, n_queries=20, stages="estimate", methods="opast")
    assert [one.error for one in named.measurements] == [None]
    narrow = bitkin.compare(bags(d=100), bits=16, n_queries=20, stages="estimate")
    assert all(one.error is None for one in narrow.measurements)


def test_sets_are_compared_by_jaccard() -> None:
    made = bitkin.compare(bags(), bits=64, metric="jaccard", k=3)
    assert {(m.method, m.stage) for m in made.measurements} == {
        ("minhash, 4-bit", "codes"),
        ("minhash, 8-bit", "codes"),
    }


def test_your_own_queries_hashers_texts_and_files_are_taken(tmp_path: Any) -> None:
    np.save(tmp_path / "rows.npy", X)
    hasher = bitkin.WTAHash(16, window=8)
    texts = [f"text {i}" for i in range(len(X))]
    made = bitkin.compare(
        tmp_path / "rows.npy",
        queries=clustered(33, seed=4),
        methods=[hasher],
        stages=("exact", "codes"),
        vectors="int8",
        baselines=False,
        texts=texts,
        random_state=None,
    )
    assert [(m.stage, m.vectors) for m in made.measurements] == [("codes", None), ("exact", "int8")]
    assert {m.method for m in made.measurements} == {"WTAHash(n_hashes=16, window=8)"}
    assert made.facts["held out"] is False
    assert made.facts["queries"] == 33
    assert not hasattr(hasher, "spec_")
    for hard in made.hard_queries:
        assert hard.query.text is None  # it is no row of X
        assert [row.text for row in hard.neighbors] == [texts[row.row] for row in hard.neighbors]
    assert "queries=queries" in str(made.command)
    assert "texts=texts" in str(made.command)


def test_a_generator_of_names_serves_every_size() -> None:
    names = (name for name in ["pca x itq", "wta"])
    made = bitkin.compare(X[:200], methods=names, bits=[8, 16], stages="codes", baselines=False)
    assert [(m.method, m.n_bits) for m in made.measurements] == [
        ("pca × itq", 8),
        ("wta", 8),
        ("pca × itq", 16),
        ("wta", 16),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": "itk"}, r"methods must be names out of .*, got 'itk'"),
        ({"methods": []}, "methods must name at least one method"),
        ({"methods": 5}, "methods must be names such as 'pca x itq', or hashers .*, got 5"),
        ({"methods": ["sign", None]}, "methods must be names .* got None"),
        ({"methods": "minhash"}, "methods must be names out of"),  # of sparse rows alone
        ({"bits": 0}, "bits must be between 1 and 65536, got 0"),
        ({"bits": ()}, "bits must be a whole number or several"),
        ({"bits": "64"}, "bits must be a whole number or several"),
        ({"bits": 64.5}, "bits must be"),
        ({"bits": None}, "bits must be"),
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"metric": "hamming"}, "metric must be"),
        ({"metric": "jaccard"}, "X must be CSR, got dense rows"),
        ({"queries": np.zeros((3, 5))}, "queries must have the 20 columns of X, got 5"),
        ({"stages": "exakt"}, "stages must be .*Did you mean 'exact'"),
        ({"stages": []}, "stages must be some of codes, estimate, exact, got none"),
        ({"stages": 3}, "stages must be"),
        ({"vectors": "float64"}, "vectors must be"),
        ({"vectors": "csr"}, "vectors must be some of float32, float16, int8 for dense rows"),
        ({"baselines": "faiss HNSW3"}, "baselines must be .*Did you mean 'faiss hnsw32'"),
        ({"baselines": 3}, "baselines must be"),
        ({"n_queries": 0}, "n_queries must be at least 1"),
        ({"sample_rows": 0}, "sample_rows must be at least 1"),
        ({"random_state": -1}, "random_state must be"),
        ({"threads": 0}, "threads must be"),
        ({"time_limit": 0}, "time_limit must be seconds above 0 or None, got 0"),
        ({"time_limit": "1"}, "time_limit must be seconds"),
        ({"picture_shape": (3, 3)}, "picture_shape must hold the 20 columns of X"),
        ({"picture_shape": 20}, "picture_shape must be"),
        ({"picture_shape": (4, 5, 1)}, "picture_shape must be"),
        ({"texts": "all"}, "texts must be a list with one text per row"),
        ({"texts": 7}, "texts must be a list with one text per row"),
        ({"texts": ["a", "b"]}, "texts must be one per row of X, 100 of them, got 2"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_searched(
    arguments: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(*_: Any) -> None:
        raise AssertionError("the truth was looked for")

    monkeypatch.setattr("bitkin.evaluate.trials.trial.nearest", search)
    with pytest.raises(InvalidInputError, match=message):
        bitkin.compare(X[:100], **arguments)


def test_csr_rows_have_no_pictures_baselines_nor_dense_vectors() -> None:
    for arguments, message in (
        ({"picture_shape": (10, 15)}, "picture_shape must be None for CSR rows"),
        ({"vectors": "int8"}, "vectors must be some of csr for CSR rows"),
        ({"metric": "jaccard", "vectors": "csr"}, "vectors must be some of none for CSR rows"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            bitkin.compare(bags(), **arguments)
    if has_faiss:
        with pytest.raises(InvalidInputError, match="'auto' or False for CSR rows"):
            bitkin.compare(bags(), baselines=True)


def test_without_faiss_there_are_no_baselines_and_asking_for_one_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find, load = importlib.util.find_spec, builtins.__import__

    def import_other(name: str, *more: Any) -> Any:
        if name.partition(".")[0] == "faiss":
            raise ImportError(name)
        return load(name, *more)

    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *m: None if name == "faiss" else find(name, *m)
    )
    monkeypatch.setattr(importlib, "import_module", import_other)
    made = bitkin.compare(X[:200], methods="sign", stages="codes")
    assert [m.method for m in made.measurements] == ["sign"]
    assert "faiss" not in made.facts["versions"]
    with pytest.raises(MissingExtraError, match=r"pip install 'bitkin\[faiss\]'.*baselines=False"):
        bitkin.compare(X[:200], baselines=["faiss PQ"])


@needs_faiss
def test_baselines_find_and_hold_what_their_indexes_do() -> None:
    import faiss

    from bitkin.evaluate.trials.trial import draw_trial

    made = bitkin.compare(X, methods="sign", stages="codes", bits=(16, 32), k=5, baselines=True)
    others = {(m.method, m.n_bits): m for m in made.measurements if not m.ours}
    assert {name for name, _ in others} == set(BASELINES)
    assert [m.error for m in others.values() if m.error is not None] == []
    trial = draw_trial(X, k=5)
    rows, queries = np.asarray(trial.rows), np.asarray(trial.queries)
    truth = bitkin.evaluate.nearest(rows, queries, 5).ids

    index = faiss.IndexScalarQuantizer(20, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_L2)
    index.train(rows)
    index.add(rows)
    real = bitkin.evaluate.recall(index.search(queries, 5)[1], truth)
    m = others["faiss SQ8", 160]
    assert m.recall == pytest.approx(real, abs=1e-9)
    assert m.bytes_per_vector == index.sa_code_size() == 20
    assert others["faiss PQ", 32].bytes_per_vector == 4
    graph = others["faiss HNSW32", 640]
    assert graph.recall_at(100) == pytest.approx(1.0, abs=0.01)
    assert graph.bytes_per_vector > 80 + 4 * 32
    assert "the sample alone" in str(graph.note)
    # sizes and stages of the table go with the star that the note explains
    assert report_says_what_a_star_means(str(made))


def report_says_what_a_star_means(text: str) -> bool:
    return ("*" in text) == ("\n* recall among the rows of the sample" in text)


@needs_faiss
@pytest.mark.parametrize("metric", ["cosine", "ip"])
def test_baselines_search_by_the_metric_that_was_asked_for(metric: str) -> None:
    rows = X * np.random.default_rng(1).uniform(0.5, 2, (len(X), 1)).astype(np.float32)
    made = bitkin.compare(
        rows, methods="sign", stages="codes", metric=metric, baselines=["faiss fp16"], k=5
    )
    (other,) = [m for m in made.measurements if not m.ours]
    assert other.recall > 0.97


def test_a_report_is_a_frame_a_dict_a_page_and_a_table(report: Report, tmp_path: Any) -> None:
    frame = report.to_frame()
    assert len(frame) == len(report.measurements)
    assert frame["recall_at_10"].tolist() == [
        pytest.approx(m.recall_at(10), abs=1e-6) for m in report.measurements
    ]
    told = report.to_dict()
    assert told["frontier"] == [m.name for m in report.frontier]
    assert told["command"].startswith("bitkin.compare(X, methods=['pca × itq', 'wta', 'sign'], ")
    page = report.to_html(tmp_path / "page.html").read_text()
    assert len(page) < 3_000_000
    for part in ("Recall against size", "The data", "The bits of the best code",
                 "The hardest queries", "All measurements", "The same report again"):  # fmt: skip
        assert part in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/", "")
    written = report.to_markdown(tmp_path / "page.md").read_text()
    assert "| pca × itq |" in written
    lines = str(report).splitlines()
    assert lines[0].startswith("25 measured on 486 of 607 rows × 20, 121 queries, k = 5, l2")
    assert len(lines) >= 3 + len(report.frontier) - 12


def test_what_other_libraries_do_better_stands_beside_ours_in_pages_and_in_the_terminal() -> None:
    from bitkin.evaluate.reporting.page import ReportPage, to_html, to_markdown
    from tests.evaluate.reporting.pages import measurement

    own = measurement("pca × itq", 64, 40.0, 0.5, stage="estimate")
    other = measurement("faiss PQ", 64, 8.0, 0.7, stage="estimate", ours=False, note="a note")
    facts = {"sample rows": 1, "rows": 1, "columns": 1, "queries": 1, "k": 1, "metric": "l2"}
    page = ReportPage("both", facts, measurements=[own, other])
    assert page.frontier == [other]
    assert page.own_frontier == [own]
    assert "The same among bitkin" in to_html(page)
    assert "The same among bitkin" in to_markdown(page)
    from bitkin.evaluate.comparing.summary import summarize

    lines = summarize(page, width=100).splitlines()
    assert [line for line in lines if "pca × itq" in line]
    assert [line for line in lines if "faiss PQ*" in line]
    assert lines[-1] == "* a note"
    assert "among bitkin" not in to_html(ReportPage("ours", facts, measurements=[own]))
