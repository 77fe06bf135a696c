"""`bitkin papers`: the experiments of the papers that bitkin is made of, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bitkin.cli.arguments import Json, one_of_choices, usage_errors
from bitkin.cli.help import complete_from
from bitkin.cli.output import complain, print_json, print_table, progress_bar
from bitkin.cli.shared import is_forced, is_quiet, say
from bitkin.papers.registry import PAPERS

_ALL = "all"


def papers(
    paper: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(PAPERS)}, or {_ALL}.",
            autocompletion=complete_from(*PAPERS, _ALL),
        ),
    ] = _ALL,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Folder of data sets; if absent that of BITKIN_DATA, or ../shared/data. Sets that "
            "are not there are fetched from their public source, where there is one.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Small experiments on the data that ships with bitkin."),
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder to write pages, tables and figures to.")
    ] = Path("bitkin-papers"),
    redraw: Annotated[
        bool,
        typer.Option(
            "--redraw", help="Draw figures again from the results in --out, and run nothing."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Run the experiments of the papers that bitkin is made of, and say what became of their
    claims.

    Writes a Markdown page per paper, its tables as CSV, its figures as PNG, and claims.md with the
    claims of all papers. A page that is there already keeps its text: only what stands between its
    two marks is replaced.

    Example: bitkin papers nystrom --quick --out papers
    """
    names = list(PAPERS) if paper == _ALL else [one_of_choices(paper, "PAPER", [*PAPERS, _ALL])]
    if quick and data is not None:
        raise typer.BadParameter(
            "goes without --data: it takes what ships with bitkin.", param_hint="'--quick'"
        )
    from bitkin.papers.data import PaperData
    from bitkin.papers.pages import draw_again, require_place, require_results
    from bitkin.papers.running import PaperSteps

    if redraw:
        with usage_errors():
            require_results(out, names)
        for name in names:
            for figure in draw_again(out, name):
                say(f"figure: {figure}")
        return
    with usage_errors():
        require_place(out, names, replace=is_forced())
        sets = PaperData(data, quick=quick)
    rows: list[tuple[str, ...]] = []
    pages = []
    for name in names:
        steps = PaperSteps(name, sets)
        with progress_bar(name, len(steps), "steps", "writing") as done:
            run = steps.run(out, done)
        pages.append((run.page, run.minutes))
        for claim in run.report.all_claims:
            rows.append((f"{name}: {claim.name}", f"{claim.verdict}: {claim.ours}"))
            if json:
                print_json(paper=name, **_claim_values(claim))
    for name, reason in sets.left_out.items():
        complain(f"warning: {name} was left out: {reason}.")
    if json:
        return
    if not is_quiet():
        print_table("What became of the claims", None, rows)
    for page, minutes in pages:
        say(f"page: {page} ({minutes:.1f} minutes)")
    say(f"all claims: {out / 'claims.md'}")


def _claim_values(claim: Any) -> dict[str, str]:
    fields = ("name", "claim", "paper", "ours", "verdict", "why")
    return {("in_paper" if field == "paper" else field): getattr(claim, field) for field in fields}
