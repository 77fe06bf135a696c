"""The explorer page before rows that mean harm, or that pages do not expect."""

from __future__ import annotations

import json

import pytest

from bitkin import Collection
from tests.service.explorer import pages
from tests.service.explorer.pages import Opener, needs_chromium, state_of

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def served() -> dict[str, Collection]:
    return {"hostile": pages.hostile(), "odd": pages.odd(), "large ids": pages.large_ids()}


def test_metadata_that_means_harm_is_shown_as_text(
    opened: Opener, served: dict[str, Collection]
) -> None:
    one = opened()
    page = one.open(c="hostile")
    assert len(one.ids()) == len(served["hostile"])
    for i in range(len(served["hostile"])):
        page.locator(".results .more").nth(i).click()
        page.locator("dialog .bits").wait_for()
        page.keyboard.press("Escape")
    for field in ("constructor", "__proto__", "toString"):
        one.open(c="hostile", v="map", field=field)
        one.open(c="hostile", where=json.dumps({field: {"exists": True}}))
        assert one.ids() == ["6"], field
    page = one.open(c="hostile", by="id", q="6", show="stages", truth="all")
    assert page.locator(".stage").count() == 4
    assert page.evaluate("() => window.broken ?? ({}).polluted") is None
    assert page.locator("a:not([href^='#']), img[src=x], iframe, object, embed").count() == 0
    one.check_quiet()


def test_filters_and_addresses_take_names_that_objects_have(opened: Opener) -> None:
    one = opened()
    page = one.open(c="hostile", v="constructor", by="toString", show="valueOf")
    assert page.locator("#to-search").get_attribute("aria-current") == "page"
    page.get_by_role("button", name="Filter").click()
    page.get_by_text("As JSON", exact=True).click()
    box = page.get_by_label("Filter as JSON")
    box.fill('{"toString": {"constructor": 1}}')
    page.get_by_text('"constructor" is no operator').wait_for()
    box.fill('{"__proto__": "polluted", "hasOwnProperty": {"lt": 1}}')
    page.wait_for_function("() => location.hash.includes('proto')")
    one.settle()
    assert one.ids() == ["6"]
    # and what is built of conditions is the same
    page.get_by_label("Value of hasOwnProperty").fill("2")
    page.wait_for_function("() => decodeURIComponent(location.hash).includes('lt\":2')")
    one.settle()
    where = {"__proto__": "polluted", "hasOwnProperty": {"lt": 2}}
    assert json.loads(state_of(page)["where"]) == where
    assert one.ids() == ["6"]
    one.check_quiet()


@pytest.mark.parametrize("id", pages.ODD_IDS)
def test_ids_of_all_kinds_are_text_and_searched_from(opened: Opener, id: str) -> None:
    one = opened()
    page = one.open(c="odd")
    assert one.ids() == pages.ODD_IDS
    page.locator(".results .card-link").nth(pages.ODD_IDS.index(id)).click()
    page.locator(".results .distance").first.wait_for()
    one.settle()
    assert sorted([*one.ids(), id]) == sorted(pages.ODD_IDS)
    page.locator(".asked .more").click()
    page.locator("dialog .bits").wait_for()
    assert page.evaluate("() => window.broken") is None
    assert page.locator("img[src=x], script:not([src^=static])").count() == 0
    one.check_fits()
    one.check_quiet()


def test_whole_numbers_beyond_those_of_javascript_stay_exact(opened: Opener) -> None:
    one = opened()
    page = one.open(c="large ids")
    assert one.ids() == [str(pages.LARGE_ID + i) for i in range(9)]
    page.locator(".results .card-link").nth(3).click()
    page.locator(".results .distance").first.wait_for()
    one.settle()
    assert state_of(page)["q"] == str(pages.LARGE_ID + 3)
    assert str(pages.LARGE_ID + 3) not in one.ids()
    one.check_quiet()
