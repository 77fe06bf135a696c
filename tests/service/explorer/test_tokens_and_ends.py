"""The explorer page before services that want a token or go away, and pictures from elsewhere."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bitkin import Collection
from bitkin.evaluate.reporting.pictures import encode_png
from bitkin.service import Tokens, create_app, running
from tests.service.explorer import pages
from tests.service.explorer.pages import DESK, PHONE, Opener, needs_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_chromium
TOKEN = "a-token-of-this-test-alone"


@pytest.fixture(scope="module")
def served() -> dict[str, Collection]:
    return {"bags": pages.bags()}


def test_pictures_at_other_addresses_are_not_told_where_they_are_shown(opened: Opener) -> None:
    asked: list[dict[str, str]] = []
    picture = encode_png(np.zeros((9, 9), dtype=np.uint8))

    class Gallery(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(dict(self.headers))
            self.send_response(200)
            self.send_header("Content-Type", "image/png")
            self.end_headers()
            self.wfile.write(picture)

        def log_message(self, *_: object) -> None:
            pass

    gallery = ThreadingHTTPServer(("127.0.0.1", 0), Gallery)
    Thread(target=gallery.serve_forever, daemon=True).start()
    collection = pages.empty()
    shown = f"http://127.0.0.1:{gallery.server_port}/9.png?secret=1"
    collection.add(np.eye(16)[:3], metadata=[{"photo": shown}, {"seen": shown}, {"url": "http://"}])
    with running(create_app(collection)) as address:
        one = opened(address)
        page = one.open()
        page.wait_for_function("() => document.querySelector('.results img')?.naturalWidth === 9")
        assert page.locator(".results img").count() == 2
    gallery.shutdown()
    gallery.server_close()
    assert asked
    for headers in asked:
        assert not {"Referer", "Origin", "Authorization", "Cookie"} & set(headers)


def test_a_token_is_asked_for_kept_for_the_tab_and_sent(browser: Browser, opened: Opener) -> None:
    collection = pages.large_ids()
    with running(create_app(collection, tokens=Tokens.from_words(read=[TOKEN]))) as address:
        one = opened(address)
        page = one.page
        page.goto(address)
        box = page.get_by_role("textbox", name="Token")
        box.fill("not-the-right-token")
        page.keyboard.press("Enter")
        page.get_by_role("alert").get_by_text("was refused").wait_for()
        one.check_accessible()
        one.shoot("token-desk-light")
        box.fill(TOKEN)
        page.keyboard.press("Enter")
        page.locator(".results .card").first.wait_for()
        page.reload()
        page.locator(".results .card").first.wait_for()
        page.set_viewport_size(PHONE)
        one.check_fits()
        one.shoot("token-given-phone-light")
        page.set_viewport_size(DESK)
        assert page.evaluate("() => [localStorage.length, sessionStorage.length]") == [0, 1]
        assert TOKEN not in page.content() + page.url + "".join(one.requests)
        page.get_by_role("button", name="Forget token").click()
        page.get_by_role("textbox", name="Token").wait_for()
        page.get_by_role("button", name="Not now").click()
        page.get_by_role("button", name="Try again").wait_for()
        one.check_quiet(refused=9)


def test_a_token_is_asked_for_once_where_the_browser_keeps_nothing(opened: Opener) -> None:
    refuse = "Object.defineProperty(window, '{}', {{ get() {{ throw new Error('no'); }} }});"
    with running(create_app(pages.bags(), tokens=Tokens.from_words(read=[TOKEN]))) as address:
        one = opened(address)
        one.page.add_init_script("".join(map(refuse.format, ("sessionStorage", "localStorage"))))
        one.page.goto(address)
        one.page.get_by_role("textbox", name="Token").fill(TOKEN)
        one.page.keyboard.press("Enter")
        one.page.locator(".results .card").first.wait_for()
        one.page.get_by_role("link", name="Inside").click()
        one.page.get_by_role("img", name="Correlation of every two").wait_for()
        one.page.get_by_role("button", name="Colours: as the system").click()
        assert one.page.locator("dialog[open]").count() == 0
        one.check_quiet(refused=9)


def test_a_service_that_ends_is_told_in_every_view(opened: Opener) -> None:
    gone = "The service does not answer"
    with running(create_app(pages.bags())) as address:
        one = opened(address)
        page = one.open()
    page.get_by_text("Browse", exact=True).click()
    page.get_by_label("Rows per page").fill("3")
    page.keyboard.press("Tab")
    page.get_by_role("alert").wait_for()
    assert gone in page.get_by_role("alert").inner_text()
    one.check_accessible()
    for size, device in ((DESK, "desk"), (PHONE, "phone")):
        page.set_viewport_size(size)
        for name in ("Map", "Inside", "Search"):
            page.get_by_role("link", name=name, exact=True).click()
            page.locator(".notice:visible").get_by_text(gone).first.wait_for()
            one.settle()
            one.check_fits()
            one.shoot(f"gone-{name.lower()}-{device}-light")
    # once it is there again, so is what was asked for
    with running(create_app(pages.bags()), port=int(address.rpartition(":")[2])):
        page.get_by_role("button", name="Try again").first.click()
        page.locator(".results .card").first.wait_for()
        one.settle()
        assert len(one.ids()) == 3
