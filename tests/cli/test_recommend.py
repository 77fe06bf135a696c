"""`bitkin recommend`: what to take for vectors in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import bitkin
from bitkin.evaluate.recommending.contest import Contest
from tests.cli.conftest import Run

QUICK = ("--method", "nystrom", "--method", "pca x random")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows whose columns matter less and less."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1003, 16)) * np.linspace(3, 0.3, 16)
    np.save("vectors.npy", X.astype(np.float32))
    np.save("queries.npy", X[:100].astype(np.float32) + 0.1)
    return tmp_path


def test_json_is_what_the_library_says(here: Path, run: Run) -> None:
    done = run("recommend", "vectors.npy", "--recall", 0.7, "-k", 5, *QUICK, "--json")
    assert (done.code, done.err) == (0, "")
    expected = bitkin.recommend(
        "vectors.npy", recall=0.7, k=5, methods=["nystrom", "pca × random"]
    ).to_dict()
    (given,) = done.objects
    for name in ("method", "bits", "stage", "vectors", "oversample", "recall", "interval"):
        assert given[name] == expected[name]
    assert given["reached"] is True
    assert given["command"].startswith("bitkin recommend vectors.npy --recall 0.7")


def test_it_prints_what_to_take_what_to_expect_and_why(here: Path, run: Run) -> None:
    done = run("recommend", "vectors.npy", "--recall", 0.6, "--metric", "cosine", *QUICK)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("take ")
    assert lines[1].startswith("expect   recall@10")
    assert any(line.startswith("because") for line in lines)
    assert any(line.startswith("build") for line in lines)


def test_pages_are_written_with_the_command_that_makes_them_again(here: Path, run: Run) -> None:
    command = ("recommend", "vectors.npy", "--recall", 0.6, *QUICK, "--html", "page.html")
    done = run(*command, "--markdown", "page.md")
    assert done.code == 0
    assert "report: page.html" in done.out
    assert "bitkin recommend vectors.npy --recall 0.6" in Path("page.html").read_text()
    assert "bitkin recommend vectors.npy" in Path("page.md").read_text()
    assert run(*command).code == 2
    assert run(*command, "--force").code == 0
    refused = run("recommend", "vectors.npy", "--html", "vectors.npy")
    assert "would be replaced" in " ".join(refused.err.split())


def test_the_lines_that_build_it_do_so_for_the_same_files(here: Path, run: Run) -> None:
    X = np.load("vectors.npy")
    np.savez("both.npz", rows=X, others=X[:7])
    for arguments in (
        ("vectors.npy", "--queries", "queries.npy", "--recall", 0.6),
        ("both.npz", "--dataset", "rows", "--recall", 0.5, "--metric", "cosine"),
        ("vectors.npy", "vectors.npy", "--recall", 0.5, "--seed", 3),
    ):
        done = run("recommend", *arguments, *QUICK)
        lines = done.out.splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("build"))
        names: dict[str, Any] = {"bitkin": bitkin}
        exec("\n".join(line[9:] for line in lines[first:]), names)
        assert lines[0].startswith(f"take     {names['best'].chosen.name}")
        assert len(names["collection"]) == (2006 if "--seed" in arguments else 1003)


@pytest.mark.parametrize(
    ("target", "words"),
    [("nowhere/page.html", "nowhere is not a folder"), (".", "is a folder"), ("-", "stdout")],
)
def test_a_page_that_cannot_be_written_is_told_before_anything_is_measured(
    target: str, words: str, here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(Contest, "run", measure)
    done = run("recommend", "vectors.npy", "--html", target)
    assert (done.code, done.out) == (2, "")
    assert words in " ".join(done.err.split())


def test_own_queries_streams_and_sparse_rows_are_taken(here: Path, run: Run) -> None:
    own = ("--queries", "queries.npy", "--recall", 0.5, *QUICK, "--json")
    (given,) = run("recommend", "vectors.npy", *own).objects
    assert given["facts"]["held out"] is False
    stream = ("--streaming", "--recall", 0.3, "--method", "random", "--json")
    (given,) = run("recommend", "vectors.npy", *stream).objects
    assert given["method"] == "random × none"
    bags = scipy.sparse.random(400, 90, density=0.1, format="csr", random_state=0)
    scipy.sparse.save_npz("bags.npz", bags.astype(np.float32))
    (given,) = run("recommend", "bags.npz", "--recall", 0.3, *QUICK, "--json").objects
    assert given["vectors"] in ("csr", None)


def test_what_nothing_reaches_ends_with_one_and_shows_the_best(here: Path, run: Run) -> None:
    done = run("recommend", "vectors.npy", "--max-bytes", 30, *QUICK, "--json")
    assert done.code == 1
    (given,) = done.objects
    assert given["reached"] is False
    assert given["bytes_per_vector"] <= 30
    assert "--recall 0.95 was not reached in 30 bytes" in " ".join(done.err.split())
    nothing = run("recommend", "vectors.npy", "--max-bytes", 5, *QUICK)
    assert (nothing.code, nothing.out) == (1, "")
    assert "--max-bytes 5 is less than any code takes" in " ".join(nothing.err.split())


def test_the_time_limit_gives_the_best_so_far(here: Path, run: Run) -> None:
    done = run("recommend", "vectors.npy", "--recall", 0.2, "--time-limit", 1e-9, "--json")
    assert done.code == 0
    assert done.objects[0]["complete"] is False


def test_ctrl_c_prints_the_best_so_far(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Contest, "_let_others_in", interrupt)
    done = run("recommend", "vectors.npy", "--recall", 0.5, *QUICK, "--json")
    assert done.code == 130
    assert done.objects[0]["complete"] is False
    assert "best so far" in done.objects[0]["reason"]
    assert done.err == "bitkin: interrupted.\n"
    monkeypatch.setattr(Contest, "run", interrupt)
    done = run("recommend", "vectors.npy", *QUICK)
    assert (done.code, done.out, done.err) == (130, "", "bitkin: interrupted.\n")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("vectors.npy", "--metric", "cosin"), 2, "Did you mean 'cosine'?"),
        (("vectors.npy", "--recall", "1.5"), 2, "1.5 is not above 0 and up to 1"),
        (("vectors.npy", "--recall", "nan"), 2, "'--recall'"),
        (("vectors.npy", "--max-bytes", "0"), 2, "'--max-bytes'"),
        (("vectors.npy", "--time-limit", "-1"), 2, "'--time-limit'"),
        (("vectors.npy", "-k", "0"), 2, "'-k'"),
        (("vectors.npy", "--method", "pcaa"), 1, "pcaa"),
        (("missing.npy",), 1, "missing.npy"),
        (("bad.npy",), 1, "NaN at row 1, column 0"),
        (("one.npy",), 1, "at least 5 rows, some of which are held out"),
        ((), 2, "Missing argument"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    arguments: tuple[str, ...], code: int, words: str, here: Path, run: Run
) -> None:
    bad = np.ones((20, 3))
    bad[1, 0] = np.nan
    np.save("bad.npy", bad)
    np.save("one.npy", np.ones((1, 3)))
    done = run("recommend", *arguments)
    assert done.code == code
    assert words in " ".join(done.err.split())
    assert done.out == ""


def test_what_is_recommended_is_built_in_a_folder(here: Path, run: Run) -> None:
    asked = ("recommend", "vectors.npy", "--recall", 0.7, "-k", 5, *QUICK)
    done = run(*asked, "--build", "items")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "collection: items"
    with bitkin.Collection.open("items") as collection:
        assert len(collection) == 1003
        X = np.load("vectors.npy")
        assert collection.search(X[:7], 1).ids[:, 0].tolist() == list(range(7))
    done = run(*asked, "--build", "items")
    assert done.code == 2
    assert "items is there already" in done.err
    done = run("info", "items")
    assert "bitkin collection stats" in done.err
