"""`bitkin compare`: what every method finds in vectors of files, and what it costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import bitkin
from tests.cli.conftest import Run

SMALL = ("--no-baselines", "--bits", "8,16", "-m", "pca x itq", "-m", "sign")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with clustered rows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((20, 16))
    X = centres[rng.integers(20, size=403)] + 0.5 * rng.standard_normal((403, 16))
    np.save("vectors.npy", X.astype(np.float32))
    return tmp_path


def test_json_lines_are_the_measurements_of_the_library(here: Path, run: Run) -> None:
    done = run("compare", "vectors.npy", *SMALL, "--metric", "cosine", "-k", 4, "--json")
    assert (done.code, done.err) == (0, "")
    expected = bitkin.compare(
        "vectors.npy",
        methods=["pca × itq", "sign"],
        bits=(8, 16),
        metric="cosine",
        k=4,
        baselines=False,
    )
    *measured, last = done.objects
    assert len(measured) == len(expected.measurements) == 15
    for told, m in zip(measured, expected.measurements, strict=True):
        known = m.to_dict()
        for name in ("method", "bits", "stage", "vectors", "recall", "interval", "curve",
                     "bytes_per_vector", "error"):  # fmt: skip
            assert told[name] == known[name], name
        assert min(told["fit_seconds"], told["encode_us"], told["search_us"]) >= 0
    assert last["facts"]["rows"] == 403
    assert last["facts"]["machine"] == expected.facts["machine"]
    assert last["notes"] == list(expected.notes)


def test_the_table_fits_a_terminal_and_shows_the_best_at_each_size(here: Path, run: Run) -> None:
    done = run("compare", "vectors.npy", *SMALL)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("15 measured on 323 of 403 rows × 16, 80 queries, k = 10, l2")
    header = next(line for line in lines if line.lstrip().startswith("bytes"))
    assert [word in header for word in ("recall", "method", "last stage", "search µs")] == [
        True
    ] * 4
    assert max(map(len, lines)) <= 100
    sizes = [int(line.split()[0]) for line in lines[lines.index(header) + 1 :]]
    assert sizes == sorted(sizes)


def test_pages_are_written_with_the_command_that_makes_them_again(here: Path, run: Run) -> None:
    Path("texts.txt").write_text("".join(f"row\x0c{i}\n" for i in range(403)))
    made = ("compare", "vectors.npy", *SMALL, "--html", "page.html", "--markdown", "page.md")
    done = run(*made, "--texts", "texts.txt", "--sample-rows", 200, "--seed", 3)
    assert done.code == 0
    assert done.out.splitlines()[-2:] == ["report: page.html", "report: page.md"]
    page = Path("page.html").read_text()
    assert "bitkin compare vectors.npy" in page
    assert "--texts texts.txt --sample-rows 200 --seed 3" in page
    for name in ("recall", "oversample", "spectrum", "cumulative", "entropy", "correlation"):
        assert f'data-plot="{name}"' in page
        assert Path(f"page-{name}.svg").exists()
    assert "bitkin compare vectors.npy" in Path("page.md").read_text()
    again = run(*made)
    assert again.code == 2
    assert "is there already" in " ".join(again.err.split())
    assert run(*made, "--force", "--quiet").code == 0


def test_sparse_files_and_given_queries_are_read(here: Path, run: Run) -> None:
    rng = np.random.default_rng(1)
    scipy.sparse.save_npz("bags.npz", scipy.sparse.csr_matrix(rng.random((300, 90)) < 0.05))
    scipy.sparse.save_npz("asked.npz", scipy.sparse.csr_matrix(rng.random((9, 90)) < 0.05))
    done = run(
        *("compare", "bags.npz", "--queries", "asked.npz", "--metric", "jaccard"),
        *("--bits", 64, "-m", "minhash", "--json"),
    )
    assert done.code == 0
    *measured, last = done.objects
    assert [m["method"] for m in measured] == ["minhash, 4-bit", "minhash, 8-bit"]
    assert (last["facts"]["queries"], last["facts"]["held out"]) == (9, False)


def test_what_could_not_be_measured_is_told_and_no_failure(here: Path, run: Run) -> None:
    done = run("compare", "vectors.npy", *SMALL, "-m", "opast", "--time-limit", "1e-9")
    assert done.code == 0
    assert "nothing could be measured" in done.out
    # the widths of which OPAST is incapable fail with the time limit too: it came first
    assert "the time limit of 1e-09 seconds had passed." in " ".join(done.out.split())


def test_help_names_every_option_with_an_example(run: Run) -> None:
    done = run("compare", "--help")
    assert done.code == 0
    for option in ("--bits", "--method", "--metric", "--queries", "--no-baselines", "--json",
                   "--html", "--markdown", "--time-limit", "--picture-shape", "--texts",
                   "--sample-rows", "--query-rows", "--threads", "--force"):  # fmt: skip
        assert option in done.out, option
    assert "bitkin compare vectors.npy --metric cosine" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("vectors.npy", "--metric", "cosin"), 2, "Did you mean 'cosine'?"),
        (("vectors.npy", "--metric", "jaccard"), 1, "X must be CSR, got dense rows"),
        (("vectors.npy", "--bits", "64,,8"), 2, "'64,,8' is not a list of whole numbers"),
        (("vectors.npy", "--bits", "1e2"), 2, "'--bits': '1e2' is not a list"),
        (("vectors.npy", "--bits", "99999999"), 2, "'--bits': must be between 1 and 65536"),
        (("vectors.npy", "--method", "pcaa"), 2, "'--method': must be names out of"),
        (("vectors.npy", "--method", "pcaa"), 2, "Did you mean 'pca'?"),
        (("vectors.npy", "-k", "0"), 2, "'-k'"),
        (("vectors.npy", "--time-limit", "0"), 2, "'--time-limit': must be seconds above 0"),
        (("vectors.npy", "--picture-shape", "4by4"), 2, "'4by4' is not a height and a width"),
        (("vectors.npy", "--picture-shape", "5x5"), 2, "must hold the 16 columns"),
        (("vectors.npy", "--texts", "two.txt"), 2, "'--texts': must be one per row of X, 403"),
        (("vectors.npy", "--texts", "none.txt"), 1, "none.txt cannot be read"),
        (("vectors.npy", "--queries", "narrow.npy"), 1, "16"),
        (("vectors.npy", "--html", "no/page.html"), 2, "'--html': no is not a folder"),
        (("vectors.npy", "--html", "."), 2, "'--html': . is a folder"),
        (("vectors.npy", "--html", "-"), 2, "'--html': --html cannot write to stdout"),
        (("vectors.npy", "--html", "vectors.npy"), 2, "would be replaced"),
        (("vectors.npy", "--html", "a", "--markdown", "./a"), 2, "is the file of --html"),
        (("missing.npy",), 1, "missing.npy"),
        (("bad.npy",), 1, "NaN at row"),
        (("few.npy",), 1, "X must have at least 5 rows"),
        ((), 2, "Missing argument"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    arguments: tuple[str, ...], code: int, words: str, here: Path, run: Run
) -> None:
    np.save("bad.npy", np.array([[1.0], [np.nan]] * 10))
    np.save("few.npy", np.ones((4, 3)))
    np.save("narrow.npy", np.ones((4, 3)))
    Path("two.txt").write_text("one\ntwo\n")
    done = run("compare", *arguments)
    assert done.code == code
    assert words in " ".join(done.err.split())
    assert done.out == ""
