"""The hardest queries: what they should have found, and what was found, as pictures, texts or
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from bitkin.evaluate.reporting.content import ReportPage
from bitkin.evaluate.reporting.limits import FULL, PageLimits
from bitkin.evaluate.reporting.pictures import Pixels, data_uri, encode_png, scale_down
from bitkin.evaluate.reporting.rows import HardQuery, ShownRow
from bitkin.evaluate.reporting.text import clean, escape, number

_SIDES = (96, 64, 48, 32, 24, 16, 8)
_SHEET_SIDE, _SHEET_GAP = 56, 6
_MOST_TEXT = 300


def shown_queries(page: ReportPage, limits: PageLimits = FULL) -> list[HardQuery]:
    """Return the queries that the page shows, each with the rows that it shows."""
    most = limits.neighbors
    return [
        HardQuery(hard.query, hard.recall, hard.neighbors[:most], hard.found[:most])
        for hard in page.hard_queries[: limits.queries]
    ]


def describe_row(row: ShownRow) -> str:
    """Return the number of a row and how far it is.

    Examples
    --------
    >>> describe_row(ShownRow(1234, 0.5))
    'row 1,234, distance 0.5'
    """
    far = "" if row.distance is None else f", distance {number(row.distance)}"
    return f"row {row.row:,}{far}"


def render_queries(page: ReportPage, limits: PageLimits = FULL) -> str:
    """Return them as HTML, nothing where there are none."""
    queries = shown_queries(page, limits)
    pictures = _encode_pictures(queries, limits.picture_bytes)
    return "".join(_query(hard, pictures) for hard in queries)


def draw_sheet(page: ReportPage) -> bytes | None:
    """Return a PNG of all pictures, a line per query: the query, its neighbours, what was found;
    None where there are no pictures.
    """
    queries = shown_queries(page)
    if not any(row.picture is not None for row in _rows(queries)):
        return None
    step = _SHEET_SIDE + _SHEET_GAP
    columns = max(len(hard.neighbors) + len(hard.found) for hard in queries) + 1
    sheet = np.full((len(queries) * step, columns * step + 4 * _SHEET_GAP, 3), 255, dtype=np.uint8)
    for i, hard in enumerate(queries):
        left = 0
        for group in ((hard.query,), hard.neighbors, hard.found):
            for row in group:
                if row.picture is not None:
                    _paste(sheet, row.picture, i * step, left)
                left += step
            left += 2 * _SHEET_GAP
    return encode_png(sheet)


def _paste(sheet: Pixels, picture: Pixels, top: int, left: int) -> None:
    small = scale_down(picture, _SHEET_SIDE)
    times = max(1, _SHEET_SIDE // max(small.shape[:2]))
    large = np.repeat(np.repeat(small, times, axis=0), times, axis=1)
    colored = large if large.ndim == 3 else large[:, :, None]
    sheet[top : top + large.shape[0], left : left + large.shape[1]] = colored


def _rows(queries: Sequence[HardQuery]) -> Iterable[ShownRow]:
    for hard in queries:
        yield hard.query
        yield from hard.neighbors
        yield from hard.found


def _encode_pictures(queries: Sequence[HardQuery], most_bytes: int) -> dict[int, str]:
    """Return the addresses of all pictures, by the `id` of their rows: as large as fits."""
    shown = {id(row): row.picture for row in _rows(queries) if row.picture is not None}
    uris: dict[int, str] = {}
    small = {key: scale_down(picture, _SIDES[0]) for key, picture in shown.items()}
    for side in _SIDES:
        uris = {key: data_uri(encode_png(scale_down(p, side))) for key, p in small.items()}
        if sum(map(len, uris.values())) <= most_bytes:
            break
    return uris


def _query(hard: HardQuery, pictures: dict[int, str]) -> str:
    true = {row.row for row in hard.neighbors}
    got = {row.row for row in hard.found}
    wanted = _group("True neighbours", hard.neighbors, got.__contains__, "found", pictures)
    found = _group("What was found", hard.found, true.__contains__, "true", pictures)
    shown = _content(hard.query, pictures)
    return (
        f'<article class="query"><h3>Query {hard.query.row:,} '
        f'<span class="soft">recall {number(hard.recall)}</span></h3>'
        f'<div class="asked">{shown}</div><div class="groups">{wanted}{found}</div></article>'
    )


def _group(
    heading: str,
    rows: Sequence[ShownRow],
    is_hit: Callable[[int], bool],
    hit: str,
    pictures: dict[int, str],
) -> str:
    if not rows:
        return ""
    items = []
    for row in rows:
        mark = f'<span class="hit" title="{hit}">✓<span class="hidden"> {hit}</span></span> '
        mark = mark if is_hit(row.row) else ""
        far = ""
        if row.distance is not None:
            far = f' <span class="soft">at {number(row.distance)}</span>'
        words = f"{mark}<b>{row.row:,}</b>{far}"
        kind = ' class="is-hit"' if mark else ""
        items.append(f"<li{kind}>{_content(row, pictures)}<small>{words}</small></li>")
    kind = "pictures" if any(id(row) in pictures for row in rows) else "texts"
    return f'<div><h4>{heading}</h4><ol class="{kind}">{"".join(items)}</ol></div>'


def _content(row: ShownRow, pictures: dict[int, str]) -> str:
    parts = ""
    if id(row) in pictures:
        parts = f'<img src="{pictures[id(row)]}" alt="{escape(describe_row(row))}">'
    if row.text is not None:
        parts += f"<span>{escape(clean(row.text, _MOST_TEXT))}</span>"
    return parts
