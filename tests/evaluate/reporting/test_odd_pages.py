"""No page breaks a report: little, much, equal, missing and hostile data."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from bitkin.evaluate.reporting.page import (
    CodeStatistics,
    HardQuery,
    ReportChoice,
    ReportPage,
    ShownRow,
    show_rows,
    to_html,
    to_markdown,
)
from bitkin.evaluate.reporting.plots.all import draw_plots
from bitkin.evaluate.trials.measurement import Measurement
from tests.evaluate.reporting.drawings import of_class, parse, path_points, places_of
from tests.evaluate.reporting.pages import (
    NAMES,
    PLOTS,
    full_page,
    hard_queries,
    largest_page,
    measurement,
    of_recall,
    several,
    thousand,
)

EMPTY = {"meta", "img"}
NONE = np.empty((0, 8))


class Reader(HTMLParser):
    """Checks that elements close in order, and collects them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.n_bytes = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(page: ReportPage) -> Reader:
    text = to_html(page)
    reader = Reader()
    reader.n_bytes = len(text.encode())
    reader.feed(text)
    reader.close()
    assert reader.open == []
    assert "script" not in {tag for tag, _ in reader.tags}
    for _, attributes in reader.tags:
        assert not {name for name in attributes if name.startswith("on")}
        address = attributes.get("src") or attributes.get("href") or "data:"
        assert address.startswith("data:image/png;base64,") or address == "data:"
    assert not re.search(r"\b(NaN|nan|inf|Infinity)\b", re.sub(r"base64,[\w+/=]+", "", text))
    return reader


def check_inside(page: ReportPage) -> None:
    """Every mark of every plot stands inside of its drawing."""
    for plot in draw_plots(page).values():
        root = parse(plot)
        places = places_of([e for e in root.iter() if e.get("transform")])
        for path in of_class(root, "curve") + of_class(root, "frontier") + of_class(root, "dots"):
            places += path_points(path.get("d") or "")
        for x, y in places:
            assert 0 <= x <= plot.width
            assert 0 <= y <= plot.height


def nan_bytes() -> Measurement:
    return of_recall([0.5, 0.6], size=float("nan"))


MEASURED: dict[str, list[Measurement]] = {
    "none": [],
    "failures alone": [Measurement("m", 8, "codes", error="it <failed>")],
    "one": [measurement()],
    "one query, so no interval": [of_recall([0.5])],
    "no query": [Measurement("m", 8, "codes", None, 9.0, 1, NONE)],
    "queries without recall": [of_recall([np.nan, np.nan])],
    "some queries without recall": [of_recall([np.nan, 0.5, 0.7])],
    "all recalls 0": [of_recall([0.0] * 5, size) for size in (8.0, 16.0)],
    "all recalls 1": [of_recall([1.0] * 5, size) for size in (8.0, 16.0)],
    "all the same": [of_recall([0.5] * 5) for _ in range(20)],
    "1 and 100,000 bytes": [of_recall([0.2, 0.3], 1.0), of_recall([0.8, 0.9], 1e5)],
    "no size": [nan_bytes(), nan_bytes()],
    "size 0": [of_recall([0.5, 0.6], 0.0), of_recall([0.5, 0.7], 8.0)],
    "infinite size": [of_recall([0.5, 0.6], np.inf), of_recall([0.5, 0.7], 8.0)],
    "odd names": [measurement(name, i + 1, 8.0 + i) for i, name in enumerate(NAMES)],
    "no name": [measurement("", 8), measurement(" × ", 9)],
    "only baselines": [measurement("faiss PQ", 64, 8.0, ours=False)],
    "twenty families": [measurement(f"family{i} × x", 64, 8.0 + i, i / 40) for i in range(20)],
}


@pytest.mark.parametrize("kind", MEASURED)
def test_odd_measurements_make_a_page(kind: str) -> None:
    page = ReportPage("p", measurements=MEASURED[kind])
    read(page)
    check_inside(page)
    to_markdown(page)


@pytest.mark.parametrize("kind", MEASURED)
def test_any_of_them_can_be_chosen(kind: str) -> None:
    one, *others = [*MEASURED[kind], measurement("another", 16, 3.0)]
    page = ReportPage(
        "p", measurements=others, choice=ReportChoice("it", one, others[:1][0] if others else None)
    )
    read(page)
    check_inside(page)


def test_a_thousand_measurements_are_drawn_and_few_are_labelled() -> None:
    page = ReportPage("p", measurements=thousand())
    reader = read(page)
    check_inside(page)
    root = parse(draw_plots(page)["recall"])
    assert len(of_class(root, "point")) == 1_000
    assert len(of_class(root, "label")) <= 10
    assert reader.n_bytes < 1_500_000
    assert sum(tag == "tr" for tag, _ in reader.tags) > 1_000


def test_of_more_than_a_thousand_the_best_stay() -> None:
    measurements = [*thousand(), *several()]
    page = ReportPage("p", measurements=measurements)
    root = parse(draw_plots(page)["recall"])
    assert len(of_class(root, "point")) == 1_000
    marked = of_class(root, "point")
    kept = sum("frontier" in (m.get("class") or "") for m in marked)
    assert kept == len(page.frontier)
    assert "35 more are left out" in "".join(read(page).words)


@pytest.mark.parametrize(
    "spectrum",
    [[1.0], [0.0], [0.5, 0.5], [1.0, 0.0, 0.0], [0.2, 0.1], np.full(10_000, 1e-4), [5.0, 3.0],
     [1e-300, 1e-300], [0.1, 0.6, 0.3], np.geomspace(1, 1e-30, 10_000)],
    ids=str,
)  # fmt: skip
def test_odd_spectra_make_a_page(spectrum: Any) -> None:
    page = ReportPage("p", spectrum=np.asarray(spectrum))
    read(page)
    check_inside(page)


def test_an_empty_spectrum_is_left_out() -> None:
    assert draw_plots(ReportPage("p", spectrum=np.empty(0))) == {}


@pytest.mark.parametrize("n_bits", [0, 1, 2, 3, 512, 513, 1_024])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_odd_codes_make_a_page(n_bits: int, share: float) -> None:
    code = CodeStatistics("c", np.full(n_bits, share), np.full((n_bits, n_bits), 2 * share - 1))
    page = ReportPage("p", code=code)
    assert ("correlation" in draw_plots(page)) == (n_bits > 1)
    assert ("entropy" in draw_plots(page)) == (n_bits > 0)
    read(page)
    check_inside(page)


@pytest.mark.parametrize("shape", [(1, 1), (1, 900), (900, 1), (4096, 4096), (28, 28, 3), (97, 3)])
def test_pictures_of_any_shape_are_shown_small(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    row = ShownRow(3, 0.5, rng.integers(0, 256, shape, dtype=np.uint8))
    reader = read(ReportPage("p", hard_queries=[HardQuery(row, 0.0, [row], [row])]))
    images = [attributes for tag, attributes in reader.tags if tag == "img"]
    assert len(images) == 3
    assert all(image["alt"] == "row 3, distance 0.5" for image in images)
    assert all(len(image["src"] or "") < 60_000 for image in images)


@pytest.mark.parametrize(
    "bad", [np.zeros((3, 3)), np.zeros((2, 2, 4), np.uint8), np.zeros(4, np.uint8)]
)
def test_a_picture_of_other_numbers_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="picture must be uint8 of shape"):
        ShownRow(0, picture=bad)


def test_rows_with_neither_picture_nor_text_are_numbers() -> None:
    rows = show_rows([4, 7, -1], [0.5, 1.25, np.inf])
    words = "".join(read(ReportPage("p", hard_queries=[HardQuery(rows[0], 0.5, rows)])).words)
    assert "Query 4" in words
    assert "7 at 1.25" in words


def test_hits_are_marked_on_both_sides() -> None:
    reader = read(ReportPage("p", hard_queries=hard_queries(pictures=False, n=1)))
    hits = [attributes for tag, attributes in reader.tags if attributes.get("class") == "is-hit"]
    assert len(hits) == 4  # rows 4 and 5, among six on either side
    assert "text <4> & more" in reader.words


def test_text_of_others_is_never_markup() -> None:
    evil = "</title></svg><script>alert(1)</script><img src=x onerror=alert(1)>\"' onload='x"
    page = full_page(
        title=evil,
        facts={evil: evil},
        command=evil,
        choice=ReportChoice(evil, measurement(evil), None, [evil]),
        measurements=[measurement(evil), Measurement(evil, 8, evil, evil, error=evil)],
        code=CodeStatistics(evil, np.full(3, 0.5), np.eye(3)),
        hard_queries=[HardQuery(ShownRow(1, 0.5, None, evil), 0.5, [ShownRow(2, 1.0, None, evil)])],
        notes=[evil],
    )
    reader = read(page)
    assert evil in reader.words
    assert sum(tag == "svg" for tag, _ in reader.tags) == len(PLOTS)


def test_the_largest_page_is_below_three_megabytes() -> None:
    page = largest_page()
    reader = read(page)
    assert reader.n_bytes < 3_000_000
    assert sum(tag == "svg" for tag, _ in reader.tags) == len(PLOTS)
    assert sum(tag == "img" for tag, _ in reader.tags) >= 100
