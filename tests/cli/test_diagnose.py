"""`bitkin diagnose`: findings about vectors in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import bitkin
from tests.cli.conftest import Run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows of uneven length."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1003, 12)) * rng.uniform(0.2, 5, (1003, 1))
    np.save("vectors.npy", X.astype(np.float32))
    return tmp_path


def test_json_lines_are_the_findings_of_the_library(here: Path, run: Run) -> None:
    done = run("diagnose", "vectors.npy", "--metric", "cosine", "--json")
    assert (done.code, done.err) == (0, "")
    expected = bitkin.diagnose("vectors.npy", metric="cosine")
    assert done.objects == [found.to_dict() for found in expected.findings]


def test_the_table_fits_a_terminal_and_begins_with_the_worst(here: Path, run: Run) -> None:
    done = run("diagnose", "vectors.npy")
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0] == "1,003 rows × 12 columns, metric l2, 1,003 rows sampled"
    assert lines[1].startswith("warning  lengths")
    assert any(line.lstrip().startswith('→ stage="estimate"') for line in lines)
    assert max(map(len, lines)) <= 100


def test_a_page_is_written_with_the_command_that_makes_it_again(here: Path, run: Run) -> None:
    done = run("diagnose", "vectors.npy", "--html", "page.html", "--sample", 500, "--seed", 3)
    assert done.code == 0
    assert "wrote page.html" in done.out
    page = Path("page.html").read_text()
    assert "bitkin diagnose vectors.npy --html page.html --sample 500 --seed 3" in page
    assert "lengths" in page
    again = run("diagnose", "vectors.npy", "--html", "page.html")
    assert again.code == 2
    assert "is there already" in " ".join(again.err.split())
    assert run("diagnose", "vectors.npy", "--html", "page.html", "--force").code == 0
    assert "would be replaced" in run("diagnose", "vectors.npy", "--html", "vectors.npy").err


def test_several_files_and_sparse_ones_are_read(here: Path, run: Run) -> None:
    X = np.load("vectors.npy")
    np.save("a.npy", X[:400])
    np.save("b.npy", X[400:])
    assert run("diagnose", "a.npy", "b.npy", "--json").out == (
        run("diagnose", "vectors.npy", "--json").out
    )
    rng = np.random.default_rng(1)
    scipy.sparse.save_npz("bags.npz", scipy.sparse.csr_matrix(rng.random((300, 90)) < 0.02))
    findings = {found["name"]: found for found in run("diagnose", "bags.npz", "--json").objects}
    assert findings["values"]["setting"] == "MinHash()"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("vectors.npy", "--metric", "cosin"), 2, "Did you mean 'cosine'?"),
        (("vectors.npy", "--sample", "7"), 2, "'--sample'"),
        (("missing.npy",), 1, "missing.npy"),
        (("bad.npy",), 1, "NaN at row 1, column 0"),
        (("one.npy",), 1, "at least 2 rows, got 1"),
        ((), 2, "Missing argument"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    arguments: tuple[str, ...], code: int, words: str, here: Path, run: Run
) -> None:
    np.save("bad.npy", np.array([[1.0], [np.nan]]))
    np.save("one.npy", np.ones((1, 3)))
    done = run("diagnose", *arguments)
    assert done.code == code
    assert words in " ".join(done.err.split())
    assert done.out == ""
