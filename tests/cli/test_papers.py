from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bitkin.papers.registry import PAPERS
from tests.cli.conftest import Run
from tests.papers.reports import small_report


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, and experiments that take no time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BITKIN_DATA", raising=False)

    def module(name: str) -> Any:
        paper = next(one.name for one in PAPERS.values() if one.module == name)

        def experiment(data: Any) -> Any:
            return SimpleNamespace(
                jobs=lambda: [lambda: None] * 3, report=lambda: small_report(paper)
            )

        return SimpleNamespace(experiment=experiment)

    monkeypatch.setattr("bitkin.papers.running.importlib", SimpleNamespace(import_module=module))
    return tmp_path


def words(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def test_papers_writes_pages_and_lists_claims(folder: Path, run: Run) -> None:
    done = run("papers", "nystrom", "--quick", "--out", "here")
    assert (done.code, done.err) == (0, "")
    assert "nystrom: near" in done.out
    assert "holds: 0.98" in done.out
    assert "all claims: here/claims.md" in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert (folder / "here" / "nystrom" / "results.json").is_file()


def test_all_papers_are_the_default(folder: Path, run: Run) -> None:
    done = run("papers", "--quick", "--json")
    assert done.code == 0
    assert {found["paper"] for found in done.objects} == set(PAPERS)
    first = done.objects[0]
    assert (first["ours"], first["in_paper"], first["verdict"]) == ("0.98", "0.99", "holds")
    assert sorted(path.name for path in (folder / "bitkin-papers").glob("*.md")) == sorted(
        ["claims.md", *(f"{name}.md" for name in PAPERS)]
    )


def test_results_are_replaced_with_force_alone(folder: Path, run: Run) -> None:
    assert run("papers", "nystrom", "--quick").code == 0
    done = run("papers", "nystrom", "--quick")
    assert done.code == 2
    assert "has results of nystrom already" in words(done.err)
    assert run("papers", "nystrom", "--quick", "--force", "--quiet").code == 0


def test_figures_are_drawn_again_without_a_run(folder: Path, run: Run) -> None:
    assert run("papers", "nystrom", "--quick", "--out", "here").code == 0
    picture = folder / "here" / "nystrom" / "figure-1.png"
    picture.unlink()
    done = run("papers", "nystrom", "--redraw", "--out", "here")
    assert (done.code, done.err) == (0, "")
    assert "figure: here/nystrom/figure-1.png" in done.out
    assert picture.is_file()
    done = run("papers", "wta", "--redraw", "--out", "here")
    assert done.code == 2
    assert "must have results of wta, and here has none" in words(done.err)


def test_wrong_usage_is_told(folder: Path, run: Run) -> None:
    done = run("papers", "nystrm", "--quick")
    assert done.code == 2
    assert "Did you mean 'nystrom'?" in words(done.err)
    done = run("papers", "nystrom", "--quick", "--data", ".")
    assert done.code == 2
    assert "goes without --data" in words(done.err)
    done = run("papers", "nystrom", "--data", "nowhere")
    assert done.code == 2
    assert "'--data': must be a folder of data sets, got nowhere" in words(done.err)


def test_missing_data_end_the_command_before_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)

    def fetch(*_: Any, **__: Any) -> Any:
        raise OSError("no network in tests")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    done = run("papers", "nystrom", "--data", tmp_path, "--out", "here")
    assert done.code == 1
    assert "data for nystrom must be there, and is not: cifar10_gist960 (" in done.err
    assert not (tmp_path / "here").exists()
