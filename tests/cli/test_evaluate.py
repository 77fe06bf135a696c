"""`bitkin evaluate`: figures of what `bitkin search --out` wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from bitkin.evaluate import nearest, recall
from tests.cli.conftest import Outcome, Run
from tests.cli.search_folder import folder, made, require_failure

__all__ = ["folder", "made"]  # fixtures

BY_VECTORS = ("--vectors", "vectors.npy", "--queries", "queries.npy")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("BITKIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "truth"


@pytest.fixture
def found(folder: Path, run: Run) -> Path:
    """The folder, with what a search found."""
    done = run("search", "index", "queries.npy", "-m", "model", "-k", 30, "-o", "found.npz")
    assert done.code == 0
    return folder


def require_usage(done: Outcome, option: str, words: str) -> None:
    assert done.code == 2
    assert done.out == ""
    said = " ".join(done.err.split())
    assert option in said
    assert words in said


def test_recall_is_that_of_the_library_with_its_interval(found: Path, run: Run) -> None:
    X, Q = np.load("vectors.npy"), np.load("queries.npy")
    ids = np.load("found.npz")["ids"]
    want = recall(ids[:, :10], nearest(X, Q, 10), details=True)
    low, high = want.interval()
    lines = run("evaluate", "found.npz", *BY_VECTORS, "--json").objects
    assert [line["measure"] for line in lines] == [
        "recall@10",
        "recall@10 in the first 20",
        "recall@10 in the first 30",
    ]
    assert lines[0] == {
        "measure": "recall@10",
        "mean": want.mean,
        "low": low,
        "high": high,
        "left_out": 0,
        "queries": 9,
    }
    done = run("evaluate", "found.npz", *BY_VECTORS, "-k", 10)
    assert (done.code, done.err) == (0, "")
    assert "found.npz: 9 queries, up to 30 rows each" in done.out
    assert "truth: the 10 nearest of 203 rows in vectors.npy by l2, exact" in done.out
    assert f"{want.mean:.4f}   {low:.4f} to {high:.4f}" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_the_truth_is_kept_unless_told_otherwise(found: Path, run: Run, cache: Path) -> None:
    first = run("evaluate", "found.npz", *BY_VECTORS, "--no-cache")
    assert not cache.exists()
    second = run("evaluate", "found.npz", *BY_VECTORS)
    (kept,) = cache.iterdir()
    third = run("evaluate", "found.npz", *BY_VECTORS)
    assert first == second == third
    kept.write_bytes(b"damaged")
    done = run("evaluate", "found.npz", *BY_VECTORS)
    assert (done.code, done.out) == (0, first.out)
    assert done.err.startswith("bitkin: warning: a truth in the cache cannot be used")


def test_the_worst_queries_are_shown_with_what_they_missed(found: Path, run: Run) -> None:
    ids = np.load("found.npz")["ids"]
    truth = nearest(np.load("vectors.npy"), np.load("queries.npy"), 10).ids
    values = recall(ids[:, :10], truth, details=True).values
    done = run("evaluate", "found.npz", *BY_VECTORS, "--per-query", 4, "--json")
    worst = [line for line in done.objects if "query" in line]
    assert [line["query"] for line in worst] == np.argsort(values, kind="stable")[:4].tolist()
    for line in worst:
        query = line["query"]
        assert line["value"] == values[query]
        assert line["missed"] == [i for i in truth[query].tolist() if i not in ids[query, :10]][:5]
    text = run("evaluate", "found.npz", *BY_VECTORS, "--per-query", 4).out
    assert "worst queries" in text
    assert " ".join(map(str, worst[0]["missed"][:2])) in " ".join(text.split())


def test_an_exact_search_is_the_truth_of_another(found: Path, run: Run) -> None:
    done = run(
        "search", "index", "queries.npy", "-m", "model", "-k", 10, "-o", "exact.npz",
        "--vectors", "vectors.npy", "--oversample", 100,
    )  # fmt: skip
    assert done.code == 0
    by_file = run("evaluate", "found.npz", "--truth", "exact.npz", "--json").objects
    by_vectors = run("evaluate", "found.npz", *BY_VECTORS, "--json").objects
    assert [line["mean"] for line in by_file] == [line["mean"] for line in by_vectors]
    (one,) = run("evaluate", "exact.npz", "--truth", "exact.npz", "--json").objects
    assert (one["mean"], one["high"]) == (1.0, 1.0)


def test_labels_relevant_rows_and_a_radius(found: Path, run: Run) -> None:
    labels, asked = np.arange(203) % 4, np.arange(9) % 5
    np.save("labels.npy", labels)
    Path("asked.txt").write_text("".join(f"{label}\n" for label in asked))
    Path("labels.txt").write_text("".join(f"{label}\n" for label in labels))
    by_label = ("--labels", "labels.txt", "--query-labels", "asked.txt")
    lines = run("evaluate", "found.npz", *by_label, "--json").objects
    assert lines[0]["measure"] == "precision of the first 1"
    assert lines[-1]["measure"] == "map@30"
    assert {line["left_out"] for line in lines} == {1}
    text = run("evaluate", "found.npz", *by_label).out
    assert "1 of 9 queries have nothing to measure and are left out." in text
    scipy.sparse.save_npz("relevant.npz", scipy.sparse.csr_matrix(asked[:, None] == labels))
    again = run("evaluate", "found.npz", "--relevant", "relevant.npz", "--json").objects
    assert again == lines
    done = run("search", "index", "queries.npy", "-m", "model", "--radius", 40, "-o", "near.npz")
    assert done.code == 0
    measures = ("--measure", "error-at-recall", "--measure", "recall")
    lines = run("evaluate", "near.npz", *by_label, *measures, "--recall", 0.2, "--json").objects
    assert lines[0]["measure"] == "error at recall 0.2"
    assert lines[0]["low"] is None
    text = run("evaluate", "near.npz", *by_label, *measures[:2], "--recall", 0.2,
               "--per-query", 3).out  # fmt: skip
    assert "is one figure for all queries" in text
    done = run("evaluate", "found.npz", *by_label, "--measure", "error-at-recall")
    require_failure(done, "Search with --radius, or for all 203 rows")


def test_every_measure_is_printed_once(found: Path, run: Run) -> None:
    measures = [
        word
        for name in ("recall", "map", "ndcg", "precision-recall", "kendall", "spearman", "map")
        for word in ("--measure", name)
    ]
    lines = run("evaluate", "found.npz", *BY_VECTORS, *measures, "--json").objects
    names = [line["measure"] for line in lines]
    assert len(names) == len(set(names))
    assert {"recall@10", "map@30", "ndcg@30", "kendall", "spearman"} < set(names)
    assert all(line["low"] <= line["mean"] <= line["high"] for line in lines)


def test_ids_of_the_index_are_those_of_a_file(folder: Path, run: Run) -> None:
    ids = np.random.default_rng(1).permutation(900)[:203]
    np.save("ids.npy", ids)
    assert run("index", "codes", "-o", "named", "--ids", "ids.npy").code == 0
    done = run("search", "named", "queries.npy", "-m", "model", "-k", 30, "-o", "found.npz")
    assert done.code == 0
    lines = run("evaluate", "found.npz", *BY_VECTORS, "--ids", "ids.npy", "--json").objects
    truth = ids[nearest(np.load("vectors.npy"), np.load("queries.npy"), 10).ids]
    assert lines[-1]["mean"] == pytest.approx(recall(np.load("found.npz")["ids"], truth))
    require_failure(
        run("evaluate", "found.npz", *BY_VECTORS),
        "found.npz must hold ids of the 203 rows of vectors.npy",
        "Give --ids where ids are not 0, 1, 2, …",
    )


def test_a_page_holds_the_figures_and_the_command(found: Path, run: Run) -> None:
    done = run("evaluate", "found.npz", *BY_VECTORS, "--html", "page.html")
    assert done.code == 0
    assert "wrote page.html" in done.out
    page = Path("page.html").read_text()
    mean = run("evaluate", "found.npz", *BY_VECTORS, "--json").objects[0]["mean"]
    assert f"{mean:.4f}" in page
    assert "bitkin evaluate found.npz --vectors vectors.npy" in page
    require_usage(
        run("evaluate", "found.npz", *BY_VECTORS, "--html", "page.html"), "--html", "there already"
    )
    done = run("evaluate", "found.npz", *BY_VECTORS, "--html", "page.html", "--force", "--quiet")
    assert done.code == 0
    assert "wrote" not in done.out
    require_usage(
        run("evaluate", "found.npz", *BY_VECTORS, "--html", "found.npz", "--force"),
        "--html",
        "is an input",
    )


def test_wrong_usage_is_told_by_option(found: Path, run: Run) -> None:
    for arguments, option, words in (
        ((), "--truth", "give what should have been found, once"),
        (("--truth", "a", "--labels", "b"), "--labels", "give what should have been found, once"),
        (("--vectors", "vectors.npy"), "--queries", "goes with vectors, and is missing"),
        (("--labels", "y.npy"), "--query-labels", "goes with labels, and is missing"),
        (("--truth", "a", "--metric", "l2"), "--metric", "goes with vectors"),
        (("--relevant", "a", "-k", "3"), "-k", "goes with a truth of neighbours"),
        (("--truth", "a", "--recall", "0.5"), "--recall", "error-at-recall"),
        (("--truth", "a", "--measure", "kendall"), "--measure", "kendall compares distances"),
        (("--truth", "a", "--measure", "recal"), "--measure", "Did you mean 'recall'?"),
        ((*BY_VECTORS, "--metric", "euclidean"), "--metric", "Did you mean 'l2'?"),
        ((*BY_VECTORS, "-k", "0"), "-k", "0"),
    ):
        require_usage(run("evaluate", "found.npz", *arguments), option, words)


def test_files_that_do_not_fit_are_one_clear_line(found: Path, run: Run) -> None:
    require_failure(run("evaluate", "none.npz", *BY_VECTORS), "none.npz")
    require_failure(run("evaluate", "model", *BY_VECTORS), "model")
    np.save("few.npy", np.load("queries.npy")[:4])
    require_failure(
        run("evaluate", "found.npz", "--vectors", "vectors.npy", "--queries", "few.npy"),
        "few.npy must be about the 9 queries of found.npz, got 4",
    )
    np.save("narrow.npy", np.load("queries.npy")[:, :5])
    require_failure(
        run("evaluate", "found.npz", "--vectors", "vectors.npy", "--queries", "narrow.npy"),
        "as many columns",
    )


def test_one_query_has_no_interval(found: Path, run: Run) -> None:
    np.save("one.npy", np.load("queries.npy")[0])
    assert run("search", "index", "one.npy", "-m", "model", "-o", "one.npz").code == 0
    arguments = ("--vectors", "vectors.npy", "--queries", "one.npy")
    (line,) = run("evaluate", "one.npz", *arguments, "--json").objects
    assert line["low"] is line["high"] is None
    assert "–" in run("evaluate", "one.npz", *arguments).out
