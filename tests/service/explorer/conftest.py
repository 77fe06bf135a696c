"""A browser, and pages in it on what a module has to show: its fixture `served`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from bitkin import Collection
from bitkin.service import create_app, running
from tests.service.explorer.pages import CHROMIUM, Explorer, Opener
from tests.service.process import wait_until_ready

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def url(served: dict[str, Collection]) -> Iterator[str]:
    with running(create_app(served)) as address:
        wait_until_ready(address)  # compiling takes longer than a browser is given
        yield address


@pytest.fixture
def opened(browser: Browser, url: str) -> Iterator[Opener]:
    pages_open: list[Explorer] = []

    def begin(address: str = url, **settings: Any) -> Explorer:
        pages_open.append(Explorer(browser, address, **settings))
        return pages_open[-1]

    yield begin
    for one in pages_open:
        one.close()
