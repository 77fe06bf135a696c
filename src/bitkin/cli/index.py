"""`bitkin index`: codes in files → an index in a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitkin.choices import MOST_CELLS
from bitkin.cli.arguments import Json, one_of_choices, out_option, require_other_file
from bitkin.cli.help import complete_from
from bitkin.cli.output import print_json, progress_bar
from bitkin.cli.shared import say

if TYPE_CHECKING:
    from bitkin.code_spec import CodeSpec
    from bitkin.codes import Codes
    from bitkin.index.bands.tuning import BandTuning
    from bitkin.index.base import RowIndex
    from bitkin.index.cells.tuning import CellTuning

_KINDS = ["flat", "multi", "bands", "cells"]
_KINDS_WITH = {
    "band_bits": ["bands"],
    "probes": ["bands", "cells"],
    "budget": ["bands"],
    "score": ["bands"],
    "n_cells": ["cells"],
    "recall": ["bands", "cells"],
}
_CHOSEN_BY_RECALL = {"bands": ["band_bits", "probes", "budget", "score"], "cells": ["probes"]}
_SCORES = ["distance", "hits"]
_ROWS_AT_ONCE = 1 << 20


def index(
    codes: Annotated[
        list[Path], typer.Argument(help="Codes made by bitkin encode.", show_default=False)
    ],
    out: Annotated[Path, out_option("The index to write.")],
    ids: Annotated[
        Path | None,
        typer.Option(
            help="The id of every row, if not 0, 1, 2, …: an .npy file, or text, one per line."
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="flat, multi, bands or cells; see above.", autocompletion=complete_from(*_KINDS)
        ),
    ] = "flat",
    band_bits: Annotated[
        int | None,
        typer.Option(min=1, help="Bits per band; 16 if absent, or all of a shorter code."),
    ] = None,
    probes: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Cells that a query looks into; or, with bands, keys near its own that it looks "
            "up per band.",
        ),
    ] = None,
    n_cells: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_CELLS,
            help="Cells; eight times the root of the number of rows if absent.",
        ),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Choose --probes, or all settings of bands, that find this share of the 10 "
            "nearest codes: measured with some of the rows as queries. Takes some seconds.",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1, help="The most rows that a query looks at in the tables: faster, may miss more."
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="What orders the results: distance, or hits, the bands in which a row was found. "
            "[default: distance]",
            autocompletion=complete_from(*_SCORES),
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Build an index over codes.

    flat scans all codes at the speed of memory. multi finds the same without looking at most of
    them, which pays among millions. bands looks at codes that share a run of bits with the query,
    and may miss some. cells looks at the codes around the nearest of many centres, may miss some
    too, and is the fastest among millions.

    Example: bitkin index codes.bitkin -o index.bitkin

    Example: bitkin index codes.bitkin --kind bands --budget 10000 -o index.bitkin

    Example: bitkin index codes.bitkin --kind cells --recall 0.95 -o index.bitkin

    Example: bitkin index codes.bitkin --kind cells --probes 32 -o index.bitkin
    """
    from bitkin._load import load
    from bitkin.codes import Codes
    from bitkin.errors import InvalidInputError
    from bitkin.input_files import read_ids

    settings = _settings(
        kind,
        {
            "band_bits": band_bits,
            "probes": probes,
            "budget": budget,
            "score": score,
            "n_cells": n_cells,
            "recall": recall,
        },
    )
    require_other_file(out, codes if ids is None else [*codes, ids])
    parts = [load(path, mmap=True) for path in codes]
    for path, part in zip(codes, parts, strict=True):
        if not isinstance(part, Codes):
            raise InvalidInputError(
                f"{path} holds {type(part).__name__}, not Codes. Make codes with bitkin encode."
            )
    total = sum(len(part) for part in parts)
    row_ids = None if ids is None else read_ids(ids)
    if row_ids is not None and len(row_ids) != total:
        raise InvalidInputError(
            f"{ids} must hold one id per row, got {len(row_ids)} for {total} rows."
        )
    tuning = None
    if recall is None:
        built = _new_index(kind, parts[0].spec, settings)
    else:
        tuning = _tune(kind, Codes.concatenate(parts), settings)
        built = tuning.build()
    done = 0
    with progress_bar("indexing", total) as report:
        for part in parts:
            for first in range(0, len(part), _ROWS_AT_ONCE):
                some = part[first : first + _ROWS_AT_ONCE]
                built.add(some, None if row_ids is None else row_ids[done : done + len(some)])
                done += len(some)
                report(done)
    built.save(out)
    if json:
        chosen = {} if tuning is None else _about_tuning(tuning)
        print_json(index=out, rows=len(built), bytes=out.stat().st_size, **chosen)
    else:
        say(f"{out}: {len(built):,} codes of {built.spec}, {out.stat().st_size:,} bytes")
        if tuning is not None:
            low, high = tuning.interval
            say(
                f"{tuning.probes} probes: find {tuning.recall:.3f} ({low:.3f} to {high:.3f}) of "
                f"the {tuning.k} nearest codes, and look at {100 * tuning.candidates:.2g} % of rows"
            )
        say(
            f"next: bitkin search {shlex.quote(str(out))} queries.npy --model MODEL -k 10, with "
            "the model that made the codes"
        )


def _settings(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return what an index of a kind is made with beside its spec; options of another kind are
    wrong usage.
    """
    one_of_choices(kind, "--kind", _KINDS)
    settings = {name: value for name, value in given.items() if value is not None}
    for name in settings:
        kinds = _KINDS_WITH[name]
        if kind not in kinds:
            raise typer.BadParameter(
                f"means nothing without --kind {' or '.join(kinds)}.",
                param_hint=f"'--{name.replace('_', '-')}'",
            )
    for name in _CHOSEN_BY_RECALL.get(kind, []) if "recall" in settings else []:
        if name in settings:
            raise typer.BadParameter(
                "is chosen by --recall. Give one of the two.",
                param_hint=f"'--{name.replace('_', '-')}'",
            )
    if settings.get("recall") == 0:
        raise typer.BadParameter("must be above 0.", param_hint="'--recall'")
    if kind == "cells" and settings.get("probes") == 0:
        raise typer.BadParameter("must be at least 1 with --kind cells.", param_hint="'--probes'")
    if "score" in settings:
        one_of_choices(settings["score"], "--score", _SCORES)
    return settings


def _new_index(kind: str, spec: CodeSpec, settings: dict[str, Any]) -> RowIndex:
    from bitkin.index.bands.band_index import BandIndex
    from bitkin.index.cells.cell_index import CellIndex
    from bitkin.index.flat import FlatIndex
    from bitkin.index.multi.multi_index import MultiIndex

    if kind == "bands":
        return BandIndex(spec, **settings)
    if kind == "cells":
        return CellIndex(spec, **settings)
    return MultiIndex(spec) if kind == "multi" else FlatIndex(spec)


def _tune(kind: str, codes: Codes, settings: dict[str, Any]) -> BandTuning | CellTuning:
    """Choose settings that reach the recall wanted."""
    from bitkin.index.bands.band_index import BandIndex
    from bitkin.index.cells.cell_index import CellIndex

    if kind == "bands":
        return BandIndex.tune(codes, **settings)
    return CellIndex.tune(codes, **settings)


def _about_tuning(tuning: BandTuning | CellTuning) -> dict[str, Any]:
    """Return what was chosen, and what to expect of it."""
    expected = ("probes", "recall", "interval", "candidates", "k")
    return {name: getattr(tuning, name) for name in expected}
