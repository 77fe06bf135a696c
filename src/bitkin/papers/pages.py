"""Reports as files: a part of a Markdown page, tables as CSV, everything as JSON, figures as PNG.

A page is written by hand around two marks; what stands between them is replaced by every run, and
nothing else. `PAPER/results.json` is equal from run to run; `PAPER/run.json` holds the machine and
the times.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bitkin.errors import ArgumentError, CorruptFileError, FileAccessError, InvalidInputError
from bitkin.io.writer import write_aside
from bitkin.papers.drawing import draw_figure
from bitkin.papers.registry import PAPERS
from bitkin.papers.report import (
    DECIMALS,
    Cell,
    Claim,
    Curve,
    MeanOfRuns,
    Panel,
    PaperReport,
    ResultFigure,
    ResultTable,
    show_cell,
)

_BEGIN = "<!-- results: written by `bitkin papers`, what is changed by hand here is lost -->"
_END = "<!-- end of results -->"
RESULTS, RUN, CLAIMS = "results.json", "run.json", "claims.md"
_CLAIM_COLUMNS = ("claim", "the paper", "here", "verdict", "why")


def require_place(out: Path, names: Iterable[str], *, replace: bool) -> None:
    """Raise unless reports of these papers can be written to the folder `out`: before an experiment
    of many minutes, not after it.
    """
    if out.exists() and not out.is_dir():
        raise ArgumentError(f"must be a folder, got the file {out}.", "out")
    for name in names:
        results = out / name / RESULTS
        if results.exists() and not replace:
            raise ArgumentError(
                f"has results of {name} already: {results}. Take another folder, or replace them "
                "by --force.",
                "out",
            )
        _split_page(out / f"{name}.md")
    _split_page(out / CLAIMS)


def require_results(out: Path, names: Iterable[str]) -> None:
    """Raise unless the folder `out` has results of these papers."""
    for name in names:
        if not (out / name / RESULTS).is_file():
            raise ArgumentError(f"must have results of {name}, and {out} has none.", "out")


def write_report(report: PaperReport, out: Path, run: dict[str, Any]) -> Path:
    """Write all files of a report, and the page of all claims; return the page of the paper."""
    folder = out / report.paper
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileAccessError(f"{folder} cannot be made: {error.strerror}.") from error
    for table in report.tables + report.timings:
        _write_text(folder / f"{table.name}.csv", _as_csv(table))
    results = {
        "paper": report.paper,
        "settings": report.settings,
        "tables": [_as_json(table) for table in report.tables],
        "figures": [_rounded(asdict(figure)) for figure in report.figures],
        "claims": [asdict(claim) for claim in report.claims],
        "notes": list(report.notes),
    }
    timed = {
        **run,
        "timings": [_as_json(table) for table in report.timings],
        "figures": [_rounded(asdict(figure)) for figure in report.timing_figures],
        "claims": [asdict(claim) for claim in report.timing_claims],
    }
    for name, content in ((RESULTS, results), (RUN, timed)):
        _write_text(folder / name, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    draw_again(out, report.paper)
    page = out / f"{report.paper}.md"
    _replace_part(page, f"# {PAPERS[report.paper].title}", _page_part(report, run))
    _replace_part(out / CLAIMS, "# What became of every claim", _claims_part(out))
    return page


def draw_again(out: Path, paper: str) -> list[Path]:
    """Draw the figures of a paper from its results in the folder `out`, and return their files:
    what a run does at its end.
    """
    drawn = []
    for file in (RESULTS, RUN):
        for figure in _read_json(out / paper / file).get("figures", ()):
            path = out / paper / f"{figure['name']}.png"
            draw_figure(_read_figure(figure), path)
            drawn.append(path)
    return drawn


def _read_figure(stored: dict[str, Any]) -> ResultFigure:
    panels = [
        Panel(
            **{
                **panel,
                "curves": tuple(Curve(**curve) for curve in panel["curves"]),
                "bars": tuple(map(tuple, panel["bars"])),
            }
        )
        for panel in stored["panels"]
    ]
    return ResultFigure(**{**stored, "panels": tuple(panels)})


def _page_part(report: PaperReport, run: dict[str, Any]) -> str:
    size = "a quick run on what ships with the package" if run["quick"] else "a full run"
    lines = [
        f"Of {size}: bitkin {run['bitkin']}, {run['machine']}, Python {run['python']}, "
        f"NumPy {run['numpy']}, {run['threads']} threads, {run['minutes']:.1f} minutes, "
        f"{run['processor_minutes']:.1f} of processor time.",
        "",
        *(f"- {name}: {_words(value)}" for name, value in report.settings.items()),
        *(f"- {note}" for note in report.notes),
        "",
        "### Claims",
        "",
        _markdown(_CLAIM_COLUMNS, [_claim_cells(claim) for claim in report.all_claims]),
    ]
    for figure in report.figures:
        lines += _figure_lines(report.paper, figure)
    for table in report.tables:
        lines += _table_lines(report.paper, table)
    if report.timings:
        lines += ["### Times", "", "They depend on the machine and on what else it does.", ""]
        for figure in report.timing_figures:
            lines += _figure_lines(report.paper, figure)
        for table in report.timings:
            lines += _table_lines(report.paper, table)
    return "\n".join(lines)


def _figure_lines(paper: str, figure: ResultFigure) -> list[str]:
    return ["", f"![{figure.caption}]({paper}/{figure.name}.png)", "", f"*{figure.caption}*", ""]


def _table_lines(paper: str, table: ResultTable) -> list[str]:
    rows = [[show_cell(cell) for cell in row] for row in table.rows]
    link = f"({paper}/{table.name}.csv)"
    return ["", f"**{table.caption}** [csv]{link}", "", _markdown(table.columns, rows), ""]


def _claims_part(out: Path) -> str:
    """Return the table of the claims of all papers whose results are in the folder."""
    rows = []
    for name in PAPERS:
        for file in (RESULTS, RUN):
            path = out / name / file
            if path.exists():
                rows += [
                    [f"[{name}]({name}.md)", *_claim_cells(Claim(**claim))]
                    for claim in _read_json(path)["claims"]
                ]
    return _markdown(("paper", *_CLAIM_COLUMNS), rows)


def _claim_cells(claim: Claim) -> list[str]:
    return [claim.claim, claim.paper, claim.ours, f"*{claim.verdict}*", claim.why]


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; columns of numbers are aligned to the right."""
    is_text = [
        any(row[i] and not (row[i][0].isdigit() or row[i][0] in "–−-") for row in rows)
        for i in range(len(columns))
    ]
    lines = [columns, ["---" if text else "---:" for text in is_text], *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
        for line in lines
    )


def _words(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_words, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _as_csv(table: ResultTable) -> str:
    """Return a table with a column more for every column that has standard errors."""
    with_errors = [
        any(isinstance(row[i], MeanOfRuns) for row in table.rows) for i in range(len(table.columns))
    ]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    header: list[str] = []
    for name, has_error in zip(table.columns, with_errors, strict=True):
        header += [name, f"{name} (standard error)"] if has_error else [name]
    lines.writerow(header)
    for row in table.rows:
        cells: list[Any] = []
        for cell, has_error in zip(row, with_errors, strict=True):
            value = _rounded(cell)
            if isinstance(cell, MeanOfRuns):
                cells += [_rounded(cell.mean), _rounded(cell.error)]
            else:
                cells += [value, None] if has_error else [value]
        lines.writerow(["" if cell is None else cell for cell in cells])
    return text.getvalue()


def _as_json(table: ResultTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "caption": table.caption,
        "columns": list(table.columns),
        "rows": [[_json_cell(cell) for cell in row] for row in table.rows],
    }


def _json_cell(cell: Cell) -> Any:
    return _rounded(asdict(cell) if isinstance(cell, MeanOfRuns) else cell)


def _rounded(value: Any) -> Any:
    """Return the value with every float in it rounded to what can be the same in every run."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    if not isinstance(value, float):
        return value
    # very small and very large numbers keep four digits instead of four decimals
    return float(f"{value:.{DECIMALS - 1}e}") if abs(value) < 1e-2 else round(value, DECIMALS)


def _split_page(path: Path) -> tuple[str, str] | None:
    """Return what stands before and after the results of a page; None where there is no page."""
    if not path.exists():
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileAccessError(f"{path} cannot be read: {error}.") from error
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise InvalidInputError(
            f"{path} must have the two lines between which results go, and has not: {_BEGIN} and "
            f"{_END}. Add them, or take another folder."
        )
    return before, after


def _replace_part(path: Path, title: str, part: str) -> None:
    before, after = _split_page(path) or (f"{title}\n\n", "\n")
    _write_text(path, f"{before}{_BEGIN}\n\n{part.strip()}\n\n{_END}{after}")


def _write_text(path: Path, text: str) -> None:
    write_aside(path, lambda file: file.write(text.encode()))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        [Claim(**claim) for claim in content["claims"]]
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptFileError(f"{path} is not a file of results: {error}.") from error
    return content
