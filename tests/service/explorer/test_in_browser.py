"""The explorer page in a real browser, before a real service: what people do with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bitkin import Collection
from tests.service.explorer import pages
from tests.service.explorer.pages import DESK, PHONE, Opener, needs_chromium, state_of

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Collection]:
    return {
        "fashion": pages.fashion(),
        "diagnoses": pages.diagnoses(tmp_path_factory.mktemp("served") / "diagnoses"),
        "odd": pages.odd(),
        "hostile": pages.hostile(),
        "bags": pages.bags(),
        "sets": pages.sets(),
        "stream": pages.stream(),
        "empty": pages.empty(),
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("size", "device"), [(DESK, "desk"), (PHONE, "phone")])
def test_every_view_is_seen_fits_and_is_accessible(
    opened: Opener, size: Any, device: str, theme: str
) -> None:
    one = opened(size=size, theme=theme)
    views: dict[str, dict[str, str]] = {
        "rows": {"c": "fashion"},
        "pictures": {"c": "fashion", "by": "id", "q": "18"},
        "texts": {"c": "diagnoses", "q": "broken left arm", "where": '{"letters":{"lt":90}}'},
        "stages": {"c": "fashion", "by": "id", "q": "18", "show": "stages", "truth": "all"},
        "stages-of-texts": {"c": "diagnoses", "q": "burn of hand", "show": "stages"},
        "inside": {"c": "stream", "v": "inside"},
        "inside-fashion": {"c": "fashion", "v": "inside"},
        "map": {"c": "fashion", "v": "map", "n": "300"},
        "map-by-number": {"c": "fashion", "v": "map", "n": "300", "field": "brightness"},
        "browse-filtered": {"c": "fashion", "by": "browse", "where": '{"label":"Bag"}', "at": "80"},
        "nothing": {"c": "fashion", "where": '{"label":"Hat"}'},
        "refused": {"c": "fashion", "by": "vector", "q": "1, 2, 3"},
        "odd": {"c": "odd"},
        "hostile": {"c": "hostile"},
        "hostile-found": {"c": "hostile", "by": "id", "q": "5"},
        "sparse": {"c": "bags", "by": "id", "q": "5"},
        "codes-alone": {"c": "sets", "by": "id", "q": "4", "show": "stages"},
        "map-of-codes": {"c": "diagnoses", "v": "map", "map": "codes", "field": "chapter"},
        "empty": {"c": "empty"},
    }
    for name, state in views.items():
        page = one.open(**state)
        if name == "rows":
            page.get_by_role("button", name="Filter").click()
            page.get_by_role("button", name="Add group").click()
        if name == "map":
            page.locator(".map-drawing").focus()
            page.keyboard.press("ArrowRight")
            one.settle()
            page.locator(".pointed .card").wait_for()
        if name == "stages":
            page.locator(".pipeline summary").nth(1).click()
        one.check_fits()
        if size == PHONE:
            one.check_touchable()
        if size == DESK or (theme == "light" and name in ("rows", "pictures", "stages", "map")):
            one.check_accessible(colors_alone=theme == "dark")
        one.shoot(f"{name}-{device}-{theme}", full=name.startswith(("inside", "stages")))
        if name == "pictures" and size == PHONE:
            page.get_by_role("button", name="More options").click()
            one.check_fits()
            one.check_touchable()
            one.shoot(f"options-{device}-{theme}")
    for name, collection, row in (("details", "fashion", 0), ("details-hostile", "hostile", 8)):
        page = one.open(c=collection)
        page.locator(".more").nth(row).click()
        page.locator("dialog .bits").wait_for()
        one.check_accessible(colors_alone=theme == "dark")
        one.check_fits()
        one.shoot(f"{name}-{device}-{theme}")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    one.check_accessible(colors_alone=theme == "dark")
    one.shoot(f"help-{device}-{theme}")
    # drift, of a hasher that follows no stream, and the estimate of codes alone
    one.check_quiet(refused=2)


def test_rows_are_browsed_page_by_page(opened: Opener) -> None:
    one = opened()
    page = one.open(c="fashion", rows="25")
    assert one.ids() == [str(i) for i in range(25)]
    page.get_by_role("link", name="Next page").click()
    one.settle()
    assert one.ids() == [str(i) for i in range(25, 50)]
    page.get_by_role("link", name="Last page").click()
    one.settle()
    assert one.ids()[-1] == "1499"
    assert "1,476 to 1,500 of 1,500 rows" in page.locator(".found").inner_text()
    page.go_back()
    one.settle()
    assert one.ids()[0] == "25"
    one.check_quiet()


def test_pictures_and_distances_of_neighbours_are_seen(
    opened: Opener, served: dict[str, Collection]
) -> None:
    one = opened()
    page = one.open(c="fashion")
    page.get_by_label("Id to search from").fill("18")
    page.keyboard.press("Enter")
    page.locator(".results .distance").first.wait_for()
    one.settle()
    collection = served["fashion"]
    hits = collection.search(collection.get([18]).vectors, 11)
    assert one.ids() == [str(i) for i in hits.ids[0, 1:]]
    shown = page.locator(".results .distance").all_inner_texts()
    assert float(shown[0].split()[-1].replace(",", "")) == pytest.approx(
        hits.distances[0, 1], rel=1e-3
    )
    drawn = page.locator(".results img").evaluate_all(
        "all => Promise.all(all.map(e => e.decode().then(() => e.naturalWidth)))"
    )
    assert drawn == [28] * 10
    # a row that was found is searched from in turn
    page.locator(".results .card-link").nth(2).click()
    one.settle()
    assert state_of(page)["q"] == str(hits.ids[0, 3])
    one.check_quiet()


def test_texts_are_found_by_words_and_vectors_by_numbers(
    opened: Opener, served: dict[str, Collection]
) -> None:
    one = opened()
    page = one.open(c="diagnoses")
    record = served["diagnoses"].get(limit=5)
    assert record.metadata is not None
    page.get_by_label("Text to search by").fill(record.metadata[2]["text"])
    page.get_by_role("button", name="Search", exact=True).click()
    page.locator(".results .distance").first.wait_for()
    one.settle()
    assert record.ids[2] in one.ids()[:2]
    page.get_by_text("Vector", exact=True).click()
    page.get_by_label("Vector to search by").fill(json.dumps(record.vectors[4].tolist()))
    page.keyboard.press("Control+Enter")
    page.locator(".results .distance").first.wait_for()
    one.settle()
    assert one.ids()[0] == record.ids[4]
    page.get_by_label("Vector to search by").fill("1, 2, 3")
    page.keyboard.press("Control+Enter")
    assert "has 64 numbers, and this one 3" in page.get_by_role("alert").inner_text()
    code = record.codes[3].to_bytes()[0].tobytes().hex()
    page.get_by_label("Vector to search by").fill(code)
    page.keyboard.press("Control+Enter")
    page.locator(".results .distance").first.wait_for()
    one.settle()
    assert record.ids[3] in one.ids()
    one.check_quiet()


def test_stages_are_compared_with_what_is_exact(
    opened: Opener, served: dict[str, Collection]
) -> None:
    one = opened()
    page = one.open(c="fashion", by="id", q="7")
    page.get_by_text("Compare stages").click()
    page.locator(".stage").nth(2).wait_for()
    one.settle()
    collection = served["fashion"]
    vector = collection.get([7]).vectors
    found = {
        stage: collection.search(vector, 11, stage=stage).ids[0].tolist()
        for stage in ("codes", "estimate", "exact")
    }
    exact = [i for i in found["exact"] if i != 7][:10]
    for stage, ids in found.items():
        column = page.locator(f".stage[data-stage={stage}]")
        read = "all => all.map(e => [+e.dataset.id, e.dataset.rank])"
        rows = column.locator("[data-id]").evaluate_all(read)
        wanted = [i for i in ids if i != 7][:10]
        assert [id for id, rank in rows if rank != "missed"] == wanted
        missed = [i for i in exact if i not in wanted]
        assert [id for id, rank in rows if rank == "missed"] == missed
        if stage != "exact":
            assert f"{10 - len(missed)} of 10" in column.locator(".recall").inner_text()
        assert column.locator(".took").inner_text().endswith((" µs", " ms"))
    same_place = sum(a == b for a, b in zip(found["codes"], exact, strict=False))
    assert page.locator("[data-stage=codes] .same").count() >= min(1, same_place)
    assert page.locator(".tie").count() > 0
    page.get_by_label("Compare with all rows measured").check()
    page.locator(".stage[data-stage=all]").wait_for()
    every = np.linalg.norm(collection.get(collection.ids).vectors - vector, axis=1)
    truth = [i for i in np.argsort(every, kind="stable").tolist() if i != 7][:10]
    shown = page.locator(".stage[data-stage=all] [data-id]").evaluate_all(
        "all => all.map(e => +e.dataset.id)"
    )
    assert shown == truth
    one.check_quiet()


def test_a_collection_of_codes_alone_has_one_stage(opened: Opener) -> None:
    one = opened()
    page = one.open(c="sets", by="id", q="4", show="stages")
    assert page.locator(".stage").count() == 1
    assert "nothing to compare" in page.locator(".found").inner_text()
    one.check_quiet(refused=2)


def test_filters_are_built_and_shown_as_json(opened: Opener, served: dict[str, Collection]) -> None:
    one = opened()
    page = one.open(c="fashion")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("button", name="Add condition").click()
    page.get_by_label("Value of label").fill("Bag")
    page.get_by_role("button", name="Add group").click()
    group = page.locator(".group .group")
    group.get_by_label("Key of metadata").fill("brightness")
    group.get_by_label("Comparison").select_option("gte")
    group.get_by_label("Value of").fill("120")
    group.get_by_label("Match or not").select_option("not")
    page.wait_for_function("() => location.hash.includes('brightness')")
    one.settle()
    where = {"label": "Bag", "not": {"brightness": {"gte": 120}}}
    assert json.loads(state_of(page)["where"]) == where
    n = served["fashion"].count(where)
    assert f"of {n} rows" in page.locator(".found .headline-row").inner_text()
    # the JSON may be edited, and conditions follow
    page.get_by_text("As JSON", exact=True).click()
    page.get_by_label("Filter as JSON").fill('{"label": ["Bag", "Coat"]}')
    page.wait_for_function("() => location.hash.includes('Coat')")
    one.settle()
    assert page.get_by_label("Value of label").input_value() == "Bag\nCoat"
    page.get_by_label("Filter as JSON").fill('{"label": {"like": 1}}')
    page.get_by_text('"like" is no operator').wait_for()
    # a search keeps the filter
    page.get_by_label("Id to search from").fill("0")
    page.keyboard.press("Enter")
    page.locator(".results .distance").first.wait_for()
    one.settle()
    shown = served["fashion"].get([int(i) for i in one.ids()]).metadata
    assert shown is not None
    assert {row["label"] for row in shown} <= {"Bag", "Coat"}
    one.check_quiet()


def test_a_filter_that_leaves_nothing_says_so(opened: Opener) -> None:
    one = opened()
    page = one.open(c="fashion", where='{"label":"Hat"}')
    page.get_by_text("No row matches the filter.").wait_for()
    page.get_by_role("button", name="Clear the filter").click()
    one.settle()
    assert len(one.ids()) == 40
    one.check_quiet()


def test_the_panel_tells_of_bits_epochs_drift_searches_and_memory(opened: Opener) -> None:
    one = opened()
    page = one.open(c="stream", by="id", q="7")
    page.get_by_role("link", name="Inside").click()
    page.get_by_role("img", name="Correlation of every two").wait_for()
    one.settle()
    assert page.get_by_role("img", name="Share of rows").locator("circle").count() == 16
    assert page.get_by_role("img", name="Epoch 1: 100 rows. Epoch 0: 200 rows").is_visible()
    assert page.get_by_role("img", name="variance kept").is_visible()
    assert page.get_by_role("img", name="Time of the last").is_visible()
    text = page.locator("#view-inside").inner_text()
    for words in ("300", "of 16 bits", "99 % within", "held by the process"):
        assert words in text
    page.get_by_label("Follow searches and memory").check()
    page.get_by_role("button", name="Look again").click()
    one.settle()
    one.check_quiet()


def test_the_map_is_pointed_at_walked_through_and_searched_from(opened: Opener) -> None:
    one = opened()
    page = one.open(c="fashion", v="map", n="300")
    marks = page.locator(".map-drawing [role=option]")
    assert marks.count() == 300
    assert page.locator(".legend-item").count() == 10
    # points that lie alone, so that the pointer means no other
    at = marks.evaluate_all(
        "all => all.map(e => { const r = e.getBoundingClientRect(); "
        "return [r.x + r.width / 2, r.y + r.height / 2]; })"
    )
    places = np.array(at)
    apart = np.linalg.norm(places[:, None] - places[None], axis=2) + 1e6 * np.eye(len(places))
    lone = int(apart.min(axis=1).argmax())
    name = marks.nth(lone).get_attribute("aria-label")
    assert name is not None
    page.mouse.move(*at[lone])
    page.locator(".pointed .card").wait_for()
    assert name.startswith(page.locator(".pointed .id").inner_text())
    page.get_by_role("button", name="Bag").click()
    assert page.locator(".map-drawing .dim").count() > 200
    page.get_by_role("button", name="Bag").click()
    page.get_by_role("button", name="Larger").click()
    page.get_by_role("button", name="All of it").click()
    page.mouse.click(*at[lone])
    page.locator(".results .distance").first.wait_for()
    assert state_of(page)["q"] == name.split(",")[0]
    # and by keys
    page.go_back()
    one.settle()
    page.locator(".map-drawing").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    meant = page.locator("[role=option][aria-selected=true]").get_attribute("aria-label")
    assert meant is not None
    page.keyboard.press("Enter")
    page.locator(".results .distance").first.wait_for()
    assert state_of(page)["q"] == meant.split(",")[0]
    one.check_quiet()


def test_a_finger_points_first_and_then_searches(opened: Opener) -> None:
    one = opened(size=PHONE)
    page = one.open(c="fashion", v="map", n="300")
    box = page.locator("[role=option]").first.bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.touchscreen.tap(*middle)
    page.locator(".pointed .card").wait_for()
    assert "v" in state_of(page)
    page.touchscreen.tap(*middle)
    page.locator(".results .distance").first.wait_for()
    one.check_quiet()


def test_keys_go_from_row_to_row(opened: Opener) -> None:
    one = opened()
    page = one.open(c="fashion", by="id", q="3")
    page.keyboard.press("/")
    focused = (
        "() => document.activeElement.closest('[data-id]')?.dataset.id ?? document.activeElement.id"
    )
    assert page.evaluate(focused) == "query"
    ids = one.ids()
    page.keyboard.press("Escape")
    page.locator(".results .card-link").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == ids[1]
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) in ids[6:]
    page.keyboard.press("Home")
    assert page.evaluate(focused) == ids[0]
    page.keyboard.press("d")
    page.locator("dialog[open] .bits").wait_for()
    page.keyboard.press("Escape")
    page.locator(".results .card-link").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => location.hash.includes('q={ids[0]}')")
    one.settle()
    # whoever goes by keys goes on among the rows found
    page.wait_for_function("() => document.activeElement.matches('.results .card-link')")
    page.keyboard.press("?")
    assert page.locator("dialog[open]").get_by_text("go to the search box").is_visible()
    one.check_quiet()


def test_the_theme_is_chosen_and_remembered(opened: Opener) -> None:
    one = opened(theme="dark")
    page = one.open(c="fashion")
    shade = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(shade)
    page.get_by_role("button", name="Colours: as the system").click()
    light = page.evaluate(shade)
    assert light == "rgb(255, 255, 255)" != dark
    page.reload()
    assert page.evaluate(shade) == light
    page.get_by_role("button", name="Colours: light").click()
    assert page.evaluate(shade) == dark
    page.emulate_media(media="print")
    assert page.evaluate(shade) == light
    one.check_quiet()


def hold_back(page: Page, route: Route) -> None:
    page.wait_for_timeout(400)
    route.continue_()


def test_the_collection_asked_for_last_is_shown(opened: Opener) -> None:
    one = opened()
    page = one.open(c="empty")
    page.route(
        "**/collections/fashion/stats",
        lambda route: hold_back(page, route),
    )
    page.evaluate("() => { location.hash = '#c=fashion'; }")
    page.evaluate("() => { location.hash = '#c=sets'; }")
    page.locator(".results .card").first.wait_for()
    page.wait_for_timeout(700)
    one.settle()
    assert len(one.ids()) == 30
    assert page.get_by_label("Collection", exact=True).input_value() == "sets"
    one.check_quiet()


def test_the_wheel_scrolls_the_page_unless_the_map_is_meant(opened: Opener) -> None:
    one = opened()
    page = one.open(c="fashion", v="map", n="300")
    first = page.locator("[role=option]").first

    def place() -> str | None:
        return first.get_attribute("transform")

    before = place()
    box = page.locator(".map-drawing").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -300)
    one.settle()
    assert place() == before
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function(
        "was => document.querySelector('[role=option]').getAttribute('transform') !== was",
        arg=before,
    )
    drawing = page.locator(".map-drawing")
    assert drawing.evaluate("e => e.style.touchAction") == "none"
    page.get_by_role("button", name="All of it").click()
    assert place() == before
    assert drawing.evaluate("e => e.style.touchAction") == "pan-y pinch-zoom"
    one.check_quiet()


def test_mistakes_are_told_in_words(opened: Opener) -> None:
    one = opened()
    page = one.open(c="fashion", by="id", q="99999")
    assert "not there: 99999" in page.locator(".found").inner_text()
    page = one.open(c="fashion", by="id", q="seven")
    assert "Ids of this collection are whole numbers" in page.get_by_role("alert").inner_text()
    page = one.open(c="fashion", by="id", q="7", k="5000")
    assert "k must be between 1 and 1000" in page.get_by_role("alert").inner_text()
    page = one.open(c="fashion", where='{"label": {"almost": 1}}')
    assert "where must use the operators" in page.get_by_role("alert").inner_text()
    page = one.open(c="nowhere")
    assert "nowhere" in page.get_by_role("alert").inner_text()
    one.check_quiet(refused=5)


def test_a_collection_without_rows_says_what_to_do(opened: Opener) -> None:
    one = opened()
    page = one.open(c="empty")
    assert "This collection has no rows yet." in page.locator(".found").inner_text()
    assert (
        "There are no rows to draw."
        in one.open(c="empty", v="map").locator("#view-map").inner_text()
    )
    assert (
        "No codes to look at."
        in one.open(c="empty", v="inside").locator("#view-inside").inner_text()
    )
    one.check_quiet(refused=1)


def test_another_collection_is_picked(opened: Opener) -> None:
    one = opened()
    page = one.open(c="fashion", by="id", q="7")
    page.get_by_label("Collection", exact=True).select_option("sets")
    page.locator(".results .card").first.wait_for()
    one.settle()
    assert state_of(page) == {"c": "sets"}
    assert len(one.ids()) == 30
    page.go_back()
    page.locator(".results img").first.wait_for()
    one.check_quiet()


def test_what_is_on_its_way_is_shown_as_such(opened: Opener) -> None:
    for theme in ("light", "dark"):
        one = opened(theme=theme)
        page = one.open(c="fashion")
        page.route("**/search", lambda route: None)
        page.route("**/map?*", lambda route: None)
        page.goto(f"{one.url}/#c=fashion&by=id&q=18")
        page.locator("#view-search .ghosts").wait_for()
        assert page.locator("main").get_attribute("aria-busy") == "true"
        page.locator(".patience:visible").wait_for()
        one.shoot(f"on-its-way-desk-{theme}")
        page.get_by_role("link", name="Map").click()
        page.locator("#view-map .ghosts").wait_for()
        one.shoot(f"map-on-its-way-desk-{theme}")
        one.check_quiet()
