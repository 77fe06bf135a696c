"""Pages of the papers say where everything lives: files, names and options must be there."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import bitkin
from bitkin.papers.registry import PAPERS

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "bitkin"
PAGES = ROOT / "docs" / "papers"


def places_of(paper: str) -> list[str]:
    return sorted(set(re.findall(r"`([^`\n]+)`", (PAGES / f"{paper}.md").read_text())))


@cache
def defined() -> frozenset[str]:
    """All functions, classes, parameters and attributes of the package."""
    found: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return frozenset(found)


def is_file_or_folder(place: str) -> bool:
    name = place.split()[0].rstrip("/")
    return any(
        (folder / name).exists() for folder in (ROOT, SOURCES, SOURCES / "hashers" / "projection")
    ) or any(SOURCES.rglob(name))


def require_call(call: ast.Call) -> None:
    """Raise unless the thing that is called is there and has all options that are named."""
    thing: Any = bitkin
    for name in ast.unparse(call.func).split("."):
        thing = getattr(thing, name, None) or getattr(bitkin.projections, name)
    options = inspect.signature(thing).parameters
    for keyword in call.keywords:
        assert keyword.arg in options, f"{ast.unparse(call)} has no option {keyword.arg}"


def require_there(place: str) -> None:
    if place.startswith("bitkin papers"):
        return
    if "(" not in place and ("/" in place or place.endswith(".py")):
        assert is_file_or_folder(place), f"there is no {place}"
        return
    if option := re.match(r"(\w+)=", place):
        assert option[1] in defined(), f"nothing has an option {option[1]}"
        return
    tree = ast.parse(place, mode="eval").body
    if isinstance(tree, ast.Call):
        require_call(tree)
    else:
        assert place.rpartition(".")[2] in defined(), f"there is no {place}"


@pytest.mark.parametrize("paper", PAPERS)
def test_what_a_page_names_is_there(paper: str) -> None:
    places = places_of(paper)
    assert len(places) > 10
    for place in places:
        require_there(place)


@pytest.mark.parametrize(
    "place",
    ["papers/wta/nowhere.py", "theory.no_such_formula", "WTAHash(nothing=3)", "no_such_option=3"],
)
def test_what_is_not_there_is_found(place: str) -> None:
    with pytest.raises((AssertionError, AttributeError)):
        require_there(place)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_page_has_its_parts_and_the_results_of_a_full_run(paper: str) -> None:
    text = (PAGES / f"{paper}.md").read_text()
    for part in ("proposes", "Where it lives", "Errata", "What we changed, and why", "Results"):
        assert re.search(rf"^## .*{part}", text, re.MULTILINE), part
    assert "Of a full run: bitkin" in text
    for link in re.findall(r"\]\(([^)#]+\.(?:csv|png|md))\)", text):
        assert (PAGES / link).is_file(), link
