"""The report in a real browser: every plot is seen, in light and dark, on a desk and on a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bitkin.evaluate.reporting.page import ReportPage, write_html
from tests.evaluate.reporting.pages import (
    NAMES,
    PLOTS,
    full_page,
    hard_queries,
    measurement,
    thousand,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

DESK: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="there is no chromium: apt-get install --no-install-recommends chromium",
)

# What is drawn of every text, as [left, top, right, bottom] on the screen, and of its drawing.
BOXES = """
svg => {
  const box = e => { const r = e.getBoundingClientRect();
                     return [r.left, r.top, r.right, r.bottom]; };
  return {svg: box(svg), texts: [...svg.querySelectorAll("text")].map(
    t => ({words: t.textContent, kind: t.getAttribute("class") || "", box: box(t)}))};
}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


class Opened:
    """A report in the browser, and what it asked for and complained about."""

    def __init__(self, browser: Browser, report: ReportPage, folder: Path) -> None:
        self.path = write_html(report, folder / "report.html")
        self.page: Page = browser.new_page(viewport=DESK)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(self.path.as_uri())

    def check_quiet(self) -> None:
        own = self.path.as_uri()
        assert [url for url in self.requests if url != own and not url.startswith("data:")] == []
        assert self.complaints == []


@pytest.fixture(scope="module")
def full(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return Opened(browser, full_page(), tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def odd(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    named = [measurement(name, 10 + i, 8.0 * 3**i) for i, name in enumerate(NAMES)]
    page = full_page(
        title="w" * 400,
        facts={"x" * 200: "y" * 300, "k": 10},
        measurements=[*thousand()[:300], *named],
        hard_queries=hard_queries(pictures=False),
    )
    return Opened(browser, page, tmp_path_factory.mktemp("odd"))


def overlap(a: list[float], b: list[float]) -> float:
    """The smaller side of what two boxes share, in pixels."""
    return min(min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1]))


def check_texts(page: Page, name: str) -> None:
    """All texts of a plot are inside of it, and none covers another one."""
    boxes = page.eval_on_selector(f"svg[data-plot={name}]", BOXES)
    left, top, right, bottom = boxes["svg"]
    for i, text in enumerate(boxes["texts"]):
        box = text["box"]
        inside = box[0] >= left and box[1] >= top and box[2] <= right and box[3] <= bottom
        assert inside, f"{name}: {text['words']!r} leaves the plot"
        for other in boxes["texts"][:i]:
            shared = overlap(box, other["box"])
            assert shared <= 1.5, f"{name}: {text['words']!r} covers {other['words']!r}"


def test_every_plot_is_seen_and_nothing_is_asked_for(full: Opened) -> None:
    page = full.page
    page.set_viewport_size(DESK)
    for name in PLOTS:
        plot = page.locator(f"svg[data-plot={name}]")
        assert plot.is_visible()
        box = plot.bounding_box()
        assert box is not None
        assert box["width"] > 400
        assert box["height"] > 250
        check_texts(page, name)
    assert page.locator("svg[data-plot]").count() == len(PLOTS)
    marks = page.locator("svg[data-plot=recall] .point").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().width)"
    )
    assert len(marks) == 35
    assert min(marks) > 3
    loaded = page.locator("img, svg image").evaluate_all(
        "all => Promise.all(all.map(e => e.decode().then(() => true)))"
    )
    assert loaded == [True] * (26 + 2)  # two queries of 13 pictures; the map and its scale
    full.check_quiet()


def test_marks_are_where_their_numbers_belong(full: Opened) -> None:
    choice = full_page().choice
    assert choice is not None
    assert choice.chosen is not None
    middles = full.page.eval_on_selector_all(
        "svg[data-plot=recall] .y-tick",
        """all => all.map(e => { const r = e.getBoundingClientRect();
                               return [+e.textContent, (r.top + r.bottom) / 2]; })""",
    )
    box = full.page.locator("svg[data-plot=recall] .point.chosen").bounding_box()
    assert box is not None
    at = box["y"] + box["height"] / 2
    (low, low_at), (high, high_at) = middles[0], middles[-1]
    read = low + (at - low_at) / (high_at - low_at) * (high - low)
    assert abs(read - choice.chosen.recall) < 0.01


def test_dark_mode_changes_page_and_plots_and_paper_is_white(full: Opened) -> None:
    script = """() => [getComputedStyle(document.body).backgroundColor,
                       getComputedStyle(document.querySelector("svg .tick")).fill,
                       getComputedStyle(document.querySelector("svg .k1")).fill]"""
    full.page.emulate_media(color_scheme="light")
    light = full.page.evaluate(script)
    full.page.emulate_media(color_scheme="dark")
    dark = full.page.evaluate(script)
    assert all(a != b for a, b in zip(light, dark, strict=True))
    full.page.emulate_media(color_scheme="dark", media="print")
    assert full.page.evaluate(script) == light
    assert light[0] == "rgb(255, 255, 255)"
    full.page.emulate_media(color_scheme="light", media="screen")


@pytest.mark.parametrize("kind", ["full", "odd"])
def test_a_phone_scrolls_plots_and_tables_but_not_the_page(
    kind: str, request: pytest.FixtureRequest
) -> None:
    opened: Opened = request.getfixturevalue(kind)
    page = opened.page
    page.set_viewport_size(PHONE)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    rights = page.eval_on_selector_all(
        ".scroll", "all => all.map(e => e.getBoundingClientRect().right)"
    )
    assert len(rights) >= len(PLOTS) + 3
    assert max(rights) <= PHONE["width"]
    # letters are large enough to be read
    heights = page.eval_on_selector_all(
        "svg text", "all => all.map(e => e.getBoundingClientRect().height)"
    )
    assert min(heights) >= 9
    opened.check_quiet()


def test_regions_that_scroll_are_reached_by_the_keyboard(full: Opened) -> None:
    page = full.page
    page.set_viewport_size(PHONE)
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement === document.querySelector('.scroll')")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.scroll').scrollLeft > 0")


def test_odd_names_and_many_points_leave_no_plot(odd: Opened) -> None:
    odd.page.set_viewport_size(DESK)
    for name in PLOTS:
        check_texts(odd.page, name)
    assert odd.page.evaluate("() => document.documentElement.scrollWidth") <= DESK["width"]
    odd.check_quiet()


def test_a_page_of_one_measurement_shows_it(browser: Browser, tmp_path: Path) -> None:
    page = Opened(browser, ReportPage("one", measurements=[measurement()]), tmp_path).page
    assert page.locator("svg[data-plot=recall] .point").count() == 1
    for name in ("recall", "oversample"):
        check_texts(page, name)
