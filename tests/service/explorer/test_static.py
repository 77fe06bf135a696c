"""The files of the page: nothing from elsewhere, nothing inline, and the colours of the reports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bitkin.evaluate.reporting.plots.palette import DARK, LIGHT
from bitkin.service.explorer import STATIC

FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
INLINE = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\sstyle="


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(STATIC)) for path in paths]


@pytest.mark.parametrize("path", FILES, ids=names(FILES))
def test_files_hold_nothing_from_elsewhere_and_nothing_inline(path: Path) -> None:
    text = path.read_text("utf-8")
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
    assert {one for one in addresses if re.match(r"https?://\w", one)} == set()
    assert re.findall(INLINE, text) == []


def test_the_page_has_no_script_or_style_within() -> None:
    html = (STATIC / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\son\w+=", html) == []
    for address in re.findall(r'(?:src|href)="static/([^"]+)"', html):
        assert (STATIC / address).is_file(), address


@pytest.mark.parametrize("path", SCRIPTS, ids=names(SCRIPTS))
def test_modules_import_what_is_there(path: Path) -> None:
    text = path.read_text("utf-8")
    for wanted, address in re.findall(r"import \{([^}]*)\} from \"([^\"]+)\"", text):
        other = (path.parent / address).resolve()
        assert other.is_file(), f"{path.name} imports {address}"
        for name in filter(None, map(str.strip, wanted.split(","))):
            made = rf"export (?:async )?(?:function|const|class) {name}\b"
            assert re.search(made, other.read_text("utf-8")), f"{address} exports no {name}"
            assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{path.name} does not use {name}"


def test_colours_are_those_of_reports() -> None:
    css = (STATIC / "style" / "palette.css").read_text("utf-8")
    light, *darks = re.split(r"\n\s*color-scheme: ", css)[1:]
    assert light.startswith("light")
    assert len(darks) == 2
    for variables, blocks in ((LIGHT, [light]), (DARK, darks)):
        for one in re.findall(r"--\w+: #\w+;", variables):
            assert all(one in block for block in blocks), one
