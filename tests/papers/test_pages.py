from __future__ import annotations

import json
from pathlib import Path

import pytest

from bitkin.errors import CorruptFileError, InvalidInputError
from bitkin.papers.pages import draw_again, require_place, require_results, write_report
from tests.papers.reports import RUN, small_report


def test_a_report_becomes_a_page_with_tables_figures_and_claims(tmp_path: Path) -> None:
    page = write_report(small_report(), tmp_path / "new" / "out", RUN)
    folder = page.parent
    text = page.read_text()
    assert page == folder / "nystrom.md"
    assert "| a\\|b | 0.123 ± 0.010 | – |" in text
    assert "![A figure.](nystrom/figure-1.png)" in text
    assert "| It is near. | 0.99 | 0.98 | *holds* | Because. |" in text
    assert "| It is quick. |" in text
    assert "rows: 3,000" in text
    assert "bits: 16, 32" in text
    assert "a quick run" in text
    assert (folder / "nystrom" / "figure-1.png").is_file()
    assert (folder / "nystrom" / "precision.csv").read_text() == (
        "method,32 bits,32 bits (standard error),note\na|b,0.1235,0.01,\nc,0.5,,only one\n"
    )
    assert "| [nystrom](nystrom.md) | It is near. |" in (folder / "claims.md").read_text()


def test_times_are_kept_apart_from_results(tmp_path: Path) -> None:
    write_report(small_report(), tmp_path, RUN)
    first = (tmp_path / "nystrom" / "results.json").read_bytes()
    write_report(small_report(), tmp_path, {**RUN, "minutes": 7, "machine": "another"})
    assert (tmp_path / "nystrom" / "results.json").read_bytes() == first
    results, run = (
        json.loads((tmp_path / "nystrom" / f"{name}.json").read_text())
        for name in ("results", "run")
    )
    assert run["machine"] == "another"
    assert [table["name"] for table in run["timings"]] == ["seconds"]
    assert [claim["name"] for claim in run["claims"]] == ["quick"]
    assert results["tables"][0]["rows"][0] == [
        "a|b", {"mean": 0.1235, "error": 0.01, "n_runs": 3}, None,
    ]  # fmt: skip


def test_what_was_written_by_hand_stays(tmp_path: Path) -> None:
    page = write_report(small_report(), tmp_path, RUN)
    written = page.read_text().replace("# Hashing", "By hand before.\n\n# Hashing") + "And after.\n"
    page.write_text(written)
    write_report(small_report(ours="0.77"), tmp_path, RUN)
    text = page.read_text()
    assert text == written.replace("| 0.98 |", "| 0.77 |")
    assert text.startswith("By hand before.")
    assert text.endswith("And after.\n")


def test_the_claims_of_other_papers_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bitkin.papers import registry

    monkeypatch.setitem(registry.PAPERS, "other", registry.Paper("other", "Another paper", ""))
    write_report(small_report("other", ours="0.11"), tmp_path, RUN)
    write_report(small_report(), tmp_path, RUN)
    write_report(small_report(ours="0.55"), tmp_path, RUN)
    claims = (tmp_path / "claims.md").read_text()
    assert claims.count("It is near.") == 2
    assert "| 0.11 |" in claims
    assert "| 0.55 |" in claims
    assert "0.98" not in claims


def test_a_page_without_marks_is_refused_and_stays(tmp_path: Path) -> None:
    page = tmp_path / "nystrom.md"
    page.write_text("All by hand.\n")
    with pytest.raises(InvalidInputError, match=r"nystrom\.md must have the two lines"):
        require_place(tmp_path, ["nystrom"], replace=True)
    with pytest.raises(InvalidInputError, match="Add them, or take another folder"):
        write_report(small_report(), tmp_path, RUN)
    assert page.read_text() == "All by hand.\n"


def test_results_are_replaced_only_where_that_is_asked_for(tmp_path: Path) -> None:
    require_place(tmp_path / "not there", ["nystrom"], replace=False)
    write_report(small_report(), tmp_path, RUN)
    with pytest.raises(InvalidInputError, match="out: has results of nystrom already"):
        require_place(tmp_path, ["nystrom"], replace=False)
    require_place(tmp_path, ["nystrom"], replace=True)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InvalidInputError, match="out: must be a folder, got the file"):
        require_place(file, ["nystrom"], replace=True)


def test_damaged_results_of_another_run_are_named(tmp_path: Path) -> None:
    write_report(small_report(), tmp_path, RUN)
    (tmp_path / "nystrom" / "run.json").write_text('{"claims": [{"name": 1}]}')
    with pytest.raises(CorruptFileError, match=r"run\.json is not a file of results"):
        write_report_of_claims(tmp_path)


def write_report_of_claims(folder: Path) -> None:
    from bitkin.papers.pages import _claims_part

    _claims_part(folder)


def test_figures_are_drawn_again_from_results(tmp_path: Path) -> None:
    write_report(small_report(), tmp_path, RUN)
    picture = tmp_path / "nystrom" / "figure-1.png"
    before = picture.read_bytes()
    picture.unlink()
    assert draw_again(tmp_path, "nystrom") == [picture]
    assert picture.read_bytes() == before
    require_results(tmp_path, ["nystrom"])
    with pytest.raises(InvalidInputError, match=r"must have results of wta, and .* has none"):
        require_results(tmp_path, ["nystrom", "wta"])
